# SPDX-License-Identifier: Apache-2.0
"""A finite-state grammar of all that can be said, from a language's phrases and a model's vocabulary.

A recogniser searches it for the likeliest path. Phrases with {text} are left out: it stands for any words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from outrider.core.language.grammar import COMMANDS, Vocabulary
from outrider.core.language.words.phrasebook import Phrasebook
from outrider.core.language.words.signs import PUNCTUATION
from outrider.core.language.words.things import ORDER

CORRECTIONS = ("other", "which", "side", "beside")
"""Groups of phrases that may follow a word such as "no"."""
UNSPOKEN = ("again", "alone", "described", "ask", "follow", "forget", "forget_all", "point", *CORRECTIONS)
"""Groups of phrases that begin no sentence, hold free text, stand for a click, or harm if misrecognised."""
MAX_COUNTED = 180
_TOKEN = re.compile(r"\{\w+\}|[()\[\]|]|[^\s()\[\]|{}]+")
_UNITS = {"angle": "degrees", "distance": "metres", "seconds": "seconds"}
_LISTS = {"side": "sides", "size": "sizes"}

Part = Callable[[int], int]
"""Adds a part of a sentence after a state; returns the state at which it ends."""


@dataclass
class WordGraph:
    """A finite-state automaton over words; a sentence leads from `start` to `end`.

    `arcs` holds, for each state, its words with the states they lead to; `epsilons`, for each state, the
    states that are reached without a word.
    """

    arcs: list[list[tuple[str, int]]] = field(default_factory=list)
    epsilons: list[list[int]] = field(default_factory=list)
    start: int = 0
    end: int = 0

    def add_state(self) -> int:
        """Returns a new state."""
        self.arcs.append([])
        self.epsilons.append([])
        return len(self.arcs) - 1

    def add_words(self, state: int, text: str) -> int:
        """Adds words after a state; returns the state after them."""
        for word in text.split():
            after = self.add_state()
            self.arcs[state].append((word, after))
            state = after
        return state

    def add_choice(self, state: int, parts: Iterable[Part | str]) -> int:
        """Adds alternatives after a state; returns the one state at which they end."""
        after = self.add_state()
        for part in parts:
            end = self.add_words(state, part) if isinstance(part, str) else part(state)
            self.epsilons[end].append(after)
        return after

    def add_optional(self, state: int, part: Part) -> int:
        """Adds an optional part; returns the state after it."""
        after = self.add_state()
        self.epsilons[state].append(after)
        self.epsilons[part(state)].append(after)
        return after

    def closure(self, states: Iterable[int]) -> frozenset[int]:
        """Returns the states, and those reached from them without a word."""
        visited = set(states)
        unvisited = list(visited)
        while unvisited:
            for after in self.epsilons[unvisited.pop()]:
                if after not in visited:
                    visited.add(after)
                    unvisited.append(after)
        return frozenset(visited)


def sentence_graph(book: Phrasebook, vocabulary: Vocabulary) -> WordGraph:
    """Returns the automaton of plans, with polite words around them, and of corrections."""
    graph = WordGraph()
    parts = _Parts(graph, book, vocabulary)
    graph.start = graph.add_state()
    step = graph.add_choice(
        graph.add_optional(graph.start, parts.entry("polite_before")), [lambda state: state]
    )
    done = graph.add_choice(step, parts.steps())
    graph.epsilons[parts.entry("then")(done)].append(step)
    graph.end = graph.add_optional(done, parts.entry("polite_after"))
    corrected = graph.add_choice(
        graph.add_optional(graph.start, parts.entry("correction")), parts.corrections()
    )
    graph.epsilons[corrected].append(graph.end)
    return graph


class _Parts:
    """Makes the parts of sentences, to be added to the graph."""

    def __init__(self, graph: WordGraph, book: Phrasebook, vocabulary: Vocabulary) -> None:
        self._graph, self._book, self._vocabulary = graph, book, vocabulary
        groups = book.phrases_by_group().items()
        self._groups = {group: [one for one in phrases if "{text}" not in one] for group, phrases in groups}

    def steps(self) -> list[Part | str]:
        """Returns the steps of a plan, both as models are trained with them and as people say them."""
        shapes = [(shape, room) for room in (False, True) for shape in self._vocabulary.named_shapes]
        forms = [form for shape in shapes for form in self._vocabulary.phrasings(*shape)]
        phrases = [one for group, some in self._groups.items() if group not in UNSPOKEN for one in some]
        return [
            *map(self._form, dict.fromkeys(forms)),
            *map(self._said, COMMANDS),
            *map(self.phrase, phrases),
        ]

    def corrections(self) -> list[Part]:
        """Returns what may follow a word such as "no"."""
        return [self.phrase(one) for group in CORRECTIONS for one in self._groups.get(group, ())]

    def entry(self, use: str) -> Part:
        """Returns a choice of the entries in a list of the language's file."""
        entries = dict.fromkeys(map(self._said, self._book.spoken(use)))
        return lambda state: self._graph.add_choice(state, entries)

    def phrase(self, written: str) -> Part:
        """Returns a phrase with its choices and slots."""
        return lambda state: self._expand(state, iter(_TOKEN.findall(written)), "")

    def _said(self, text: str) -> str:
        return " ".join(token.word for token in self._book.tokens(text) if token.word not in PUNCTUATION)

    def _form(self, form: str) -> Part:
        """Return a trained sentence, in which any article may replace its own."""
        before, after = (self._said(part) for part in form.split("{}"))
        articles = sorted(map(self._said, self._book.spoken("articles")), key=len, reverse=True)
        article = next((one for one in articles if f" {before}".endswith(f" {one}")), "")
        thing = self._thing if article else self._bare_thing
        before = before[: len(before) - len(article)]
        return lambda state: self._graph.add_words(thing(self._graph.add_words(state, before)), after)

    def _expand(self, state: int, tokens: Iterator[str], closing: str) -> int:
        """Add the alternatives up to the closing sign; return the state at which they end."""
        graph, at = self._graph, state
        end = graph.add_state()
        for token in tokens:
            if token == closing:
                break
            if token == "|":
                graph.epsilons[at].append(end)
                at = state
            elif token == "(":
                at = self._expand(at, tokens, ")")
            elif token == "[":
                at = graph.add_optional(at, lambda here: self._expand(here, tokens, "]"))
            else:
                at = self._slot(token[1:-1])(at) if token[0] == "{" else graph.add_words(at, token)
        graph.epsilons[at].append(end)
        return end

    def _slot(self, slot: str) -> Part:
        if slot == "which":
            telling = [word for slot in ORDER[:-1] for word in self._vocabulary.words(slot)]
            return lambda state: self._graph.add_choice(state, telling)
        if slot in _UNITS:
            return lambda state: self.entry(_UNITS[slot])(self._number(state))
        return {"thing": self._thing, "bare": self._bare_thing}.get(slot) or self.entry(_LISTS[slot])

    def _thing(self, state: int) -> int:
        return self._bare_thing(self._graph.add_optional(state, self.entry("articles")))

    def _bare_thing(self, state: int) -> int:
        parts = [partial(self._named, shape) for shape in self._vocabulary.named_shapes]
        return self._graph.add_choice(state, parts)

    def _named(self, shape: Sequence[str], state: int) -> int:
        for slot in shape:
            state = self._graph.add_choice(state, self._vocabulary.words(slot))
        return state

    def _number(self, state: int) -> int:
        """Add a number up to MAX_COUNTED in words or digits, or "a" or "half a"."""
        graph, values = self._graph, self._book.numerals.values
        below = [word for word, value in values.items() if 1 <= value < 20]
        ones = [word for word, value in values.items() if 1 <= value < 10]
        tens = [word for word, value in values.items() if 20 <= value < 100]
        many_times = [word for word, by in self._book.numerals.multipliers.items() if by <= MAX_COUNTED]

        def many(here: int) -> int:
            return graph.add_optional(graph.add_choice(here, tens), lambda at: graph.add_choice(at, ones))

        def hundreds(here: int) -> int:
            hundreds = graph.add_choice(graph.add_choice(here, ("one", "a")), many_times)
            return graph.add_optional(hundreds, lambda at: graph.add_choice(at, tens))

        digits = [str(number) for number in range(1, MAX_COUNTED + 1)]
        return graph.add_choice(state, [*below, many, hundreds, "half a", "a", *digits])
