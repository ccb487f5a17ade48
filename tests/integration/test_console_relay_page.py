"""A person uses a relay in headless Chromium: logs in, chooses the robot, drives it, stops it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browsers import PHONE, open_browser, take_seat
from support.consoles import wait_until
from support.relays import make_relays, relay_and_robot

from outrider.core.values import Velocity


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as opened:
        yield opened


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop", "phone"])
def test_a_person_logs_in_chooses_a_robot_drives_and_stops(
    browser: Any, tmp_path: Path, options: dict[str, Any]
) -> None:
    token = tmp_path / "relay.token"
    relays = make_relays(tmp_path, ("go2", "other"), login=True, token_file=str(token))
    with relays.serving() as server, relays.robot() as dialled:
        page = browser.new_page(**options)
        page.goto(server.url)
        page.fill("#token", token.read_text().strip())
        page.keyboard.press("Enter")
        page.wait_for_selector("li:has-text('other') .bad")
        page.click("li:has(.good) a")
        page.wait_for_selector("#page-link.good")
        take_seat(page)
        dialled.console.show_picture(b"no picture")
        page.keyboard.down("w")
        wait_until(lambda: Velocity(0.5, 0.0, 0.0) in dialled.robot.drives, "a hand")
        page.keyboard.up("w")
        wait_until(lambda: dialled.robot.drives[-1] == Velocity(), "a stop")
        page.click("#e-stop")
        page.wait_for_selector(".banner.bad >> text=nothing moves")
        assert True in dialled.robot.e_stops
        page.close()


def test_a_robot_that_does_not_answer_behind_a_relay_that_does_is_told_apart(
    browser: Any, tmp_path: Path
) -> None:
    """The page's socket is open and fresh; still the page reports the missing stop, and sends it again."""
    with relay_and_robot(tmp_path) as (relays, dialled):
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{relays.port}/robots/go2/")
        page.wait_for_selector("#page-link.good")
        answers = threading.Event()
        dialled.console._web.call(answers.wait, 20.0)
        page.keyboard.press("Escape")
        page.wait_for_selector(".banner.bad >> text=does not reach")
        answers.set()
        wait_until(lambda: dialled.robot.e_stops, "the stop")
        page.wait_for_selector(".banner.bad >> text=nothing moves")
        page.close()


def test_a_page_says_that_its_robot_is_away_and_comes_back_with_it(browser: Any, tmp_path: Path) -> None:
    relays = make_relays(tmp_path)
    with relays.serving():
        with relays.robot():
            page = browser.new_page()
            page.goto(f"http://127.0.0.1:{relays.port}/robots/go2/")
            page.wait_for_selector("#page-link.good")
        page.wait_for_selector("#page-link:has-text('robot not connected')")
        with relays.robot():
            page.wait_for_selector("#page-link.good")
        page.close()


def test_the_button_stops_behind_a_relay_without_a_script(browser: Any, tmp_path: Path) -> None:
    with relay_and_robot(tmp_path) as (relays, dialled):
        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{relays.port}/robots/go2/")
        page.click("#e-stop")
        wait_until(lambda: dialled.robot.e_stops, "the stop")
        page.wait_for_selector("text=emergency stop engaged")
        context.close()


def test_the_list_claims_nothing_once_the_relay_has_gone(browser: Any, tmp_path: Path) -> None:
    relays = make_relays(tmp_path)
    page = browser.new_page()
    with relays.serving() as server, relays.robot():
        page.goto(server.url)
        page.wait_for_selector("li .good >> text=connected")
    page.wait_for_selector("li .warn >> text=not known")
    page.wait_for_selector("#asking:visible >> text=cannot be reached")
    with relays.serving(), relays.robot():
        page.wait_for_selector("li .good >> text=connected")
        page.wait_for_selector("#asking", state="hidden")
    page.close()


def test_a_relay_that_hangs_is_told_from_one_that_answers(browser: Any, tmp_path: Path) -> None:
    relays = make_relays(tmp_path)
    with relays.serving() as server, relays.robot():
        page = browser.new_page()
        page.goto(server.url)
        page.wait_for_selector("li .good")
        page.route("**/robots", lambda route: None)
        page.wait_for_selector("li .warn >> text=not known")
        page.close()


def test_the_list_of_a_session_that_has_ended_leads_to_the_login(browser: Any, tmp_path: Path) -> None:
    token = tmp_path / "relay.token"
    relays = make_relays(tmp_path, login=True, token_file=str(token))
    with relays.serving() as server, relays.robot():
        context = browser.new_context()
        page = context.new_page()
        page.goto(server.url)
        page.fill("#token", token.read_text().strip())
        page.keyboard.press("Enter")
        page.wait_for_selector("li .good")
        context.clear_cookies()
        page.wait_for_selector("#token")
        context.close()
