"""Agents by the Model Context Protocol, over a pipe and over HTTP, with a console and a fake robot."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

import httpx
from mcp import ClientSession, McpError
from support.agents import (
    TOKEN,
    agent_settings,
    call,
    connected,
    over_a_pipe,
    over_http,
    serve_agents,
    until,
)
from support.consoles import FakeRobot

from outrider.console import messages as m
from outrider.console.agents.address import ConsoleAddress
from outrider.console.robot import GoalEnd
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.core.errors import ConfigError

TOOLS = {
    *("goal", "cancel", "stop", "status", "picture", "ask", "remember", "recall", "forget", "words"),
}


async def status_with_goal(session: ClientSession) -> dict[str, Any]:
    """Returns the status once it has the goal; the goal's own answer may come before."""
    for _ in range(400):
        status: dict[str, Any] = json.loads((await call(session, "status"))[1])
        if status["goal"]:
            return status
        await asyncio.sleep(0.05)
    raise AssertionError("no goal within 20 s")


async def use(session: ClientSession, server: ConsoleServer, robot: FakeRobot) -> None:
    """Uses all that an agent has, once."""
    tools = {tool.name for tool in (await session.list_tools()).tools}
    assert tools == TOOLS
    assert (await call(session, "words"))[0]
    taken, text = await call(session, "goal", sentence="turn left")
    assert taken and "turn left" in text and robot.goals[-1][0] == "turn left"
    status = await status_with_goal(session)
    assert status["goal"] == "turn left" and status["driver"] == status["you"]
    robot.goals[-1][1](GoalEnd(True, "stands"))
    await until(lambda: not server._hub._state.goal, "the end")
    await until(lambda: not server._hub._seat.driver, "the seat is given back")
    looking = asyncio.create_task(session.call_tool("picture", {}))
    camera = b"\xff\xd8 a picture \xff\xd9"
    await until(lambda: server.show_picture(camera) or looking.done(), "a picture")
    picture = (await looking).content[0]
    assert base64.b64decode(picture.data) == b"\xff\xd8 a picture \xff\xd9"
    server.show(m.Memories((m.Thing("a red chair", 1.0, 2.0), m.Thing("a blue bottle", 0.0, 0.0))))
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
def test_an_agent_uses_the_robot_over_a_pipe(server: ConsoleServer, robot: FakeRobot) -> None:
    async def run() -> None:
        async with over_a_pipe("--console", server.url) as session:
            await use(session, server, robot)

    asyncio.run(run())


@pytest.mark.lengthy
def test_an_agent_uses_the_robot_over_http_with_a_token(server: ConsoleServer, robot: FakeRobot) -> None:
    async def run(url: str) -> None:
        async with over_http(url) as session:
            await use(session, server, robot)

    asyncio.run(run(serve_agents(agent_settings(server))))


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", f"bearer x{TOKEN}", TOKEN, "Basic x"])
def test_http_without_the_token_is_refused(server: ConsoleServer, robot: FakeRobot, given: str) -> None:
    url = serve_agents(agent_settings(server))
    for method in ("POST", "GET", "DELETE"):
        answer = httpx.request(method, url, headers={"Authorization": given}, content=b"x" * 100)
        assert answer.status_code == 401 and "Bearer" in answer.text
    assert server.num_viewers == 0


def test_a_request_that_is_too_large_is_refused(server: ConsoleServer) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    url = serve_agents(agent_settings(server))
    assert httpx.post(url, headers=headers, content=b"x" * 100_000).status_code == 413


@pytest.mark.lengthy
def test_without_a_console_every_call_says_what_to_start(robot: FakeRobot) -> None:
    server = ConsoleServer(robot, ConsoleSettings(port=0))
    server.close()

    async def run() -> None:
        async with connected(agent_settings(server)) as session:
            for tool in ("status", "stop", "cancel"):
                taken, reason = await call(session, tool)
                assert not taken and "start `outrider console`" in reason

    asyncio.run(run())


def test_a_console_that_comes_back_is_found_again(robot: FakeRobot, server: ConsoleServer) -> None:
    async def run() -> None:
        async with connected(agent_settings(server)) as session:
            assert (await call(session, "status"))[0]
            port = server.port
            server.close()
            again = ConsoleServer(robot, ConsoleSettings(port=port))
            assert (await call(session, "status"))[0]
            again.close()

    asyncio.run(run())


@pytest.mark.lengthy
def test_the_consoles_login_is_passed_with_its_token(tmp_path: Path, robot: FakeRobot) -> None:
    file = tmp_path / "token"
    server = ConsoleServer(robot, ConsoleSettings(port=0, login=True, token_file=str(file)))

    async def status(token: str) -> tuple[bool, str]:
        async with connected(agent_settings(server, token=token)) as session:
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
def test_a_session_goes_on_after_what_was_too_long_or_too_much(server: ConsoleServer) -> None:
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
        async with over_a_pipe("--console", server.url) as session:
            await speak(session)
        async with over_http(url) as session:
            await speak(session)

    asyncio.run(run(serve_agents(agent_settings(server))))
