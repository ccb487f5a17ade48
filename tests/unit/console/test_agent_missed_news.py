"""An agent whose link was too slow for all messages learns from the newest state how its command ended."""

from __future__ import annotations

import asyncio

import pytest
from support.consoles import FakeRobot

from outrider.console import messages as m
from outrider.console.agents.address import ConsoleAddress
from outrider.console.agents.link import ConsoleLink
from outrider.console.robot import GoalEnd
from outrider.console.server import ConsoleServer

LIMIT_S = 20.0
LONG = "x" * 100_000


def flood(console: ConsoleServer, first: int) -> None:
    """Shows more than the console keeps for a page, and than the sockets between hold."""
    for step in range(first, first + 400):
        console.show(m.Text("s", step, "finished", LONG, "turn left small", 0.2, 50.0, 2.0))


@pytest.mark.parametrize("overflows", ["before the end", "after the end"])
def test_an_end_among_dropped_messages_is_learnt(
    console: ConsoleServer, robot: FakeRobot, overflows: str
) -> None:
    async def run() -> m.Goal:
        link = ConsoleLink(ConsoleAddress(console.url), "slow")
        await link.open()
        ended = await asyncio.wait_for(link.say("turn left"), LIMIT_S)
        # Until the next await nothing is read here.
        end = GoalEnd(True, "turned left")
        flood(console, 0)
        robot.goals[0][1](end)
        if overflows == "after the end":
            flood(console, 1000)
        try:
            return await asyncio.wait_for(ended, LIMIT_S)
        finally:
            assert not link.is_busy
            await link.close()

    assert asyncio.run(run()) == m.Goal("done", "turn left", "turned left")
