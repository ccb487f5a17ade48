"""The driver switches the emulated link and the strategy: what is offered, requested and refused."""

from __future__ import annotations

from typing import Any

import pytest
from support.browsers import PHONE, take_seat
from support.consoles import FakeRobot, OpenPage, Page, wait_until

from outrider.console import messages as m
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.console.switching.switches import NO_STRATEGY, NOT_EMULATED, Switch

LAN = m.Switches("lan", 1.0, ("lan", "lte", "satellite"), (1.0, 600.0), "outrider", ("ar", "outrider"))
REAL = m.Switches(strategy="outrider", strategies=("ar", "outrider"))


def told(server: ConsoleServer, page: Page, switches: m.Switches) -> None:
    server.show(switches)
    page.read("switches", strategy=switches.strategy)


@pytest.mark.parametrize(
    "asked",
    [{"link": "satellite"}, {"rtt_ms": 600.0}, {"link": "lte", "rtt_ms": 1.0}, {"strategy": "ar"}],
)
def test_a_driver_switches_and_all_viewers_get_what_is_in_force(
    robot: FakeRobot, server: ConsoleServer, open_page: OpenPage, asked: dict[str, Any]
) -> None:
    page = open_page().seated()
    told(server, page, LAN)
    page.send(do="switch", **asked)
    wait_until(lambda: robot.switches, "the request")
    assert robot.switches[0][0] == Switch(**asked)
    assert open_page().welcome["switches"]["link"] == "lan", "until the robot's side tells another"
    robot.switches[0][1]("the verifier cannot")
    assert page.read("notice", level="warning")["text"] == "the verifier cannot"
    assert page.read("switches")["link"] == "lan", "the page shows again what is in force"


@pytest.mark.parametrize(
    ("offered", "asked", "reason"),
    [
        (LAN, {"link": "telegraph"}, 'no link "telegraph": choose one of lan, lte, satellite'),
        (LAN, {"rtt_ms": 601.0}, "between 1 and 600 ms: 601 ms does not"),
        (LAN, {"link": "lte", "rtt_ms": 0.5}, "between 1 and 600 ms"),
        (LAN, {"strategy": "magic"}, 'no strategy "magic": choose one of ar, outrider'),
        (REAL, {"link": "lan"}, NOT_EMULATED),
        (REAL, {"rtt_ms": 30.0}, NOT_EMULATED),
        (m.Switches(), {"strategy": "ar"}, NO_STRATEGY),
    ],
)
def test_what_cannot_be_switched_to_is_refused_by_name(
    robot: FakeRobot,
    server: ConsoleServer,
    open_page: OpenPage,
    offered: m.Switches,
    asked: dict[str, Any],
    reason: str,
) -> None:
    page = open_page().seated()
    told(server, page, offered)
    page.send(do="switch", **asked)
    assert reason in page.read("notice", level="warning")["text"]
    assert robot.switches == []


def test_who_does_not_drive_and_an_agent_switch_nothing(
    robot: FakeRobot, server: ConsoleServer, open_page: OpenPage
) -> None:
    watcher, agent = open_page(), open_page(agent="mcp")
    open_page().seated()
    told(server, watcher, LAN)
    watcher.send(do="switch", link="lte")
    assert "has the driver's seat" in watcher.read("notice", level="warning")["text"]
    agent.send(do="switch", link="lte")
    assert "an agent" in agent.read("notice", level="warning")["text"]
    assert robot.switches == []


def test_who_switched_what_is_noted(robot: FakeRobot) -> None:
    noted: list[tuple[str, ...]] = []
    server = ConsoleServer(
        robot,
        ConsoleSettings(port=0),
        lambda who, did, what="", said="": noted.append((who, did, what)),
    )
    try:
        page = Page(server).seated()
        told(server, page, LAN)
        page.send(do="switch", link="lte", rtt_ms=30.0, strategy="ar")
        wait_until(lambda: robot.switches, "the request")
        assert (page.name, "switch", "link lte 30 ms ar") in noted
        page.send(do="switch", link="telegraph")
        page.read("notice")
        assert noted[-1][:2] == (page.name, "refused") and "telegraph" in noted[-1][2]
        page.socket.close()
    finally:
        server.close()


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop", "phone"])
def test_the_page_offers_what_can_be_switched_and_shows_what_is_in_force(
    browser: Any, server: ConsoleServer, robot: FakeRobot, options: dict[str, Any]
) -> None:
    page = browser.new_page(**options)
    page.goto(server.url)
    page.wait_for_selector("#page-link.good")
    take_seat(page)
    assert not page.is_visible("#switches")
    server.show(REAL)
    page.wait_for_selector("#strategy:visible")
    assert not page.is_visible("#link") and not page.is_visible("#round-trip-ms"), "on a real robot"
    server.show(LAN)
    page.wait_for_selector("#link:visible")
    assert page.eval_on_selector_all("#link option", "all => all.map(one => one.value)") == list(LAN.links)
    page.select_option("#link", "satellite")
    page.focus("#round-trip-ms")
    page.keyboard.press("End")
    page.select_option("#strategy", "ar")
    wait_until(lambda: len(robot.switches) == 3, "the requests")
    assert [asked for asked, _ in robot.switches] == [
        Switch(link="satellite"),
        Switch(rtt_ms=600.0),
        Switch(strategy="ar"),
    ]
    robot.switches[-1][1]("no draft model was loaded")
    page.wait_for_selector("#toasts >> text=no draft model was loaded")
    wait_until(lambda: page.input_value("#strategy") == "outrider", "what was refused is not in force")
    server.show(m.Switches("own", 24.5, ("lan",), (1.0, 600.0), "ar", ("ar", "outrider")))
    page.wait_for_selector("#round-trip-value >> text=24.5 ms")
    assert page.input_value("#link") == "own" and page.input_value("#strategy") == "ar"
    assert 49 <= float(page.input_value("#round-trip-ms")) <= 51, "half way in the logarithm"
    page.reload()
    page.wait_for_selector("#link:visible")
    assert page.input_value("#link") == "own"
    page.close()
