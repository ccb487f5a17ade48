# SPDX-License-Identifier: Apache-2.0
"""All that can be said aloud, as a graph of words, from a language's phrases and a model's vocabulary.

An engine looks for the likeliest way through it. Phrases with {text} hold words that no list has, and are
left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from outrider.core.language.grammar import COMMANDS, Vocabulary
from outrider.core.language.phrasebook import PUNCTUATION, Phrasebook
from outrider.core.language.things import ORDER

CORRECTIONS = ("other", "which", "side", "beside")
"""Groups of phrases before which a word such as "no" may stand."""
UNSPOKEN = ("again", "alone", "described", "ask", "follow", "forget", "forget_all", "point", *CORRECTIONS)
"""Groups of phrases that begin no sentence, hold free text, stand for a click, or should not be misheard."""
MOST_COUNTED = 180
_TOKEN = re.compile(r"\{\w+\}|[()\[\]|]|[^\s()\[\]|{}]+")
_UNITS = {"angle": "degrees", "distance": "metres", "seconds": "seconds"}
_LISTS = {"side": "sides", "size": "sizes"}

Way = Callable[[int], int]
"""Adds a part of a sentence from a place on; returns the place at which it ends."""


@dataclass
class WordGraph:
    """`words`: of each place those that lead on, with the place that each leads to; `free`: of each place
    those that are reached without a word. A sentence leads from `start` to `end`.
    """

    words: list[list[tuple[str, int]]] = field(default_factory=list)
    free: list[list[int]] = field(default_factory=list)
    start: int = 0
    end: int = 0

    def place(self) -> int:
        """Adds a place, and returns it."""
        self.words.append([])
        self.free.append([])
        return len(self.words) - 1

    def say(self, place: int, text: str) -> int:
        """Adds words from a place on."""
        for word in text.split():
            after = self.place()
            self.words[place].append((word, after))
            place = after
        return place

    def one_of(self, place: int, ways: Iterable[Way | str]) -> int:
        """Adds alternatives, which end at one place."""
        after = self.place()
        for way in ways:
            self.free[self.say(place, way) if isinstance(way, str) else way(place)].append(after)
        return after

    def perhaps(self, place: int, way: Way) -> int:
        """Adds what may be left out."""
        after = self.place()
        self.free[place].append(after)
        self.free[way(place)].append(after)
        return after

    def reached(self, places: Iterable[int]) -> frozenset[int]:
        """Returns the places, and those that they lead to without a word."""
        seen = set(places)
        open_ones = list(seen)
        while open_ones:
            for after in self.free[open_ones.pop()]:
                if after not in seen:
                    seen.add(after)
                    open_ones.append(after)
        return frozenset(seen)


def sentence_graph(book: Phrasebook, vocabulary: Vocabulary) -> WordGraph:
    """Returns the graph of plans, with politeness around them, and of corrections."""
    graph = WordGraph()
    parts = _Parts(graph, book, vocabulary)
    graph.start = graph.place()
    step = graph.one_of(graph.perhaps(graph.start, parts.entry("polite_before")), [lambda place: place])
    done = graph.one_of(step, parts.steps())
    graph.free[parts.entry("then")(done)].append(step)
    graph.end = graph.perhaps(done, parts.entry("polite_after"))
    corrected = graph.one_of(graph.perhaps(graph.start, parts.entry("correction")), parts.corrections())
    graph.free[corrected].append(graph.end)
    return graph


class _Parts:
    """The parts of sentences as ways through a graph."""

    def __init__(self, graph: WordGraph, book: Phrasebook, vocabulary: Vocabulary) -> None:
        self._graph, self._book, self._vocabulary = graph, book, vocabulary
        groups = book.phrases_by_group().items()
        self._groups = {group: [one for one in phrases if "{text}" not in one] for group, phrases in groups}

    def steps(self) -> list[Way | str]:
        """A step of a plan: as models are trained with it, or as people say it."""
        shapes = [(shape, room) for room in (False, True) for shape in self._vocabulary.named_shapes]
        forms = [form for shape in shapes for form in self._vocabulary.phrasings(*shape)]
        phrases = [one for group, some in self._groups.items() if group not in UNSPOKEN for one in some]
        return [
            *map(self._form, dict.fromkeys(forms)),
            *map(self._said, COMMANDS),
            *map(self.phrase, phrases),
        ]

    def corrections(self) -> list[Way]:
        """What may follow a word such as "no"."""
        return [self.phrase(one) for group in CORRECTIONS for one in self._groups.get(group, ())]

    def entry(self, use: str) -> Way:
        """One of a list of the language's file."""
        entries = dict.fromkeys(map(self._said, self._book.spoken(use)))
        return lambda place: self._graph.one_of(place, entries)

    def phrase(self, written: str) -> Way:
        """A phrase with its choices and slots."""
        return lambda place: self._expand(place, iter(_TOKEN.findall(written)), "")

    def _said(self, text: str) -> str:
        return " ".join(token.word for token in self._book.tokens(text) if token.word not in PUNCTUATION)

    def _form(self, form: str) -> Way:
        """A trained sentence; its article, if it has one, may be any."""
        before, after = (self._said(part) for part in form.split("{}"))
        articles = sorted(map(self._said, self._book.spoken("articles")), key=len, reverse=True)
        article = next((one for one in articles if f" {before}".endswith(f" {one}")), "")
        thing = self._thing if article else self._bare_thing
        before = before[: len(before) - len(article)]
        return lambda place: self._graph.say(thing(self._graph.say(place, before)), after)

    def _expand(self, place: int, tokens: Iterator[str], closing: str) -> int:
        """The alternatives up to the closing sign."""
        graph, at = self._graph, place
        end = graph.place()
        for token in tokens:
            if token == closing:
                break
            if token == "|":
                graph.free[at].append(end)
                at = place
            elif token == "(":
                at = self._expand(at, tokens, ")")
            elif token == "[":
                at = graph.perhaps(at, lambda here: self._expand(here, tokens, "]"))
            else:
                at = self._slot(token[1:-1])(at) if token[0] == "{" else graph.say(at, token)
        graph.free[at].append(end)
        return end

    def _slot(self, slot: str) -> Way:
        if slot == "which":
            telling = [word for slot in ORDER[:-1] for word in self._vocabulary.words(slot)]
            return lambda place: self._graph.one_of(place, telling)
        if slot in _UNITS:
            return lambda place: self.entry(_UNITS[slot])(self._number(place))
        return {"thing": self._thing, "bare": self._bare_thing}.get(slot) or self.entry(_LISTS[slot])

    def _thing(self, place: int) -> int:
        return self._bare_thing(self._graph.perhaps(place, self.entry("articles")))

    def _bare_thing(self, place: int) -> int:
        ways = [partial(self._named, shape) for shape in self._vocabulary.named_shapes]
        return self._graph.one_of(place, ways)

    def _named(self, shape: Sequence[str], place: int) -> int:
        for slot in shape:
            place = self._graph.one_of(place, self._vocabulary.words(slot))
        return place

    def _number(self, place: int) -> int:
        """A number up to MOST_COUNTED in words or digits, or half of something."""
        graph, values = self._graph, self._book.numerals.values
        below = [word for word, value in values.items() if 1 <= value < 20]
        ones = [word for word, value in values.items() if 1 <= value < 10]
        tens = [word for word, value in values.items() if 20 <= value < 100]

        def many(here: int) -> int:
            return graph.perhaps(graph.one_of(here, tens), lambda at: graph.one_of(at, ones))

        def hundreds(here: int) -> int:
            said = graph.one_of(graph.one_of(here, ("one", "a")), self._book.numerals.multipliers)
            return graph.perhaps(said, lambda at: graph.one_of(at, tens))

        digits = [str(number) for number in range(1, MOST_COUNTED + 1)]
        return graph.one_of(place, [*below, many, hundreds, "half a", "a", *digits])
