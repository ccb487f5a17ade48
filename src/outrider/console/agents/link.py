# SPDX-License-Identifier: Apache-2.0
"""An agent's connection to a console: the same websocket, with the same rules, as a page's."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from outrider.console import messages as m
from outrider.console.agents.address import ConsoleAddress, no_console
from outrider.console.agents.received import Received
from outrider.console.commands import CANCEL_S, NOT_STARTED
from outrider.console.drawing.frames import picture_number
from outrider.core.errors import LinkError

PING_PERIOD_S, START_TIMEOUT_S, STOP_S = 1.0, CANCEL_S + 3.0, 2.0
SILENT = "the console tells nothing: is the machine overloaded?"
MISSED = "it has ended, but the message that says how was lost on a slow link: ask what did you do"
MAX_MESSAGE_BYTES = 8 << 20
_to_agent = msgspec.json.Decoder(m.ToPage)


@dataclass(eq=False)
class _Command:
    """A sent sentence. `begun` resolves when the console starts or refuses it, `ended` at its end."""

    text: str
    begun: asyncio.Future[None]
    ended: asyncio.Future[m.Goal]


class ConsoleLink:
    """One agent's connection, in one event loop. Cancels a command not started within `start_timeout_s`."""

    def __init__(self, address: ConsoleAddress, agent: str, start_timeout_s: float = START_TIMEOUT_S) -> None:
        self.address, self.agent, self._start_timeout_s = address, agent, start_timeout_s
        self.received = Received()
        self.name = ""
        self._socket: ClientConnection | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._command: _Command | None = None
        self._cancels = self._cancels_answered = 0
        """The number of cancels sent to the console, and of those that it has answered."""
        self._picture, self._jpeg = 0, b""
        self._updated = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether the connection to the console is open."""
        return self._socket is not None and self._socket.close_code is None

    @property
    def is_busy(self) -> bool:
        """Whether a sentence of this agent is under way."""
        return self._command is not None

    async def open(self) -> None:
        """Connect and say hello. Raises LinkError if no console answers, or it accepts no further agent."""
        socket: ClientConnection | None = None
        try:
            socket = await self._connected()
            await socket.send(_encoded(m.Hello(agent=self.agent)))
            self._on_content(await asyncio.wait_for(socket.recv(), self.address.connect_s))
            self._socket, socket = socket, None
        except ConnectionClosed as error:
            raise LinkError(
                f"the console refuses the agent: {error.rcvd.reason if error.rcvd else error}"
            ) from None
        except InvalidStatus as error:
            raise self.address.not_let_in(error.response.status_code) from None
        except (OSError, ValueError, WebSocketException, asyncio.TimeoutError) as error:
            raise no_console(self.address.url, error) from None
        finally:
            if socket is not None:  # also when the call was cancelled, which must not wait for a handshake
                socket.transport.abort()
        self._tasks = [asyncio.create_task(self._receive()), asyncio.create_task(self._ping())]

    async def _connected(self) -> ClientConnection:
        cookie = await asyncio.to_thread(self.address.log_in)
        return await connect(
            self.address.websocket,
            origin=self.address.origin,  # type: ignore[arg-type]
            additional_headers={"Cookie": cookie} if cookie else {},
            compression=None,
            proxy=None,
            open_timeout=self.address.connect_s,
            ping_interval=self.address.connect_s,
            ping_timeout=self.address.connect_s,
            max_size=MAX_MESSAGE_BYTES,
        )

    async def close(self) -> None:
        """Close the connection; the console then ends what this agent has under way."""
        for task in self._tasks:
            task.cancel()
        socket, self._socket = self._socket, None
        self._end_waiting("the agent has gone")
        if socket is not None:
            await socket.close()

    async def e_stop(self) -> None:
        """Engage the emergency stop by websocket, or else over HTTP. Raises LinkError if neither works."""
        if self.is_open:
            with contextlib.suppress(LinkError, asyncio.TimeoutError):
                before = self.received.state.beat
                await self._send(m.EStop(True))
                await asyncio.wait_for(self._until(lambda: self._has_stopped_since(before)), STOP_S)
                return
        await asyncio.to_thread(self.address.e_stop)

    def _has_stopped_since(self, beat: int) -> bool:
        return self.received.state.e_stop and self.received.state.beat != beat

    async def cancel(self) -> None:
        """End the running command, whoever gave it; drop one of this agent that has not begun.

        The console answers the ping after it has reported the commands that it drops. Both messages are
        sent even if the calling task is cancelled.
        """
        self._cancels += 1
        cancelling = asyncio.create_task(self._send_cancel(float(self._cancels)))
        cancelling.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(cancelling)

    async def _send_cancel(self, number: float) -> None:
        await self._send(m.Cancel())
        await self._send(m.Ping(number))

    async def stands(self, wait_s: float) -> bool:
        """Whether the robot stands, once the console reports that nothing runs or moves.

        Also False if no such report comes within `wait_s`.
        """
        before = self.received.state.beat

        def is_over() -> bool:
            state = self.received.state
            return state.beat != before and not (state.goal or state.moving)

        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._until(is_over), wait_s)
        return is_over() and self.received.state.stands

    async def say(self, sentence: str) -> asyncio.Future[m.Goal]:
        """Send a command; return a future of its end. Raises LinkError if the console does not start it."""
        await self.settle_cancels()
        if self._command is not None:
            raise LinkError(f'"{self._command.text}" is under way: wait for its end, or cancel it')
        loop = asyncio.get_running_loop()
        command = self._command = _Command(sentence, loop.create_future(), loop.create_future())
        try:
            await self._send(m.Say(sentence))
            await asyncio.wait_for(asyncio.shield(command.begun), self._start_timeout_s)
        except asyncio.TimeoutError:
            await self.cancel()  # messages are handled in order: the console no longer starts it
            with contextlib.suppress(LinkError):
                await self.settle_cancels()
            driver = self.received.state.driver or "nobody"
            raise LinkError(
                f"the console has not begun it in {self._start_timeout_s:g} s, and was told to forget it; "
                f"{driver} has the driver's seat"
            ) from None
        return command.ended

    async def settle_cancels(self) -> None:
        """Wait until the console has answered every cancel. Raises LinkError on a timeout.

        If it has, nothing else runs before this returns.
        """
        if self._cancels_answered < self._cancels:
            await self._await(lambda: self._cancels_answered >= self._cancels)

    async def state(self) -> m.State:
        """Return the next state that the console sends. Raises LinkError on a timeout."""
        before = self.received.state.beat
        await self._await(lambda: self.received.state.beat != before)
        return self.received.state

    async def picture(self) -> bytes:
        """Return the next JPEG of the camera. Raises LinkError on a timeout."""
        before = self._picture
        await self._send(m.Seen(before))
        await self._await(
            lambda: self._picture != before, "the camera gives no picture: see the console's warning"
        )
        return self._jpeg

    async def _send(self, message: m.FromPage) -> None:
        if self._socket is None:
            raise LinkError("there is no connection to the console")
        try:
            await self._socket.send(_encoded(message))
        except ConnectionClosed:
            raise LinkError("the console has closed the connection: call again to have it opened") from None

    async def _await(self, condition: Any, silence: str = SILENT) -> None:
        """Wait until a condition holds. Raises LinkError with the text `silence` on a timeout."""
        try:
            await asyncio.wait_for(self._until(condition), STOP_S)
        except asyncio.TimeoutError:
            raise LinkError(silence) from None

    async def _until(self, condition: Any) -> None:
        while not condition():
            self._updated.clear()
            await self._updated.wait()

    async def _ping(self) -> None:
        """Send heartbeats: a ping keeps the seat while a command runs; otherwise the seat is given back."""
        with contextlib.suppress(LinkError):
            while True:
                await asyncio.sleep(PING_PERIOD_S)
                await self._send(m.Ping(0.0) if self._command else m.Leave())

    async def _receive(self) -> None:
        assert self._socket is not None
        try:
            async for content in self._socket:
                self._on_content(content)
        except (ConnectionClosed, msgspec.DecodeError):
            pass
        self._end_waiting("the console has gone")

    def _on_content(self, content: str | bytes) -> None:
        if isinstance(content, bytes):
            self._picture, self._jpeg = picture_number(content), content[4:]
        else:
            self._on_message(_to_agent.decode(content))
        self._updated.set()

    def _on_message(self, message: m.ToPage) -> None:
        handler = _HANDLERS.get(type(message))
        if handler is not None:
            handler(self, message)

    def _on_welcome(self, welcome: m.Welcome) -> None:
        self.name = welcome.name
        for newest in (welcome.state, welcome.sights, welcome.memories):
            self._on_newest(newest)
        self.received.trail, self.received.walls = list(welcome.trail.points), set(welcome.walls.cells)
        if self._command is not None:
            self._catch_up(self._command, welcome)

    def _catch_up(self, command: _Command, welcome: m.Welcome) -> None:
        """Handle the begin or end of a command if its message is among those that were dropped."""
        if welcome.state.goal == command.text:
            _settle(command.begun, None)
        elif command.begun.done():
            ends = [one for one in welcome.ended if one.instruction == command.text]
            end = ends[-1] if ends else m.Ended("failed", command.text, MISSED)
            self._on_goal(m.Goal(end.state, command.text, end.message))

    def _on_newest(self, news: m.State | m.Sights | m.Memories) -> None:
        setattr(self.received, _NEWEST[type(news)], news)

    def _on_trail(self, trail: m.Trail) -> None:
        self.received.trail = [*self.received.trail, *trail.points][-MAX_POINTS:]

    def _on_walls(self, walls: m.Walls) -> None:
        self.received.walls |= set(walls.cells)
        self.received.cell_m = walls.cell_m

    def _on_text(self, text: m.Text) -> None:
        if text.state != "decoding":
            self._log("text", text.text or text.note)

    def _on_motion(self, motion: m.Motion) -> None:
        self._log("motion", " ".join(filter(None, (f"{motion.action}: {motion.outcome}", motion.message))))

    def _on_pong(self, pong: m.Pong) -> None:
        self._cancels_answered = max(self._cancels_answered, int(pong.sent_ms))
        if pong.sent_ms and self._cancels_answered >= self._cancels:
            self._refuse(NOT_STARTED)

    def _on_notice(self, notice: m.Notice) -> None:
        self._log(notice.level, notice.text)
        if self._command is not None and not self._command.begun.done():
            self._refuse(notice.text)

    def _refuse(self, reason: str) -> None:
        """Fail the command that was sent and has not begun."""
        command = self._command
        if command is not None and not command.begun.done():
            self._command = None
            command.begun.set_exception(LinkError(reason))
            command.begun.exception()  # mark it as retrieved: nobody may await it

    def _on_goal(self, goal: m.Goal) -> None:
        self._log("goal", f"{goal.state}: {goal.instruction}")
        command = self._command
        if command is None or goal.instruction != command.text:
            return
        if goal.state == "running":
            _settle(command.begun, None)
        elif command.begun.done():
            self._command = None
            _settle(command.ended, goal)
        else:
            self._refuse(goal.message)

    def _log(self, kind: str, text: str) -> None:
        self.received.log.append({"at": round(time.time(), 3), "kind": kind, "text": text})

    def _end_waiting(self, reason: str) -> None:
        """End whatever waits for the console, for this reason."""
        command = self._command
        self._refuse(reason)
        self._command = None
        if command is not None:
            _settle(command.ended, m.Goal("failed", command.text, reason))
        self._updated.set()


def _encoded(message: m.FromPage) -> str:
    return msgspec.json.encode(message).decode()


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


MAX_POINTS = 4000
_NEWEST: dict[type, str] = {m.State: "state", m.Sights: "sights", m.Memories: "memories"}
_HANDLERS: dict[type, Any] = {
    m.Welcome: ConsoleLink._on_welcome,
    **dict.fromkeys(_NEWEST, ConsoleLink._on_newest),
    m.Trail: ConsoleLink._on_trail,
    m.Walls: ConsoleLink._on_walls,
    m.Text: ConsoleLink._on_text,
    m.Motion: ConsoleLink._on_motion,
    m.Notice: ConsoleLink._on_notice,
    m.Pong: ConsoleLink._on_pong,
    m.Goal: ConsoleLink._on_goal,
}
