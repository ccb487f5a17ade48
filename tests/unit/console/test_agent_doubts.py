"""What is not understood during a motion: the agent's own command ends, and no other agent's does."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from mcp import ClientSession
from support.agents import agent_settings, call, connected, until
from support.consoles import FakeRobot, Page, StandingRobot

from outrider.console.agents.agent import Agent
from outrider.console.agents.envelope import SENTENCES_AT_ONCE
from outrider.console.notes import note_nothing
from outrider.console.robot import GoalEnd
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.core.errors import BusyError, LinkError
from outrider.core.values import Pose2D

STANDS = "in doubt the robot stands"


@pytest.fixture
def robot() -> FakeRobot:
    return StandingRobot()


@pytest.fixture
def console(server: ConsoleServer) -> ConsoleServer:
    server.update(stands=True, link="local")
    return server


async def told(session: ClientSession, condition: Callable[[dict[str, Any]], Any]) -> None:
    """Returns once the status has met a condition; an older status may still have been on its way."""

    async def is_told() -> None:
        while not condition(json.loads((await call(session, "status"))[1])):
            pass

    await asyncio.wait_for(is_told(), 20.0)


@contextlib.asynccontextmanager
async def moving(console: ConsoleServer) -> AsyncIterator[ClientSession]:
    """Yields an agent whose command is running."""
    async with connected(agent_settings(console)) as session:
        assert (await call(session, "goal", sentence="turn left"))[0]
        yield session


DOUBTFUL: list[tuple[str, dict[str, Any]]] = [
    ("goal", {"sentence": "not like that"}),
    ("goal", {"sentence": "do not turn left"}),
    ("goal", {"sentence": "easy"}),
    ("goal", {"sentence": "x " * 300}),
    ("ask", {"question": "one thing"}),
    ("goal", {}),
    ("goal", {"sentence": ""}),
    ("goal", {"sentence": ["hey"]}),
    ("ask", {"sentence": "hey"}),
    ("slow_down", {}),
]


@pytest.mark.parametrize(("tool", "given"), DOUBTFUL)
def test_what_is_not_understood_ends_the_agents_own_command(
    console: ConsoleServer, robot: FakeRobot, tool: str, given: dict[str, Any]
) -> None:
    async def run() -> None:
        async with moving(console) as session:
            taken, said = await call(session, tool, **given)
            assert not taken and STANDS in said
            await until(lambda: robot.cancels and not console._hub._state.goal, "the robot stands")
            await told(session, lambda state: state["last_goal"])
            taken, said = await call(session, tool, **given)
            assert not taken and STANDS not in said, "nothing is under way any more"

    asyncio.run(run())
    assert [said for said, _ in robot.goals] == ["turn left"]


@pytest.mark.parametrize(("tool", "given"), DOUBTFUL)
def test_what_is_not_understood_ends_nothing_of_another(
    console: ConsoleServer, robot: FakeRobot, tool: str, given: dict[str, Any]
) -> None:
    async def run() -> None:
        async with moving(console), connected(agent_settings(console)) as other:
            taken, said = await call(other, tool, **given)
            assert not taken and STANDS not in said
            assert (await call(other, "status"))[0]
            assert robot.cancels == 0

    asyncio.run(run())


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("goal", {"text": "stop"}),
        ("goal", {"sentence": "stop!", "wait_s": 1e9}),
        ("ask", {"sentence": "please halt"}),
        ("goal", {"sentence": 7, "order": "stop now"}),
        ("halt", {}),
        ("hold_on", {"why": "a child"}),
    ],
)
def test_a_stop_in_a_call_that_fits_no_tool_ends_whatever_runs(
    console: ConsoleServer, robot: FakeRobot, tool: str, given: dict[str, Any]
) -> None:
    async def run() -> None:
        async with moving(console), connected(agent_settings(console)) as other:
            taken, said = await call(other, tool, **given)
            assert not taken and "it says to stop: cancelled" in said
            await until(lambda: robot.cancels, "the robot stands")

    asyncio.run(run())


@pytest.mark.lengthy
@pytest.mark.parametrize("sentence", ["wait", "wait!", "wait ten seconds", "warte", "attends", "等"])
def test_a_wait_makes_a_moving_robot_stand(console: ConsoleServer, robot: FakeRobot, sentence: str) -> None:
    async def run() -> None:
        async with moving(console) as session:
            assert await call(session, "goal", sentence=sentence) == (True, "cancelled: the robot stands")
            assert robot.cancels
            taken, said = await call(session, "goal", sentence=sentence)
            assert taken and robot.goals[-1][0] == sentence, "with nothing under way it is a command"
            assert "under way" in said
            taken, said = await call(session, "goal", sentence="wait, then turn right")
            assert taken and said.endswith("the rest is not carried out: say it anew")

    asyncio.run(run())
    assert [said for said, _ in robot.goals] == ["turn left", sentence]


@pytest.mark.parametrize(
    ("tool", "given", "reason"),
    [
        ("goal", {"sentence": "turn right"}, "is under way: wait for its end, or cancel it"),
        ("ask", {"question": "what do you see?"}, "is under way"),
        ("ask", {"question": "where are my keys?"}, "--private"),
        ("goal", {"sentence": "forget everything"}, "not everything"),
        ("remember", {"text": " "}, "nothing to remember"),
        ("recall", {"where": "here"}, 'no argument "where"'),
    ],
)
def test_what_is_understood_and_refused_leaves_the_command(
    console: ConsoleServer, robot: FakeRobot, tool: str, given: dict[str, Any], reason: str
) -> None:
    async def run() -> None:
        async with moving(console) as session:
            taken, said = await call(session, tool, **given)
            assert not taken and reason in said and STANDS not in said
            assert (await call(session, "status"))[0]
            assert robot.cancels == 0

    asyncio.run(run())


def test_a_sentence_that_is_too_fast_to_be_read_ends_the_agents_own_command(
    console: ConsoleServer, robot: FakeRobot
) -> None:
    async def run() -> None:
        agents = [Agent(agent_settings(console), note_nothing, lambda: 0.0) for _ in range(2)]
        assert "under way" in await agents[0].goal(0, "turn left")
        for flooding, stands in zip(reversed(agents), (False, True), strict=True):
            for number in range(1, int(SENTENCES_AT_ONCE) + 1):
                with contextlib.suppress(LinkError):
                    await flooding.remember(number, "a dull day")
            with pytest.raises(BusyError, match="sentence a second") as refused:
                await flooding.goal(99, "not like that")
            assert (STANDS in str(refused.value)) == stands
            if stands:
                await until(lambda: robot.cancels, "the robot stands")
            assert bool(robot.cancels) == stands
        for one in agents:
            await one.close()

    asyncio.run(run())


@pytest.mark.parametrize("sentence", ["not like that", "easy", "wait"])
def test_a_persons_next_sentence_ends_the_one_under_way_whatever_it_says(
    console: ConsoleServer, robot: FakeRobot, sentence: str
) -> None:
    page = Page(console).seated()
    page.send(do="say", text="turn left")
    page.read("goal", state="running", instruction="turn left")
    page.send(do="say", text=sentence)
    page.read("goal", state="failed", instruction="turn left")
    assert robot.cancels and [said for said, _ in robot.goals][:1] == ["turn left"]
    page.vanish()


ASKED = [
    ("goal", {"sentence": "turn left"}),
    ("goal", {"sentence": "find the red chair, then come back"}),
    ("goal", {"sentence": "wait ten seconds, then turn left"}),
]


@pytest.mark.parametrize(("tool", "given"), ASKED)
def test_a_goal_while_the_emergency_stop_holds_says_so_and_who_releases_it(
    console: ConsoleServer, robot: FakeRobot, tool: str, given: dict[str, Any]
) -> None:
    async def run() -> None:
        async with connected(agent_settings(console)) as session:
            assert (await call(session, "stop"))[0]
            taken, said = await call(session, tool, **given)
            assert not taken and "emergency stop is engaged" in said and "releases it" in said
            assert robot.goals == []
            asked = asyncio.create_task(call(session, "ask", question="what do you see?"))
            await until(lambda: robot.goals, "a question moves nothing, and is asked")
            robot.goals[-1][1](GoalEnd(True, "a chair"))
            assert await asked == (True, "done: a chair")
            console.update(e_stop=False)
            await told(session, lambda state: not state["e_stop"])
            assert (await call(session, tool, **given))[0]

    asyncio.run(run())


def test_a_goal_while_a_person_has_the_seat_says_who_and_what_to_do(
    console: ConsoleServer, robot: FakeRobot
) -> None:
    async def run() -> None:
        page = await asyncio.to_thread(lambda: Page(console).seated())
        async with connected(agent_settings(console)) as session:
            taken, said = await call(session, "goal", sentence="turn left")
            assert not taken and f"{page.name} has the driver's seat" in said and "wait" in said
        page.vanish()

    asyncio.run(run())
    assert robot.goals == []


@pytest.mark.lengthy
def test_a_goal_that_no_robot_has_been_heard_to_take_says_so(robot: FakeRobot) -> None:
    async def run(console: ConsoleServer) -> None:
        async with connected(agent_settings(console)) as session:
            taken, said = await call(session, "goal", sentence="turn left")
            assert taken and "nothing has been heard of the robot" in said
            await call(session, "cancel")
            console.update(warning="the console is not active: it stops the robot, and moves nothing")
            await told(session, lambda state: state["warning"])
            _, said = await call(session, "goal", sentence="turn left")
            assert "the console warns: the console is not active" in said and "heard" not in said
            await call(session, "cancel")
            console.update(warning="", link="connected")
            console.show_pose(Pose2D(1.0, 2.0, 0.0))
            await told(session, lambda state: state["pose"])
            _, said = await call(session, "goal", sentence="turn left")
            assert "warns" not in said and "heard" not in said

    server = ConsoleServer(robot, ConsoleSettings(port=0))
    asyncio.run(run(server))
    server.close()


def test_a_goal_that_ends_at_once_is_reported_as_ended(console: ConsoleServer, robot: FakeRobot) -> None:
    async def run() -> None:
        async with connected(agent_settings(console)) as session:
            asked = asyncio.create_task(call(session, "goal", sentence="turn left"))
            await until(lambda: robot.goals, "the goal")
            robot.goals[-1][1](GoalEnd(False, "no navigator listens: is it running?"))
            assert await asked == (True, "failed: no navigator listens: is it running?")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("tool", "given", "words"),
    [
        ("goal", {}, "goal: `sentence` must be text with at least one character, and is missing"),
        ("goal", {"sentence": None}, "at least one character, not null"),
        ("goal", {"sentence": "turn left", "wait_s": -1}, "`wait_s` must be a number from 0 to 600, not -1"),
        ("goal", {"sentence": "turn left", "wait_s": "NaN"}, "`wait_s` must be a number from 0 to 600, not"),
        ("goal", {"sentence": "turn left", "wait_s": "long"}, 'a number from 0 to 600, not "long"'),
        ("goal", {"sentence": "turn left", "speed": 9}, 'no argument "speed": give `sentence` and `wait_s`'),
        ("recall", {"what": 5}, "recall: `what` must be text"),
        ("remember", {"text": ["x"] * 500}, "remember: `text` must be text"),
        ("forget", {"about": {}}, "forget: `about` must be text"),
        ("fly", {}, 'there is no tool "fly": call one of stop, cancel, goal'),
    ],
)
def test_a_malformed_call_is_refused_in_words_that_say_what_to_give(
    console: ConsoleServer, robot: FakeRobot, tool: str, given: dict[str, Any], words: str
) -> None:
    async def run() -> None:
        async with connected(agent_settings(console)) as session:
            taken, said = await call(session, tool, **given)
            assert not taken and words in said and "it says to stop" not in said
            assert len(said) < 300 and not any(sign in said for sign in ("pydantic", "http", "\n", "type="))

    asyncio.run(run())
    assert robot.goals == []


@pytest.mark.parametrize("tool", ["status", "words", "stop", "cancel"])
def test_a_tool_without_arguments_takes_any(console: ConsoleServer, robot: FakeRobot, tool: str) -> None:
    async def run() -> None:
        async with connected(agent_settings(console)) as session:
            assert (await call(session, tool, random_string="x"))[0]

    asyncio.run(run())
