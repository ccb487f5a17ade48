"""axe finds no accessibility fault on any page of the console, on a desktop and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.browsers import PHONE, open_browser
from support.consoles import FakeRobot, wait_until
from support.relays import make_relays

from outrider.console import messages as m
from outrider.console.robot import GoalEnd
from outrider.console.server import ConsoleServer, ConsoleSettings

DEVICES = pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop", "phone"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    pytest.importorskip("axe_playwright_python")
    with open_browser() as opened:
        yield opened


@pytest.fixture
def robot() -> FakeRobot:
    return FakeRobot()


@pytest.fixture
def server(robot: FakeRobot) -> Iterator[ConsoleServer]:
    made = ConsoleServer(robot, ConsoleSettings(port=0))
    yield made
    made.close()


def faults(page: Any) -> str:
    """Returns axe's violations, best practices included: one line for each element that breaks a rule."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return "\n".join(f"{one['id']}: {node['html']}" for one in found for node in one["nodes"])


@DEVICES
def test_the_console_has_no_fault(
    browser: Any, robot: FakeRobot, server: ConsoleServer, options: dict[str, Any]
) -> None:
    page = browser.new_page(**options)
    page.goto(server.url)
    page.wait_for_selector("#page-link.good")
    assert faults(page) == ""
    page.fill("#words", "come back")
    page.press("#words", "Enter")
    page.wait_for_selector("#unseated:visible")
    assert faults(page) == ""
    page.click("#unseated button")
    page.wait_for_selector("#answer.running")
    robot.goals[-1][1](GoalEnd(True, ""))
    for said in ("find the red ball", "turn left"):
        page.fill("#words", said)
        page.press("#words", "Enter")
        wait_until(lambda said=said: robot.goals[-1][0] == said, "the command")
        robot.goals[-1][1](GoalEnd(said == "turn left", "no ball is in sight"))
        page.wait_for_selector(f"#history >> text={said}", state="attached")
    page.click("#past summary")
    server.show(m.Switches("lte", 55.0, ("lan", "lte"), (1.0, 600.0), "outrider", ("ar", "outrider")))
    page.wait_for_selector("#switches:visible")
    server.show(m.Plan(("find the red ball", "turn left 90 degrees", "come back"), 1, True))
    server.show(m.Tokens("s", 1, 0, ("turn", " right", " left", " small\n", "ok", " then"), "arwadd"))
    server.show(m.Text("s", 1, "decoding", "turn left small\n", "turn left small", 0.2, 0.0, 0.0))
    server.show(m.Text("s", 0, "finished", "stop\nhere", "stop", 0.2, 50.0, 2.0))
    server.show(m.Round(4, 3, 4, 0.1, 0.05))
    server.show(m.Notice("warning", "somebody has the driver's seat"))
    server.update(e_stop=True, warning="odometry is silent", link="lost")
    page.wait_for_selector(".banner.bad")
    page.wait_for_selector("#texts .token")
    assert faults(page) == ""
    page.close()


@DEVICES
def test_the_login_and_the_list_of_robots(browser: Any, tmp_path: Path, options: dict[str, Any]) -> None:
    token = tmp_path / "relay.token"
    relays = make_relays(tmp_path, ("go2-a", "go2-b"), login=True, token_file=str(token))
    with ExitStack() as stack:
        server = stack.enter_context(relays.serving())
        stack.enter_context(relays.robot("go2-a"))
        page = browser.new_page(**options)
        page.goto(server.url)
        page.fill("#token", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("#wrong:visible")
        assert faults(page) == ""
        page.fill("#token", token.read_text().strip())
        page.keyboard.press("Enter")
        page.wait_for_selector("li .good")
        assert faults(page) == ""
        page.close()
