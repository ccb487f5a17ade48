"""Searches that get stuck in one room, on drawn floors."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import cycle

import pytest
from support.floors import Floor

from outrider.core.errors import LinkError
from outrider.core.language.actions import ActionTable, split_answer
from outrider.core.values import Decoded, DecodeRequest, Odometry, Pose2D, Prompt, Velocity, Verified
from outrider.navigation.goal.exploring import ExploringDecoder
from outrider.navigation.sensing.floor_map import FloorMap

TABLE = ActionTable()
REQUEST = DecodeRequest(Prompt("", b""))
WALLS = [(-2.2, -2.2, 7.2, -2.0), (-2.2, 2.0, 7.2, 2.2), (-2.2, -2.2, -2.0, 2.2), (7.0, -2.2, 7.2, 2.2)]
TWO_ROOMS = Floor([*WALLS, (2.0, -2.2, 2.2, -0.6), (2.0, 0.6, 2.2, 2.2)])
ONE_ROOM = Floor([*WALLS[:3], (2.0, -2.2, 2.2, 2.2)])


class Walker:
    """A robot that carries out each action exactly, unless `held`, and looks around before each step."""

    def __init__(self, floor: Floor, texts: list[str], yaw: float = 0.0) -> None:
        self.pose, self.has_odometry = Pose2D(0.0, 0.0, yaw), True
        self.held = self.is_blind = self.link_is_down = False
        self.models_asked: list[Pose2D] = []
        self._floor, self._map, self._texts = floor, FloorMap(), cycle(texts)
        self.decoder = ExploringDecoder(self, self._map, self.odometry)

    def odometry(self) -> Odometry | None:
        return Odometry(self.pose, Velocity(), 0.0) if self.has_odometry else None

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Decoded:
        """Return the next of the texts, in a cycle, in place of the models."""
        self.models_asked.append(self.pose)
        if self.link_is_down:
            raise LinkError("the verifier is gone")
        text = next(self._texts)
        on_verified(Verified((), text, 0.0))
        return Decoded(text, (), True, 0.0, 0.0, 1)

    def close(self) -> None:
        raise AssertionError("the decoder belongs to somebody else")

    def steps(self, number: int) -> list[str]:
        """Carry out `number` texts; return their actions."""
        actions = []
        for _ in range(number):
            if not self.is_blind:
                self._map.see(self.pose, self._floor.scan(self.pose))
            verified: list[str] = []
            text = self.decoder.decode(REQUEST, lambda new, said=verified: said.append(new.text)).text
            assert verified == [text], "every text is verified once, and whole"
            actions.append(split_answer(text).action)
            self._move(actions[-1], actions[-2] if len(actions) > 1 else "")
        return actions

    def _move(self, action: str, previous: str) -> None:
        motion = TABLE.motion(action, previous)
        assert motion is not None, action
        if self.held:
            return
        yaw = self.pose.yaw + motion.turn_rad
        x = self.pose.x + motion.forward_m * math.cos(yaw)
        y = self.pose.y + motion.forward_m * math.sin(yaw)
        assert self._floor.free_m(Pose2D(x, y, 0.0)) > 0.2, f"{action} leads into the wall"
        self.pose = Pose2D(x, y, yaw)


SEARCHING = ["turn left large\ndoor: no way out."]


def test_a_search_that_sees_no_door_goes_on_in_the_room_it_has_not_looked_into() -> None:
    robot = Walker(TWO_ROOMS, SEARCHING, yaw=1.0)
    assert robot.steps(12) == ["turn left large"] * 12 and not robot.decoder.leading
    robot.steps(1)
    assert robot.decoder.leading
    while robot.decoder.leading:
        assert len(robot.models_asked) == 12, "the guide says the whole way"
        robot.steps(1)
    assert robot.pose.x > 2.5, "in the other room"
    robot.steps(4)
    assert all(pose.x > 2.5 for pose in robot.models_asked[12:]) and len(robot.models_asked) == 17


@pytest.mark.lengthy
def test_each_room_is_led_to_once_and_where_all_was_in_sight_the_models_say_all() -> None:
    robot, led = Walker(TWO_ROOMS, SEARCHING), 0
    for _ in range(120):
        was_leading = robot.decoder.leading
        robot.steps(1)
        led += robot.decoder.leading and not was_leading
    assert 1 <= led <= 4
    before = len(robot.models_asked)
    robot.steps(30)
    assert len(robot.models_asked) == before + 30


def test_in_a_closed_room_that_was_in_sight_the_models_say_all() -> None:
    robot = Walker(ONE_ROOM, SEARCHING)
    robot.steps(40)
    assert len(robot.models_asked) == 40


@pytest.mark.parametrize(
    "text", ["turn left large\napproach: red ball ahead.", "turn left large\napproach: "]
)
def test_what_has_been_found_is_not_left(text: str) -> None:
    robot = Walker(TWO_ROOMS, [text])
    robot.steps(30)
    assert len(robot.models_asked) == 30


def test_a_way_on_which_nothing_moves_the_robot_is_given_up() -> None:
    robot = Walker(TWO_ROOMS, SEARCHING)
    robot.steps(13)
    assert robot.decoder.leading
    robot.held = True
    asked = len(robot.models_asked)
    robot.steps(30)
    assert len(robot.models_asked) >= asked + 25 and not robot.decoder.leading


def test_a_robot_that_stands_is_not_led_away() -> None:
    """Its answers may come too late, a person may hold it, or a sensor may be missing."""
    robot = Walker(TWO_ROOMS, SEARCHING)
    robot.held = True
    robot.steps(30)
    assert len(robot.models_asked) == 30


def test_after_turns_back_and_forth_between_two_things_the_robot_steps_ahead() -> None:
    back_and_forth = [
        "turn left small\napproach: blue bench left.",
        "turn right small\napproach: blue bench right.",
    ]
    robot = Walker(TWO_ROOMS, back_and_forth)
    actions = robot.steps(12)
    ahead = actions.index("move forward small")
    assert 4 <= ahead <= 6 and robot.pose.x > 0.2
    assert robot.models_asked[-1].x > 0.2, "and then the models go on"


def test_there_is_no_step_ahead_into_a_wall() -> None:
    walled = Floor([(0.45, -2.0, 0.6, 2.0)])
    robot = Walker(walled, ["turn left small\napproach: a.", "turn right small\napproach: b."])
    assert "move forward small" not in robot.steps(20)


def test_there_is_no_step_ahead_over_floor_that_nobody_has_seen() -> None:
    robot = Walker(TWO_ROOMS, ["turn left small\napproach: a.", "turn right small\napproach: b."])
    robot.is_blind = True
    robot.steps(20)
    assert len(robot.models_asked) == 20


def test_while_the_link_is_down_the_robot_is_not_lost() -> None:
    robot = Walker(TWO_ROOMS, SEARCHING)
    robot.steps(1)
    robot.link_is_down = True
    for _ in range(20):
        with pytest.raises(LinkError):
            robot.steps(1)
    assert not robot.decoder.leading and len(robot.models_asked) == 21
    robot.link_is_down = False
    assert robot.steps(3) == ["turn left large"] * 3 and not robot.decoder.leading


def test_without_odometry_the_models_say_all() -> None:
    robot = Walker(TWO_ROOMS, SEARCHING)
    robot.has_odometry = False
    robot.steps(20)
    assert len(robot.models_asked) == 20 and not robot.decoder.leading


def test_before_the_first_scan_no_floor_is_known() -> None:
    assert FloorMap().point_out_of_sight(Pose2D(0.0, 0.0, 0.0), []) is None


def test_it_closes_nothing() -> None:
    Walker(TWO_ROOMS, SEARCHING).decoder.close()
