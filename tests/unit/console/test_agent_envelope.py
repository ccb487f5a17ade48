"""What agents may say, and hostile calls, which move nothing and hold up no stop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import subprocess
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from support.agents import COMMAND, WORDS, agent_settings, call, connected, until
from support.consoles import FakeRobot

from outrider.console.agents.envelope import Envelope
from outrider.console.robot import GoalEnd
from outrider.console.server import ConsoleServer
from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.evaluation.agents.hostile_calls import BOUNDS, bound_of, hostile_calls


@pytest.mark.lengthy
def test_hostile_calls_move_nothing_and_stops_are_taken_among_them(
    server: ConsoleServer, robot: FakeRobot
) -> None:
    noted: list[str] = []

    def note(who: str, did: str, what: str = "", said: str = "") -> None:
        noted.append(did)

    async def answer() -> None:
        """Shows a picture every 20 ms and ends each goal, so that no call waits for its timeout."""
        while True:
            server.show_picture(b"\xff\xd8 a picture \xff\xd9")
            for _, on_end in robot.goals[ended[-1] :]:
                on_end(GoalEnd(False, "cancelled"))
            ended.append(len(robot.goals))
            await asyncio.sleep(0.02)

    async def run() -> None:
        server.update(stands=True)
        answering = asyncio.create_task(answer())
        async with connected(agent_settings(server), note) as session:
            for batch in range(20):
                calls = [json.loads(line) for line in itertools.islice(lines, 100)]
                work = [session.call_tool(c["params"]["name"], c["params"]["arguments"]) for c in calls]
                stop = call(session, "stop")
                await asyncio.gather(*work, stop, return_exceptions=True)
                await until(lambda batch=batch: len(robot.e_stops) > batch, "the stop")
                assert all(robot.e_stops)
        answering.cancel()

    def usable(line: bytes) -> bool:
        try:
            call = json.loads(line)
            return call["method"] == "tools/call" and isinstance(call["params"]["arguments"], dict)
        except (ValueError, KeyError, TypeError, RecursionError):
            return False

    ended = [0]
    lines = (line for kind, line in hostile_calls(seed=5) if usable(line) and "\\ud800" not in str(line))
    asyncio.run(run())
    assert robot.drives == []
    assert all(bound_of(sentence).taken for sentence, _ in robot.goals)
    assert noted.count("call") < 200, "a flood of 2000 fills no journal, however long"


@pytest.mark.parametrize("sentence", [said for said, bound in BOUNDS.items() if not bound.moves])
def test_no_hostile_sentence_is_a_plan_that_moves(sentence: str) -> None:
    with contextlib.suppress(InstructionError):
        assert not Envelope(WORDS).plan(sentence).moves


@pytest.mark.parametrize("sentence", [said for said, bound in BOUNDS.items() if bound.moves])
def test_what_an_agent_may_say_is_a_plan_that_moves(sentence: str) -> None:
    words = Vocabulary({"colour": ("red", "silver"), "kind": ("chair", "bottle")})
    assert Envelope(words).plan(sentence).moves


@pytest.mark.lengthy
def test_a_pipe_full_of_garbage_is_answered_and_a_stop_in_it_is_done(
    server: ConsoleServer, robot: FakeRobot
) -> None:
    sent = b"".join(line for _, line in itertools.islice(hostile_calls(seed=1), 3000))
    stop = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"stop","arguments":{}}}\n'
    process = subprocess.run(
        [*COMMAND, "--console", server.url], input=sent + stop, capture_output=True, timeout=100, check=False
    )
    assert process.returncode == 0 and b"Traceback" not in process.stderr
    answers = [json.loads(line) for line in process.stdout.splitlines()]
    assert any("messages a second" in answer.get("error", {}).get("message", "") for answer in answers)
    assert robot.e_stops and all(robot.e_stops) and robot.drives == [] and robot.goals == []


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda e: e.asking("find the red chair"), "no question"),
        (lambda e: e.remembering("x\nturn left"), "control characters"),
        (lambda e: e.plan("forget everything"), "not everything"),
        (lambda e: e.forgetting("everything"), "nothing to forget"),
        (lambda e: e.forgetting("  "), "nothing to forget"),
        (lambda e: e.forgetting("the keys, then turn left"), "nothing to forget"),
        (lambda e: e.remembering(" "), "nothing to remember"),
        (lambda e: e.plan("find the green sofa"), "knows no"),
        (lambda e: e.plan("x" * 401), "401 characters"),
    ],
)
def test_what_is_outside_the_envelope_is_refused_with_a_reason(make: Any, reason: str) -> None:
    with pytest.raises(InstructionError, match=reason):
        make(Envelope(WORDS))
