"""Agents by the Model Context Protocol, with the SDK's own client, a console and a fake robot."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

import httpx
from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.memory import create_connected_server_and_client_session
from mcp.types import CancelledNotification, CancelledNotificationParams, ClientNotification
from support.agents import call, over_a_pipe
from support.consoles import FakeRobot, Page, wait_until

from outrider.console import messages as m
from outrider.console.agents.address import ConsoleAddress
from outrider.console.agents.agent import Agent, AgentSettings
from outrider.console.agents.envelope import Envelope
from outrider.console.agents.serving import serve_http
from outrider.console.agents.tools import make_server
from outrider.console.robot import GoalEnd
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.core.errors import ConfigError, InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.evaluation.agents.hostile_calls import BOUNDS, bound_of, hostile_calls

WORDS = Vocabulary({"colour": ("red", "blue"), "kind": ("chair", "bottle")})
TOKEN = "of a console, or of agents"
TOOLS = {
    *("goal", "cancel", "stop", "status", "picture", "ask", "remember", "recall", "forget", "words"),
}
Notes = list[tuple[str, ...]]


@pytest.fixture
def console(robot: FakeRobot) -> Iterator[ConsoleServer]:
    server = ConsoleServer(robot, ConsoleSettings(port=0))
    yield server
    server.close()


@pytest.fixture
def notes() -> Notes:
    return []


def settings(console: ConsoleServer, private: bool = False, token: str = "") -> AgentSettings:
    return AgentSettings(ConsoleAddress(console.url, token), Envelope(WORDS, private), "say: turn left")


@contextlib.asynccontextmanager
async def connected(
    console: ConsoleServer, notes: Notes | None = None, private: bool = False
) -> AsyncIterator[ClientSession]:
    """Yields a session within this process."""

    def note(who: str, did: str, what: str = "", said: str = "") -> None:
        if notes is not None:
            notes.append((who, did, what, said))

    server = make_server(settings(console, private), note)
    async with create_connected_server_and_client_session(server) as session:
        yield session


async def until(condition: Any, what: str) -> Any:
    """Waits like `wait_until`, in a thread, so that the session goes on."""
    return await asyncio.to_thread(wait_until, condition, what)


async def status_with_goal(session: ClientSession) -> dict[str, Any]:
    """Returns the status once it has the goal; the goal's own answer may come before."""
    for _ in range(400):
        status: dict[str, Any] = json.loads((await call(session, "status"))[1])
        if status["goal"]:
            return status
        await asyncio.sleep(0.05)
    raise AssertionError("no goal within 20 s")


async def use(session: ClientSession, console: ConsoleServer, robot: FakeRobot) -> None:
    """Uses all that an agent has, once."""
    tools = {tool.name for tool in (await session.list_tools()).tools}
    assert tools == TOOLS
    assert (await call(session, "words"))[0]
    taken, text = await call(session, "goal", sentence="turn left")
    assert taken and "turn left" in text and robot.goals[-1][0] == "turn left"
    status = await status_with_goal(session)
    assert status["goal"] == "turn left" and status["driver"] == status["you"]
    robot.goals[-1][1](GoalEnd(True, "stands"))
    await until(lambda: not console._hub._state.goal, "the end")
    await until(lambda: not console._hub._seat.driver, "the seat is given back")
    looking = asyncio.create_task(session.call_tool("picture", {}))
    camera = b"\xff\xd8 a picture \xff\xd9"
    await until(lambda: console.show_picture(camera) or looking.done(), "a picture")
    picture = (await looking).content[0]
    assert base64.b64decode(picture.data) == b"\xff\xd8 a picture \xff\xd9"
    console.show(m.Memories((m.Thing("a red chair", 1.0, 2.0), m.Thing("a blue bottle", 0.0, 0.0))))
    floor = await session.read_resource("outrider://map")
    log = await session.read_resource("outrider://log")
    assert "a blue bottle" in floor.contents[0].text and "done: turn left" in log.contents[0].text
    for what in ("Chair", "small red chair", "left chair"):
        recalled = json.loads((await call(session, "recall", what=what))[1])
        assert recalled == [{"what": "a red chair", "x": 1.0, "y": 2.0}]
    assert await call(session, "stop") == (
        True,
        "the emergency stop is engaged; a person releases it, at the console",
    )
    assert robot.e_stops and all(robot.e_stops) and robot.drives == []


@pytest.mark.lengthy
def test_an_agent_uses_the_robot_over_a_pipe(console: ConsoleServer, robot: FakeRobot) -> None:
    async def run() -> None:
        async with over_a_pipe("--console", console.url) as session:
            await use(session, console, robot)

    asyncio.run(run())


@contextlib.contextmanager
def served_over_http(console: ConsoleServer) -> Iterator[str]:
    """Serves agents over HTTP until the process ends. Yields the address."""
    ports: list[int] = []
    thread = threading.Thread(
        target=serve_http,
        args=(settings(console), lambda *_, **__: None, ConsoleSettings(port=0), TOKEN, ports.append),
        daemon=True,
    )
    thread.start()
    yield f"http://127.0.0.1:{wait_until(lambda: ports, 'the server')[0]}/mcp"


@pytest.mark.lengthy
def test_an_agent_uses_the_robot_over_http_with_a_token(console: ConsoleServer, robot: FakeRobot) -> None:
    async def run(url: str) -> None:
        async with (
            httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60.0) as client,
            streamable_http_client(url, http_client=client) as (incoming, outgoing, _),
            ClientSession(incoming, outgoing) as session,
        ):
            await session.initialize()
            await use(session, console, robot)

    with served_over_http(console) as url:
        asyncio.run(run(url))


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", f"bearer x{TOKEN}", TOKEN, "Basic x"])
def test_http_without_the_token_is_refused(console: ConsoleServer, robot: FakeRobot, given: str) -> None:
    with served_over_http(console) as url:
        for method in ("POST", "GET", "DELETE"):
            answer = httpx.request(method, url, headers={"Authorization": given}, content=b"x" * 100)
            assert answer.status_code == 401 and "Bearer" in answer.text
    assert console.num_viewers == 0


def test_a_request_that_is_too_large_is_refused(console: ConsoleServer) -> None:
    with served_over_http(console) as url:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        assert httpx.post(url, headers=headers, content=b"x" * 100_000).status_code == 413


@pytest.mark.lengthy
def test_hostile_calls_move_nothing_and_stops_are_taken_among_them(
    console: ConsoleServer, robot: FakeRobot, notes: Notes
) -> None:
    async def answer() -> None:
        """Shows a picture every 20 ms and ends each goal, so that no call waits for its timeout."""
        while True:
            console.show_picture(b"\xff\xd8 a picture \xff\xd9")
            for _, on_end in robot.goals[ended[-1] :]:
                on_end(GoalEnd(False, "cancelled"))
            ended.append(len(robot.goals))
            await asyncio.sleep(0.02)

    async def run() -> None:
        console.update(stands=True)
        answering = asyncio.create_task(answer())
        async with connected(console, notes) as session:
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
    assert sum(note[1] == "call" for note in notes) < 200, "a flood of 2000 fills no journal, however long"


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
    console: ConsoleServer, robot: FakeRobot
) -> None:
    import subprocess

    from support.agents import COMMAND

    sent = b"".join(line for _, line in itertools.islice(hostile_calls(seed=1), 3000))
    stop = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"stop","arguments":{}}}\n'
    process = subprocess.run(
        [*COMMAND, "--console", console.url], input=sent + stop, capture_output=True, timeout=100, check=False
    )
    assert process.returncode == 0 and b"Traceback" not in process.stderr
    answers = [json.loads(line) for line in process.stdout.splitlines()]
    assert any("messages a second" in answer.get("error", {}).get("message", "") for answer in answers)
    assert robot.e_stops and all(robot.e_stops) and robot.drives == [] and robot.goals == []


def test_one_drives_at_a_time_and_a_person_comes_first(console: ConsoleServer, robot: FakeRobot) -> None:
    async def run() -> None:
        page = await asyncio.to_thread(Page, console)
        async with connected(console) as first, connected(console) as second:
            assert (await call(first, "goal", sentence="turn left"))[0]
            taken, reason = await call(second, "goal", sentence="turn right")
            assert not taken and "has the driver's seat" in reason
            taken, reason = await call(first, "goal", sentence="turn right")
            assert not taken and '"turn left" is under way' in reason
            page.send(do="take")
            await until(lambda: robot.cancels, "the agent's command ends")
            robot.goals[0][1](GoalEnd(False, "cancelled"))
            taken, reason = await call(second, "goal", sentence="turn right")
            assert not taken and "viewer 1 has the driver's seat" in reason
            page.vanish()

    asyncio.run(run())
    assert [said for said, _ in robot.goals] == ["turn left"]


def test_the_end_of_a_command_is_sent_to_the_agent_that_waits(
    console: ConsoleServer, robot: FakeRobot
) -> None:
    async def run() -> None:
        async with connected(console) as session:
            goal = asyncio.create_task(call(session, "goal", sentence="find the red chair", wait_s=60.0))
            await until(lambda: robot.goals, "the goal")
            robot.goals[0][1](GoalEnd(False, "no chair is in sight"))
            assert await goal == (True, "failed: no chair is in sight")
            assert (
                json.loads((await call(session, "status"))[1])["last_goal"] == "failed: no chair is in sight"
            )

    asyncio.run(run())


def test_a_sentence_that_says_stop_ends_what_runs(console: ConsoleServer, robot: FakeRobot) -> None:
    async def run() -> None:
        async with connected(console) as session:
            for sentence in ("stop", "halt sofort an", "stop and then turn left"):
                taken, said = await call(session, "goal", sentence=sentence)
                assert taken and said.startswith("the robot was asked to stop")
                assert ("say the rest anew" in said) == ("left" in sentence)
            console.update(stands=True)
            while not json.loads((await call(session, "status"))[1])["stands"]:
                pass
            assert await call(session, "cancel") == (True, "cancelled: the robot stands")

    asyncio.run(run())
    wait_until(lambda: robot.cancels >= 4, "each has ended what runs")
    assert robot.goals == []


def test_a_stop_in_too_long_a_sentence_ends_what_runs(console: ConsoleServer, robot: FakeRobot) -> None:
    async def run() -> None:
        async with connected(console) as session:
            for sentence in ("stop " + "please " * 200, "x " * 300 + ", stop"):
                taken, said = await call(session, "goal", sentence=sentence)
                assert taken and said.startswith("the robot was asked to stop")
            taken, said = await call(session, "goal", sentence="turn left, then " * 100)
            assert not taken and "at most 400" in said

    asyncio.run(run())
    assert robot.goals == []


def test_a_withdrawn_call_ends_its_command(console: ConsoleServer, robot: FakeRobot) -> None:
    async def run() -> None:
        async with connected(console) as session:
            goal = asyncio.create_task(call(session, "goal", sentence="find the red chair", wait_s=60.0))
            await until(lambda: robot.goals, "the goal")
            cancelled = CancelledNotification(
                params=CancelledNotificationParams(requestId=session._request_id - 1)
            )
            await session.send_notification(ClientNotification(cancelled))
            await until(lambda: robot.cancels, "the command ends")
            with pytest.raises(McpError, match="cancelled"):
                await goal

    asyncio.run(run())


@pytest.mark.lengthy
def test_the_command_of_an_agent_that_has_gone_ends(console: ConsoleServer, robot: FakeRobot) -> None:
    async def run() -> None:
        there = [True]
        agent = Agent(settings(console), lambda *_, **__: None)
        await agent.goal(1, "find the red chair", 0.0, lambda: there[0])
        assert robot.goals and not robot.cancels
        there[0] = False
        await until(lambda: robot.cancels, "the command ends")
        await agent.close()

    asyncio.run(run())


def test_an_agent_that_leaves_takes_its_command_along(console: ConsoleServer, robot: FakeRobot) -> None:
    async def run() -> None:
        async with connected(console) as session:
            await call(session, "goal", sentence="find the red chair")

    asyncio.run(run())
    wait_until(lambda: robot.cancels, "the command ends")


def test_private_memories_are_for_agents_that_may_hear_them(console: ConsoleServer, robot: FakeRobot) -> None:
    async def run(private: bool) -> list[tuple[bool, str]]:
        async with connected(console, private=private) as session:
            asked = asyncio.create_task(call(session, "ask", question="where are my keys?"))
            if private:
                await until(lambda: robot.goals, "the question")
                robot.goals[-1][1](GoalEnd(True, "under the mat"))
            forgot = asyncio.create_task(call(session, "forget", about="keys")) if not private else None
            if forgot is not None:
                await until(lambda: robot.goals, "the order")
                robot.goals[-1][1](GoalEnd(True, "forgot: the keys are under the mat"))
            return [await task for task in (asked, forgot) if task is not None]

    (asked, reason), (forgot, told) = asyncio.run(run(private=False))
    assert not asked and "--private" in reason and forgot and told == "done"
    robot.goals.clear()
    assert asyncio.run(run(private=True)) == [(True, "done: under the mat")]


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


@pytest.mark.lengthy
def test_without_a_console_every_call_says_what_to_start(robot: FakeRobot) -> None:
    server = ConsoleServer(robot, ConsoleSettings(port=0))
    server.close()

    async def run() -> None:
        async with connected(server) as session:
            for tool in ("status", "stop", "cancel"):
                taken, reason = await call(session, tool)
                assert not taken and "start `outrider console`" in reason

    asyncio.run(run())


def test_a_console_that_comes_back_is_found_again(robot: FakeRobot, console: ConsoleServer) -> None:
    async def run() -> None:
        async with connected(console) as session:
            assert (await call(session, "status"))[0]
            port = console.port
            console.close()
            again = ConsoleServer(robot, ConsoleSettings(port=port))
            assert (await call(session, "status"))[0]
            again.close()

    asyncio.run(run())


@pytest.mark.lengthy
def test_the_consoles_login_is_passed_with_its_token(tmp_path: Path, robot: FakeRobot) -> None:
    file = tmp_path / "token"
    server = ConsoleServer(robot, ConsoleSettings(port=0, login=True, token_file=str(file)))

    async def status(token: str) -> tuple[bool, str]:
        note = lambda *_, **__: None  # noqa: E731
        async with create_connected_server_and_client_session(
            make_server(settings(server, token=token), note)
        ) as session:
            return await call(session, "status")

    assert asyncio.run(status(file.read_text().strip()))[0]
    taken, reason = asyncio.run(status("a wrong token, long enough"))
    assert not taken and "--console-token-file" in reason
    taken, reason = asyncio.run(status(""))
    assert not taken
    server.close()


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8088", "ftp://x/", "http://", "http://x:99999/", "file:///etc"]
)
def test_an_address_that_is_none_is_named(url: str) -> None:
    with pytest.raises(ConfigError, match="--console"):
        ConsoleAddress(url)


@pytest.mark.lengthy
def test_a_session_goes_on_after_what_was_too_long_or_too_much(console: ConsoleServer) -> None:
    """Messages that are too long and too many, by the SDK's own client."""

    async def speak(session: ClientSession) -> None:
        for tool, given in (("goal", {"sentence": "x" * 100_000}), ("remember", {"text": "y" * 3_000_000})):
            with pytest.raises(McpError, match="say it in fewer"):
                await session.call_tool(tool, given)
        many = [session.call_tool("status", {}) for _ in range(250)]
        ended = await asyncio.gather(*many, return_exceptions=True)
        assert any("messages a second: wait" in str(one) for one in ended)
        is_taken = False
        while not is_taken:  # only the test's time limit ends this loop
            with contextlib.suppress(McpError):
                is_taken = (await call(session, "words"))[0]
            await asyncio.sleep(0.02)  # without a pause the requests would take a whole core

    async def run(url: str) -> None:
        async with over_a_pipe("--console", console.url) as session:
            await speak(session)
        async with (
            httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60.0) as client,
            streamable_http_client(url, http_client=client) as (incoming, outgoing, _),
            ClientSession(incoming, outgoing) as session,
        ):
            await session.initialize()
            await speak(session)

    with served_over_http(console) as url:
        asyncio.run(run(url))
