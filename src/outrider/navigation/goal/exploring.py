# SPDX-License-Identifier: Apache-2.0
"""Helps a search on that is lost where it stands: to floor that the robot has not looked at.

The models choose the doors as long as they see one. Where they turn on and on and see none, the robot's own
map knows more: it goes to the nearest floor out of sight so far (as to a frontier in Yamauchi, "A
frontier-based approach for autonomous exploration", CIRA 1997, but of what the camera has seen). Where they
turn back and forth between two things, a step ahead shows them anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from outrider.core.errors import MotionError
from outrider.core.language.actions import STOP, ActionTable, split_answer
from outrider.core.ports import TextDecoder
from outrider.core.values import Decoded, DecodeRequest, Odometry, Pose2D, Verified, wrap_angle
from outrider.navigation.goal.guide import Destination, Guide, move_towards
from outrider.navigation.sensing.floor_map import FloorMap, Point

LOST_AFTER_RAD = math.radians(540.0)
"""Turning in place, one turn to search and half of one for a way out, after which the models are lost."""
LOOKED_AROUND_RAD = math.radians(350.0)
LOST_AFTER_STANDING = 4
"""Steps that have moved nothing, after which they are lost too; the guide gives up after as many."""
UNDECIDED_AFTER = 4
"""Turns in a row each of which takes back the one before."""
SAME_SPOT_M, SAME_HEADING_RAD = 0.1, math.radians(3.0)
REACH_M, THERE_M = 0.4, 0.5
STEP_M, ROOM_AHEAD_M = 0.25, 0.5
MAX_STEPS = 40
REASON = "enter: going where it has not looked yet."


class ExploringDecoder:
    """Implements `core.ports.TextDecoder`: another one, but on the way to floor that was out of sight so far.

    The other one searches from there. It says all texts where there is no such floor, or no way to it, and
    once it approaches what it has found; but a step ahead comes between where it turns back and forth.
    """

    def __init__(
        self,
        decoder: TextDecoder,
        floor: FloorMap,
        odometry: Callable[[], Odometry | None],
        table: ActionTable | None = None,
    ) -> None:
        self._decoder, self._floor, self._odometry, self._table = decoder, floor, odometry, table
        self._looked_from: list[Point] = []
        self._pose: Pose2D | None = None
        self._turned_rad = 0.0
        self._last_turn_rad = 0.0
        self._stood = self._swings = self._steps = 0
        self._said = ""
        self._goal: Destination | None = None

    @property
    def leading(self) -> bool:
        """Whether the guide says the steps now."""
        return self._goal is not None

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Decoded:
        """Decodes by the guide while it leads, otherwise by the other decoder."""
        odometry = self._odometry()
        led = None if odometry is None else self._led(odometry.pose, request)
        self._said = ""

        def hear(verified: Verified) -> None:
            self._said = verified.text
            on_verified(verified)

        if led is None:
            return self._decoder.decode(request, hear, cancelled)
        hear(Verified((), led.text, 0.0))
        return led

    def close(self) -> None:
        """The decoder belongs to somebody else."""

    def _led(self, pose: Pose2D, request: DecodeRequest) -> Decoded | None:
        """The guide's next step; None where the other decoder is to say it."""
        self._follow(pose)
        if self._goal is None and self._is_lost():
            self._set_out(pose)
        if self._goal is None:
            return self._step_ahead(pose) if self._swings >= UNDECIDED_AFTER else None
        self._steps += 1
        is_there = pose.distance_to(self._goal.x, self._goal.y) <= THERE_M
        step = None if is_there or self._gives_up() else self._next_step(self._goal, request)
        if step is None:
            # Reached or not: it is not to be chosen again.
            self._looked_from.append((self._goal.x, self._goal.y))
            self._goal = None
        return step

    def _follow(self, pose: Pose2D) -> None:
        """Keep account of turning in place, of standing, and of where the robot has looked all around.

        Where nothing was said last, as while the link is down, nothing was to move the robot.
        """
        last, self._pose = self._pose or pose, pose
        turn_rad = wrap_angle(pose.yaw - last.yaw)
        before_rad, self._last_turn_rad = self._last_turn_rad, turn_rad
        if last.distance_to(pose.x, pose.y) > SAME_SPOT_M:
            self._turned_rad, self._stood, self._swings = 0.0, 0, 0
            return
        is_turn = abs(turn_rad) >= SAME_HEADING_RAD
        self._turned_rad += abs(turn_rad)
        self._stood = 0 if is_turn else self._stood + bool(split_answer(self._said).action)
        self._swings = self._swings + 1 if is_turn and turn_rad * before_rad < 0.0 else 0
        here = (pose.x, pose.y)
        is_new = all(math.dist(here, point) > SAME_SPOT_M for point in self._looked_from)
        if self._turned_rad >= LOOKED_AROUND_RAD and is_new:
            self._looked_from.append(here)

    def _is_lost(self) -> bool:
        if split_answer(self._said).phase == "approach":
            return False
        return self._turned_rad >= LOST_AFTER_RAD or self._stood >= LOST_AFTER_STANDING

    def _gives_up(self) -> bool:
        return self._steps > MAX_STEPS or self._stood >= LOST_AFTER_STANDING

    def _set_out(self, pose: Pose2D) -> None:
        """Choose where to go; where there is no place, ask again only after as long a search."""
        place = self._floor.place_out_of_sight(pose, [*self._looked_from, (pose.x, pose.y)])
        self._goal = None if place is None else Destination(*place, REACH_M)
        self._turned_rad, self._stood, self._steps = 0.0, 0, 0

    def _step_ahead(self, pose: Pose2D) -> Decoded | None:
        """In the phase that the models are in; None where the map does not show room for it."""
        end = (pose.x + ROOM_AHEAD_M * math.cos(pose.yaw), pose.y + ROOM_AHEAD_M * math.sin(pose.yaw))
        self._swings = 0
        if self._floor.evidence_at(end) >= 0 or not self._floor.is_clear((pose.x, pose.y), end):
            return None
        phase = split_answer(self._said).phase or "search"
        text = f"{move_towards(STEP_M, self._table or ActionTable())}\n{phase}: a step on, to see it anew."
        return Decoded(text, (), True, 0.0, 0.0, 0)

    def _next_step(self, goal: Destination, request: DecodeRequest) -> Decoded | None:
        """By the guide, unless it is there, or no way is left."""
        try:
            step = Guide(self._floor, goal, self._odometry, self._table, REASON).decode(request)
        except MotionError:
            return None
        return None if split_answer(step.text).action == STOP else step
