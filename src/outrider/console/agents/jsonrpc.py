# SPDX-License-Identifier: Apache-2.0
"""Parses just enough of an agent's message to recognize a stop and to refuse what exceeds the limits."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import msgspec
from mcp.types import JSONRPCMessage

from outrider.console.agents.calls.withdrawals import CANCELLED
from outrider.core.language.words.phrasebook import stop_words
from outrider.core.token_bucket import TokenBucket

MAX_MESSAGE_BYTES = 1 << 16
URGENT_PER_S, URGENT_AT_ONCE = 10.0, 10.0
TAIL_BYTES = 1024
"""Bytes examined at the end of an overlong message, besides its first MAX_MESSAGE_BYTES."""
TOO_MANY, TOO_LONG, NO_REQUEST, UNREADABLE = -32000, -32600, -32600, -32700
_NO_MESSAGE = "not a message of JSON-RPC"
_NO_ID = "the id of a request is text or a whole number, such as 5: give one that no other request has"
_NO_REQUEST = (
    "not a message of JSON-RPC 2.0 as MCP has it: give `jsonrpc`, `id`, `method`, and `params` as an object"
)
_BATCH = "messages come one by one here, not as an array"
TOO_LONG_MESSAGE = f"a message has more than {MAX_MESSAGE_BYTES} bytes: say it in fewer"
REFUSED = "an agent's message is refused: %s"
_SENTENCE_TOOLS = ("goal", "ask")


class _Arguments(msgspec.Struct):
    sentence: str = ""
    question: str = ""


class _Params(msgspec.Struct):
    name: str = ""
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class JsonRpcMessage(msgspec.Struct):
    """A JSON-RPC message. Without an `id` it is a notification, without a `method` a response."""

    id: Any = msgspec.UNSET
    method: str = ""
    params: msgspec.Raw = msgspec.Raw(b"{}")

    @property
    def is_request(self) -> bool:
        """Whether it is a request, which needs an answer."""
        return bool(self.method) and isinstance(self.id, (int, str)) and not isinstance(self.id, bool)

    @property
    def response_id(self) -> Any:
        """The id for the answer; None if the message has none."""
        return None if self.id is msgspec.UNSET else self.id

    def problem(self, message: bytes) -> str:
        """Return why the full `message` is not a valid MCP message; empty if it is valid."""
        if self.id is not msgspec.UNSET and not self.is_request and self.method:
            return _NO_ID
        try:
            JSONRPCMessage.model_validate_json(message)
        except ValueError:
            return _NO_REQUEST
        return ""

    @property
    def is_stop(self) -> bool:
        """Whether it calls the tool `stop`."""
        return self.tool.name == "stop"

    @property
    def is_urgent(self) -> bool:
        """Whether it calls `cancel`, withdraws a call, or has a sentence with a stop word at an end."""
        if self.tool.name not in _SENTENCE_TOOLS:
            return self.tool.name == "cancel" or self.method == CANCELLED
        arguments = _decoded(self.tool.arguments, _Arguments) or _Arguments()
        return _has_stop_word(arguments.sentence or arguments.question)

    @property
    def tool(self) -> _Params:
        """The tool call's name and arguments; empty if this is no tool call."""
        params = _decoded(self.params, _Params) if self.method == "tools/call" else None
        return params or _Params()


def parse_message(message: bytes) -> JsonRpcMessage | None:
    """Parse a message. Returns None if it cannot be a JSON-RPC message."""
    return _decoded(message, JsonRpcMessage)


def why_unreadable(message: bytes) -> str:
    """Return why an unreadable message is refused."""
    return _BATCH if message.lstrip().startswith(b"[") else _NO_MESSAGE


class LongMessage:
    """What the beginning and the end of an overlong message reveal, whatever its length.

    `id` is None if neither part shows the request's id.
    """

    _ID = rb'"id"\s*:\s*(-?\d{1,18}|"(?:[^"\\]|\\.){0,200}")\s*'
    _NAMED = rb'"(?:jsonrpc|method)"\s*:\s*"[^"\\]{0,100}"\s*'
    _BEGIN = re.compile(rb"\s*\{\s*(?:" + _NAMED + rb",\s*){0,2}" + _ID + rb",")
    _END = re.compile(rb",\s*" + _ID + rb"(?:,\s*" + _NAMED + rb"){0,2}\}\s*$")

    def __init__(self, begin: bytes, end: bytes) -> None:
        match = self._BEGIN.match(begin) or self._END.search(end)
        self.id: int | str | None = _decoded(match[1], int | str) if match else None
        self.is_stop = any(map(_may_stop, (begin, end)))
        """Whether it may call `stop` or `cancel`, or hold a sentence that orders a stop."""


class MessagePace:
    """Rate limit on an agent's messages, with a burst and an extra allowance for urgent ones."""

    def __init__(self, per_s: float, at_once: float) -> None:
        now_s = time.monotonic()
        self._usual = TokenBucket(per_s, at_once, now_s)
        self._urgent = TokenBucket(URGENT_PER_S, URGENT_AT_ONCE, now_s)
        self.too_many = f"more than {per_s:g} messages a second: wait"

    def admits(self, request: JsonRpcMessage) -> bool:
        """Whether a message is within the rate; counts it if so."""
        now_s = time.monotonic()
        return self._usual.take(1.0, now_s) or (request.is_urgent and self._urgent.take(1.0, now_s))


def calls_stop(message: bytes, parsed: JsonRpcMessage | LongMessage | None) -> bool:
    """Whether a message, parsed as `parsed`, calls the tool `stop`.

    For a message that will be refused (unreadable, invalid, an array): whether any part of it may order a
    stop. When in doubt the robot stops.
    """
    if isinstance(parsed, LongMessage) or (parsed and parsed.is_stop):
        return parsed.is_stop
    return _may_stop(message) and (parsed is None or bool(parsed.problem(message)))


_STOPS = re.compile(rb'"name"\s*:\s*"(?:stop|cancel)"')
_SENTENCES = re.compile(rb'"(?:sentence|question)"\s*:\s*"((?:[^"\\]|\\.)*)', re.DOTALL)


def _may_stop(part: bytes) -> bool:
    """Whether part of a message calls `stop` or `cancel`, or has a sentence with a stop word at an end."""
    sentences = (_text(match[1]) for match in _SENTENCES.finditer(part))
    return bool(_STOPS.search(part)) or any(map(_has_stop_word, sentences))


def _has_stop_word(text: str) -> bool:
    words = re.findall(r"\w+", text.lower())
    return any(word in stop_words() for word in (*words[:1], *words[-1:]))


def _text(quoted: bytes) -> str:
    """Decode the inside of a JSON string; undecodable text is returned as it is."""
    text = quoted.decode(errors="replace")
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text


def _decoded(content: bytes | msgspec.Raw, kind: Any) -> Any:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
