"""The page shows only what is current, says when it has no news, and never loses typed text silently."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import pytest
from support.browsers import PHONE, take_seat
from support.consoles import FakeRobot, OpenPage, Page, wait_until

from outrider.console import messages as m
from outrider.console.hub import MAX_VIEWERS
from outrider.console.pages import STATIC
from outrider.console.robot import GoalEnd
from outrider.console.server import ConsoleServer, ConsoleSettings

SOCKETS = """window.sockets = [];
const Plain = WebSocket;
window.WebSocket = class extends Plain {
  constructor(address) {
    super(window.dead ? "ws://127.0.0.1:9/" : address);
    window.sockets.push(this);
  }
};"""


DRAWN = """() => {
window.drawn = [];
for (const name of ["fillText", "drawImage"]) {
  const plain = CanvasRenderingContext2D.prototype[name];
  CanvasRenderingContext2D.prototype[name] = function (what, ...at) {
    if (this.canvas.id === "camera") window.drawn.push(typeof what === "string" ? what : "");
    plain.call(this, what, ...at);
  };
}
}"""


@pytest.fixture
def page(browser: Any, server: ConsoleServer) -> Iterator[Any]:
    context = browser.new_context()
    opened = context.new_page()
    opened.add_init_script(SOCKETS)
    opened.goto(server.url)
    opened.wait_for_selector("#page-link.good")
    yield opened
    context.close()


def cut(page: Any) -> None:
    """Closes the page's connection, and prevents a new one until `mend`."""
    page.evaluate("window.dead = true; window.sockets.at(-1).close()")
    page.wait_for_selector("#page-link.bad")


def mend(page: Any) -> None:
    page.evaluate("window.dead = false")
    page.wait_for_selector("#page-link.good")


def test_without_a_connection_nothing_is_claimed_of_the_robot(page: Any, server: ConsoleServer) -> None:
    server.update(link="connected", stands=True)
    page.wait_for_selector("#robot-link.good")
    page.wait_for_selector("#motion >> text=standing")
    cut(page)
    server.update(moving=True, stands=False)
    said = page.inner_text("#motion"), page.inner_text("#robot-link"), page.inner_text("#driver")
    assert said == ("motion unknown", "robot link unknown", "driver unknown")
    assert page.is_hidden("#viewers") and page.is_disabled("#seat")
    mend(page)
    page.wait_for_selector("#motion.warn >> text=moving")
    page.wait_for_selector("#viewers >> text=1 viewer")
    server.update(moving=False)
    page.wait_for_selector("#motion >> text=motion unknown")


@pytest.mark.parametrize("ends", [True, False], ids=["has ended", "goes on"])
def test_after_a_break_the_page_shows_no_action_of_a_motion_that_has_ended(
    page: Any, server: ConsoleServer, ends: bool
) -> None:
    server.show(m.Text("s", 1, "finished", "turn left small\nok", "turn left small", 0.2, 50.0, 2.0))
    page.wait_for_selector("#action >> text=turn left small")
    cut(page)
    if ends:
        server.show(m.Motion("s", 1, "turn left small", "done", ""))
    mend(page)
    page.wait_for_selector("#texts .outcome.done" if ends else "#texts >> text=turn left small")
    assert page.is_hidden("#action") == ends


def test_after_a_break_no_box_of_before_is_drawn(page: Any, server: ConsoleServer) -> None:
    page.evaluate(DRAWN)
    picture = bytes(cv2.imencode(".jpg", np.full((48, 64, 3), 90, np.uint8))[1])
    server.show(m.Boxes(0, (m.Box("red chair", 0.1, 0.1, 0.2, 0.2),)))
    server.show_picture(picture)
    wait_until(lambda: "red chair" in str(page.evaluate("window.drawn")), "a box")
    cut(page)
    mend(page)
    page.evaluate("window.drawn = []")
    wait_until(
        lambda: server.show_picture(picture) or page.evaluate("window.drawn.includes('')"), "a picture"
    )
    assert "red chair" not in str(page.evaluate("window.drawn"))


@pytest.mark.parametrize("goes_on", [True, False], ids=["goes on", "ends meanwhile"])
def test_a_command_without_news_does_not_run_on_in_words(
    page: Any, server: ConsoleServer, robot: FakeRobot, goes_on: bool
) -> None:
    take_seat(page)
    page.fill("#words", "turn left")
    page.press("#words", "Enter")
    page.wait_for_selector("#answer.running >> text=turn left: running")
    cut(page)
    page.wait_for_selector("#answer.bad >> text=no news of it")
    if not goes_on:
        robot.goals[0][1](GoalEnd(False, "something stands there"))
    mend(page)
    said = ".running >> text=turn left: running" if goes_on else ".bad >> text=something stands there"
    page.wait_for_selector(f"#answer{said}")


def test_a_viewer_without_room_is_told_why(browser: Any, server: ConsoleServer, open_page: OpenPage) -> None:
    for _ in range(MAX_VIEWERS - 1):
        server._web.call(server._hub.join, m.Hello())
    other = open_page()
    page = browser.new_page()
    page.goto(server.url)
    page.wait_for_selector("#page-link.bad >> text=no room")
    page.wait_for_selector("#toasts >> text=too many viewers")
    other.socket.close()
    page.wait_for_selector("#page-link.good")
    page.close()


def test_a_page_that_is_closed_for_what_it_sent_says_why(page: Any) -> None:
    page.evaluate("window.sockets.at(-1).send('nonsense')")
    page.wait_for_selector("#toasts .error >> text=not a message")
    page.wait_for_selector("#page-link.good")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("find the \ud83d chair", "half of a sign"),
        ("y" * 401, "401 characters"),
        ("turn left", "not connected"),
    ],
    ids=["half", "long", "unconnected"],
)
def test_what_is_not_sent_stays_and_is_reported(page: Any, robot: FakeRobot, said: str, why: str) -> None:
    take_seat(page)
    if why == "not connected":
        cut(page)
    page.evaluate(f"document.getElementById('words').value = {said!a}")
    page.press("#words", "Enter")
    page.wait_for_selector(f"#answer.bad >> text={why}")
    kept = f"document.getElementById('words').value === {said!a}"
    assert page.evaluate(kept) and robot.goals == []
    page.fill("#words", "")
    page.press("#words", "ArrowUp")
    assert page.evaluate(kept), "and can be had again"


def test_the_page_takes_as_many_characters_as_the_console(page: Any, robot: FakeRobot) -> None:
    assert f'data-most="{m.MAX_COMMAND_CHARACTERS}"' in (STATIC / "index.html").read_text()
    take_seat(page)
    page.fill("#words", "\U0001f511" * m.MAX_COMMAND_CHARACTERS)
    page.press("#words", "Enter")
    wait_until(lambda: robot.goals, "the command")


def test_of_two_tabs_of_one_session_both_work(page: Any, robot: FakeRobot) -> None:
    take_seat(page)
    with page.context.expect_page() as opened:
        page.evaluate("window.open(location.href)")
    newer = opened.value
    newer.wait_for_selector("#driver >> text=you drive")
    page.wait_for_selector("#driver >> text=viewer 1 drives")
    page.wait_for_selector("#page-link.good")
    page.click("#cancel")
    wait_until(lambda: robot.cancels, "the cancel of the older tab")
    newer.wait_for_selector("#driver >> text=you drive")


def test_signs_that_turn_the_order_of_words_are_not_shown(
    page: Any, server: ConsoleServer, robot: FakeRobot
) -> None:
    agent = Page(server, agent="one")
    agent.send(do="say", text="turn left \u202e\u2067 90 degrees")
    page.wait_for_selector("#answer >> text=turn left")
    server.show(m.Plan(("turn \u202dleft",), 0, True))
    server.show(m.Text("s", 1, "finished", "turn \u202eleft", "turn \u202eleft", 0.2, 50.0, 2.0))
    server.show(m.Notice("warning", "\u2066so"))
    robot.goals[0][1](GoalEnd(False, "\u202bno"))
    page.wait_for_selector("#answer.bad")
    page.wait_for_selector("#texts .action-line")
    page.wait_for_selector("#toasts p")
    shown = page.evaluate("document.body.textContent")
    assert (
        "turn left" in shown and [c for c in shown if c in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067"] == []
    )
    agent.socket.close()


@pytest.mark.parametrize("height", [844, 480])
def test_a_long_word_to_take_the_seat_for_is_on_the_screen(
    browser: Any, server: ConsoleServer, height: int
) -> None:
    page = browser.new_page(**{**PHONE, "viewport": {"width": 320, "height": height}})
    page.goto(server.url)
    page.wait_for_selector("#page-link.good")
    page.fill("#words", "find the " + "W" * 380)
    page.press("#words", "Enter")
    page.wait_for_selector("#unseated:visible")
    box, stop = page.locator("#unseated").bounding_box(), page.locator("#e-stop").bounding_box()
    button = page.locator("#unseated button").bounding_box()
    assert box["y"] >= 0 and box["y"] + box["height"] <= stop["y"]
    assert button["x"] >= 0 and button["x"] + button["width"] <= 320
    wide = "e => e.scrollWidth <= e.clientWidth"
    assert page.eval_on_selector("#unseated button", wide) and page.eval_on_selector("#unseated", wide)
    page.close()


def test_fates_of_tokens_differ_by_more_than_their_colour(page: Any) -> None:
    looks = """all => all.map((one) => {
      const { textDecorationLine, textDecorationStyle, fontStyle } = getComputedStyle(one);
      return [textDecorationLine, textDecorationStyle, fontStyle].join();
    })"""
    assert len(set(page.eval_on_selector_all(".texts .legend i", looks))) == 4


def test_a_page_of_a_console_that_comes_back_says_that_its_command_has_ended(
    page: Any, server: ConsoleServer, robot: FakeRobot
) -> None:
    take_seat(page)
    page.fill("#words", "turn left")
    page.press("#words", "Enter")
    page.wait_for_selector("#answer.running")
    server.close()
    page.wait_for_selector("#answer.bad >> text=no news of it")
    again = ConsoleServer(robot, ConsoleSettings(port=server.port))
    try:
        page.wait_for_selector("#answer >> text=turn left: has ended")
    finally:
        again.close()
