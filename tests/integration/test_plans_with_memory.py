"""Plans that use a memory: named places, what is forgotten, corrections, and what is published."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.errands import HOME, NOW_S
from support.planning_robot import Robot, robot_in

from outrider.core.values import Place, Pose2D
from outrider.memory.embedding import MiniLmEmbedder
from outrider.memory.store.store import MemoryStore
from outrider.runtime.mission.memory_queries import Recollection
from outrider.runtime.mission.robot_side import GoalError


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[MemoryStore]:
    with MemoryStore(tmp_path / "memory.db", MiniLmEmbedder()) as store:
        yield store


@pytest.fixture
def recalling(memory: MemoryStore) -> Iterator[Robot]:
    robot = robot_in(7, Recollection(memory, HOME, lambda: NOW_S))
    yield robot
    robot.side.simulator.close()


def test_the_robot_goes_to_a_named_place_such_as_home(recalling: Robot) -> None:
    start = recalling.pose
    recalling.say("remember this is the kitchen")
    recalling.say("turn around, then go forward 1 m")
    assert recalling.say("go to the kitchen").success
    assert recalling.pose.distance_to(start.x, start.y) < 1.0
    recalling.say("remember that home is here")
    recalling.say("turn around")
    assert "remembered place" in recalling.say("go home").message


def test_published_plans_hold_nothing_private(recalling: Robot) -> None:
    recalling.say("remember that the alarm code is 4711")
    recalling.say("remember this is the kitchen")
    recalling.say("go to the kitchen, then turn left")
    recalling.say("where is my phone?")
    recalling.say("forget all about the alarm code")
    told = " ".join(word for progress in recalling.told for word in (*progress.steps, *progress.targets))
    assert not any(word in told for word in ("alarm", "4711", "kitchen", "phone"))
    assert "go to a remembered place" in told and "turn left" in told


def test_what_is_forgotten_is_gone_from_memory_and_log(recalling: Robot, memory: MemoryStore) -> None:
    recalling.say("remember that my keys hang by the door")
    assert "forgot 1 record" in recalling.say("forget what i said about my keys").message
    assert memory.count() == 0 and "keys" not in recalling.say("what did you do?").message
    recalling.say("remember that the bins go out on Monday")
    recalling.say("forget everything")
    assert memory.count() == 0 and "Monday" not in recalling.say("what did you do?").message


def test_corrections(recalling: Robot, memory: MemoryStore) -> None:
    pose = recalling.pose

    def seen(what: str, ahead_m: float, left_m: float) -> None:
        at = pose.compose(Pose2D(ahead_m, left_m, 0.0))
        memory.see(what, Place(at.x, at.y, HOME), time_s=NOW_S)

    assert "nothing was asked for" in recalling.say("no, the red one").message
    for what, left_m in (("red chair", 0.0), ("blue chair", 3.0), ("green vase", 1.0), ("black cup", -1.0)):
        seen(what, 2.0, left_m)
    for correction, meant in (
        ("no, the green one", "green chair"),
        ("no, the other chair", "blue chair"),
        ("left of it", "green vase"),
        ("no, to the right of it", "black cup"),
    ):
        recalling.say("find the red chair")
        assert recalling.errand.plan(correction).intent == f"find({meant})"
    plan = recalling.errand.plan("find the red chair, then the other one")
    assert plan.intent == "find(red chair); find(blue chair)"
    recalling.say("find the green vase")
    refused = recalling.say("no, the other vase")
    assert refused.error is GoalError.BAD_INSTRUCTION and "say the whole thing" in refused.message
