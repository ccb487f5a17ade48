"""Which viewers may move the robot through the console, and what stops it, over real websockets."""

from __future__ import annotations

import pytest
from support.consoles import FakeRobot, OpenPage, wait_until

from outrider.console import messages as m
from outrider.console.commands import TEXT_OF_ANOTHER
from outrider.console.event_history import MAX_COMMANDS
from outrider.console.limits import ConsoleLimits
from outrider.console.robot import GoalEnd
from outrider.console.seat import Seat
from outrider.console.server import ConsoleServer
from outrider.core.values import Velocity

STILL = Velocity()


def test_held_keys_are_fractions_of_the_limits_and_left_is_left(
    robot: FakeRobot, open_page: OpenPage
) -> None:
    open_page().seated().drive(forward=1.0, left=-0.5, turn=0.25)
    wait_until(lambda: robot.drives, "a velocity")
    assert robot.drives[0] == Velocity(0.5, -0.1, 0.25)


def test_a_hand_that_falls_silent_is_taken_off(robot: FakeRobot, open_page: OpenPage) -> None:
    open_page().seated().drive(forward=1.0)
    wait_until(lambda: robot.drives[1:], "a stop")
    assert robot.drives == [Velocity(0.5, 0.0, 0.0), STILL]


@pytest.mark.lengthy
def test_a_browser_that_vanishes_stops_the_robot_and_frees_the_seat(
    robot: FakeRobot, open_page: OpenPage
) -> None:
    driver, watcher = open_page().seated(), open_page()
    driver.drive(forward=1.0)
    wait_until(lambda: robot.drives, "a hand")
    driver.vanish()
    wait_until(lambda: robot.drives[-1:] == [STILL], "a stop")
    watcher.read("state", viewers=1)
    watcher.read("state", driver="")
    watcher.seated().drive(turn=1.0)
    wait_until(lambda: Velocity(0.0, 0.0, 1.0) in robot.drives, "the other's hand")


def test_a_hand_taken_off_is_an_order_to_stand(robot: FakeRobot, open_page: OpenPage) -> None:
    page = open_page().seated()
    page.drive(forward=1.0)
    page.drive()
    wait_until(lambda: robot.drives[-1:] == [STILL], "a stop")


def test_a_second_driver_gets_the_name_of_the_driver(robot: FakeRobot, open_page: OpenPage) -> None:
    first, second = open_page().seated(), open_page()
    second.drive(forward=1.0)
    assert first.name in second.read("notice", level="warning")["text"]
    second.send(do="say", text="find the red chair")
    second.send(do="leave")
    first.send(do="leave")
    second.read("state", driver="")
    second.seated()
    assert robot.drives == [] and robot.goals == []


@pytest.mark.parametrize("behind", [-100, 100])
def test_nobody_drives_blind(robot: FakeRobot, open_page: OpenPage, behind: int) -> None:
    page = open_page().seated()
    page.send(do="drive", forward=1.0, left=0.0, turn=0.0, beat=max(0, page.beat - behind))
    assert "too slow" in page.read("notice", level="warning")["text"]
    assert robot.drives == []


def test_the_emergency_stop_is_anybodys(robot: FakeRobot, open_page: OpenPage) -> None:
    driver, watcher = open_page().seated(), open_page()
    driver.drive(forward=1.0)
    wait_until(lambda: robot.drives, "a hand")
    watcher.send(do="e_stop", engaged=True)
    driver.read("state", e_stop=True)
    assert robot.e_stops == [True]
    moves = len(robot.drives)
    driver.drive(forward=1.0)
    assert "emergency stop" in driver.read("notice", level="warning")["text"]
    assert len(robot.drives) == moves


def test_only_the_driver_releases_the_emergency_stop(robot: FakeRobot, open_page: OpenPage) -> None:
    driver, watcher = open_page().seated(), open_page()
    watcher.send(do="e_stop", engaged=True)
    watcher.send(do="e_stop", engaged=False)
    assert driver.name in watcher.read("notice", level="warning")["text"]
    driver.release_e_stop()
    watcher.read("state", e_stop=False)
    assert robot.e_stops == [True, False]


@pytest.mark.lengthy
@pytest.mark.parametrize("beat", ["none", "old", "of a stop before"])
def test_a_release_that_was_not_meant_for_this_stop_is_refused(
    robot: FakeRobot, open_page: OpenPage, beat: str
) -> None:
    driver, watcher = open_page().seated(), open_page()
    driver.send(do="e_stop", engaged=True)
    old = driver.read("state", e_stop=True)["beat"]
    if beat == "old":
        wait_until(lambda: driver.read("state")["beat"] > old + 8, "news")
    elif beat == "of a stop before":
        watcher.send(do="e_stop", engaged=True)
        wait_until(lambda: len(robot.e_stops) == 2, "the other stop")
        old = driver.beat
    driver.send(do="e_stop", engaged=False, beat=0 if beat == "none" else old)
    assert "release again" in driver.read("notice", level="warning")["text"]
    assert False not in robot.e_stops
    driver.release_e_stop()
    watcher.read("state", e_stop=False)


def test_an_emergency_stop_ends_commands(robot: FakeRobot, open_page: OpenPage) -> None:
    page = open_page().seated()
    page.send(do="say", text="find the red chair")
    page.send(do="say", text="find the blue cup")
    wait_until(lambda: robot.cancels == 1, "a cancel")
    page.send(do="e_stop", engaged=True)
    wait_until(lambda: robot.cancels == 2, "another cancel")
    robot.goals[0][1](GoalEnd(False, "cancelled"))
    page.release_e_stop()
    page.read("state", e_stop=False, goal="")
    assert [words for words, _ in robot.goals] == ["find the red chair"]


def test_an_emergency_stop_that_nobody_hears_is_said(robot: FakeRobot, open_page: OpenPage) -> None:
    robot.hears = False
    page = open_page().seated()
    page.send(do="e_stop", engaged=True)
    page.read("state", e_stop=True, unheard=True)
    page.release_e_stop()
    page.read("state", e_stop=False, unheard=False)


def test_the_result_of_a_command_is_sent_to_its_sender(robot: FakeRobot, open_page: OpenPage) -> None:
    asker, watcher = open_page().seated(), open_page()
    asker.send(do="say", text="where are my keys?")
    assert watcher.read("goal", state="running")["instruction"] == TEXT_OF_ANOTHER
    _, on_end = robot.goals[0]
    on_end(GoalEnd(True, "they hang by the door"))
    assert asker.read("goal", state="done")["message"] == "they hang by the door"
    assert watcher.read("goal", state="done")["message"] == ""


def test_past_commands_are_sent_to_later_viewers_and_their_reasons_to_their_senders(
    robot: FakeRobot, server: ConsoleServer, open_page: OpenPage
) -> None:
    page = open_page().seated()
    for number, (text, end) in enumerate(
        [
            ("find the red chair", GoalEnd(False, "no chair is in sight")),
            ("remember that the safe opens by 1234", GoalEnd(True, "remembered")),
        ]
    ):
        page.send(do="say", text=text)
        page.read("goal", state="running", instruction=text)
        server.show(m.Plan(("step in words",), 0, running=number == 0))
        robot.goals[number][1](end)
        page.read("goal", instruction=text, message=end.message)
    again = open_page(resume=page.welcome["secret"]).welcome["ended"]
    assert [one["instruction"] for one in again] == [said for said, _ in robot.goals], "the oldest first"
    assert [one["state"] for one in again] == ["failed", "done"]
    assert [one["message"] for one in again] == ["no chair is in sight", "remembered"]
    others = open_page().welcome["ended"]
    assert [one["instruction"] for one in others] == ["step in words", ""]
    assert [one["message"] for one in others] == ["", ""]


def test_of_past_commands_the_newest_are_kept(robot: FakeRobot, open_page: OpenPage) -> None:
    page, number = open_page().seated(), MAX_COMMANDS + 2
    for index in range(number):
        page.send(do="say", text=f"turn left {index + 1} degrees")
        wait_until(lambda least=index: len(robot.goals) > least, "a command")
        robot.goals[index][1](GoalEnd(True, ""))
        page.read("goal", state="done", instruction=f"turn left {index + 1} degrees")
    ended = open_page(resume=page.welcome["secret"]).welcome["ended"]
    assert len(ended) == MAX_COMMANDS and ended[-1]["instruction"] == f"turn left {number} degrees"


def test_a_cancel_says_that_the_robot_stands_only_once_that_is_seen(
    robot: FakeRobot, server: ConsoleServer, open_page: OpenPage
) -> None:
    page, watcher = open_page().seated(), open_page()
    server.update(moving=True, stands=False)
    page.send(do="say", text="turn left")
    wait_until(lambda: robot.goals, "a command")
    watcher.send(do="cancel")
    assert page.read("halt")["stands"] is False
    server.update(moving=False, stands=True)
    before = page.read("state", stands=True)
    assert before["goal"] == "turn left", "it may still begin another motion"
    server.update(moving=True, stands=False)
    robot.goals[0][1](GoalEnd(False, "cancelled"))
    beat = page.read("state", goal="")["beat"]
    news = page.read_all("state", beat=beat + 3)
    server.update(moving=False, stands=True)
    news += page.read_all("halt")
    assert [one["stands"] for one in news if one["is"] == "halt"] == [True], "only once it is seen"
    assert watcher.read("halt", stands=True)


def test_a_new_command_takes_the_place_of_the_running_one(robot: FakeRobot, open_page: OpenPage) -> None:
    page = open_page().seated()
    page.send(do="say", text="find the red chair")
    page.send(do="say", text="find the blue cup")
    wait_until(lambda: robot.cancels, "a cancel")
    robot.goals[0][1](GoalEnd(False, "cancelled"))
    wait_until(lambda: len(robot.goals) == 2, "the next command")
    assert robot.goals[1][0] == "find the blue cup"
    robot.goals[0][1](GoalEnd(False, "said twice"))
    assert page.read("state", goal="find the blue cup")


@pytest.mark.parametrize("limits", [ConsoleLimits(cancel_s=0.05)])
def test_a_navigator_that_does_not_end_a_command_keeps_no_other_from_running(
    robot: FakeRobot, open_page: OpenPage
) -> None:
    page = open_page().seated()
    page.send(do="say", text="find the red chair")
    page.send(do="say", text="find the blue cup")
    assert "has gone" in page.read("goal", state="failed")["message"]
    page.read("goal", state="running", instruction="find the blue cup")
    robot.goals[0][1](GoalEnd(True, "at last"))
    page.send(do="cancel")
    assert page.read("goal", state="failed")["instruction"] == "find the blue cup"
    page.read("state", goal="")


@pytest.mark.parametrize(
    "message",
    [
        {"do": "cancel"},
        {"do": "say", "text": "Stop!"},
        {"do": "say", "text": "stpo"},
        {"do": "say", "text": "arrête-toi, vite"},
    ],
)
def test_anybody_may_cancel(robot: FakeRobot, open_page: OpenPage, message: dict[str, str]) -> None:
    driver, watcher = open_page().seated(), open_page()
    driver.send(do="say", text="find the red chair")
    wait_until(lambda: robot.goals, "a command")
    watcher.send(**message)
    wait_until(lambda: robot.cancels, "a cancel")


def test_a_page_that_comes_back_is_who_it_was(robot: FakeRobot, open_page: OpenPage) -> None:
    page = open_page().seated()
    page.send(do="say", text="where are my keys?")
    wait_until(lambda: robot.goals, "a command")
    page.vanish()
    again = open_page(resume=page.welcome["secret"])
    assert again.name == page.name and again.welcome["secret"] == page.welcome["secret"]
    robot.goals[0][1](GoalEnd(True, "by the door"))
    assert again.read("goal", state="done")["message"] == "by the door"


def test_a_page_opened_twice_lives_once(open_page: OpenPage) -> None:
    page = open_page()
    open_page(resume=page.welcome["secret"])
    assert page.closed() == 4001


def test_a_driver_who_gives_no_sign_of_life_loses_the_seat() -> None:
    seat = Seat(silence_s=3.0)
    assert seat.take("a", 0.0) and not seat.take("b", 1.0)
    seat.on_message("a", 2.0)
    seat.on_message("b", 4.0)
    assert not seat.check(5.0) and seat.driver == "a"
    assert seat.check(5.1) and seat.driver == ""
    assert seat.take("b", 5.2) and not seat.leave("a") and seat.leave("b")


def test_who_gives_way_gives_it_to_one_who_does_not() -> None:
    seat = Seat()
    assert seat.take("agent", 0.0, yields=True) and seat.yields
    assert not seat.take("other agent", 0.1, yields=True)
    assert seat.take("person", 0.2) and not seat.yields
    assert not seat.take("agent", 0.3, yields=True) and seat.driver == "person"


def test_what_ends_after_the_console_has_ended_is_no_error_of_the_robot(
    server: ConsoleServer, robot: FakeRobot, open_page: OpenPage
) -> None:
    open_page().seated().send(do="say", text="turn left")
    wait_until(lambda: robot.goals, "the command")
    server.close()
    robot.goals[0][1](GoalEnd(True, "turned left"))
