"""On a link that has just broken silently, no request of a person is lost without a notice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from support.broken_links import BreakingLink
from support.browsers import take_seat
from support.consoles import FakeRobot, wait_until

from outrider.console import hub
from outrider.console import messages as m
from outrider.console.server import ConsoleServer

UNANSWERED = "#answer.bad >> text=no answer"


@pytest.fixture
def link(server: ConsoleServer) -> Iterator[BreakingLink]:
    with closing(BreakingLink(server.port)) as made:
        yield made


@pytest.fixture
def page(browser: Any, link: BreakingLink) -> Iterator[Any]:
    """Yields a page in the driver's seat whose command is running."""
    opened = browser.new_page()
    opened.goto(f"http://127.0.0.1:{link.port}/")
    opened.wait_for_selector("#page-link.good")
    take_seat(opened)
    opened.fill("#words", "turn left")
    opened.press("#words", "Enter")
    opened.wait_for_selector("#answer.running")
    opened.wait_for_selector("#page-link >> text=ms")
    yield opened
    opened.close()


def test_a_cancel_that_is_not_answered_is_said_and_goes_out_by_a_connection_that_the_page_dials(
    page: Any, link: BreakingLink, robot: FakeRobot
) -> None:
    link.break_()
    page.click("#cancel")
    page.wait_for_selector(UNANSWERED)
    assert robot.cancels == 0
    wait_until(lambda: robot.cancels == 1, "the cancel", wait_s=20.0)
    page.wait_for_selector("#answer >> text=asked to stop")
    page.wait_for_selector("#page-link >> text=ms")
    link.end()
    page.wait_for_selector("#page-link.bad")
    page.wait_for_selector("#page-link >> text=ms")
    assert robot.cancels == 1, "it goes out until it is answered, and no more"


@pytest.mark.parametrize("said", ["stop", "turn right"])
@pytest.mark.parametrize("ends", [False, True], ids=["silent", "ends"])
def test_words_that_are_not_answered_are_kept_and_said(
    page: Any, link: BreakingLink, robot: FakeRobot, said: str, ends: bool
) -> None:
    link.break_()
    page.fill("#words", said)
    page.press("#words", "Enter")
    if ends:
        link.end()
    page.wait_for_selector(UNANSWERED)
    page.wait_for_selector("#page-link >> text=ms")
    assert page.input_value("#words") == said and page.is_visible(UNANSWERED)
    assert (len(robot.goals), robot.cancels) == (1, 0)


def test_a_console_without_room_takes_the_cancel_that_is_owed_and_once(
    page: Any, link: BreakingLink, robot: FakeRobot, monkeypatch: pytest.MonkeyPatch
) -> None:
    hellos: list[m.Hello] = []
    monkeypatch.setattr(hub.Hub, "has_room", lambda _, hello: hellos.append(hello))
    link.break_()
    page.click("#cancel")
    link.end()
    wait_until(lambda: robot.cancels == 1, "the cancel")
    page.wait_for_selector("#page-link >> text=no room")
    wait_until(lambda: len(hellos) > 2, "the page tries again and again")
    assert robot.cancels == 1


def test_a_release_that_is_not_answered_is_said_and_never_comes_late(
    page: Any, link: BreakingLink, robot: FakeRobot
) -> None:
    page.keyboard.press("Escape")
    page.wait_for_selector("#banner.bad")
    link.break_()
    page.click("#banner button")
    page.wait_for_selector(UNANSWERED)
    assert "stop is released" in page.inner_text("#answer")
    page.wait_for_selector("#page-link >> text=ms")
    page.wait_for_selector("#banner.bad")
    assert robot.e_stops == [True]
