"""Keys act on the focused part of the page: the pad drives, and on pictures they point."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import pytest
from support.browsers import SEATED, take_seat
from support.consoles import FakeRobot, wait_until

from outrider.console import messages as m
from outrider.console.server import ConsoleServer
from outrider.console.switching.switches import Switch
from outrider.core.sensors.camera import SIM_CAMERA
from outrider.core.values import Pose2D, Velocity

STILL, AHEAD = Velocity(), Velocity(0.5, 0.0, 0.0)
SWITCHES = m.Switches("lan", 1.0, ("lan", "lte", "satellite"), (1.0, 600.0), "ar", ("ar", "outrider", "sd"))
OUTSIDE = """() => {
  const all = [document.body, ...document.querySelectorAll("button, input, select, summary, [tabindex]")];
  window.outside = all.filter((one) => !one.closest("#pad") && one.checkVisibility() && !one.disabled);
  return window.outside.length;
}"""


@pytest.fixture
def page(browser: Any, server: ConsoleServer) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": 900, "height": 500})
    opened.goto(server.url)
    opened.wait_for_selector("#page-link.good")
    server.show(SWITCHES)
    opened.wait_for_selector("#switches:visible")
    yield opened
    opened.close()


def has_driven(page: Any, robot: FakeRobot) -> bool:
    """Returns whether the robot was driven by hand, once the page's earlier messages have arrived."""
    cancels = robot.cancels
    page.dispatch_event("#cancel", "click")
    wait_until(lambda: robot.cancels > cancels, "the messages before")
    return any(velocity != STILL for velocity in robot.drives)


def test_no_key_drives_but_on_the_pad(page: Any, robot: FakeRobot) -> None:
    take_seat(page)
    page.evaluate("document.querySelector('#past').hidden = false")
    page.evaluate("document.querySelector('#past').open = true")
    number = page.evaluate(OUTSIDE)
    assert number > 20
    for one in range(number):
        page.evaluate(f"document.activeElement.blur(); window.outside[{one}].focus()")
        for key in ("w", "s", "q", "ArrowDown", "ArrowUp"):
            page.keyboard.press(key)
    assert not has_driven(page, robot)


def test_a_list_is_chosen_from_by_keys(page: Any, robot: FakeRobot) -> None:
    take_seat(page)
    page.focus("#strategy")
    page.keyboard.press("ArrowDown")
    page.focus("#link")
    page.keyboard.press("s")
    wait_until(lambda: len(robot.switches) == 2, "the switches")
    assert [asked for asked, _ in robot.switches] == [Switch(strategy="outrider"), Switch(link="satellite")]
    assert not has_driven(page, robot)


def test_arrows_scroll_the_page_and_ask_for_no_seat(page: Any, robot: FakeRobot) -> None:
    page.keyboard.press("ArrowDown")
    wait_until(lambda: page.evaluate("window.scrollY > 0"), "the page scrolls")
    assert not has_driven(page, robot) and page.is_hidden("#unseated")


@pytest.mark.parametrize("key", ["Space", "Enter"])
@pytest.mark.parametrize("end", ["release", "blur"])
def test_a_button_of_the_pad_is_held_by_a_key(page: Any, robot: FakeRobot, key: str, end: str) -> None:
    take_seat(page)
    page.focus("[data-drive='forward,1']")
    page.keyboard.down(key)
    wait_until(lambda: AHEAD in robot.drives, "a hand")
    page.keyboard.up(key) if end == "release" else page.focus("#words")
    wait_until(lambda: robot.drives[-1] == STILL, "a stop")
    page.wait_for_selector("[data-drive]:not(.held)")


def test_a_key_held_when_the_focus_leaves_the_pad_is_let_go(page: Any, robot: FakeRobot) -> None:
    take_seat(page)
    page.wait_for_selector("#pad:focus")
    page.keyboard.down("w")
    wait_until(lambda: AHEAD in robot.drives, "a hand")
    page.focus("#words")
    wait_until(lambda: robot.drives[-1] == STILL, "a stop")
    page.keyboard.up("w")


@pytest.mark.parametrize("modifier", ["Control", "Alt", "Meta"])
def test_a_shortcut_of_the_browser_drives_nothing(page: Any, robot: FakeRobot, modifier: str) -> None:
    take_seat(page)
    for selector, key in (("#pad", "d"), ("[data-drive='forward,1']", "Enter")):
        page.focus(selector)
        page.keyboard.press(f"{modifier}+{key}")
    assert not has_driven(page, robot)


def test_a_press_of_the_pad_gives_it_the_keys(page: Any, robot: FakeRobot) -> None:
    take_seat(page)
    page.wait_for_selector(SEATED)
    page.focus("#words")
    page.click("[data-drive='turn,1']")
    wait_until(lambda: robot.drives and robot.drives[-1] == STILL, "a stop")
    page.keyboard.down("w")
    wait_until(lambda: AHEAD in robot.drives, "a hand")
    page.keyboard.up("w")


def test_the_map_and_the_picture_are_pointed_at_by_keys(
    page: Any, server: ConsoleServer, robot: FakeRobot
) -> None:
    server.set_camera_model(SIM_CAMERA)
    server.show_pose(Pose2D(0.0, 0.0, 0.0))
    take_seat(page)
    picture = bytes(cv2.imencode(".jpg", np.full((90, 160, 3), 90, np.uint8))[1])
    wait_until(lambda: server.show_picture(picture) or page.is_hidden("#camera-empty"), "a picture")
    page.focus("#map")
    page.keyboard.press("Enter")
    for key in ("ArrowUp", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    wait_until(lambda: robot.goals, "the command")
    number = float(robot.goals[0][0].split()[-2]), float(robot.goals[0][0].split()[-1])
    assert number[0] > 0 and number[1] > 0, "ahead, to the left"
    page.focus("#camera")
    for key in (*["ArrowDown"] * 9, "Enter"):
        page.keyboard.press(key)
    wait_until(lambda: robot.cancels, "the next command")
    assert len(robot.goals) == 1 and not any(v != STILL for v in robot.drives)
