# SPDX-License-Identifier: Apache-2.0
"""Leads a search on when the models find no way out.

The models choose doors as long as they recognise one. If they turn in place for longer than that takes, the
robot's map leads to the nearest floor that was out of sight so far. This is like a frontier in Yamauchi, "A
frontier-based approach for autonomous exploration", CIRA 1997, but by what the camera has seen. If the
models turn back and forth between two things, one step ahead changes the picture. All these steps are
actions of the table. The pilot and the controller's scan checks keep them safe, not the map.
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
"""The map leads after this much turning in place: one turn to search, half a turn to look for a way out."""
LOOKED_AROUND_RAD = math.radians(350.0)
BLOCKED_AFTER = 4
"""The guide's goal is dropped after this number of steps without motion."""
UNDECIDED_AFTER = 4
"""A step ahead is tried after this number of turns in a row that each undo the one before."""
SAME_SPOT_M, SAME_HEADING_RAD = 0.1, math.radians(3.0)
REACH_M, THERE_M = 0.4, 0.5
STEP_M, ROOM_AHEAD_M = 0.25, 0.5
MAX_STEPS = 40
REASON = "enter: going where it has not looked yet."


class ExploringDecoder:
    """Implements `core.ports.TextDecoder` by another decoder, and by a guide to floor out of sight.

    The other decoder searches from there. It also decodes every text while it approaches a thing, and if
    there is no such floor or no path to it. The one exception is a step ahead after turns back and forth.
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
        self._turned_rad = self._last_turn_rad = 0.0
        self._stood = self._swings = self._steps = 0
        self._phase = ""
        self._goal: Destination | None = None

    @property
    def leading(self) -> bool:
        """Whether the guide leads at present."""
        return self._goal is not None

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Decoded:
        """Decode by the guide while it leads, otherwise by the other decoder."""
        odometry = self._odometry()
        own = None if odometry is None else self._own_step(odometry.pose, request)
        if own is not None:
            on_verified(Verified((), own.text, 0.0))
            return own

        def follow(verified: Verified) -> None:
            self._phase = split_answer(verified.text).phase
            on_verified(verified)

        return self._decoder.decode(request, follow, cancelled)

    def close(self) -> None:
        """Does nothing: another object owns the decoder."""

    def _own_step(self, pose: Pose2D, request: DecodeRequest) -> Decoded | None:
        """Returns the next step by the map, or None if the other decoder chooses it."""
        self._track(pose)
        if self._goal is None and self._is_lost():
            self._set_out(pose)
        if self._goal is None:
            return self._step_ahead(pose) if self._swings >= UNDECIDED_AFTER else None
        self._steps += 1
        is_there = pose.distance_to(self._goal.x, self._goal.y) <= THERE_M
        step = None if is_there or self._gives_up() else self._next_step(self._goal, request)
        if step is None:
            # Whether it was reached or not, do not choose it again.
            self._looked_from.append((self._goal.x, self._goal.y))
            self._goal = None
        return step

    def _track(self, pose: Pose2D) -> None:
        """Count turning in place and steps without motion; note where the robot has looked all around."""
        last, self._pose = self._pose or pose, pose
        turn_rad = wrap_angle(pose.yaw - last.yaw)
        before_rad, self._last_turn_rad = self._last_turn_rad, turn_rad
        if last.distance_to(pose.x, pose.y) > SAME_SPOT_M:
            self._turned_rad, self._stood, self._swings = 0.0, 0, 0
            return
        is_turn = abs(turn_rad) >= SAME_HEADING_RAD
        self._turned_rad += abs(turn_rad)
        self._stood = 0 if is_turn else self._stood + 1
        self._swings = self._swings + 1 if is_turn and turn_rad * before_rad < 0.0 else 0
        here = (pose.x, pose.y)
        is_new = all(math.dist(here, point) > SAME_SPOT_M for point in self._looked_from)
        if self._turned_rad >= LOOKED_AROUND_RAD and is_new:
            self._looked_from.append(here)

    def _is_lost(self) -> bool:
        return self._turned_rad >= LOST_AFTER_RAD and self._phase != "approach"

    def _gives_up(self) -> bool:
        return self._steps > MAX_STEPS or self._stood >= BLOCKED_AFTER

    def _set_out(self, pose: Pose2D) -> None:
        """Choose where to go. If there is no such floor, ask again only after as much turning."""
        point = self._floor.point_out_of_sight(pose, [*self._looked_from, (pose.x, pose.y)])
        self._goal = None if point is None else Destination(*point, REACH_M)
        self._turned_rad, self._stood, self._steps = 0.0, 0, 0

    def _step_ahead(self, pose: Pose2D) -> Decoded | None:
        """Returns a step ahead in the models' phase, or None if the map shows no room for it."""
        end = (pose.x + ROOM_AHEAD_M * math.cos(pose.yaw), pose.y + ROOM_AHEAD_M * math.sin(pose.yaw))
        self._swings = 0
        if self._floor.evidence_at(end) >= 0 or not self._floor.is_clear((pose.x, pose.y), end):
            return None
        action = move_towards(STEP_M, self._table or ActionTable())
        text = f"{action}\n{self._phase or 'search'}: a step on, to see it anew."
        return Decoded(text, (), True, 0.0, 0.0, 0)

    def _next_step(self, goal: Destination, request: DecodeRequest) -> Decoded | None:
        """Returns the guide's next step, or None if it has arrived or there is no path."""
        try:
            step = Guide(self._floor, goal, self._odometry, self._table, REASON).decode(request)
        except MotionError:
            return None
        return None if split_answer(step.text).action == STOP else step
