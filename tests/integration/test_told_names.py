"""A thing named in another language is found, answered and forgotten by that name, in a real store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.core.language.grammar import Vocabulary
from outrider.core.language.plan import Ask, Find, Forget, Remember, Where
from outrider.core.language.sentences.planner import plan_of
from outrider.core.values import Pose2D
from outrider.memory.embedding import MiniLmEmbedder
from outrider.memory.store.store import MemoryStore
from outrider.runtime.mission.memory_queries import Recollection
from outrider.runtime.wiring.memory_stores import forget_memory

WORDS = Vocabulary({"colour": ("red", "blue"), "kind": ("chair", "door")})
HERE = Pose2D(1.0, 2.0, 0.0)


@pytest.fixture
def recollection(tmp_path: Path) -> Iterator[Recollection]:
    memory = MemoryStore(tmp_path / "memory.db", MiniLmEmbedder())
    yield Recollection(memory, "home", time.time)
    memory.close()


def tell(recollection: Recollection, sentence: str) -> None:
    (step,) = plan_of(sentence, WORDS).steps
    assert isinstance(step, Remember)
    recollection.remember(step, HERE)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("merk dir dass meine Schlüssel hier liegen", "vergiss meine Schlüssel"),
        ("merk dir dass der rote Stuhl kaputt ist", "vergiss den roten Stuhl"),
        ("souviens-toi que mes clés sont ici", "oublie mes clés"),
        ("recuerda que mis llaves están aquí", "olvida mis llaves"),
        ("记住我的钥匙在这里", "忘记我的钥匙"),
        ("remember the couch is broken", "forget the couch"),
        ("remember the little ball is new", "forget the little ball"),
    ],
)
def test_what_is_to_be_forgotten_is_gone(recollection: Recollection, told: str, said: str) -> None:
    tell(recollection, told)
    tell(recollection, "remember the blue door squeaks")
    (step,) = plan_of(said, WORDS).steps
    assert isinstance(step, Forget)
    forgotten, _ = forget_memory(recollection.memory, words=(step.about, *step.others))
    assert forgotten == 1
    assert [record.text for record in recollection.memory.newest(5)] == ["the blue door squeaks"]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("merk dir dass das hier die Küche ist", "geh in die Küche"),
        ("souviens-toi que c'est la cuisine", "va dans la cuisine"),
        ("recuerda que esta es la cocina", "ve a la cocina"),
        ("记住这里是厨房", "去厨房"),
        ("remember this is the kitchen", "go to the kitchen"),
    ],
)
def test_the_robot_goes_to_a_stated_place(recollection: Recollection, told: str, said: str) -> None:
    tell(recollection, told)
    (step,) = plan_of(said, WORDS, lambda thing: recollection.destination(thing) is not None).steps
    assert isinstance(step, Find)
    there = recollection.destination(step.thing)
    assert there is not None and (there.x, there.y) == (HERE.x, HERE.y)


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ("merk dir dass meine Schlüssel hier liegen", "wo sind meine Schlüssel?"),
        ("souviens-toi que mes clés sont ici", "où sont mes clés ?"),
        ("记住我的钥匙在这里", "我的钥匙在哪里"),
    ],
)
def test_a_question_is_answered_from_a_statement(recollection: Recollection, told: str, asked: str) -> None:
    tell(recollection, told)
    (step,) = plan_of(asked, WORDS).steps
    assert isinstance(step, Where)
    assert "i was told" in recollection.reply(step, HERE)


def test_the_newest_statement_comes_first_and_is_the_destination(recollection: Recollection) -> None:
    (said,) = plan_of("remember that my bag is here", WORDS).steps
    assert isinstance(said, Remember)
    for day in range(7):
        recollection.remember(said, Pose2D(3.0 * day, 1.0, 0.0))
    found = recollection.destination("bag")
    assert found is not None and (found.x, found.y) == (18.0, 1.0)
    first, second = recollection.reply(Where("bag"), Pose2D(0.0, 0.0, 0.0)).split("; ")
    assert "x 18.0, y 1.0" in first and "x 15.0, y 1.0" in second


@pytest.mark.parametrize(
    ("before", "now", "question"),
    [
        ("my keys are in the kitchen", "i moved my keys to the bedroom", "where are my keys?"),
        ("the wifi password is blue4", "the wifi password was changed to red9", "what is the wifi password?"),
        ("the postman comes at nine", "the postman comes at eleven now", "when does the postman come?"),
    ],
)
def test_of_two_answers_the_newer_comes_first(
    recollection: Recollection, before: str, now: str, question: str
) -> None:
    for text in (before, now, "the dentist lives in the blue house"):
        recollection.remember(Remember(text), None)
    first, second = recollection.reply(Ask(question), None).split("; ")
    assert now in first and before in second


def test_what_holds_only_some_words_of_a_question_is_no_newer_answer(recollection: Recollection) -> None:
    for text in ("Anna likes tea", "Anna has moved to Rome"):
        recollection.remember(Remember(text), None)
    reply = recollection.reply(Ask("what does Anna like?"), None)
    assert "tea" in reply and "Rome" not in reply


def test_a_similar_name_answers_only_if_no_statement_has_the_name(recollection: Recollection) -> None:
    recollection.remember(Remember("the sofa"), None)
    assert "the sofa" in recollection.reply(Where("couch"), HERE)
    recollection.remember(Remember("the couch is broken"), None)
    reply = recollection.reply(Where("couch"), HERE)
    assert "the couch is broken" in reply and "sofa" not in reply
