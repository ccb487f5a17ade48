"""The page in headless Chromium, with a robot that records its commands."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browsers import PHONE, release_stop, take_seat
from support.consoles import FakeRobot, wait_until

from outrider.console import messages as m
from outrider.console.robot import GoalEnd
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.core.values import Pose2D, Velocity

STILL = Velocity()


@pytest.fixture(params=[{}, PHONE], ids=["desktop", "phone"])
def page(browser: Any, server: ConsoleServer, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Yields the page, connected and in the driver's seat. The test fails on an error in its script."""
    errors: list[str] = []
    opened = browser.new_page(**request.param)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.goto(server.url)
    opened.wait_for_selector("#page-link.good")
    take_seat(opened)
    yield opened
    opened.close()
    assert errors == []


def jpeg() -> bytes:
    import cv2
    import numpy as np

    return bytes(cv2.imencode(".jpg", np.full((90, 160, 3), 200, np.uint8))[1])


def test_a_plan_is_shown_with_its_step_and_a_misspelt_order_waits_for_a_yes(
    page: Any, server: ConsoleServer, robot: FakeRobot
) -> None:
    steps = ("find the red ball", "turn left 90 degrees")
    server.show(m.Plan(steps, 1, True))
    page.wait_for_selector("#plan .now")
    assert page.inner_text("#plan .done") == steps[0] and page.inner_text("#plan .now") == steps[1]
    server.show(m.Plan(steps, 1, False))
    page.wait_for_selector("#plan .failed")
    page.fill("#words", "fnd the red ball")
    page.press("#words", "Enter")
    wait_until(lambda: robot.goals, "the command")
    robot.goals[0][1](GoalEnd(False, 'that is no instruction: did you mean "find the red ball"?'))
    page.click("#meant")
    wait_until(lambda: robot.goals[-1][0] == "find the red ball", "the command that was meant")


def test_a_held_key_drives_and_a_released_one_stops(page: Any, robot: FakeRobot) -> None:
    page.keyboard.down("w")
    wait_until(lambda: len(robot.drives) > 3, "velocities")
    # On a busy machine the browser may pause for longer than a command is valid.
    assert set(robot.drives) - {STILL} == {Velocity(0.5, 0.0, 0.0)}
    page.keyboard.up("w")
    wait_until(lambda: robot.drives[-1] == STILL, "a stop")
    assert page.inner_text("#driver") == "you drive"


def test_a_held_button_drives_and_left_is_left(page: Any, robot: FakeRobot) -> None:
    page.hover("[data-drive='turn,1']")
    page.mouse.down()
    wait_until(lambda: robot.drives, "a velocity")
    assert robot.drives[0] == Velocity(0.0, 0.0, 1.0)
    page.mouse.up()
    wait_until(lambda: robot.drives[-1] == STILL, "a stop")


def test_a_page_that_loses_the_keyboard_takes_the_hand_off(page: Any, robot: FakeRobot) -> None:
    page.keyboard.down("w")
    wait_until(lambda: robot.drives, "a velocity")
    page.evaluate("window.dispatchEvent(new Event('blur'))")
    wait_until(lambda: robot.drives[-1] == STILL, "a stop")


def test_a_browser_that_dies_stops_the_robot(browser: Any, server: ConsoleServer, robot: FakeRobot) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.url)
    page.wait_for_selector("#page-link.good")
    take_seat(page)
    page.keyboard.down("w")
    wait_until(lambda: robot.drives, "a velocity")
    context.close()
    wait_until(lambda: robot.drives[-1] == STILL, "a stop")


@pytest.mark.parametrize(
    "event",
    [
        "new KeyboardEvent('keydown', {metaKey: true, bubbles: true})",
        "new Event('contextmenu', {bubbles: true})",
    ],
)
def test_what_hides_a_release_takes_the_hand_off(page: Any, robot: FakeRobot, event: str) -> None:
    page.keyboard.down("w")
    wait_until(lambda: robot.drives, "a velocity")
    page.evaluate(f"document.body.dispatchEvent({event})")
    wait_until(lambda: robot.drives[-1] == STILL, "a stop")


def test_a_stop_that_does_not_get_through_is_said_and_said_again(
    page: Any, server: ConsoleServer, robot: FakeRobot
) -> None:
    server.close()
    page.wait_for_selector("#page-link.bad")
    page.keyboard.press("Escape")
    page.wait_for_selector(".banner.bad >> text=does not reach")
    again = ConsoleServer(robot, ConsoleSettings(port=server.port))
    try:
        wait_until(lambda: robot.e_stops, "the stop")
        page.wait_for_selector(".banner.bad >> text=nothing moves")
    finally:
        again.close()


def test_a_cancel_that_does_not_get_through_is_said_and_goes_out_by_the_next_connection(
    page: Any, server: ConsoleServer, robot: FakeRobot
) -> None:
    server.close()
    page.wait_for_selector("#page-link.bad")
    page.click("#cancel")
    page.wait_for_selector(".answer.bad >> text=cancelled once the connection is back")
    again = ConsoleServer(robot, ConsoleSettings(port=server.port))
    try:
        page.wait_for_selector("#page-link.good")
        wait_until(lambda: robot.cancels == 1, "the cancel")
        page.wait_for_selector(".answer >> text=asked to stop")
    finally:
        again.close()


def test_typing_does_not_drive(page: Any, robot: FakeRobot) -> None:
    page.click("#words")
    page.keyboard.type("was")
    assert page.input_value("#words") == "was" and robot.drives == []


def test_the_emergency_stop_is_one_click_and_one_key(page: Any, robot: FakeRobot) -> None:
    page.click("#e-stop")
    page.wait_for_selector(".banner.bad")
    assert True in robot.e_stops and "nothing moves" in page.inner_text("#banner")
    release_stop(page)
    assert robot.e_stops[-1] is False
    page.keyboard.press("Escape")
    page.wait_for_selector("body.stopped")


def test_a_command_its_text_and_its_end(page: Any, server: ConsoleServer, robot: FakeRobot) -> None:
    page.fill("#words", "find the red chair")
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer.running")
    server.show(m.Tokens("s", 1, 0, ("turn", " right", " left", " small\n", "ok"), "arwad"))
    server.show(m.Text("s", 1, "decoding", "turn left small\n", "turn left small", 0.2, 0.0, 0.0))
    page.wait_for_selector("#action:visible")
    assert page.inner_text("#action").strip() == "turn left small"
    kinds = page.eval_on_selector_all("#texts .token", "all => all.map(e => e.className.slice(6))")
    assert kinds == ["a", "w", "a", "r", "d"]
    assert page.inner_text("#texts .action-line").strip() == "turn left small"
    assert page.inner_text("#texts .rejected-line").strip() == "right", "in a line of its own"
    server.show(m.Text("s", 1, "finished", "turn left small\nok", "turn left small", 0.2, 50.0, 2.0))
    robot.goals[0][1](GoalEnd(True, "stands before it"))
    page.wait_for_selector("#answer.good")
    assert "stands before it" in page.inner_text("#answer")
    page.focus("#words")
    page.keyboard.press("ArrowUp")
    assert page.input_value("#words") == "find the red chair"


def test_past_commands_survive_a_reload_and_a_cancel_says_what_is_seen(
    page: Any, server: ConsoleServer, robot: FakeRobot
) -> None:
    ends = [GoalEnd(False, "no chair is in sight"), GoalEnd(False, "cancelled")]
    for number, (said, end) in enumerate(zip(("find the red chair", "turn left"), ends, strict=True)):
        page.fill("#words", said)
        page.press("#words", "Enter")
        wait_until(lambda least=number: len(robot.goals) > least, "the command")
        if end is ends[-1]:
            page.click("#cancel")
            page.wait_for_selector("#answer >> text=asked to stop")
        robot.goals[number][1](end)
        page.wait_for_selector(f"#answer.bad >> text={end.message}")
    server.update(stands=True)
    page.wait_for_selector("#answer.good >> text=the robot stands")
    for _ in range(2):
        page.click("#past summary")
        past = [one.inner_text() for one in page.query_selector_all("#history li")]
        assert past == ["turn left: failed (cancelled)", "find the red chair: failed (no chair is in sight)"]
        page.reload()
        page.wait_for_selector("#page-link.good")


def test_the_camera_and_the_map_are_drawn(page: Any, server: ConsoleServer) -> None:
    wait_until(lambda: server.show_picture(jpeg()) or page.is_hidden("#camera-empty"), "a picture")
    page.wait_for_selector("#camera.old")
    assert "no new picture" in page.inner_text("#camera-empty")
    for x in range(5):
        server.show_pose(Pose2D(float(x), 0.0, 0.0))
    drawn = "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v > 0)"
    wait_until(lambda: page.evaluate(f"({drawn})(document.getElementById('map'))"), "a map")


def test_no_part_of_the_page_covers_another(page: Any, server: ConsoleServer) -> None:
    """A plan pushes down what is below it."""
    server.show(m.Plan(("find the red ball", "turn left 90 degrees", "come back"), 1, True))
    page.wait_for_selector("#plan .now")
    boxes = [card.bounding_box() for card in page.query_selector_all("main .card")]
    assert len(boxes) > 5
    for a, b in itertools.combinations(boxes, 2):
        across = min(a["x"] + a["width"], b["x"] + b["width"]) - max(a["x"], b["x"])
        down = min(a["y"] + a["height"], b["y"] + b["height"]) - max(a["y"], b["y"])
        assert min(across, down) <= 1, (a, b)


def test_why_a_motion_ended_early_is_said(page: Any, server: ConsoleServer) -> None:
    server.show(m.Text("s", 1, "finished", "move forward large\nok", "move forward large", 0.2, 50.0, 2.0))
    server.show(m.Motion("s", 1, "move forward large", "blocked", "something stands 0.4 m ahead"))
    page.wait_for_selector("#texts .outcome.blocked")
    assert "something stands 0.4 m ahead" in page.inner_text("#texts .head")


def test_the_page_comes_back_by_itself(page: Any, server: ConsoleServer, robot: FakeRobot) -> None:
    server.close()
    page.wait_for_selector("#page-link.bad")
    again = ConsoleServer(robot, ConsoleSettings(port=server.port))
    try:
        page.wait_for_selector("#page-link.good")
        take_seat(page)
        page.keyboard.down("d")
        wait_until(lambda: robot.drives and robot.drives[-1] == Velocity(0.0, 0.0, -1.0), "a hand")
    finally:
        again.close()


def test_a_login_is_asked_for_once(browser: Any, robot: FakeRobot, tmp_path: Path) -> None:
    path = tmp_path / "token"
    server = ConsoleServer(robot, ConsoleSettings(port=0, login=True, token_file=str(path)))
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(server.url)
        page.fill("#token", "not the token")
        page.keyboard.press("Enter")
        page.wait_for_selector("#wrong:visible")
        page.fill("#token", path.read_text().strip())
        page.keyboard.press("Enter")
        page.wait_for_selector("#page-link.good")
        page.reload()
        page.wait_for_selector("#page-link.good")
        assert page.evaluate("document.cookie") == ""
    finally:
        context.close()
        server.close()


def test_on_a_phone_it_fits_and_the_stop_is_in_reach(
    browser: Any, server: ConsoleServer, robot: FakeRobot
) -> None:
    context = browser.new_context(**PHONE)
    page = context.new_page()
    page.goto(server.url)
    page.wait_for_selector("#page-link.good")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("#words").bounding_box()["width"] > 300, "a command can be read as it is typed"
    for position in (0, 10_000):
        page.evaluate(f"window.scrollTo(0, {position})")
        box = page.locator("#e-stop").bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 844 and box["width"] > 300
    page.tap("#e-stop")
    page.wait_for_selector("body.stopped")
    assert True in robot.e_stops
    context.close()
