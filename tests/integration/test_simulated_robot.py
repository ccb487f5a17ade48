"""A console's robot without ROS: it moves on command, and stops at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, cast

import pytest
from support.consoles import Page, wait_until

from outrider.console.robot import GoalEnd
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.runtime.common.paths import models_folder
from outrider.runtime.mission.words import vocabulary_of
from outrider.runtime.no_ros.simulated_robot import E_STOPPED, ENDED, STOPPED, SimulatedRobot
from outrider.runtime.node_graph.simulation_specs import SIMULATION

WAIT_S = 120.0
"""Timeout: both models decode in this process, and the machine may be busy."""


@pytest.fixture(scope="module")
def robot() -> Iterator[SimulatedRobot]:
    folder = models_folder()
    world = SIMULATION.checked({"holds": "silver bottle", "seed": 1, "placement": "in_view"})
    robot = SimulatedRobot(world, folder, vocabulary_of(str(folder / "draft")))
    yield robot
    robot.close()


@pytest.fixture
def page(robot: SimulatedRobot) -> Iterator[Page]:
    server = ConsoleServer(robot, ConsoleSettings(port=0))
    robot.show_on(server)
    yield Page(server, wait_s=WAIT_S).seated()
    robot.set_e_stop(False)
    server.close()


def test_the_robot_carries_out_orders_and_shows_them(page: Page) -> None:
    assert page.welcome["limits"] == [0.0, 0.0, 0.0]
    page.send(do="say", text="turn left")
    page.read("state", moving=True, goal="turn left")
    page.read("motion", outcome="done")
    page.read("goal", state="done")
    page.send(do="seen", picture=10**6)
    assert page.read_picture()[1].startswith(b"\xff\xd8")


def test_a_stop_ends_the_motion_and_refuses_later_orders(robot: SimulatedRobot, page: Page) -> None:
    page.send(do="say", text="find the silver bottle")
    page.read("state", moving=True)
    page.send(do="e_stop", engaged=True)
    assert page.read("goal", state="failed")["message"] == STOPPED
    pose = page.read("state", moving=False)["pose"]
    page.send(do="say", text="turn left")
    assert page.read("goal", state="failed")["message"] == STOPPED
    assert page.read("state")["pose"] == pose


def test_a_cancel_ends_a_command_that_waits_too(robot: SimulatedRobot) -> None:
    ends: list[GoalEnd] = []
    robot.send_goal("find the silver bottle", ends.append)
    robot.send_goal("turn left", ends.append)
    robot.cancel_goal()
    wait_until(lambda: len(ends) == 2, "both end", WAIT_S)
    assert not any(end.success for end in ends)


def test_a_stop_that_is_released_at_once_ends_a_plan_all_the_same_and_says_so(robot: SimulatedRobot) -> None:
    ends: list[GoalEnd] = []
    robot.send_goal("wait 60 seconds, then turn left", ends.append)
    robot.send_goal("turn left", ends.append)
    robot.set_e_stop(True)
    robot.set_e_stop(False)
    wait_until(lambda: len(ends) == 2, "both end", WAIT_S)
    assert ends == [GoalEnd(False, E_STOPPED)] * 2


def test_an_order_during_an_engaged_stop_is_refused_though_it_is_released_at_once(
    robot: SimulatedRobot,
) -> None:
    ends: list[GoalEnd] = []
    robot.send_goal("wait 60 seconds", ends.append)
    robot.set_e_stop(True)
    robot.send_goal("turn left 90 degrees", ends.append)
    robot.set_e_stop(False)
    wait_until(lambda: len(ends) == 2, "both end", WAIT_S)
    assert not any(end.success for end in ends) and "emergency stop" in ends[1].message


def test_the_robot_stands_after_a_stop_during_a_turn(robot: SimulatedRobot) -> None:
    ends: list[GoalEnd] = []
    robot.send_goal("turn left 180 degrees", ends.append)
    wait_until(lambda: abs(robot.truth()[1].wz) > 0.5, "it turns", WAIT_S)
    robot.set_e_stop(True)
    wait_until(lambda: len(ends) == 1, "it ends", WAIT_S)
    assert abs(robot.truth()[1].wz) < 0.05
    robot.set_e_stop(False)


def test_a_wait_lasts_its_full_time_and_the_next_step_follows_at_once(robot: SimulatedRobot) -> None:
    ends: list[GoalEnd] = []
    began_s = time.monotonic()
    robot.send_goal("wait 2 seconds, then turn left 10 degrees", ends.append)
    robot.send_goal("wait 1 second", ends.append)
    wait_until(lambda: len(ends) == 2, "both end", WAIT_S)
    assert ends[0].success and ends[1] == GoalEnd(True, "waited 1 s")
    assert time.monotonic() - began_s > 3.0


@pytest.mark.parametrize(
    "end", [{"do": "cancel"}, {"do": "e_stop", "engaged": True}], ids=lambda end: end["do"]
)
def test_a_long_wait_can_be_cancelled_and_delays_nothing_later(page: Page, end: dict[str, Any]) -> None:
    page.send(do="say", text="wait 600 seconds, then turn left")
    page.read("plan", running=True)
    page.send(**end)
    assert page.read("goal", state="failed")["instruction"] == "wait 600 seconds, then turn left"
    if end["do"] == "e_stop":
        page.release_e_stop()
    page.send(do="say", text="turn right 20 degrees")
    assert page.read("goal", state="done")["instruction"] == "turn right 20 degrees"


def test_statements_are_remembered_until_the_process_ends(robot: SimulatedRobot) -> None:
    ends: list[GoalEnd] = []
    robot.send_goal("remember that my keys hang by the door", ends.append)
    robot.send_goal("what do you know about my keys?", ends.append)
    wait_until(lambda: len(ends) == 2, "the answer", WAIT_S)
    assert ends[1].success and "by the door" in ends[1].message


class BrokenConsole:
    """Accepts all calls but an update whose `moving` is the given state, which raises an error."""

    def __init__(self, moving: bool) -> None:
        self._breaks_at = moving

    def update(self, **state: Any) -> None:
        if state.get("moving") is self._breaks_at:
            raise RuntimeError("broken")

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


@pytest.mark.parametrize("moving", [True, False], ids=["under way", "while it waits"])
def test_every_goal_fails_and_none_waits_for_ever_after_an_error_of_ours(moving: bool) -> None:
    folder, ends = models_folder(), list[GoalEnd]()
    world = SIMULATION.checked({"holds": "silver bottle", "seed": 1})
    with closing(SimulatedRobot(world, folder, vocabulary_of(str(folder / "draft")))) as robot:
        robot.show_on(cast(ConsoleServer, BrokenConsole(moving)))
        robot.send_goal("turn left", ends.append)
        robot.send_goal("turn right", ends.append)
        wait_until(lambda: len(ends) == 2, "both end", WAIT_S)
    assert ends == [GoalEnd(False, ENDED)] * 2


def test_an_error_of_any_kind_at_the_start_is_reported() -> None:
    world = {**SIMULATION.checked({"holds": "silver bottle"}), "seed": "none"}
    with pytest.raises(ValueError, match="seed"):
        SimulatedRobot(world, models_folder(), None)
