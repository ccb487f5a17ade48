"""The robot's own map and the way over it, on drawn floors."""

from __future__ import annotations

import math

import pytest
from support.floors import Floor

from outrider.core.errors import MotionError
from outrider.core.language.actions import ActionTable, split_answer
from outrider.core.values import (
    Decoded,
    DecodeRequest,
    Odometry,
    Pose2D,
    Prompt,
    RangeScan,
    Sighting,
    Velocity,
)
from outrider.navigation.goal.guide import Destination, Guide, LedDecoder, move_towards, turn_towards
from outrider.navigation.sensing.floor_map import FloorMap

TABLE = ActionTable()
REQUEST = DecodeRequest(Prompt("", b""))
WALL = Floor([(2.0, -3.0, 2.2, 1.0)])
ROOM = Floor([(-3.0, -3.0, 3.0, -2.8), (-3.0, 2.8, 3.0, 3.0), (-3.0, -3.0, -2.8, 3.0), (2.8, -3.0, 3.0, 3.0)])


def walk(
    floor: Floor, destination: Destination, pose: Pose2D, most_steps: int = 60
) -> tuple[Pose2D, list[str]]:
    """Carry out the guide's actions exactly, up to the stop; return the last pose and the actions.

    The robot looks around before each step.
    """
    known, actions = FloorMap(), []
    for _ in range(most_steps):
        known.see(pose, floor.scan(pose))
        guide = Guide(known, destination, lambda pose=pose: Odometry(pose, Velocity(), 0.0))
        action = split_answer(guide.decode(REQUEST).text).action
        actions.append(action)
        motion = TABLE.motion(action)
        assert motion is not None, action
        if motion.is_stop:
            return pose, actions
        yaw = pose.yaw + motion.turn_rad
        x, y = pose.x + motion.forward_m * math.cos(yaw), pose.y + motion.forward_m * math.sin(yaw)
        assert floor.free_m(Pose2D(x, y, 0.0)) > 0.2, f"{action} leads into the wall"
        pose = Pose2D(x, y, yaw)
    raise AssertionError(f"no stop: {actions}")


def test_a_range_below_the_minimum_maps_no_floor_behind_it() -> None:
    known, here = FloorMap(), Pose2D(0.0, 0.0, 0.0)
    for _ in range(3):
        known.see(here, WALL.scan(here))
    scan = WALL.scan(here)
    for _ in range(9):
        known.see(here, RangeScan((-math.inf,) * len(scan.ranges), scan.angle_min, scan.angle_step, 0.0))
    assert not known.is_clear((0.0, 0.0), (4.0, 0.0))


@pytest.mark.parametrize("range_m", [5.0, 6.5, 20.0, math.inf])
def test_up_to_what_is_far_away_the_floor_is_free(range_m: float) -> None:
    known = FloorMap()
    known.see(Pose2D(0.0, 0.0, 0.0), RangeScan((range_m,) * 360, -math.pi, math.tau / 360, 0.0))
    assert known.evidence_at((4.0, 0.0)) < 0 and known.evidence_at((7.0, 0.0)) == 0


def test_straight_over_a_free_floor() -> None:
    pose, actions = walk(Floor([]), Destination(3.0, 0.0, 1.0), Pose2D(0.0, 0.0, 0.0))
    assert actions == ["move forward large"] * 2 + ["move forward medium", "stop"] and pose.x == 2.0


@pytest.mark.parametrize("yaw", [0.0, 1.0, math.pi, -2.0])
def test_around_a_wall_that_hides_the_place_and_facing_it_in_the_end(yaw: float) -> None:
    pose, _ = walk(WALL, Destination(4.0, 0.0, 1.0), Pose2D(0.0, 0.0, yaw))
    assert pose.distance_to(4.0, 0.0) <= 1.0 and abs(pose.bearing_to(4.0, 0.0)) <= math.radians(20.1)
    assert pose.x > 2.2, "beyond the wall, not as near as can be before it"


def test_a_closed_room_has_no_way_out() -> None:
    with pytest.raises(MotionError, match="no way"):
        walk(ROOM, Destination(5.0, 0.0, 1.0), Pose2D(0.0, 0.0, 0.0))


def test_a_place_out_of_the_map_has_no_way() -> None:
    known = FloorMap()
    known.see(Pose2D(0.0, 0.0, 0.0), Floor([]).scan(Pose2D(0.0, 0.0, 0.0)))
    assert known.way(Pose2D(0.0, 0.0, 0.0), (100.0, 0.0), 1.0) is None


def test_without_odometry_there_is_no_step() -> None:
    with pytest.raises(MotionError, match="odometry"):
        Guide(FloorMap(), Destination(1.0, 0.0, 1.0), lambda: None).decode(REQUEST)


def test_what_was_in_the_way_and_is_gone_is_forgotten() -> None:
    known, here = FloorMap(), Pose2D(0.0, 0.0, 0.0)
    box = Floor([(1.0, -0.5, 1.4, 0.5)])
    for _ in range(3):
        known.see(here, box.scan(here))
    assert not known.is_clear((0.0, 0.0), (2.0, 0.0))
    for _ in range(12):
        known.see(here, Floor([]).scan(here))
    assert known.is_clear((0.0, 0.0), (2.0, 0.0))


def test_bad_ranges_are_no_walls() -> None:
    known = FloorMap()
    ranges = (math.nan, -1.0, 0.0, math.inf)
    known.see(Pose2D(0.0, 0.0, 0.0), RangeScan(ranges, -0.1, 0.05, 0.0))
    assert known.is_clear((0.0, 0.0), (2.0, 0.0))


def test_turns_and_moves_are_of_the_table() -> None:
    assert turn_towards(math.radians(50.0), TABLE) == "turn left large"
    assert turn_towards(math.radians(-20.0), TABLE) == "turn right small"
    assert [move_towards(m, TABLE) for m in (0.1, 0.46, 0.5, 9.0)] == [
        "move forward small",
        "move forward medium",
        "move forward medium",
        "move forward large",
    ]


class Models:
    """Implements TextDecoder: counts the requests, and always gives the same answer."""

    def __init__(self) -> None:
        self.asked = 0

    def decode(self, request, on_verified=lambda _: None, cancelled=lambda: False):
        self.asked += 1
        return Decoded("move forward large\nrecall: going on.", (), True, 0.0, 0.0, 1)

    def close(self) -> None:
        raise AssertionError("the decoder belongs to somebody else")


def led_over(floor: Floor, start: Pose2D) -> tuple[LedDecoder, Models]:
    """Return a decoder for a robot that has looked around, and its models; the ball was seen 4 m ahead."""
    known, models = FloorMap(), Models()
    known.see(start, floor.scan(start))
    return LedDecoder(models, known, Sighting("red ball", 4.0, 0.0), lambda: standing(start)), models


def standing(pose: Pose2D) -> Odometry:
    return Odometry(pose, Velocity(), 0.0)


def test_the_map_leads_around_what_hides_the_place_and_the_models_go_the_rest() -> None:
    hidden, models = led_over(WALL, Pose2D(0.0, 0.0, 0.0))
    assert split_answer(hidden.decode(REQUEST).text).action.startswith("turn left")
    assert hidden.leading and models.asked == 0
    free, models = led_over(WALL, Pose2D(2.8, 2.0, 0.0))
    assert "going on" in free.decode(REQUEST).text and not free.leading and models.asked == 1
    free.close()


@pytest.mark.parametrize("start", [Pose2D(0.0, 0.0, 0.0), Pose2D(3.5, 0.0, 0.0)])
def test_where_no_way_is_left_or_the_place_is_reached_the_models_search(start: Pose2D) -> None:
    floor = ROOM if start.x == 0.0 else Floor([(3.7, -3.0, 3.9, 3.0)])
    led, models = led_over(floor, start)
    for _ in range(2):
        assert "going on" in led.decode(REQUEST).text and not led.leading
    assert models.asked == 2
