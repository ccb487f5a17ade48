"""Commands of pages and agents, which the navigator's node carries out."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import threading
from typing import Any

import pytest
from conftest import wait_until
from graphs import Teleop
from outrider_interfaces.action import Navigate

from outrider.core.values import Pose2D
from outrider.runtime.plans.understanding import UNSEEN

pytestmark = pytest.mark.ros


def test_a_point_of_the_map_is_gone_to_and_one_that_was_not_seen_is_refused(teleop: Teleop) -> None:
    page, here = teleop.open_page().seated(), teleop.pose()
    page.wait_s = 60.0  # a way around something takes several motions
    page.read("walls")
    ends = []
    for bearing in (math.pi / 2, -math.pi / 2, math.pi, 0.0):
        there = here.compose(Pose2D(0.8 * math.cos(bearing), 0.8 * math.sin(bearing), 0.0))
        page.send(do="go_to", x=there.x, y=there.y)
        page.read("goal", state="running")
        ends.append(page.read("goal") and teleop.pose().distance_to(there.x, there.y))
        if ends[-1] < 0.5:
            break
    assert min(ends) < 0.5 and teleop.states[-1].collisions == 0
    page.send(do="go_to", x=here.x + 15.0, y=here.y)
    assert page.read("goal", state="failed")["message"] == UNSEEN
    assert teleop.decoder.script == [], "no model was asked"


def test_a_command_the_navigator_does_not_know_comes_back_with_the_reason(teleop: Teleop) -> None:
    page = teleop.open_page().seated()
    page.send(do="say", text="find the zebra")
    assert "zebra" in page.read("goal", state="failed")["message"]


def test_a_command_is_sent_by_the_node_s_own_thread(teleop: Teleop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A send from the server's thread would race with the answer."""
    threads: list[int] = []
    goals = teleop.console._goals._goals
    send = goals.send_goal_async

    def noting(goal: Navigate.Goal, **more: Any) -> Any:
        threads.append(threading.get_ident())
        return send(goal, **more)

    monkeypatch.setattr(goals, "send_goal_async", noting)
    page = teleop.open_page().seated()
    page.send(do="say", text="find the zebra")
    page.read("goal", state="failed")
    own = teleop.console.executor.create_task(threading.get_ident)
    wait_until(own.done, "the node's thread")
    assert threads == [own.result()]


def test_a_running_command_is_cancelled_by_any_page(teleop: Teleop) -> None:
    page, watcher = teleop.open_page().seated(), teleop.open_page()
    teleop.decoder.script += ["turn left small\nsearch: nothing."]
    teleop.decoder.between_s = 20.0
    page.send(do="say", text="find the red chair")
    watcher.read("text", action="turn left small")
    watcher.send(do="cancel")
    assert "cancelled" in page.read("goal", state="failed")["message"]


def test_a_cancel_that_overtakes_its_command_still_counts(teleop: Teleop) -> None:
    page = teleop.open_page().seated()
    teleop.decoder.script += ["turn left small\nsearch: nothing."] * 3
    teleop.decoder.between_s = 20.0
    page.send(do="say", text="find the red chair")
    page.read("goal", state="running")  # it has been read and sent; the navigator has yet to accept it
    page.send(do="cancel")
    assert "cancelled" in page.read("goal", state="failed")["message"]


def test_an_agent_has_real_nodes_carry_out_its_words_and_stops_them(teleop: Teleop) -> None:
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    from support.agents import call, over_a_pipe

    async def turn_and_look(session: Any) -> None:
        before = teleop.pose()
        taken, said = await call(session, "goal", sentence="turn left 45 degrees", wait_s=60.0)
        assert taken and "turned" in said
        assert (teleop.pose().yaw - before.yaw) == pytest.approx(math.radians(45.0), abs=0.2)
        picture = (await session.call_tool("picture", {})).content[0]
        assert base64.b64decode(picture.data).startswith(b"\xff\xd8")

    async def last_goal(session: Any) -> str:
        return json.loads((await call(session, "status"))[1])["last_goal"]

    async def told_the_end(session: Any, before: str) -> None:
        """Returns once the agent sees its goal's end, which comes after the robot has stopped."""
        while await last_goal(session) == before:
            await asyncio.sleep(0.2)

    async def stop_under_way(session: Any) -> None:
        teleop.decoder.script += ["turn left large\nlook: nothing"] * 30
        ended = await last_goal(session)
        assert (await call(session, "goal", sentence="find the red chair"))[0]
        before = teleop.pose()
        await asyncio.to_thread(wait_until, lambda: abs(teleop.pose().yaw - before.yaw) > 0.1, "motion")
        assert (await call(session, "stop"))[0]
        await asyncio.to_thread(wait_until, teleop.stands, "the robot stands")
        await asyncio.wait_for(told_the_end(session, ended), 30.0)
        await call(session, "goal", sentence="release the emergency stop")
        said = (await call(session, "goal", sentence="turn left", wait_s=60.0))[1]
        assert "emergency stop is engaged" in said, "an agent releases nothing"
        assert json.loads((await call(session, "status"))[1])["e_stop"]

    async def run() -> None:
        async with over_a_pipe("--console", teleop.console._console.url) as session:
            await turn_and_look(session)
            await stop_under_way(session)

    asyncio.run(run())
    page = teleop.open_page().seated()
    page.release_e_stop()
    page.read("state", e_stop=False)
    teleop.decoder.script.clear()
    assert teleop.stands(), "nothing goes on after the release"
