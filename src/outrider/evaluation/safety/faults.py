# SPDX-License-Identifier: Apache-2.0
"""The faults of `outrider eval safety`: what breaks, when, and for how long."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from outrider.core.values import Velocity
from outrider.evaluation.safety.base_wires import AVOIDANCE_TAKEN, GO2_TROUBLES
from outrider.evaluation.safety.guide import Guide
from outrider.evaluation.safety.sensor_faults import EVIDENT, LIES, SCAN_FAULTS, SCAN_FROZEN, SUDDEN
from outrider.evaluation.safety.world import HAND_MPS, SafetyWorld

# How long what is sudden lasts: no longer than it takes until a source that has jumped counts again.
SUDDEN_S = (0.3, 0.9)
Act = Callable[[SafetyWorld, Guide], None]


@dataclass(frozen=True)
class Fault:
    """`begin` breaks something and `end` mends it, `lasts_s` (shortest, longest) later.

    It comes while the base is told to move, or while a verdict is awaited (`while_waiting`). What the models
    do wrong (`by_models`) ends with the goal, and it is from there that the robot must stand. What cannot
    show while the robot stands comes `at_speed`, and its time begins anew with each motion. What `lies` is
    judged by how far the motions go beyond their commands alone. What only a Go2 has meets its `bases` alone.
    """

    name: str
    begin: Act
    end: Act = lambda world, guide: None
    lasts_s: tuple[float, float] = (0.5, 3.0)
    while_waiting: bool = False
    by_models: bool = False
    at_speed: bool = False
    lies: bool = False
    bases: str = ""


def _switch(name: str, value: object, back: object) -> tuple[Act, Act]:
    """`begin` and `end` of a fault that is one switch of the world."""
    return (
        lambda world, guide: setattr(world.switches, name, value),
        lambda world, guide: setattr(world.switches, name, back),
    )


def _restart_action(world: SafetyWorld, guide: Guide) -> None:
    world.start_action_node()
    world.switches.action = True


def _release(world: SafetyWorld, guide: Guide) -> None:
    world.pilot.on_emergency_stop(False, world.moment())


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
    *(Fault(f"odometry {name}", *_switch("odometry", odd, None), lies=True) for name, odd in LIES.items()),
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
        lambda w, g: w.pilot.on_joystick(Velocity(HAND_MPS), w.moment()),
        lasts_s=(0.5, 0.5),
    ),
    Fault("two drivers", *_switch("drivers", ("joystick", "console"), ())),
    Fault("late verdict", lambda w, g: setattr(g, "late_s", 14.0), lasts_s=(12.0, 12.0), while_waiting=True),
    Fault("turns without end", lambda w, g: setattr(g, "spins", True), by_models=True),
    Fault("emergency stop", lambda w, g: w.pilot.on_emergency_stop(True, w.moment()), _release),
)

GO2_FAULTS = (
    *(Fault(name, *_switch("robot", name, ""), bases="sport") for name in GO2_TROUBLES),
    Fault(AVOIDANCE_TAKEN, *_switch("robot", AVOIDANCE_TAKEN, ""), bases="sport, robot_avoidance"),
)
