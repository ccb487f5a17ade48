"""An agent's connection to the console is either open and read or closed, never half open."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from mcp.shared.exceptions import McpError
from mcp.shared.memory import create_connected_server_and_client_session
from pydantic import AnyUrl
from support.consoles import FakeRobot, StandingRobot, wait_until
from typer.testing import CliRunner
from websockets.asyncio.server import ServerConnection, serve

import outrider
from outrider import cli
from outrider.console.agents.address import ConsoleAddress
from outrider.console.agents.agent import Agent, AgentSettings
from outrider.console.agents.envelope import Envelope
from outrider.console.agents.link import ConsoleLink
from outrider.console.agents.tools import make_server
from outrider.console.notes import note_nothing
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.core.errors import ConfigError, LinkError

LIMIT_S = 20.0


@pytest.fixture
def robot() -> FakeRobot:
    return StandingRobot()


def agent_of(url: str, token: str = "") -> Agent:
    settings = AgentSettings(ConsoleAddress(url, token), Envelope(None), "say: turn left", haste=1000.0)
    return Agent(settings, note_nothing)


@pytest.mark.lengthy
@pytest.mark.parametrize("first", range(4))
def test_a_first_call_withdrawn_at_any_moment_leaves_a_connection_or_none(
    console: ConsoleServer, first: int
) -> None:
    """Cancels at steps of 4 ms over the first 24 ms; by then the call may have been answered."""

    async def run() -> None:
        for delay_ms in range(first, 24, 4):
            agent = agent_of(console.url)
            calling = asyncio.create_task(agent.status())
            await asyncio.wait([calling], timeout=0.001 * delay_ms)
            calling.cancel()
            await asyncio.wait([calling])
            assert agent.name in await agent.status()
            await agent.close()

    asyncio.run(asyncio.wait_for(run(), LIMIT_S))
    wait_until(lambda: console.num_viewers == 0, "no connection is left")


@pytest.mark.lengthy
@pytest.mark.parametrize("ends", ["taken back", "late", "garbage"])
def test_a_console_that_gives_no_welcome_is_left(ends: str) -> None:
    connect_s = 1.0 if ends == "late" else LIMIT_S

    async def run() -> None:
        greeted, left = asyncio.Event(), asyncio.Event()

        async def say_nothing(socket: ServerConnection) -> None:
            await socket.recv()
            greeted.set()
            if ends == "garbage":
                await socket.send("{")
            await socket.wait_closed()
            left.set()

        async with serve(say_nothing, "127.0.0.1", 0) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            link = ConsoleLink(ConsoleAddress(f"http://127.0.0.1:{port}/", connect_s=connect_s), "mcp")
            opening = asyncio.create_task(link.open())
            await greeted.wait()
            if ends == "taken back":
                opening.cancel()
            with pytest.raises((LinkError, asyncio.CancelledError)):
                await opening
            assert not link.is_open
            await left.wait()

    asyncio.run(asyncio.wait_for(run(), LIMIT_S))


@pytest.mark.lengthy
def test_a_withdrawn_stop_in_words_is_still_read_to_its_end_and_reported(
    console: ConsoleServer, robot: FakeRobot
) -> None:
    """Otherwise each later sentence would wait for the console's answer to this one."""

    async def run() -> None:
        agent = agent_of(console.url)
        for number in range(20):
            assert "under way" in await agent.goal(2 * number, "turn left")
            stopping = asyncio.create_task(agent.goal(2 * number + 1, "stop"))
            while agent._link._cancels <= number:
                await asyncio.sleep(0)
            stopping.cancel()
            await asyncio.wait([stopping])
            while agent._link.is_busy:  # until the end of the stopped command has arrived
                await asyncio.sleep(0.001)
        await agent.close()

    asyncio.run(asyncio.wait_for(run(), LIMIT_S))
    assert robot.cancels >= 20


def test_an_agent_that_is_not_admitted_learns_what_to_give(tmp_path: Path, robot: FakeRobot) -> None:
    file = tmp_path / "token"
    server = ConsoleServer(robot, ConsoleSettings(port=0, login=True, token_file=str(file)))

    async def why(url: str, token: str) -> str:
        with pytest.raises(LinkError) as error:
            await agent_of(url, token).status()
        return str(error.value)

    without = asyncio.run(why(server.url, ""))
    assert "--console-token-file" in without and "start `outrider console`" not in without
    elsewhere = asyncio.run(why(f"{server.url}robots/x/", file.read_text().strip()))
    assert "address" in elsewhere and "--console-token-file" not in elsewhere
    server.close()


@pytest.mark.parametrize("name", ["Robo ter", "ünï", "x" * 33, "../a", "a\n"])
def test_a_name_that_no_console_takes_is_refused_at_the_start(name: str) -> None:
    """Without a name it would pass for a person."""
    done = CliRunner().invoke(cli.app, ["mcp", "--name", name])
    assert done.exit_code != 0
    assert "--name" in str(done.exception) and "letters" in str(done.exception)


def test_an_empty_name_is_refused_at_the_start() -> None:
    done = CliRunner().invoke(cli.app, ["mcp", "--name", ""])
    assert done.exit_code == 2 and "--name" in done.output and "empty" in done.output


@pytest.mark.parametrize("content", [None, "short"])
def test_a_consoles_token_is_read_and_never_made(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "no such folder" / "console.tokne" if content is None else tmp_path / "token"
    if content is not None:
        file.write_text(content)
        file.chmod(0o600)
    done = CliRunner().invoke(cli.app, ["mcp", "--console-token-file", str(file)])
    assert isinstance(done.exception, ConfigError) and str(file) in str(done.exception)
    assert "name the file that the console told" in str(done.exception)
    assert "delete" not in str(done.exception) and list(tmp_path.iterdir()) == [file] * (content is not None)


@pytest.mark.parametrize("of", ["camera", "map", "log"])
def test_a_refused_resource_and_a_prompt_are_reported_in_one_line(
    of: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        settings = AgentSettings(ConsoleAddress("http://127.0.0.1:1/"), Envelope(None), "say: turn left")
        async with create_connected_server_and_client_session(make_server(settings, note_nothing)) as session:
            with pytest.raises(McpError, match=r"^(?!Error).*start `outrider console`"):
                await session.read_resource(AnyUrl(f"outrider://{of}"))
            with pytest.raises(McpError, match=r'^there is no prompt "x"'):
                await session.get_prompt("x")

    asyncio.run(asyncio.wait_for(run(), LIMIT_S))
    assert not [one for one in caplog.records if one.exc_info]


def test_the_version_that_an_agent_is_told_is_the_packages_own() -> None:
    async def run() -> None:
        settings = AgentSettings(ConsoleAddress("http://127.0.0.1:9"), Envelope(None), "say: turn left")
        async with create_connected_server_and_client_session(make_server(settings, note_nothing)) as session:
            told = (await session.initialize()).serverInfo
        assert (told.name, told.version) == ("outrider", outrider.__version__)

    asyncio.run(asyncio.wait_for(run(), LIMIT_S))


def test_a_resource_that_is_not_there_is_refused_as_mcp_has_it(console: ConsoleServer) -> None:
    async def run() -> None:
        settings = AgentSettings(ConsoleAddress(console.url), Envelope(None), "say: turn left")
        server = make_server(settings, note_nothing)
        async with create_connected_server_and_client_session(server) as session:
            with pytest.raises(McpError, match="read one of outrider://camera") as error:
                await session.read_resource(AnyUrl("outrider://nothing"))
            assert error.value.error.code == -32002
            assert (await session.read_resource(AnyUrl("outrider://map"))).contents

    asyncio.run(asyncio.wait_for(run(), LIMIT_S))
