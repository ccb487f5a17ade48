"""Corrections of a sentence, by its words and by memory, and memories found by a part of their name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.memories import WordEmbedder

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.plan import Find, Where
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.words.things import SHAPES
from outrider.core.values import Place, Pose2D, Sighting
from outrider.memory.store.store import MemoryStore
from outrider.runtime.mission.memory_queries import Recollection
from outrider.runtime.plans.run_log import RunLog
from outrider.runtime.plans.understanding import Understanding

HOME, NOW_S = "test home", 1_700_000_000.0
RICH = Vocabulary(
    {
        "side": ("left", "right"),
        "size": ("small", "large"),
        "colour": ("red", "blue", "green"),
        "kind": ("chair", "ball", "box", "bed", "cup"),
    },
    SHAPES,
    rooms=True,
)
HERE = Pose2D(0.0, 0.0, 0.0)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Recollection]:
    """Yields a memory of chairs ahead (red at 1 m, blue at 3 m) and a green box to the red one's left."""
    with MemoryStore(tmp_path / "memory.db", WordEmbedder()) as store:
        for what, x, y in (("blue chair", 3.0, 0.0), ("red chair", 1.0, 0.0), ("green box", 1.0, 1.0)):
            store.see(what, Place(x, y, HOME), time_s=NOW_S)
        yield Recollection(store, HOME, lambda: NOW_S)


def after(
    asked: str, said: str, recollection: Recollection | None = None, vocabulary: Vocabulary | None = RICH
) -> str:
    """Returns the intent of a sentence that follows another one."""
    (wanted,) = plan_of(asked, vocabulary).steps
    assert isinstance(wanted, Find)
    understanding = Understanding(vocabulary, recollection, lambda point: 0, RunLog(wanted=wanted))
    return understanding.plan(said, HERE).intent


@pytest.mark.parametrize(
    ("asked", "said", "meant"),
    [
        ("find the red chair", "no, the blue one", "blue chair"),
        ("find the large red ball", "no, the small one", "small red ball"),
        ("find the chair", "the small one", "small chair"),
        ("find the small red ball", "no, the blue one", "blue ball"),
        ("find the red box", "the left one", "left red box"),
        ("find the small red box", "the one on the right", "right red box"),
        ("find the left box", "no, the small one", "small box"),
        ("find the left box", "no, the other one", "right box"),
        ("find the small red ball", "no, the other ball", "large red ball"),
        ("find the chair", "no, the red chair", "red chair"),
        ("go to the room with the bed", "no, the red one", "room with the red bed"),
        ("finde den roten Ball", "nein, den kleinen", "small red ball"),
    ],
)
def test_words_alone_say_which_other_thing_is_meant(asked: str, said: str, meant: str) -> None:
    assert after(asked, said) == f"find({meant})"


def test_a_general_model_keeps_what_was_said_of_the_thing() -> None:
    assert after("find the coffee mug", "no, the red one", vocabulary=None) == "find(red mug)"
    assert after("find the red mug", "no, the small one", vocabulary=None) == "find(small red mug)"


@pytest.mark.parametrize(
    ("asked", "said", "meant"),
    [
        ("find the red chair", "no, the other chair", "blue chair"),
        ("find the chair", "no, the other one", "blue chair"),
        ("find the chair", "left of it", "green box"),
        ("find the small red chair", "to the left of it", "green box"),
        ("find the left box", "no, the other chair", "blue chair"),
    ],
)
def test_memory_knows_another_thing_of_a_kind_and_its_neighbour(
    asked: str, said: str, meant: str, memory: Recollection
) -> None:
    """After a bare kind, the last thing is the one in front of the robot, here the red chair."""
    assert after(asked, said, memory) == f"find({meant})"


@pytest.mark.parametrize(
    ("asked", "said"), [("find the cup", "no, the other one"), ("find the bed", "to the right of it")]
)
def test_what_memory_does_not_know_is_refused(asked: str, said: str, memory: Recollection) -> None:
    with pytest.raises(InstructionError, match="say the whole thing"):
        after(asked, said, memory)
    with pytest.raises(InstructionError, match="needs a memory"):
        after(asked, said)


def test_a_bare_kind_is_where_the_newest_of_its_kind_was_seen(memory: Recollection) -> None:
    red = Sighting("red chair", 1.0, 0.0)
    for thing in ("chair", "small chair", "left chair", "red chair", "large red chair"):
        assert memory.sightings(thing) == [red], thing
    memory.memory.see("blue chair", Place(9.0, 0.0, "another home"), time_s=NOW_S + 1)
    assert memory.sightings("chair") == [red], "what stands in another home is not here"
    memory.memory.see("chair", Place(2.0, 2.0, HOME), time_s=NOW_S + 2)
    assert memory.sightings("chair") == [Sighting("chair", 2.0, 2.0)], "no colour was told"
    assert memory.sightings("hair") == memory.sightings("cup") == []


@pytest.mark.parametrize("thing", ["chair", "small chair", "right red chair"])
def test_where_a_thing_was_seen_is_answered_by_its_kind_and_colour(thing: str, memory: Recollection) -> None:
    assert "i saw the red chair" in memory.reply(Where(thing), HERE)


def test_a_thing_in_a_statement_is_no_landmark_of_itself(memory: Recollection) -> None:
    memory.memory.add("the small red chair stands by the green box", time_s=NOW_S)
    place = memory.destination("small red chair")
    assert place is not None and (place.x, place.y) == (1.0, 1.0)
