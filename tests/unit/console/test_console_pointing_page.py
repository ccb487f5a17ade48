"""Pointing at the map and at the picture in headless Chromium, and the boxes on the picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import pytest
from support.browsers import PHONE, take_seat
from support.consoles import FakeRobot, wait_until

from outrider.console import messages as m
from outrider.console.robot import GoalEnd
from outrider.console.server import ConsoleServer
from outrider.core.language.plan import Go
from outrider.core.language.sentences.planner import plan_of
from outrider.core.sensors.camera import SIM_CAMERA, CameraView
from outrider.core.values import Pose2D

HERE = Pose2D(0.0, 0.0, 0.0)
DRAWN = """window.drawn = [];
const fillText = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
  if (this.canvas.id === "camera") window.drawn.push(text);
  fillText.call(this, text, ...at);
};"""


IS_DARK = """() => {
  const canvas = document.getElementById("camera"), at = [canvas.width / 2, canvas.height / 2];
  return canvas.getContext("2d").getImageData(...at, 1, 1).data[0] < 45;
}"""


@pytest.fixture(params=[{}, PHONE], ids=["desktop", "phone"])
def page(browser: Any, server: ConsoleServer, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Yields the page of a robot at the origin that sees a red chair three metres ahead."""
    opened = browser.new_page(**request.param)
    opened.add_init_script(DRAWN)
    opened.goto(server.url)
    opened.wait_for_selector("#page-link.good")
    server.set_camera_model(SIM_CAMERA)
    server.show_pose(HERE)
    take_seat(opened)
    server.show(m.Sights((m.Thing("red chair", 3.0, 0.0),)))
    picture = np.full((SIM_CAMERA.height, SIM_CAMERA.width, 3), 90, np.uint8)
    server.show_picture(bytes(cv2.imencode(".jpg", picture)[1]))
    wait_until(lambda: opened.evaluate("window.drawn.length"), "a box")
    yield opened
    opened.close()


def point(page: Any, canvas: str, across: float, down: float) -> None:
    """Clicks or taps at a position in a canvas, given as shares of its width and height."""
    element = page.locator(canvas)
    element.scroll_into_view_if_needed()
    box = element.bounding_box()
    element.click(position={"x": box["width"] * across, "y": box["height"] * down})


def go_of(robot: FakeRobot, number: int) -> Go:
    """Returns the point that a command names."""
    sentence = wait_until(lambda: len(robot.goals) >= number and robot.goals[number - 1][0], "the command")
    (step,) = plan_of(sentence, None).steps
    assert isinstance(step, Go)
    return step


def test_a_named_thing_has_a_box_that_says_it_is_an_estimate(page: Any, server: ConsoleServer) -> None:
    assert page.evaluate("window.drawn.at(-1)") == "red chair (estimate)"
    server.show(m.Sights())
    server.show_picture(bytes(cv2.imencode(".jpg", np.zeros((28, 50, 3), np.uint8))[1]))
    wait_until(lambda: page.evaluate(IS_DARK), "the picture of nothing")
    page.evaluate("window.drawn = []")
    page.evaluate("window.dispatchEvent(new Event('resize'))")
    wait_until(lambda: page.evaluate("document.getElementById('camera').classList.contains('old')"), "age")
    assert page.evaluate("window.drawn") == []


def test_a_click_on_the_map_goes_there_and_left_is_left(page: Any, robot: FakeRobot) -> None:
    point(page, "#map", 0.5, 0.5)
    middle = go_of(robot, 1)
    assert (middle.x, middle.y) == pytest.approx((0.0, 0.0), abs=0.05)
    robot.goals[0][1](GoalEnd(False, "something stands there"))
    page.wait_for_selector("#answer.bad")
    assert "something stands there" in page.inner_text("#answer")
    point(page, "#map", 0.4, 0.3)
    ahead_left = go_of(robot, 2)
    assert ahead_left.x > 0.2 and ahead_left.y > 0.05


def test_a_click_on_the_floor_of_the_picture_goes_there(page: Any, robot: FakeRobot) -> None:
    point(page, "#camera", 0.2, 0.9)
    step = go_of(robot, 1)
    seen = CameraView(SIM_CAMERA, HERE).share_of(step.x, step.y, 0.0)
    assert seen is not None and seen[:2] == pytest.approx((0.2, 0.9), abs=0.02)


def test_a_click_on_a_thing_looks_for_it(page: Any, robot: FakeRobot) -> None:
    point(page, "#camera", 0.5, 0.55)
    wait_until(lambda: robot.goals, "the command")
    assert robot.goals[0][0] == "find the red chair"


def test_a_click_above_the_floor_says_why_nothing_moves(page: Any, robot: FakeRobot) -> None:
    point(page, "#camera", 0.1, 0.1)
    page.wait_for_selector("#toasts .warning")
    assert robot.goals == [] and robot.drives == []


def test_a_point_of_a_map_without_the_robot_is_refused_in_words(
    browser: Any, server: ConsoleServer, robot: FakeRobot
) -> None:
    opened = browser.new_page()
    opened.goto(server.url)
    opened.wait_for_selector("#page-link.good")
    take_seat(opened)
    point(opened, "#map", 0.4, 0.4)
    opened.wait_for_selector("#answer.bad >> text=not known yet")
    assert robot.goals == []
    opened.close()
