# SPDX-License-Identifier: Apache-2.0
"""The faults of `outrider eval safety`: what fails, when, and for how long."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from outrider.core.values import Velocity
from outrider.evaluation.safety.base_wires import AVOIDANCE_TAKEN, GO2_TROUBLES
from outrider.evaluation.safety.guide import Guide
from outrider.evaluation.safety.sensor_faults import EVIDENT, SCAN_FAULTS, SCAN_FROZEN, SUDDEN, UNDETECTABLE
from outrider.evaluation.safety.world import JOYSTICK_MPS, SafetyWorld

# How long a sudden fault lasts: no longer than until a source that has jumped is accepted again.
SUDDEN_S = (0.3, 0.9)
# The extra delay of a verdict that a stop or a joystick makes void; the distance to an object that steps in.
VOID_AFTER_S, GAP_M = 0.5, 0.3
Act = Callable[[SafetyWorld, Guide], None]


@dataclass(frozen=True)
class Fault:
    """`begin` causes a fault and `end` removes it, `lasts_s` (shortest, longest) later.

    It begins while the base is commanded to move, or while a verdict is awaited (`while_waiting`).

    `by_models`: the models' fault. It ends with the goal, and from then on the robot must stand.
    `at_speed`: cannot show while the robot stands. It begins at speed, and each motion restarts its time.
    `untimed`: the robot may move on. Overrun of the motions and collisions are judged instead.
    `repeats_goal`: a person gives the goal again and again.
    `bases`: the prefix of the bases that can have the fault.
    """

    name: str
    begin: Act
    end: Act = lambda world, guide: None
    lasts_s: tuple[float, float] = (0.5, 3.0)
    while_waiting: bool = False
    by_models: bool = False
    at_speed: bool = False
    untimed: bool = False
    repeats_goal: bool = False
    bases: str = ""


def _switch(name: str, value: object, back: object) -> tuple[Act, Act]:
    """Returns `begin` and `end` of a fault that is one switch of the world."""
    return (
        lambda world, guide: setattr(world.switches, name, value),
        lambda world, guide: setattr(world.switches, name, back),
    )


def _restart_action(world: SafetyWorld, guide: Guide) -> None:
    world.start_action_node()
    world.switches.action = True


def _press(world: SafetyWorld, guide: Guide) -> None:
    world.pilot.on_emergency_stop(True, world.moment())


def _release(world: SafetyWorld, guide: Guide) -> None:
    world.switches.drivers = ()
    world.pilot.on_emergency_stop(False, world.moment())


def _press_while_driven(world: SafetyWorld, guide: Guide) -> None:
    world.switches.drivers = ("joystick",)
    _press(world, guide)


def _press_and_release(world: SafetyWorld, guide: Guide) -> None:
    guide.late_s = VOID_AFTER_S
    _press(world, guide)
    _release(world, guide)


def _press_and_restart(world: SafetyWorld, guide: Guide) -> None:
    world.start_action_node()
    _press(world, guide)


def _move_joystick_briefly(world: SafetyWorld, guide: Guide) -> None:
    guide.late_s = VOID_AFTER_S
    world.pilot.on_joystick(Velocity(JOYSTICK_MPS), world.moment())


FAULTS = (
    Fault("navigator killed", *_switch("navigator", False, True)),
    Fault("action node killed", lambda w, g: setattr(w.switches, "action", False), _restart_action),
    Fault("base's DDS peer killed", *_switch("base", False, True)),
    Fault("verifier killed", *_switch("link", False, True)),
    Fault("network blackout, once missed", *_switch("link", False, True), lasts_s=(3.0, 8.0)),
    Fault("camera silent", *_switch("camera", "silent", "ok")),
    Fault("camera frozen", *_switch("camera", "frozen", "ok")),
    Fault("camera repeats itself", *_switch("camera", "repeating", "ok"), at_speed=True),
    *(Fault(f"odometry {name}", *_switch("odometry", odd, None)) for name, odd in EVIDENT.items()),
    *(
        Fault(f"odometry {name}", *_switch("odometry", odd, None), lasts_s=SUDDEN_S)
        for name, odd in SUDDEN.items()
    ),
    *(
        Fault(f"odometry {name}", *_switch("odometry", odd, None), untimed=True)
        for name, odd in UNDETECTABLE.items()
    ),
    Fault("clock stands still", *_switch("clock", lambda first_s, now_s: first_s, None)),
    Fault("clock jumps", *_switch("clock", lambda first_s, now_s: now_s + 3600.0, None), lasts_s=SUDDEN_S),
    Fault("clock goes back", *_switch("clock", lambda first_s, now_s: now_s - 20.0, None), lasts_s=SUDDEN_S),
    *(Fault(f"scan {name}", *_switch("scan", odd, None)) for name, odd in SCAN_FAULTS.items()),
    Fault("scan frozen", *_switch("scan", SCAN_FROZEN, None), at_speed=True),
    Fault("the lidar's transform lost", *_switch("transforms", False, True)),
    Fault(
        "joystick not a number",
        lambda w, g: w.pilot.on_joystick(Velocity(math.nan, math.inf, math.nan), w.moment()),
        lasts_s=(0.2, 0.2),
    ),
    Fault(
        "joystick dies while held",
        lambda w, g: w.pilot.on_joystick(Velocity(JOYSTICK_MPS), w.moment()),
        lasts_s=(0.5, 0.5),
    ),
    Fault("two drivers", *_switch("drivers", ("joystick", "console"), ())),
    Fault("joystick let go before a verdict", _move_joystick_briefly, lasts_s=(0.8, 0.8), while_waiting=True),
    # It lasts until the late verdict has come, and ends shortly before the next one can.
    Fault("late verdict", lambda w, g: setattr(g, "late_s", 14.0), lasts_s=(14.45,) * 2, while_waiting=True),
    Fault("pictures stamped 11 s ago", *_switch("stamps_behind_s", 11.0, 0.0), while_waiting=True),
    Fault("pictures stamped 5 s ahead", *_switch("stamps_behind_s", -5.0, 0.0), while_waiting=True),
    Fault("something steps in", lambda w, g: w.step_in(GAP_M), at_speed=True, untimed=True),
    Fault("turns without end", lambda w, g: setattr(g, "spins", True), by_models=True),
    Fault("emergency stop", _press, _release, repeats_goal=True),
    Fault("emergency stop, joystick held", _press_while_driven, _release),
    Fault("emergency stop let go at once", _press_and_release, lasts_s=(1.5, 1.5), while_waiting=True),
)

GO2_FAULTS = (
    *(Fault(name, *_switch("robot", name, ""), bases="sport") for name in GO2_TROUBLES),
    Fault("emergency stop, action node replaced", _press_and_restart, _release, (2.0, 3.0), bases="sport"),
    Fault(AVOIDANCE_TAKEN, *_switch("robot", AVOIDANCE_TAKEN, ""), bases="sport, robot_avoidance"),
)
