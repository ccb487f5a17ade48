"""The driver's seat is taken only by an explicit request, and a stop never needs it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.browsers import PHONE, SEATED, has_released
from support.consoles import FakeRobot, OpenPage, wait_until

from outrider.console import messages as m
from outrider.console.drawing.pictures import sentence_to_go
from outrider.console.robot import GoalEnd
from outrider.console.seat import SILENCE_S
from outrider.console.server import ConsoleServer
from outrider.core.values import Velocity

SWITCHES = m.Switches("lan", 1.0, ("lan", "lte"), (1.0, 600.0), "outrider", ("ar", "outrider"))
SAY = {"do": "say", "text": "find the red chair"}
COMMANDS: list[dict[str, Any]] = [
    SAY,
    {"do": "go_to", "x": 1.0, "y": 0.5},
    {"do": "switch", "link": "lte"},
    {"do": "drive", "forward": 1.0, "left": 0.0, "turn": 0.0},
    {"do": "e_stop", "engaged": False},
]
STOPS: list[dict[str, Any]] = [
    {"do": "cancel"},
    {"do": "say", "text": "stop"},
    {"do": "say", "text": "halt, bitte"},
    {"do": "e_stop", "engaged": True},
]


def orders(robot: FakeRobot) -> list[Any]:
    """Returns all that has moved or changed something on the robot's side."""
    return [*robot.goals, *robot.drives, *robot.switches, *(e for e in robot.e_stops if not e)]


@pytest.mark.parametrize("asked", COMMANDS, ids=lambda asked: asked["do"])
@pytest.mark.parametrize("sitting", ["nobody", "agent"])
def test_what_is_asked_for_without_the_seat_is_not_done_and_takes_nothing(
    robot: FakeRobot, server: ConsoleServer, open_page: OpenPage, asked: dict[str, Any], sitting: str
) -> None:
    page = open_page()
    driver, goals = "", []
    if sitting == "agent":
        agent = open_page(agent="planner")
        agent.send(do="say", text="turn left")
        driver = page.read("state", driver=agent.name, driver_yields=True)["driver"]
        goals = list(robot.goals)
    server.show(SWITCHES)
    page.read("switches")
    beat = {"beat": page.read("state")["beat"]} if asked["do"] in ("drive", "e_stop") else {}
    page.send(**asked, **beat)
    request = page.read("unseated")["asked"]
    if asked["do"] == "go_to":
        assert request == {"do": "say", "text": sentence_to_go(1.0, 0.5)}
    else:
        assert {name: request[name] for name in asked} == asked
    beat_now = page.read("state")["beat"]
    assert page.read("state", beat=beat_now + 1)["driver"] == driver
    assert orders(robot) == goals and robot.cancels == 0
    page.seated().send(**request)
    if asked["do"] in ("say", "go_to"):
        wait_until(lambda: robot.cancels >= bool(goals), "an agent's command ends")
        for _, on_end in goals:
            on_end(GoalEnd(False, "cancelled"))
        wait_until(lambda: len(robot.goals) > len(goals), "the command")
    elif asked["do"] == "switch":
        wait_until(lambda: robot.switches, "the switch")


@pytest.mark.parametrize("asked", STOPS, ids=str)
def test_a_stop_needs_no_seat_and_takes_none(
    robot: FakeRobot, open_page: OpenPage, asked: dict[str, Any]
) -> None:
    page, driver = open_page(), open_page().seated()
    for who in (page, driver, open_page(agent="planner")):
        robot.cancels, robot.e_stops[:] = 0, []
        who.send(**asked)
        wait_until(lambda: robot.cancels or True in robot.e_stops, "the stop")
    state = driver.read("state", viewers=3)
    assert state["driver"] == driver.name


@pytest.mark.parametrize(
    ("agent", "said"), [("", "stop at the baby"), ("planner", "stop at the baby"), ("", "wait!")]
)
def test_what_begins_with_a_stop_is_one_for_whoever_may_not_drive(
    robot: FakeRobot, open_page: OpenPage, agent: str, said: str
) -> None:
    driver, other = open_page().seated(), open_page(agent=agent)
    driver.send(do="say", text="find the red chair")
    driver.read("goal", state="running")
    other.send(do="say", text=said)
    wait_until(lambda: robot.cancels, "the stop")
    assert driver.read("state", viewers=2)["driver"] == driver.name


def test_an_agent_that_waits_ends_no_command_of_a_person(robot: FakeRobot, open_page: OpenPage) -> None:
    driver, agent = open_page().seated(), open_page(agent="planner")
    driver.send(do="say", text="find the red chair")
    driver.read("goal", state="running")
    agent.send(do="say", text="wait 10 seconds")
    agent.read("notice", level="warning")
    assert robot.cancels == 0


def test_a_switch_that_was_not_done_is_shown_as_it_was(server: ConsoleServer, open_page: OpenPage) -> None:
    page, driver = open_page(), open_page()
    server.show(SWITCHES)
    page.read("switches")
    page.send(do="switch", link="lte")
    assert page.read("switches")["link"] == "lan"
    driver.seated()
    page.send(do="switch", link="lte")
    assert page.read("switches")["link"] == "lan"


def test_a_person_keeps_the_seat_from_a_person_and_from_an_agent(
    robot: FakeRobot, open_page: OpenPage
) -> None:
    page, agent = open_page().seated(), open_page(agent="planner")
    assert page.read("state")["driver_yields"] is False
    for other, asked in ((open_page(), {"do": "take"}), (agent, {"do": "say", "text": "turn left"})):
        other.send(**asked)
        assert page.name in other.read("notice", level="warning")["text"]
    assert robot.goals == []


@pytest.fixture(params=[{}, PHONE], ids=["desktop", "phone"])
def page(browser: Any, server: ConsoleServer, request: pytest.FixtureRequest) -> Iterator[Any]:
    opened = browser.new_page(**request.param)
    opened.goto(server.url)
    opened.wait_for_selector("#page-link.good")
    yield opened
    opened.close()


def press(page: Any, selector: str) -> None:
    """Taps on a touch screen, and clicks otherwise."""
    if page.evaluate("matchMedia('(pointer: coarse)').matches"):
        page.tap(selector)
    else:
        page.click(selector)


def test_one_press_takes_the_seat_and_sends_the_command(page: Any, robot: FakeRobot) -> None:
    page.fill("#words", "find the red chair")
    page.press("#words", "Enter")
    page.wait_for_selector("#unseated button >> text=Take the seat: find the red chair")
    assert robot.goals == [] and page.inner_text("#driver") == "nobody drives"
    press(page, "#unseated button")
    wait_until(lambda: robot.goals, "the command")
    assert robot.goals[0][0] == "find the red chair"
    page.wait_for_selector(SEATED)
    page.wait_for_selector("#unseated", state="hidden")
    page.fill("#words", "find the blue cup")
    page.press("#words", "Enter")
    wait_until(lambda: robot.cancels, "the next needs no press")


def test_on_a_keyboard_enter_is_the_press_and_the_next_words_can_be_typed(
    browser: Any, server: ConsoleServer, robot: FakeRobot
) -> None:
    page = browser.new_page()
    page.goto(server.url)
    page.wait_for_selector("#page-link.good")
    page.fill("#words", "find the red chair")
    page.keyboard.down("Enter")
    page.wait_for_selector("#unseated button:focus")
    page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    assert robot.goals == [] and page.is_visible("#unseated"), "a key that is held is no second press"
    page.keyboard.press("Enter")
    wait_until(lambda: robot.goals, "the command")
    page.wait_for_selector("#words:focus")
    page.close()


def test_a_held_key_without_the_seat_drives_nothing_until_it_is_held_again(
    page: Any, robot: FakeRobot
) -> None:
    page.focus("#pad")
    page.keyboard.down("w")
    page.wait_for_selector("#unseated button")
    page.keyboard.up("w")
    press(page, "#unseated button")
    page.wait_for_selector(SEATED)
    assert robot.drives == []
    page.keyboard.down("w")
    wait_until(lambda: Velocity(0.5, 0.0, 0.0) in robot.drives, "a hand")
    page.keyboard.up("w")


def test_a_release_without_the_seat_is_one_press_too(page: Any, robot: FakeRobot) -> None:
    press(page, "#e-stop")
    page.wait_for_selector("body.stopped")
    press(page, "#banner button")
    page.wait_for_selector("#unseated button >> text=release the stop")
    assert False not in robot.e_stops
    press(page, "#unseated button")
    has_released(page)
    assert robot.e_stops[-1] is False


def test_the_button_covers_no_stop(page: Any, robot: FakeRobot) -> None:
    page.fill("#words", "find the red chair")
    page.press("#words", "Enter")
    page.wait_for_selector("#unseated button")
    press(page, "#e-stop")
    wait_until(lambda: True in robot.e_stops, "the stop")


def test_a_person_takes_an_agents_seat_at_the_page(page: Any, robot: FakeRobot, open_page: OpenPage) -> None:
    agent, other = open_page(agent="planner"), open_page()
    agent.send(do="say", text="turn left")
    page.wait_for_selector(f"#driver >> text={agent.name} drives")
    page.fill("#words", "find the red chair")
    page.press("#words", "Enter")
    page.wait_for_selector("#unseated >> text=gives the seat to a person")
    assert robot.cancels == 0
    press(page, "#seat")
    page.wait_for_selector(SEATED)
    wait_until(lambda: robot.cancels, "the agent's command ends")
    press(page, "#seat")
    other.seated()
    page.wait_for_selector("#seat:disabled")


class HeldUpRobot(FakeRobot):
    """Blocks the console that drives it, like a machine that swaps, until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = threading.Event()

    def drive(self, velocity: Velocity) -> None:
        super().drive(velocity)
        self.may_go_on.wait()


@pytest.mark.lengthy
@pytest.mark.parametrize("robot", [HeldUpRobot()])
def test_what_a_driver_said_before_a_console_was_held_up_moves_nothing_after(
    robot: HeldUpRobot, open_page: OpenPage
) -> None:
    page = open_page().seated()
    page.drive(forward=1.0)
    wait_until(lambda: robot.drives, "a hand")
    held_s = time.monotonic()
    page.send(**SAY)
    wait_until(lambda: time.monotonic() - held_s > SILENCE_S, "longer than silence may last")
    robot.may_go_on.set()
    assert page.read("unseated")["asked"]["text"] == SAY["text"]
    assert not robot.goals
