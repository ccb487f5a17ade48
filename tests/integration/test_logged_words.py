"""The log of a person's sentence: it holds the motion or the sentence's length, and nothing private."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.errands import HOME, NOW_S, Listener, World
from support.simulated_robot import SimulatedSide

from outrider.memory.embedding import MiniLmEmbedder
from outrider.memory.observer import Observer
from outrider.memory.store.store import MemoryStore
from outrider.runtime.mission.goal_run import GoalSettings
from outrider.runtime.mission.memory_queries import Recollection
from outrider.runtime.mission.robot_side import GoalError
from outrider.runtime.plans.errand import Errand
from outrider.simulation.homes.home import generate_home
from outrider.simulation.homes.vocabulary import ObjectSpec, vocabulary
from outrider.simulation.simulator import Simulator

REFUSED = [
    "forget {secret}",
    "rememberr that my pin is {secret}",
    "note that my pin is {secret}",
    "forget what i said about {secret}",
    "{secret} nonsense",
    "the {secret}",
    "remember that {secret} and then turn left",
    "please keep in mind my pin {secret}",
    "turn left, then remember thaat my code is {secret}",
]
TAKEN = [
    "remember that my pin is {secret}",
    "where is my {secret} box?",
    "did you see my {secret}?",
    "what did i tell you about {secret}?",
    "forget about {secret}",
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = generate_home(4, ObjectSpec("lamp", "silver"), "other_room")
    simulator, listener = Simulator(home), Listener()
    folder: Path = tmp_path_factory.mktemp("memory")
    with MemoryStore(folder / "memory.db", MiniLmEmbedder()) as memory:
        side = SimulatedSide(simulator, Observer(memory, HOME))
        recollection = Recollection(memory, HOME, lambda: NOW_S)
        errand = Errand(side, listener, vocabulary(), GoalSettings(), recollection, side.floor)
        yield World(home, side, memory, errand, listener)
    simulator.close()


@pytest.mark.parametrize("sentence", [*REFUSED, *TAKEN])
def test_no_word_that_is_private_is_logged(world: World, sentence: str) -> None:
    secret = f"zq{random.Random(sentence).randrange(1000, 10_000)}"
    said = sentence.format(secret=secret)
    world.say(f"remember that the {secret} is blue")
    result = world.say(said)
    assert secret not in result.logged(said) and "blue" not in result.logged(said)
    if result.error is GoalError.BAD_INSTRUCTION:
        assert result.private and str(len(said)) in result.logged(said)


def test_a_memory_that_fails_is_not_quoted_either(world: World) -> None:
    said = "what do you see, then remember that my pin is zq1"
    result = world.errand.run(said, lambda: True)
    assert not result.success and result.private and "zq1" not in result.logged(said)


def test_what_moves_is_logged_with_how_it_ended(world: World) -> None:
    said = "turn left 90 degrees"
    result = world.say(said)
    assert result.success and result.logged(said) == result.message
