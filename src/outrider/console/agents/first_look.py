# SPDX-License-Identifier: Apache-2.0
"""As much of an agent's message as is needed to know a stop, and to refuse what is too much."""

from __future__ import annotations

from typing import Any

import msgspec

from outrider.core.language.phrasebook import stop_words

MOST_MESSAGE_BYTES = 1 << 16
TOO_MANY, TOO_LONG, UNREADABLE = -32000, -32600, -32700
_NO_MESSAGE = "not a message of JSON-RPC"
_BATCH = "messages come one by one here, not as an array"
TOO_LONG_MESSAGE = f"a message has more than {MOST_MESSAGE_BYTES} bytes"
REFUSED = "an agent's message is refused: %s"
_SAYING = ("goal", "ask")


class _Arguments(msgspec.Struct):
    sentence: str = ""
    question: str = ""


class _Params(msgspec.Struct):
    name: str = ""
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class FirstLook(msgspec.Struct):
    """A request of JSON-RPC, or a notification, whose `id` is None."""

    id: int | str | float | None = None
    method: str = ""
    params: msgspec.Raw = msgspec.Raw(b"{}")

    @property
    def is_stop(self) -> bool:
        """Whether it calls the tool `stop`."""
        return self.tool.name == "stop"

    @property
    def is_urgent(self) -> bool:
        """Whether it calls `cancel`, or says what begins or ends with a stop word."""
        if self.tool.name not in _SAYING:
            return self.tool.name == "cancel"
        told = _decoded(self.tool.arguments, _Arguments) or _Arguments()
        words = (told.sentence or told.question).lower().split()
        return any(word.strip(".,!?¡¿ ") in stop_words() for word in (*words[:1], *words[-1:]))

    @property
    def tool(self) -> _Params:
        """The tool that it calls, if any."""
        params = _decoded(self.params, _Params) if self.method == "tools/call" else None
        return params or _Params()

    def refused(self, reason: str) -> str:
        """Why it is refused, and that a stop is carried out all the same."""
        return f"the emergency stop is engaged; {reason}" if self.is_stop else reason


def first_look(message: bytes) -> FirstLook | None:
    """None for what is no message of JSON-RPC."""
    return _decoded(message, FirstLook)


def why_unreadable(message: bytes) -> str:
    """Why something is refused that is no message."""
    return _BATCH if message.lstrip().startswith(b"[") else _NO_MESSAGE


def stops_among(message: bytes) -> bool:
    """Whether an array of messages, as older versions of MCP had it, calls the tool `stop`."""
    return any(one.is_stop for one in _decoded(message, list[FirstLook]) or ())


def _decoded(content: bytes | msgspec.Raw, kind: type) -> Any:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
