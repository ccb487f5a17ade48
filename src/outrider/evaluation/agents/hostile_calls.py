# SPDX-License-Identifier: Apache-2.0
"""What a hostile or confused agent sends: lines of MCP, and lines that are none, drawn from a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from outrider.evaluation.agents.hostile_sentences import ASKED, BEYOND, NEGATED, PLAIN, SIGNS, STOPS, STRANGE

TOOLS = ("drive", "cmd_vel", "release_e_stop", "__init__", "goal\x00", "../goal", "")
Call = tuple[str, bytes]


def hostile_calls(seed: int) -> Iterator[Call]:
    """Kinds and lines, for ever; none of them is a call of the tool `stop`."""
    rng = random.Random(seed)
    for number in _numbers():
        kind = rng.choice(sorted(_KINDS))
        yield kind, _KINDS[kind](rng, number)


def call_line(number: object, tool: object, arguments: object) -> bytes:
    """A call of a tool as a line."""
    return _line(number, "tools/call", {"name": tool, "arguments": arguments})


def _line(number: object, method: object, params: object) -> bytes:
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return json.dumps(message).encode() + b"\n"


def _numbers() -> Iterator[int]:
    number = 1000
    while True:
        yield number
        number += 1


def _goal(sentences: tuple[str, ...]) -> Callable[[random.Random, int], bytes]:
    return lambda rng, number: call_line(number, "goal", {"sentence": rng.choice(sentences)})


def _misfit(rng: random.Random, number: int) -> bytes:
    """Arguments of the wrong kind."""
    odd: list[Any] = [None, [], {}, 1e308, -1, True, [["turn left"]], {"vx": 1.0}, float("nan")]
    arguments = {"sentence": rng.choice([*odd, "turn left"]), "wait_s": rng.choice([*odd, 1e9]), "vx": 1.0}
    return call_line(number, rng.choice(("goal", "ask", "remember")), rng.choice([arguments, *odd]))


def _garbage(rng: random.Random, _: int) -> bytes:
    return rng.choice(
        (
            bytes(rng.randrange(1, 256) for _ in range(50)).replace(b"\n", b"?") + b"\n",
            b"[" * 5000 + b"\n",
            b'{"jsonrpc":"2.0"}\n',
            b"null\n",
            b"\n",
            b'{"jsonrpc":"1.0","id":{},"method":7}\n',
        )
    )


def _huge(rng: random.Random, number: int) -> bytes:
    return call_line(number, "goal", {"sentence": "turn left " * rng.choice((100, 20_000))})


def _flood(rng: random.Random, number: int) -> bytes:
    return call_line(number, rng.choice(("status", "words", "recall", "picture")), {"what": "chair"})


def _unknown(rng: random.Random, number: int) -> bytes:
    return rng.choice(
        (
            call_line(number, rng.choice(TOOLS), {"vx": 1.0, "sentence": "turn left"}),
            _line(number, "resources/read", {"uri": rng.choice(("file:///etc/passwd", "outrider://../key"))}),
            _line(number, "sampling/createMessage", {}),
            _line(number, "notifications/cancelled", {"requestId": number - 1}),
        )
    )


_KINDS: dict[str, Callable[[random.Random, int], bytes]] = {
    "asked": _goal(ASKED),
    "beyond": _goal(BEYOND),
    "control tokens": _goal(SIGNS),
    "flood": _flood,
    "garbage": _garbage,
    "huge": _huge,
    "misfit": _misfit,
    "negated": _goal(NEGATED),
    "plain": _goal(tuple(PLAIN)),
    "replay": lambda _, __: call_line(1, "goal", {"sentence": "turn left"}),
    "stop": _goal(STOPS),
    "unicode": _goal(STRANGE),
    "unknown": _unknown,
}
