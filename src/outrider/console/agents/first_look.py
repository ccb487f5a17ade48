# SPDX-License-Identifier: Apache-2.0
"""As much of an agent's message as is needed to know a stop, and to refuse what is too much."""

from __future__ import annotations

import msgspec

MOST_MESSAGE_BYTES = 1 << 16
MESSAGES_PER_S = 100.0
TOO_MANY, TOO_LONG, UNREADABLE = -32000, -32600, -32700
NO_MESSAGE = "not a message of JSON-RPC"
TOO_LONG_MESSAGE = f"a message has more than {MOST_MESSAGE_BYTES} bytes"
REFUSED = "an agent's message is refused: %s"


class FirstLook(msgspec.Struct):
    """A request of JSON-RPC, or a notification, whose `id` is None."""

    id: int | str | None = None
    method: str = ""
    params: msgspec.Raw = msgspec.Raw(b"{}")

    @property
    def is_stop(self) -> bool:
        """Whether it calls the tool `stop`."""
        try:
            name = msgspec.json.decode(self.params, type=_Params).name
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return (self.method, name) == ("tools/call", "stop")

    @property
    def too_many(self) -> str:
        """Why it is refused when too many come."""
        done = "the emergency stop is engaged; " if self.is_stop else ""
        return f"{done}more than {MESSAGES_PER_S:g} messages a second: wait"


class _Params(msgspec.Struct):
    name: str = ""


def first_look(message: bytes) -> FirstLook | None:
    """None for what is no message of JSON-RPC."""
    try:
        return msgspec.json.decode(message, type=FirstLook)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
