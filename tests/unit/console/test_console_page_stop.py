"""The red button works as soon as it is visible, even if the rest of the page has not loaded or failed."""

from __future__ import annotations

from typing import Any

import pytest
from support.browsers import PHONE
from support.consoles import FakeRobot, wait_until

from outrider.console.pages import STATIC
from outrider.console.server import ConsoleServer

BLOCKED = """for (const name of ["localStorage", "sessionStorage"])
  Object.defineProperty(window, name, { get() { throw new DOMException("denied", "SecurityError"); } });"""
FULL = 'Storage.prototype.setItem = () => { throw new DOMException("full", "QuotaExceededError"); };'
BROKEN = ["null", "{", "[1", "[1, null, {}]", '"text"', "\\u0000"]
WITHOUT = {"no history": BLOCKED, "full": FULL} | {
    f"history {kept}": f"localStorage.setItem('outrider.history', {kept!r})" for kept in BROKEN
}
NEEDED = ["main.js", "link.js", "words.js", "charts.js", "storage.js", "en.json"]


def stops(robot: FakeRobot, page: Any) -> None:
    """Stops by the button and by the Escape key, and checks each."""
    for press in (lambda: page.click("#e-stop"), lambda: page.keyboard.press("Escape")):
        robot.e_stops.clear()
        press()
        wait_until(lambda: True in robot.e_stops, "the stop")


@pytest.mark.parametrize("script", WITHOUT.values(), ids=WITHOUT)
def test_a_page_works_with_storage_that_does_not(
    browser: Any, server: ConsoleServer, robot: FakeRobot, script: str
) -> None:
    page, errors = browser.new_page(), list[str]()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.add_init_script(script)
    page.goto(server.url)
    page.wait_for_selector("#page-link.good")
    page.fill("#words", "turn left")
    page.press("#words", "Enter")
    page.wait_for_selector("#unseated button:focus")
    assert page.input_value("#words") == "" and page.is_hidden("#unstarted")
    page.focus("#words")
    page.keyboard.press("ArrowUp")
    assert page.input_value("#words") == "turn left"
    stops(robot, page)
    assert errors == []
    page.close()


@pytest.mark.parametrize("name", NEEDED)
def test_a_page_that_lacks_a_file_stops_and_says_that_it_has_not_started(
    browser: Any, server: ConsoleServer, robot: FakeRobot, name: str
) -> None:
    assert (STATIC / name).is_file()
    page = browser.new_page()
    page.route(f"**/{name}", lambda route: route.abort())
    page.goto(server.url)
    assert page.inner_text("#e-stop") == "STOP"
    stops(robot, page)
    page.wait_for_selector("#stop-heard:visible >> text=has engaged")
    page.wait_for_selector("#unstarted:visible >> text=has not started")
    page.close()


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop", "phone"])
def test_a_page_whose_script_fails_stops_says_so_and_says_when_no_stop_arrives(
    browser: Any, server: ConsoleServer, robot: FakeRobot, options: dict[str, Any]
) -> None:
    page = browser.new_page(**options)
    page.add_init_script("window.ResizeObserver = undefined;")
    page.goto(server.url)
    stops(robot, page)
    page.wait_for_selector("#unstarted:visible")
    server.close()
    page.click("#e-stop")
    page.wait_for_selector("#stop-unsent:visible >> text=does not reach")
    assert page.is_hidden("#stop-heard")
    page.close()


def test_the_button_stops_before_any_script_has_come(
    browser: Any, server: ConsoleServer, robot: FakeRobot
) -> None:
    page = browser.new_page()
    page.route("**/*.js*", lambda route: None)
    page.goto(server.url, wait_until="commit")
    page.click("#e-stop", no_wait_after=True)
    wait_until(lambda: True in robot.e_stops, "the stop")
    page.wait_for_selector("text=emergency stop engaged")
    page.close()


def test_the_button_stops_while_all_but_its_own_script_is_on_its_way(
    browser: Any, server: ConsoleServer, robot: FakeRobot
) -> None:
    page = browser.new_page()
    page.route("**/*.js*", lambda route: route.continue_() if "stop.js" in route.request.url else None)
    page.goto(server.url, wait_until="commit")
    wait_until(lambda: page.evaluate("Boolean(window.outrider?.engage)"), "its script")
    stops(robot, page)
    page.close()


def test_without_scripts_a_page_stops_and_claims_nothing(
    browser: Any, server: ConsoleServer, robot: FakeRobot
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(server.url)
    assert page.inner_text("#motion") == "motion unknown" and page.inner_text("#driver") == "driver unknown"
    assert page.is_hidden("#viewers")
    page.wait_for_selector("#unstarted:visible")
    page.click("#e-stop")
    wait_until(lambda: True in robot.e_stops, "the stop")
    context.close()


def test_a_page_that_starts_says_nothing_of_it(browser: Any, server: ConsoleServer, robot: FakeRobot) -> None:
    page = browser.new_page()
    page.goto(server.url)
    page.wait_for_selector("#page-link.good")
    page.wait_for_selector("#unstarted", state="hidden")
    page.click("#e-stop")
    page.wait_for_selector("#banner.bad >> text=nothing moves")
    assert page.is_hidden("#stop-heard") and page.is_hidden("#stop-unsent")
    page.close()
