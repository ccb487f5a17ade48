"""Sentences that the embedded engine can recognise, by random walks through the graph of the grammar."""

from __future__ import annotations

import random

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.words.phrasebook import phrasebook
from outrider.core.language.words.things import SHAPES
from outrider.voice.sentence_graph import WordGraph, sentence_graph

WORDS = Vocabulary({"colour": ("red", "blue"), "kind": ("chair", "bottle")})
SIZED = Vocabulary({**WORDS.slots, "size": ("small", "large"), "side": ("left", "right")}, SHAPES, rooms=True)


def has(graph: WordGraph, sentence: str) -> bool:
    states = graph.closure([graph.start])
    for word in sentence.split():
        states = graph.closure(after for state in states for said, after in graph.arcs[state] if said == word)
    return graph.end in states


def walk(graph: WordGraph, rng: random.Random, most: int = 12) -> str:
    state, said = graph.start, list[str]()
    while state != graph.end and len(said) <= most:
        ways = [("", after) for after in graph.epsilons[state]] + graph.arcs[state]
        word, state = rng.choice(ways)
        said += [word] if word else []
    return " ".join(said) if state == graph.end else walk(graph, rng, most)


def test_what_people_say_is_in_the_graph() -> None:
    graph = sentence_graph(phrasebook("en"), WORDS)
    for sentence in (
        *(
            "find the red chair",
            "go to a blue bottle please",
            "turn left",
            "turn left ninety degrees",
            "stop",
        ),
        *("turn right 90 degrees", "move forward half a metre", "wait ten seconds then come back"),
        *("no the blue one", "where is the red chair", "please go to my red chair", "go home"),
    ):
        assert has(graph, sentence), sentence
    for sentence in (
        "",
        "find",
        "find the green chair",
        "the red",
        "turn left turn",
        "remember that it rains",
    ):
        assert not has(graph, sentence), sentence


def test_sizes_sides_and_rooms_are_said_where_the_card_has_them() -> None:
    sized, plain = (sentence_graph(phrasebook("en"), one) for one in (SIZED, WORDS))
    for sentence in ("find any chair", "go to the room with the red chair", "no the large one"):
        assert has(sized, sentence), sentence
    assert has(sized, "find the small red bottle") and not has(plain, "find the small red bottle")
    assert not has(plain, "go to the room with the red chair")


def test_most_of_what_can_be_heard_is_a_plan_in_words_of_the_file_and_the_card() -> None:
    graph, rng = sentence_graph(phrasebook("en"), WORDS), random.Random(0)
    sentences = [walk(graph, rng) for _ in range(200)]
    words = {word for sentence in sentences for word in sentence.split() if word.isalpha()}
    assert words - phrasebook("en").lexicon - {"red", "blue", "chair", "bottle"} == set()
    assert sum(map(_is_plan, sentences)) >= 120


def _is_plan(sentence: str) -> bool:
    try:
        plan_of(sentence, WORDS)
    except InstructionError:
        return False
    return True
