# SPDX-License-Identifier: Apache-2.0
"""Calls of tools as agents make them: one that fits no tool is refused in words that say what to give."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from mcp.server.fastmcp import FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.server.fastmcp.tools import Tool
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.shared.exceptions import McpError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, ErrorData, GetPromptResult
from pydantic import AnyUrl, ValidationError

from outrider.console.agents.agent import ORDERS, Agent
from outrider.console.agents.under_way.signs import count_signs
from outrider.console.agents.under_way.withdrawals import let_take_back

MOST_SHOWN = 40
NO_RESOURCE = -32002
"""The code that MCP has for a resource that is not there."""


class CheckedServer(FastMCP):
    """A server of tools. Whose call is not understood has the robot stand where a stop may be meant."""

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        let_take_back(self._mcp_server)
        count_signs(self._mcp_server)

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """What the tool gives. Raises ToolError for a call that is refused."""
        tool = self._tool_manager.get_tool(name)
        problem = self._no_tool(name) if tool is None else problem_of(tool, arguments)
        if not problem:
            return await super().call_tool(name, arguments)
        if tool is None or name in ORDERS:
            agent: Agent = self.get_context().request_context.lifespan_context
            called = "" if tool else name.replace("_", " ")
            problem = await agent.refuse(problem, filter(None, (called, *_texts(arguments))))
        raise ToolError(problem)

    async def read_resource(self, uri: AnyUrl | str) -> Any:
        """What a resource holds. Raises McpError for one that is not there, or that is refused."""
        known = [str(one.uri) for one in self._resource_manager.list_resources()]
        if str(uri) not in known:
            told = f"there is no resource {_shown(str(uri))}: read one of {', '.join(known)}"
            raise McpError(ErrorData(code=NO_RESOURCE, message=told))
        resource = await self._resource_manager.get_resource(uri, context=self.get_context())
        assert resource is not None
        try:
            return [ReadResourceContents(content=await resource.read(), mime_type=resource.mime_type)]
        except ValueError as error:
            if not isinstance(error.__context__, ToolError):
                raise
            told = str(error.__context__)  # FastMCP would log where this came from
        raise McpError(ErrorData(code=INTERNAL_ERROR, message=told))

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> GetPromptResult:
        """Raises McpError: there is none."""
        told = f"there is no prompt {_shown(name)}, nor any other: call a tool"
        raise McpError(ErrorData(code=INVALID_PARAMS, message=told))

    def _no_tool(self, name: str) -> str:
        known = ", ".join(tool.name for tool in self._tool_manager.list_tools())
        return f"there is no tool {_shown(name)}: call one of {known}"


def problem_of(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """What is wrong with the arguments of a call, and what to give; empty where a tool takes them.

    One that takes none takes any.
    """
    fields = tool.parameters["properties"]
    unknown = next((name for name in arguments if name not in fields), None) if fields else None
    if unknown is not None:
        taken = " and ".join(f"`{name}`" for name in fields)
        return f"{tool.name} has no argument {_shown(unknown)}: give {taken}"
    try:
        tool.fn_metadata.arg_model.model_validate(tool.fn_metadata.pre_parse_json(dict(arguments)))
    except ValidationError as error:
        name = str(error.errors(include_url=False)[0]["loc"][0])
        given = f"not {_shown(arguments[name])}" if name in arguments else "and is missing"
        return f"{tool.name}: `{name}` must be {_kind(fields[name])}, {given}"
    return ""


def _kind(field: Mapping[str, Any]) -> str:
    """What an argument has to be, in words, by its JSON schema."""
    if field["type"] == "string":
        return "text with at least one character"
    return f"a number from {field['minimum']:g} to {field['maximum']:g}"


def _shown(value: Any) -> str:
    """As much of what was given as fits into a line."""
    text = json.dumps(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _texts(arguments: Mapping[str, Any]) -> Iterator[str]:
    """The texts among the arguments but for numbers, of which "NaN" reads as a slip of "no"."""
    return (one for one in arguments.values() if isinstance(one, str) and not _is_number(one))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
