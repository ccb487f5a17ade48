"""Stops and floods at a relay: the robot itself confirms each stop, and no flood delays one."""

from __future__ import annotations

import asyncio
import json
import resource
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.consoles import Page, wait_until
from support.relays import DialledRobot, Relays, drive_ahead, lone_link, make_relays
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from outrider.console.app import UNREADABLE
from outrider.console.relay import frames as f
from outrider.runtime.common.descriptors import MAX_FILES, have_descriptors


def test_a_page_that_floods_is_ended_and_delays_nobody_s_stop(relayed: tuple[Relays, DialledRobot]) -> None:
    relays, dialled = relayed
    loud, other = relays.page(), relays.page()
    with suppress(ConnectionClosed):
        for number in range(500):  # over the limit per second; more would delay the close
            loud.socket.send(json.dumps({"do": "ping", "sent_ms": number}))
    other.send(do="e_stop", engaged=True)
    other.read("state", e_stop=True)
    assert loud.closed() == UNREADABLE and dialled.robot.e_stops


def test_a_robot_that_floods_its_link_costs_no_other_robot_anything(tmp_path: Path) -> None:
    relays = make_relays(tmp_path, ("go2-a", "go2-b"))

    async def flood() -> None:
        link = relays.tunnel("go2-a")
        for number in range(3000):
            link.send(bytes([number % 256]) * (1 + number % 5000))
            link.send(f.pack(f.ConsoleMessage(number, "x")))
            await asyncio.sleep(0)
        link.close()

    with relays.serving(), relays.robot("go2-b") as dialled:
        page = relays.page("go2-b")
        asyncio.run(flood())
        drive_ahead(page, dialled)
        assert relays.e_stop("go2-b")[0] == 200


def test_a_robot_that_is_there_but_does_not_answer_is_told_apart(tmp_path: Path) -> None:
    """As with a robot process that a debugger has stopped: heartbeats alone confirm no stop."""
    relays = make_relays(tmp_path)

    async def answer() -> tuple[int, str]:
        async with lone_link(relays):
            return await asyncio.to_thread(relays.e_stop)

    with relays.serving():
        status, text = asyncio.run(answer())
    assert status == 503 and "does not reach the robot" in text


def test_a_stop_arrives_while_nothing_else_does(tmp_path: Path) -> None:
    """Unread messages of a page fill the robot's link; the stop uses a connection of its own."""
    relays = make_relays(tmp_path)

    async def stop_of_a_full_link() -> f.ToRobot:
        async with lone_link(relays) as link:
            page = await asyncio.to_thread(_open_without_welcome, relays)
            for _ in range(150):
                page.send(json.dumps({"do": "say", "text": "x" * 400}))
            page.send(json.dumps({"do": "e_stop", "engaged": True}))
            while isinstance(frame := f.read_at_robot(await link.receive(urgent=True)), f.Beat):
                pass
            page.close()
            return frame

    with relays.serving():
        frame = asyncio.run(asyncio.wait_for(stop_of_a_full_link(), 10.0))
    assert isinstance(frame, f.PageMessage) and json.loads(frame.text) == {"do": "e_stop", "engaged": True}


def _open_without_welcome(relays: Relays) -> ClientConnection:
    address = f"127.0.0.1:{relays.port}"
    origin: Any = f"http://{address}"
    page = connect(f"ws://{address}/robots/go2/ws", origin=origin, proxy=None).__enter__()
    page.send(json.dumps({"do": "hello"}))
    return page


def test_a_stop_at_the_relay_is_confirmed_while_pages_and_pictures_flood(
    relayed: tuple[Relays, DialledRobot],
) -> None:
    relays, dialled = relayed
    pages, ended = [relays.page() for _ in range(8)], threading.Event()
    picture = bytes(range(256)) * 2000

    def flood(page: Page) -> None:
        """Reads nothing, like a page on a dead link, and sends pings at the highest rate that is allowed."""
        with suppress(ConnectionClosed):
            while not ended.wait(0.01):
                page.send(do="ping", sent_ms=0.0)

    def show() -> None:
        while not ended.wait(0.005):
            dialled.console.show_picture(picture)

    threads = [threading.Thread(target=show), *(threading.Thread(target=flood, args=(p,)) for p in pages)]
    for thread in threads:
        thread.start()
    try:
        for count in range(1, 6):
            assert relays.e_stop()[0] == 200
            assert len(dialled.robot.e_stops) >= count
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_a_robot_that_sends_no_frames_fills_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    relays = make_relays(tmp_path)

    async def flood() -> None:
        async with lone_link(relays) as link:
            for number in range(500):
                while not link.send(b"\xc0" * (1 + number % 9)):
                    await asyncio.sleep(0.001)
            await asyncio.to_thread(wait_until, lambda: "(256 so far)" in caplog.text, "the flood")

    with relays.serving():
        asyncio.run(flood())
    assert sum("not a frame" in line for line in caplog.messages) <= 10


def test_a_relay_has_as_many_open_files_as_the_system_permits() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
        have_descriptors()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(before[1], MAX_FILES)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
