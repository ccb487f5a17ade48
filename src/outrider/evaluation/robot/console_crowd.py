# SPDX-License-Identifier: Apache-2.0
"""Simulates pages without browsers: viewers that acknowledge pictures, and one that operates the stop.

`python -m outrider.evaluation.robot.console_crowd URL VIEWERS` watches until its input ends,
then prints what was received.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from outrider.console.drawing.frames import picture_number
from outrider.core.errors import LinkError

HELLO, TAKE = '{"do": "hello"}', '{"do": "take"}'
WAIT_S = 20.0
DRIVE_PERIOD_S = 0.05


@dataclass
class Received:
    """What one viewer received, from its first picture on."""

    pictures: int = 0
    num_bytes: int = 0
    first_s: float = 0.0
    last_s: float = 0.0

    def take(self, frame: bytes, now_s: float) -> None:
        """Counts a picture that arrived at `now_s`."""
        self.first_s = self.first_s or now_s
        self.pictures, self.num_bytes, self.last_s = self.pictures + 1, self.num_bytes + len(frame), now_s

    @property
    def pictures_per_s(self) -> float:
        """Returns the pictures per second since the first."""
        span_s = self.last_s - self.first_s
        return (self.pictures - 1) / span_s if span_s > 0.0 else 0.0


def open_page(url: str) -> connect:
    """Returns a websocket connection to a console that requires no login."""
    host = urlsplit(url).netloc
    origin: Any = f"http://{host}"
    return connect(f"ws://{host}/ws", origin=origin, compression=None, proxy=None, max_size=None)


async def watch(url: str, received: Received, watching: asyncio.Semaphore) -> None:
    """Receive and acknowledge every picture, as a page does; `watching` is released at the first one."""
    async with open_page(url) as page:
        await page.send(HELLO)
        async for content in page:
            if isinstance(content, bytes):
                await page.send(f'{{"do": "seen", "picture": {picture_number(content)}}}')
                received.take(content, time.monotonic())
                if received.pictures == 1:
                    watching.release()


async def crowd(url: str, viewers: int) -> list[Received]:
    """Watch until the standard input ends. Prints a line once every viewer has received a picture."""
    received = [Received() for _ in range(viewers)]
    watching = asyncio.Semaphore(0)
    pages = [asyncio.create_task(watch(url, viewer, watching)) for viewer in received]
    for _ in pages:
        await asyncio.wait_for(watching.acquire(), WAIT_S)
    print("watching", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for page in pages:
        page.cancel()
    return received


async def time_e_stops(url: str, repeats: int) -> list[float]:
    """Returns seconds from a click while driving until the page learns that the robot stands.

    Raises LinkError where the robot does not move, or does not stop.
    """
    async with open_page(url) as page:
        await page.send(HELLO)
        return [await _time_e_stop(page) for _ in range(repeats)]


async def time_silences(url: str, repeats: int) -> list[float]:
    """Returns seconds from the last message of a page that drives until it shows that the robot stands.

    The page stays connected, as if its network had failed: only its silence can stop the robot.
    """
    async with open_page(url) as page:
        await page.send(HELLO)
        return [await _time_silence(page) for _ in range(repeats)]


async def hold_button(url: str) -> None:
    """Drive forward from a page until its console ends."""
    async with open_page(url) as page:
        await page.send(HELLO)
        with contextlib.suppress(ConnectionClosed):
            await _until(page, lambda _: False, driving=True)


async def _time_silence(page: ClientConnection) -> float:
    state = await _until(page, lambda state: state["moving"], driving=True)
    await _drive(page, state["beat"])
    silent_s = time.monotonic()
    await _until(page, lambda newer: not newer["moving"])
    return time.monotonic() - silent_s


async def _drive(page: ClientConnection, beat: int) -> None:
    """Drive forward for a moment, after taking control, which an earlier page may still have."""
    await page.send(TAKE)
    await page.send(f'{{"do": "drive", "forward": 0.2, "left": 0, "turn": 0, "beat": {beat}}}')


async def _time_e_stop(page: ClientConnection) -> float:
    state = await _until(page, lambda state: state["moving"], driving=True)
    clicked_s = time.monotonic()
    await page.send('{"do": "e_stop", "engaged": true}')
    state = await _until(page, lambda state: state["e_stop"] and not state["moving"])
    stopped_s = time.monotonic()
    await page.send(f'{{"do": "e_stop", "engaged": false, "beat": {state["beat"]}}}')
    await _until(page, lambda newer: not newer["e_stop"] and newer["beat"] > state["beat"])
    return stopped_s - clicked_s


async def _until(page: ClientConnection, wanted: Any, driving: bool = False) -> dict[str, Any]:
    """Returns the first state that satisfies `wanted`; drives meanwhile if `driving`."""
    deadline_s, beat, driven_s = time.monotonic() + WAIT_S, 0, 0.0
    while time.monotonic() < deadline_s:
        content = await asyncio.wait_for(page.recv(), WAIT_S)
        if isinstance(content, bytes):
            await page.send(f'{{"do": "seen", "picture": {picture_number(content)}}}')
            continue
        message = msgspec.json.decode(content)
        if message["is"] != "state":
            continue
        beat = message["beat"]
        if wanted(message):
            return dict(message)
        if driving and time.monotonic() - driven_s > DRIVE_PERIOD_S:
            driven_s = time.monotonic()
            await _drive(page, beat)
    raise LinkError(f"the console at {page.remote_address} did not answer as expected: see its log")


def main() -> None:
    """Watch a console with some pages until stdin ends, and print what each received as JSON."""
    url, viewers = sys.argv[1], int(sys.argv[2])
    received = asyncio.run(crowd(url, viewers))
    print(
        json.dumps(
            [{"pictures_per_s": viewer.pictures_per_s, "bytes": viewer.num_bytes} for viewer in received]
        )
    )


if __name__ == "__main__":
    main()
