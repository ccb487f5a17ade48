"""The console through a relay, with real sockets and keys; the robot records each command."""

from __future__ import annotations

import asyncio
import errno
import json
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.asyncio
from support.consoles import Page, wait_until
from support.relays import DialledRobot, Relays, drive_ahead, make_relays
from websockets.exceptions import ConnectionClosed

from outrider.console.agents.address import ConsoleAddress
from outrider.console.agents.link import ConsoleLink
from outrider.console.app import AWAY, UNREADABLE
from outrider.console.relay import frames as f
from outrider.console.robot import GoalEnd
from outrider.core.values import LinkState, Velocity
from outrider.wire.tunnel import RobotTunnel

STILL, AHEAD = Velocity(), Velocity(0.5, 0.0, 0.0)
JPEG = bytes(range(256)) * 100


def test_a_page_at_the_relay_does_what_a_page_of_the_robot_does(relayed: tuple[Relays, DialledRobot]) -> None:
    relays, dialled = relayed
    page = relays.page()
    drive_ahead(page, dialled)
    wait_until(lambda: dialled.robot.drives[-1] == STILL, "the hand is off when the page says no more")
    dialled.console.show_picture(JPEG)
    assert page.read_picture() == (1, JPEG)
    page.send(do="say", text="find the red chair")
    wait_until(lambda: dialled.robot.goals, "the command")
    dialled.robot.goals[0][1](GoalEnd(True, "stands before it"))
    assert page.read("goal", state="done")["message"] == "stands before it"
    page.send(do="e_stop", engaged=True)
    wait_until(lambda: dialled.robot.e_stops == [True, True], "the stop by both connections")
    page.release_e_stop()
    wait_until(lambda: dialled.robot.e_stops[-1:] == [False], "the release")


def test_an_agent_speaks_to_a_robot_at_a_relay(relayed: tuple[Relays, DialledRobot]) -> None:
    relays, dialled = relayed
    address = ConsoleAddress(f"http://127.0.0.1:{relays.port}/robots/go2/")

    async def speak() -> str:
        link = ConsoleLink(address, "mcp")
        await link.open()
        ended = await link.say("turn left")
        dialled.robot.goals[0][1](GoalEnd(True, "turned"))
        said = (await ended).message
        await link.close()
        return said

    assert asyncio.run(speak()) == "turned" and dialled.robot.drives == []
    address.e_stop()
    assert dialled.robot.e_stops and all(dialled.robot.e_stops)


def test_pages_of_robot_and_relay_share_one_seat_and_pictures_cross_once(
    relayed: tuple[Relays, DialledRobot],
) -> None:
    relays, dialled = relayed
    here, there, third = Page(dialled.console).seated(), relays.page(), relays.page()
    there.send(do="say", text="find the red chair")
    assert here.name in there.read("notice")["text"] and dialled.robot.goals == []
    dialled.console.show_picture(JPEG)
    assert here.read_picture() == there.read_picture() == third.read_picture() == (1, JPEG)
    there.send(do="cancel")
    wait_until(lambda: dialled.robot.cancels, "everybody may cancel")


def test_pictures_go_on_as_long_as_the_page_takes_them(relayed: tuple[Relays, DialledRobot]) -> None:
    relays, dialled = relayed
    page = relays.page()
    for number in range(1, 3 * f.WINDOW):
        dialled.console.show_picture(JPEG + bytes([number]))
        got, picture = page.read_picture()
        assert picture[:-1] == JPEG
        page.send(do="seen", picture=got)


def test_a_driver_whose_relay_dies_is_a_driver_who_is_gone(tmp_path: Path) -> None:
    relays = make_relays(tmp_path)
    with relays.serving() as server, relays.robot() as dialled:
        page = relays.page()
        drive_ahead(page, dialled)
        secret = page.welcome["secret"]
        server.close()
        wait_until(lambda: dialled.robot.drives[-1] == STILL, "the hand is off")
        wait_until(lambda: dialled.console.num_viewers == 0, "its viewers are gone")
        wait_until(lambda: dialled.end.state is not LinkState.CONNECTED, "the robot notices")
        with relays.serving():
            wait_until(lambda: dialled.end.state is LinkState.CONNECTED, "the robot is back")
            assert relays.page(resume=secret).name == page.name


def test_a_robot_that_is_started_again_is_found_again(tmp_path: Path) -> None:
    relays = make_relays(tmp_path)
    with relays.serving():
        with relays.robot():
            page = relays.page()
        assert page.closed() == AWAY
        with pytest.raises(ConnectionClosed) as ended:
            relays.page()
        assert ended.value.rcvd is not None and ended.value.rcvd.code == AWAY
        with relays.robot() as again:
            drive_ahead(relays.page(), again)


def test_a_robot_without_a_socket_to_spare_dials_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relays, made = make_relays(tmp_path), RobotTunnel._made
    failures = iter([zmq.ZMQError(errno.EMFILE)])

    def made_later(self: RobotTunnel, *given: Any) -> zmq.asyncio.Socket:
        for error in failures:
            raise error
        return made(self, *given)

    monkeypatch.setattr(RobotTunnel, "_made", made_later)
    with relays.serving(), relays.robot():
        assert relays.page().name


def test_what_no_page_says_ends_the_page_at_the_relay(relayed: tuple[Relays, DialledRobot]) -> None:
    relays, dialled = relayed
    for content in ("{", '{"do": "fly"}', json.dumps({"do": "say", "text": "x" * 3000}), b"\x80\x04N."):
        page = relays.page()
        page.socket.send(content)
        assert page.closed() in (UNREADABLE, 1009)
    wait_until(lambda: dialled.console.num_viewers == 0, "the robot is told that they are gone")


@pytest.mark.parametrize("said", [{"do": "ü" * 300}, {"do": "say", "text": 5, "é" * 300: 1}, {"漢" * 300: 1}])
@pytest.mark.parametrize("is_relayed", [False, True])
def test_what_no_page_says_is_named_in_any_letters(
    relayed: tuple[Relays, DialledRobot], caplog: pytest.LogCaptureFixture, said: object, is_relayed: bool
) -> None:
    relays, dialled = relayed
    page = relays.page() if is_relayed else Page(dialled.console)
    page.socket.send(json.dumps(said, ensure_ascii=False))
    assert page.closed() == UNREADABLE
    assert not any(record.exc_info for record in caplog.records)
