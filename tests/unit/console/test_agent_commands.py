"""Commands of agents: one drives at a time, learns how its command ends, and ends it when it leaves."""

from __future__ import annotations

import asyncio
import json

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from mcp import McpError
from mcp.types import CancelledNotification, CancelledNotificationParams, ClientNotification
from support.agents import WORDS, agent_settings, call, connected, until
from support.consoles import FakeRobot, Page, wait_until

from outrider.console.agents.agent import Agent
from outrider.console.agents.envelope import Envelope
from outrider.console.notes import note_nothing
from outrider.console.robot import GoalEnd
from outrider.console.server import ConsoleServer


def test_one_drives_at_a_time_and_a_person_comes_first(server: ConsoleServer, robot: FakeRobot) -> None:
    async def run() -> None:
        page = await asyncio.to_thread(Page, server)
        async with connected(agent_settings(server)) as first, connected(agent_settings(server)) as second:
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
    server: ConsoleServer, robot: FakeRobot
) -> None:
    async def run() -> None:
        async with connected(agent_settings(server)) as session:
            goal = asyncio.create_task(call(session, "goal", sentence="find the red chair", wait_s=60.0))
            await until(lambda: robot.goals, "the goal")
            robot.goals[0][1](GoalEnd(False, "no chair is in sight"))
            assert await goal == (True, "failed: no chair is in sight")
            assert (
                json.loads((await call(session, "status"))[1])["last_goal"] == "failed: no chair is in sight"
            )

    asyncio.run(run())


def test_a_sentence_that_says_stop_ends_what_runs(server: ConsoleServer, robot: FakeRobot) -> None:
    async def run() -> None:
        async with connected(agent_settings(server)) as session:
            for sentence in ("stop", "halt sofort an", "stop and then turn left"):
                taken, said = await call(session, "goal", sentence=sentence)
                assert taken and said.startswith("the robot was asked to stop")
                assert ("say the rest anew" in said) == ("left" in sentence)
            server.update(stands=True)
            while not json.loads((await call(session, "status"))[1])["stands"]:
                pass
            assert await call(session, "cancel") == (True, "cancelled: the robot stands")

    asyncio.run(run())
    wait_until(lambda: robot.cancels >= 4, "each has ended what runs")
    assert robot.goals == []


def test_a_stop_in_too_long_a_sentence_ends_what_runs(server: ConsoleServer, robot: FakeRobot) -> None:
    async def run() -> None:
        async with connected(agent_settings(server)) as session:
            for sentence in ("stop " + "please " * 200, "x " * 300 + ", stop"):
                taken, said = await call(session, "goal", sentence=sentence)
                assert taken and said.startswith("the robot was asked to stop")
            taken, said = await call(session, "goal", sentence="turn left, then " * 100)
            assert not taken and "at most 400" in said

    asyncio.run(run())
    assert robot.goals == []


def test_a_withdrawn_call_ends_its_command(server: ConsoleServer, robot: FakeRobot) -> None:
    async def run() -> None:
        async with connected(agent_settings(server)) as session:
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
def test_the_command_of_an_agent_that_has_gone_ends(server: ConsoleServer, robot: FakeRobot) -> None:
    async def run() -> None:
        there = [True]
        agent = Agent(agent_settings(server), note_nothing)
        await agent.goal(1, "find the red chair", 0.0, lambda: there[0])
        assert robot.goals and not robot.cancels
        there[0] = False
        await until(lambda: robot.cancels, "the command ends")
        await agent.close()

    asyncio.run(run())


def test_an_agent_that_leaves_takes_its_command_along(server: ConsoleServer, robot: FakeRobot) -> None:
    async def run() -> None:
        async with connected(agent_settings(server)) as session:
            await call(session, "goal", sentence="find the red chair")

    asyncio.run(run())
    wait_until(lambda: robot.cancels, "the command ends")


def test_private_memories_are_for_agents_that_may_hear_them(server: ConsoleServer, robot: FakeRobot) -> None:
    async def run(private: bool) -> list[tuple[bool, str]]:
        async with connected(agent_settings(server, Envelope(WORDS, private))) as session:
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
