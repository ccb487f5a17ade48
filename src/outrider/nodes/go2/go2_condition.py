# SPDX-License-Identifier: Apache-2.0
"""What keeps a Go2 from moving as commanded: its posture, its battery, and other programs; pure.

Source of the states: unitree_sdk2 and unitree_ros2 (`SportModeState`). Older firmware gives the state in
`mode`, newer in `error_code`, which is no error.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

STATE_TOPIC, SLOW_STATE_TOPIC, LOW_STATE_TOPIC = "/sportmodestate", "/lf/sportmodestate", "/lf/lowstate"
LOW_BATTERY_PERCENT = 15
# How long other programs must be quiet before this one commands again.
OTHER_PROGRAM_S = 1.0
MODES = (
    "idle",
    "balance stand",
    "pose",
    "locomotion",
    "reserved",
    "lying down",
    "joints locked",
    "damping",
    "recovery stand",
    "reserved",
    "sitting",
    "front flip",
    "front jump",
    "front pounce",
)
_STAND_UP = "stand it up by its remote (L2+A, then START) or the app"
_FINISH = "let it finish, or stop it by the remote or the app"
_DAMPED = f"the Go2 is damped, its joints are soft: {_STAND_UP}"
_LYING = f"the Go2 is lying: {_STAND_UP}"
_LOCKED = "the Go2's joints are locked: unlock it by its remote (START), or activate the action node anew"
_SITTING = f"the Go2 is sitting: {_STAND_UP}"
_POSING = f"the Go2 poses: {_FINISH}"
_PERFORMS = f"the Go2 performs a trick of its own: {_FINISH}"
_STANDS_UP = "the Go2 is standing up: wait for it"
_BY_MODE = {
    2: _POSING,
    5: _LYING,
    6: _LOCKED,
    7: _DAMPED,
    8: _STANDS_UP,
    10: _SITTING,
    **dict.fromkeys((11, 12, 13), _PERFORMS),
}
_BY_CODE = {
    1001: _DAMPED,
    1002: _LOCKED,
    1004: _LYING,
    2006: _LYING,
    1007: _SITTING,
    1091: _POSING,
    # Greetings, stretching and dances, jumps, pounces, rolls; handstand, flips, upright walking.
    **dict.fromkeys((1006, 1008, 1009, 2004, 2011, 2012, 2013, 2014, 2017), _PERFORMS),
}


def mode_name(mode: int) -> str:
    """Returns the name of a SportModeState's mode."""
    return MODES[mode] if mode < len(MODES) else f"mode {mode}"


def posture_fault(mode: int, error_code: int) -> str:
    """Returns why a robot in this state does not walk, with a remedy; empty if it may."""
    return _BY_MODE.get(mode) or _BY_CODE.get(error_code, "")


def battery_warning(percent: int | None) -> str:
    """Returns a warning for a low battery; empty for a better one, or if its charge is not known."""
    low = percent is not None and percent < LOW_BATTERY_PERCENT
    return f"the battery is at {percent} percent: charge it" if low else ""


class Go2Condition:
    """The newest state that the robot has sent. A robot that never sends its state may move."""

    def __init__(self, min_battery_percent: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._min_battery_percent, self._clock = min_battery_percent, clock
        self._posture = self._other_call = ""
        self.is_known = self.is_damped = False
        """`is_known`: the robot has sent its state.

        `is_damped`: its joints are soft, as after the remote's L2+B.
        """
        self._battery_percent: int | None = None
        self._other_call_s = -math.inf

    def on_state(self, mode: int, error_code: int) -> None:
        """Take a SportModeState."""
        self._posture, self.is_known = posture_fault(mode, error_code), True
        self.is_damped = _DAMPED in (_BY_MODE.get(mode), _BY_CODE.get(error_code))

    def on_battery(self, percent: int) -> None:
        """Record the charge of the battery in per cent."""
        self._battery_percent = percent

    def on_other_program(self, call: str) -> None:
        """Record another program's call that moves the robot, or decides which program does."""
        self._other_call, self._other_call_s = call, self._clock()

    def other_program(self) -> str:
        """Returns which other program's call was seen within OTHER_PROGRAM_S; empty if none was."""
        if self._clock() - self._other_call_s >= OTHER_PROGRAM_S:
            return ""
        remedy = "close the app or the other controller"
        return f"another program commands the robot ({self._other_call}): {remedy}"

    def fault(self) -> str:
        """Returns why nothing can move the robot now, with a remedy; empty if it can move."""
        return self.other_program() or self._posture

    def warning(self) -> str:
        """Returns what is wrong although the robot may move."""
        return self.battery_fault() or battery_warning(self._battery_percent)

    def battery_fault(self) -> str:
        """Returns why the battery lets no text move the robot. A person may still drive it to its charger."""
        percent = self._battery_percent
        if percent is None or percent >= self._min_battery_percent:
            return ""
        return (
            f"the battery is at {percent} percent, under min_battery_percent={self._min_battery_percent}: "
            "drive it to its charger by hand"
        )
