"""Agents that call a console through the SDK's own client, within this process, over a pipe and over HTTP."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.memory import create_connected_server_and_client_session
from mcp.types import TextContent
from support.consoles import wait_until

from outrider.console.agents.address import ConsoleAddress
from outrider.console.agents.agent import AgentSettings
from outrider.console.agents.envelope import Envelope
from outrider.console.agents.serving import serve_http
from outrider.console.agents.tools import make_server
from outrider.console.notes import Note, note_nothing
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.core.language.grammar import Vocabulary

COMMAND = [sys.executable, "-m", "outrider", "mcp"]
WORDS = Vocabulary({"colour": ("red", "blue"), "kind": ("chair", "bottle")})
TOKEN = "of a console, or of agents"


def agent_settings(
    console: ConsoleServer, envelope: Envelope | None = None, token: str = "", **options: Any
) -> AgentSettings:
    """Returns settings for agents of a console. By default they may say all that WORDS permits."""
    address = ConsoleAddress(console.url, token)
    return AgentSettings(address, envelope or Envelope(WORDS), "say: turn left", **options)


@asynccontextmanager
async def connected(settings: AgentSettings, note: Note = note_nothing) -> AsyncIterator[ClientSession]:
    """Opens a session within this process."""
    async with create_connected_server_and_client_session(make_server(settings, note)) as session:
        yield session


@asynccontextmanager
async def over_a_pipe(*options: str, errors: Path | None = None) -> AsyncIterator[ClientSession]:
    """Opens a session with `outrider mcp` in a process of its own."""
    parameters = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], *options], env=dict(os.environ)
    )
    async with stdio_client(parameters) as (incoming, outgoing), ClientSession(incoming, outgoing) as session:
        await session.initialize()
        yield session


def serve_agents(settings: AgentSettings, note: Note = note_nothing) -> str:
    """Serves agents over HTTP, for TOKEN, until the process ends. Returns the address."""
    ports: list[int] = []
    given = (settings, note, ConsoleSettings(port=0), TOKEN, ports.append)
    threading.Thread(target=serve_http, args=given, daemon=True).start()
    return f"http://127.0.0.1:{wait_until(lambda: ports, 'the server')[0]}/mcp"


@asynccontextmanager
async def over_http(url: str) -> AsyncIterator[ClientSession]:
    """Opens a session with a server of agents."""
    async with (
        httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60.0) as client,
        streamable_http_client(url, http_client=client) as (incoming, outgoing, _),
        ClientSession(incoming, outgoing) as session,
    ):
        await session.initialize()
        yield session


async def call(session: ClientSession, tool: str, **arguments: Any) -> tuple[bool, str]:
    """Calls a tool. Returns whether the call succeeded, and its text."""
    result = await session.call_tool(tool, arguments)
    text = "".join(part.text for part in result.content if isinstance(part, TextContent))
    return not result.isError, text


async def until(condition: Any, what: str) -> Any:
    """Waits like `wait_until`, in a thread, so that the session goes on."""
    return await asyncio.to_thread(wait_until, condition, what)
