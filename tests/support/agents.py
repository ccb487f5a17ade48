"""Agents that call a console through the SDK's own client."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import TextContent

COMMAND = [sys.executable, "-m", "outrider", "mcp"]


@asynccontextmanager
async def over_a_pipe(*options: str, errors: Path | None = None) -> AsyncIterator[ClientSession]:
    """Opens a session with `outrider mcp` in a process of its own."""
    parameters = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], *options], env=dict(os.environ)
    )
    async with stdio_client(parameters) as (incoming, outgoing), ClientSession(incoming, outgoing) as session:
        await session.initialize()
        yield session


async def call(session: ClientSession, tool: str, **arguments: Any) -> tuple[bool, str]:
    """Calls a tool. Returns whether the call succeeded, and its text."""
    result = await session.call_tool(tool, arguments)
    text = "".join(part.text for part in result.content if isinstance(part, TextContent))
    return not result.isError, text
