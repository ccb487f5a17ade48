"""Sentences that the embedded engine is given: plans of the grammar of goals, in words it can say."""

from __future__ import annotations

import random

import pytest

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.phrasebook import phrasebook
from outrider.core.language.planner import plan_of
from outrider.core.language.things import SHAPES
from outrider.voice.spoken_sentences import SpokenSentences

WORDS = Vocabulary({"colour": ("red", "blue"), "kind": ("chair", "bottle")})


def drawn(count: int, seed: int = 0) -> list[str]:
    sentences = SpokenSentences(phrasebook("en"), WORDS, seed)
    return [sentences.draw() for _ in range(count)]


def test_the_same_seed_draws_the_same_sentences() -> None:
    assert drawn(50) == drawn(50) != drawn(50, seed=1)


def test_sentences_hold_only_words_of_the_language_and_of_the_vocabulary() -> None:
    known = phrasebook("en").lexicon | {"red", "blue", "chair", "bottle"}
    assert {word for sentence in drawn(2000) for word in sentence.split()} - known == set()


def test_most_sentences_are_plans_and_every_thing_is_among_them() -> None:
    sentences = drawn(400)
    assert {"red", "blue", "chair", "bottle", "left", "stop", "home"} <= set(" ".join(sentences).split())
    plans = 0
    for sentence in random.Random(0).sample(sentences, 40):
        try:
            plan_of(sentence, WORDS)
            plans += 1
        except InstructionError:
            continue
    assert plans >= 24


def test_things_and_rooms_are_said_as_the_card_has_them() -> None:
    slots = {**WORDS.slots, "size": ("small", "large"), "side": ("left", "right")}
    spoken = SpokenSentences(phrasebook("en"), Vocabulary(slots, SHAPES, rooms=True))
    sentences = [spoken.draw() for _ in range(4000)]
    for part in ("find any chair", "small red", "left bottle", "the room with the", "the large one"):
        assert any(part in sentence for sentence in sentences), part
    assert not any("room with" in sentence for sentence in drawn(4000))


@pytest.mark.parametrize("word", ["left", "bottle"])
def test_no_sentence_holds_a_word_without_pronunciation(word: str) -> None:
    sentences = SpokenSentences(phrasebook("en"), WORDS).draw_known(300, lambda one: one != word)
    assert sentences and not any(word in sentence.split() for sentence in sentences)
