# SPDX-License-Identifier: Apache-2.0
"""Leads the robot to a known place by its own map, in the models' actions but without a model.

Neither the target nor the fact of a search leaves the robot.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from outrider.core.errors import MotionError
from outrider.core.language.actions import SIZES, STOP, ActionTable
from outrider.core.ports import TextDecoder
from outrider.core.values import Decoded, DecodeRequest, LinkState, Odometry, Pose2D, Sighting, Verified
from outrider.navigation.sensing.floor_map import FloorMap, Point

AHEAD_RAD = math.radians(12.0)
FACING_RAD = math.radians(20.0)
LOOK_AHEAD_M = 2.0
SIGHT_REACH_M = 0.9
BEEN_THERE_M = 1.2


@dataclass(frozen=True)
class Destination:
    """A point to approach to within `reach_m`, and to face."""

    x: float
    y: float
    reach_m: float


class Guide:
    """Implements `core.ports.TextDecoder` without decoding: each text is the next step of the path.

    `decode` raises MotionError if there is no path, or no odometry.
    """

    link_state = LinkState.LOCAL

    def __init__(
        self,
        floor: FloorMap,
        destination: Destination,
        odometry: Callable[[], Odometry | None],
        table: ActionTable | None = None,
        reason: str = "recall: going to a remembered place.",
    ) -> None:
        """`reason` is the second line of each text."""
        self._floor, self._destination, self._odometry = floor, destination, odometry
        self._table = table or ActionTable()
        self._reason = reason

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Decoded:
        """Returns the next step of the path as a text. Raises MotionError without odometry or a path."""
        odometry = self._odometry()
        if odometry is None:
            raise MotionError("no odometry: check that something publishes odom")
        text = f"{self._action(odometry.pose)}\n{self._reason}"
        on_verified(Verified((), text, 0.0))
        return Decoded(text, (), True, 0.0, 0.0, 0)

    def close(self) -> None:
        """Does nothing: the guide owns no resources."""

    def _action(self, pose: Pose2D) -> str:
        goal = (self._destination.x, self._destination.y)
        way = self._floor.way(pose, goal, self._destination.reach_m)
        if way is None:
            raise MotionError("no way leads there: clear one, or lead the robot nearer")
        # If the place is in reach, the path is only the robot's own cell.
        if pose.distance_to(*goal) <= self._destination.reach_m and len(way) == 1:
            bearing = pose.bearing_to(*goal)
            close = pose.distance_to(*goal) < 0.3
            return STOP if close or abs(bearing) <= FACING_RAD else turn_towards(bearing, self._table)
        point = self._aim(pose, way)
        bearing = pose.bearing_to(*point)
        if abs(bearing) > AHEAD_RAD:
            return turn_towards(bearing, self._table)
        return move_towards(self._free_ahead(pose, pose.distance_to(*point)), self._table)

    def _free_ahead(self, pose: Pose2D, distance_m: float) -> float:
        """Returns how far the robot can go along its heading, which is not quite the path's direction."""
        for metres in sorted(self._table.forward_m, reverse=True):
            end = (pose.x + metres * math.cos(pose.yaw), pose.y + metres * math.sin(pose.yaw))
            if metres <= distance_m and self._floor.is_clear((pose.x, pose.y), end):
                return distance_m if metres == max(self._table.forward_m) else metres
        return 0.0

    def _aim(self, pose: Pose2D, way: list[Point]) -> Point:
        """Returns the farthest point of the path, within LOOK_AHEAD_M, that a straight line leads to."""
        aim = way[0]
        for point in way:
            distance = pose.distance_to(*point)
            if distance > LOOK_AHEAD_M or not self._floor.is_clear((pose.x, pose.y), point):
                break
            aim = point
        return aim


class LedDecoder:
    """Implements `core.ports.TextDecoder` by another decoder, and by a guide around obstacles.

    While no straight line on the map leads to the sighting, the guide gives the steps. The other decoder
    gives all others, with the sighting in its prompts. The guide stops for good once the robot has been
    there, or if there is no path.
    """

    def __init__(
        self,
        decoder: TextDecoder,
        floor: FloorMap,
        sighting: Sighting,
        odometry: Callable[[], Odometry | None],
        table: ActionTable | None = None,
    ) -> None:
        self._decoder, self._floor, self._odometry = decoder, floor, odometry
        self._goal = Destination(sighting.x, sighting.y, SIGHT_REACH_M)
        self._guide = Guide(floor, self._goal, odometry, table)
        self._is_over = False
        self.leading = False

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Decoded:
        """Decode by the guide while the path leads around an obstacle, otherwise by the other decoder."""
        odometry = self._odometry()
        self.leading = odometry is not None and self._is_behind_something(odometry.pose)
        decoder = self._guide if self.leading else self._decoder
        return decoder.decode(request, on_verified, cancelled)

    def forget(self) -> None:
        """Stop leading to the sighting."""
        self._is_over = True

    def close(self) -> None:
        """Does nothing: another object owns the decoder."""

    def _is_behind_something(self, pose: Pose2D) -> bool:
        here, goal = (pose.x, pose.y), (self._goal.x, self._goal.y)
        self._is_over = self._is_over or pose.distance_to(*goal) <= BEEN_THERE_M
        if self._is_over or (way := self._floor.way(pose, goal, self._goal.reach_m)) is None:
            self._is_over = True
            return False
        return not self._floor.is_clear(here, way[-1])


def turn_towards(bearing_rad: float, table: ActionTable) -> str:
    """Returns the turn that comes nearest to facing a bearing."""
    degrees = abs(math.degrees(bearing_rad))
    size = min(range(len(SIZES)), key=lambda index: abs(table.turn_deg[index] - degrees))
    return f"turn {'left' if bearing_rad > 0.0 else 'right'} {SIZES[size]}"


def move_towards(distance_m: float, table: ActionTable) -> str:
    """Returns the longest move ahead within a distance; the shortest move if none is."""
    fitting = [
        size for size, metres in zip(SIZES, table.forward_m, strict=True) if metres <= distance_m + 0.05
    ]
    return f"move forward {fitting[-1] if fitting else SIZES[0]}"
