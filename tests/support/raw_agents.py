"""An agent in this process that can send and answer arbitrary messages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.server.fastmcp import FastMCP
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage

LIMIT_S = 20.0
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "0"}}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def request(number: object, method: str, params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


class RawAgent:
    """Sends messages in any order and keeps the answers. `on_ping` returns the messages to send after a ping
    of the server; by default, none.
    """

    def __init__(self, streams: Any) -> None:
        self._incoming, self._outgoing = streams
        self.on_ping: Callable[[object], list[dict[str, Any]]] = lambda number: []
        self.pings = 0
        self.answers: dict[Any, list[str]] = {}
        self._news = asyncio.Event()
        self.number = 0

    async def read(self) -> None:
        async for one in self._incoming:
            answer = one.message.model_dump(mode="json", exclude_none=True)
            if answer.get("method") == "ping":
                self.pings += 1
                for message in self.on_ping(answer["id"]):
                    await self.tell(message)
            self.answers.setdefault(answer.get("id"), []).append(json.dumps(answer))
            self._news.set()

    async def tell(self, message: dict[str, Any]) -> None:
        await self._outgoing.send(SessionMessage(JSONRPCMessage.model_validate(message)))

    async def begin(self, tool: str, **given: object) -> int:
        self.number += 1
        await self.tell(request(self.number, "tools/call", {"name": tool, "arguments": given}))
        return self.number

    async def answer(self, number: object) -> str:
        async def answered() -> str:
            while number not in self.answers:
                self._news.clear()
                await self._news.wait()
            return self.answers[number][0]

        return await asyncio.wait_for(answered(), LIMIT_S)

    async def call(self, tool: str, **given: object) -> str:
        return await self.answer(await self.begin(tool, **given))


@asynccontextmanager
async def raw_agent(of: FastMCP) -> AsyncIterator[RawAgent]:
    """Opens an agent at a server and initialises the session."""
    server = of._mcp_server
    async with (
        create_client_server_memory_streams() as (client, (incoming, outgoing)),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(server.run, incoming, outgoing, server.create_initialization_options())
        agent = RawAgent(client)
        tasks.start_soon(agent.read)
        await agent.tell(request("hello", "initialize", HELLO))
        await agent.answer("hello")
        await agent.tell(READY)
        yield agent
        tasks.cancel_scope.cancel()
