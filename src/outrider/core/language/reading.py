# SPDX-License-Identifier: Apache-2.0
"""Reads a sentence in one language, as it is or with its spelling corrected."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from outrider.core.edit_distance import closest
from outrider.core.errors import InstructionError
from outrider.core.language.clauses import Clauses
from outrider.core.language.contrasts import contrasted
from outrider.core.language.grammar import Vocabulary, nearest
from outrider.core.language.plan import (
    MAX_STEPS,
    Ask,
    Correct,
    Follow,
    Forget,
    Plan,
    Remember,
    See,
    Step,
    Stop,
)
from outrider.core.language.refusals import MAX_CHARACTERS, MAX_WORDS, shortened
from outrider.core.language.unsupported import WHY_UNSUPPORTED, why_unsupported
from outrider.core.language.words.amounts import Token
from outrider.core.language.words.misspellings import english_things, mended_texts
from outrider.core.language.words.phrasebook import Phrasebook, joined
from outrider.core.language.words.signs import PUNCTUATION

ANY_QUESTION = Ask("").intent
ASKS_WHETHER = 'asks whether to do it: say "please" too, or leave out the question mark'
ASKS_AND_ORDERS = "asks and orders at once: end the question with a question mark, or say one at a time"
FORGETS_AND_MOVES = 'says to forget something and to move: say "then" between, or one at a time'
REMEMBERS_AND_MORE = "says to remember something and to do more: say one at a time"
NOTHING_TO_REMEMBER = 'says nothing to remember: say what is where, such as "remember this is the kitchen"'


@dataclass
class Reading:
    """A sentence read in one language."""

    book: Phrasebook
    sentence: str
    vocabulary: Vocabulary | None
    knows: Callable[[str], bool]
    _parts: dict[tuple[int, Step | None, bool, bool], tuple[Step, ...] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clauses = Clauses(self.book, self.vocabulary, self.knows)

    @cached_property
    def tokens(self) -> list[Token]:
        """The words, numbers and signs of the sentence."""
        return self.book.tokens(self.sentence)

    @property
    def num_strange(self) -> int:
        """How many letters are in words that neither the language's file nor the model's vocabulary has."""
        words = (token.word for token in self.tokens)
        return sum(len(word) for word in words if word[0].isalpha() and not self._is_known(word))

    def plan(self) -> Plan | None:
        """Return the plan, or None if this is not a sentence of the language."""
        steps = self.steps(described=False)
        if steps is None and self.vocabulary is None:
            steps = self.steps(described=True)
        if steps is None:
            return None
        if Stop() in steps[:-1]:
            self.clauses.problems.insert(0, "says to stop and to go on at once")
            return None
        if Stop() in steps[1:] and self._denies():
            self.clauses.problems.insert(0, "says to move and not to")
            return None
        wrong = self._why_not_remembered(steps)
        if wrong:
            self.clauses.problems.insert(0, wrong)
            self.clauses.is_unsupported = True
            return None
        if len(steps) > MAX_STEPS:
            self.clauses.problems.insert(0, f"has {len(steps)} steps; at most {MAX_STEPS} are taken")
            return None
        parted = any(step.moves for step in steps) and self._parted()
        if parted:
            self.clauses.problems.insert(0, parted)
            return None
        notes = (step.note(self.vocabulary is None) for step in steps)
        return Plan(steps, tuple(dict.fromkeys(filter(None, notes))))

    def _why_not_remembered(self, steps: Sequence[Step]) -> str:
        """Return why a sentence that would change memory is refused; empty if it is not.

        An order that only a comma separates from a thing to forget may be meant to be done: "forget the
        sofa, go to the table". So may an order in a statement, unless it is for somebody else: "remember
        that you must turn left".
        """
        links = list(self.book.connector.finditer(joined(self.tokens)))
        if any(isinstance(step, Forget) for step in steps):
            signs = [link for link in links if set(link[0].split()) <= set(PUNCTUATION)]
            return FORGETS_AND_MOVES if any(step.moves for step in self._after(signs)) else ""
        text = next((step.text for step in steps if isinstance(step, Remember)), None)
        if text is None:
            return ""
        if self._only_asks(self.tokens, len(self.tokens), None):
            return ASKS_WHETHER
        if self.clauses.names.is_vague(text):
            return NOTHING_TO_REMEMBER
        begins = self.sentence.rfind(text)  # what comes before it is a step of its own
        starts = (self.tokens[link.string.count(" ", 0, link.start())].start for link in links)
        inside = [link for link, start in zip(links, starts, strict=True) if start > begins]
        acts = [step for step in self._after(inside) if step.moves or isinstance(step, Forget | Remember)]
        mentions_someone = self.clauses.names.has_pronoun(text)
        more = [step for step in acts if not (step.moves and mentions_someone)]
        return REMEMBERS_AND_MORE if more and ":" not in text else ""

    def _after(self, links: Iterable[re.Match[str]]) -> Iterator[Step]:
        """Yield the step that the rest of the sentence after each link asks for."""
        ends = (link.string.count(" ", 0, link.end()) for link in links)
        read = (self.clauses.read(self.tokens[end:], self.sentence, See(), False, False) for end in ends)
        return filter(None, read)

    def _parted(self) -> str:
        """Return why words with a "then" that no motion can obey are refused; empty if they are not.

        The "and" of "over and over" and the "next" of "next week" divide no steps.
        """
        words = [token.word for token in self.tokens]
        found = self.book.unsupported(words, ("beyond",)), self.book.unsupported(words, ("condition",))
        for kind, phrase in filter(None, found):
            if " " in phrase and (kind == "beyond" or self.book.connector.match(f"{phrase} ")):
                return WHY_UNSUPPORTED[kind].format(phrase)
        return ""

    def steps(self, described: bool) -> tuple[Step, ...] | None:
        """Return the steps of the sentence as it is, without a correction's "no"."""
        tokens, corrected = self._without_correction()
        correct = None if corrected else self._spoken_correction()
        if correct is not None:
            return correct
        count = sum(token.word not in PUNCTUATION for token in tokens)
        contrast = contrasted(Clauses(self.book, self.vocabulary, self.knows), self.tokens, self.sentence)
        if contrast is not None:
            return (contrast,)
        remembers = self.clauses.read(tokens, self.sentence, None, corrected, False)
        if remembers is not None and remembers.intent == "remember":
            return (remembers,)
        if count > MAX_WORDS or len(self.sentence) > MAX_CHARACTERS:
            return None
        return self._split(tokens, None, corrected, described)

    @property
    def known_words(self) -> frozenset[str]:
        """The words of the sentence that the language's file or the model knows."""
        return frozenset(token.word for token in self.tokens if self._is_known(token.word))

    @property
    def plain_words(self) -> list[str]:
        """The words without politeness and punctuation."""
        return [token.word for token in self.clauses.bare(self.tokens)]

    def respelt(self, is_order: bool, kept: Collection[str] = ()) -> Plan | None:
        """Return the plan of the sentence with its spelling corrected; None if that makes no plan either.

        Raises InstructionError for a plan that acts, to have it confirmed. An order never becomes a
        question, and nothing does by correcting words of `kept`. "Wher is it" asks where rather than when.
        """
        plans = [entry for entry in self._mended(kept) if not (is_order and entry[1].only_answers)]
        if not plans:
            return None
        text, plan = min(plans, key=lambda entry: any(isinstance(step, Ask) for step in entry[1].steps))
        if plan.only_answers:
            return replace(plan, notes=(*plan.notes, f'read as "{text}"'))
        quoted = shortened(self.sentence)
        raise InstructionError(
            f'"{quoted}" is no instruction that this model knows: did you mean "{text}"?', meant=text
        )

    def _without_correction(self) -> tuple[list[Token], bool]:
        match = self.book.correction.match(joined(self.tokens))
        if match is None or self._forbids(match[0]):
            return self.tokens, False
        if match["pause"] is None and match[0].split()[0] in self.book.words("negations"):
            return self.tokens, False
        return self.tokens[match[0].count(" ") :], True

    def _forbids(self, openers: str) -> bool:
        """Return whether a correction's openers end in one that forbids what follows: "i said no chair".

        Not before a comma. A negation that is no word for "not" forbids only after a different opener.
        """
        *before, (last, paused) = [(m["said"], m["pause"]) for m in self.book.opener.finditer(openers)]
        if paused:
            return False
        is_not = self.book.as_written(last) in self.book.words("denying")
        negates = not self.book.words("negations").isdisjoint(last.split())
        return is_not or (negates and bool(before) and before[-1] != (last, None))

    def _spoken_correction(self) -> tuple[Step, ...] | None:
        """Return a correction whose "no" has no comma, as after speech recognition: "no the other one"."""
        match = self.book.correction.match(joined(self.tokens))
        if match is not None and self._forbids(match[0]):
            return None
        after = self.tokens[match[0].count(" ") :] if match else []
        steps = self._split(after, None, True, False)
        if steps is None or not isinstance(steps[0], Correct):
            return None
        is_unclear = match is not None and self.book.as_written(match[0]) in self.book.words("denying_which")
        return steps if steps[0].other or not is_unclear else None

    def _split(
        self, tokens: Sequence[Token], previous: Step | None, corrected: bool, described: bool
    ) -> tuple[Step, ...] | None:
        """Return one step, or a step and those after a word such as "then"; else a question in any words.

        The rest is read once for each kind of previous step; otherwise the ways to split a sentence would
        double with every "and".
        """
        previous = _without_words(previous)
        key = (len(tokens), previous, corrected, described)
        if key not in self._parts:
            self._parts[key] = self._first_split(tokens, previous, corrected, described)
        return self._parts[key]

    def _first_split(
        self, tokens: Sequence[Token], previous: Step | None, corrected: bool, described: bool
    ) -> tuple[Step, ...] | None:
        step = self._read(tokens, len(tokens), previous, corrected, described)
        if step is not None and step.intent != ANY_QUESTION:
            return (step,)
        text = joined(tokens)
        for link in self.book.connector.finditer(text):
            before, after = text[: link.start()].count(" "), text[: link.end()].count(" ")
            if before == 0 or after == len(tokens):
                continue
            first = self._read(tokens, before, previous, corrected, described)
            rest = self._split(tokens[after:], first, False, described) if first is not None else None
            if first is None or rest is None:
                continue
            if first.intent != ANY_QUESTION or "?" in link[0]:
                return (first, *rest)
            if tokens[-1].word != "?" and not all(step.answers for step in rest):
                self.clauses.problems.insert(0, ASKS_AND_ORDERS)
                return None
        return (step,) if step is not None else None

    def _read(
        self, tokens: Sequence[Token], end: int, previous: Step | None, corrected: bool, described: bool
    ) -> Step | None:
        """Read the first `end` tokens as a step; None for one that moves or erases if they only ask."""
        step = self.clauses.read(tokens[:end], self.sentence, previous, corrected, described)
        acts = step is not None and (step.moves or isinstance(step, Forget))
        if acts and self._only_asks(tokens, end, previous):
            self.clauses.problems.append(ASKS_WHETHER)
            return None
        return step

    def _only_asks(self, tokens: Sequence[Token], end: int, previous: Step | None) -> bool:
        """Return whether a clause ends in a question mark and is no request such as "can you ..."."""
        words = [token.word for token in tokens[:end]]
        while words and words[-1] in PUNCTUATION:
            words.pop()
        after = (token.word for token in tokens[len(words) :])
        signs = itertools.takewhile(lambda word: word in PUNCTUATION, after)
        if "?" not in signs and not self.book.words("asking").intersection(words[-1:]):
            return False
        words_before = [token.word for token in self.tokens[: len(self.tokens) - len(tokens)]]
        asked = "".join(f"{word} " for word in words_before).rpartition("? ")[2]
        is_link = self.book.connector.fullmatch(asked or ", ") is not None
        goes_on = previous is not None and previous.answers and not is_link
        return goes_on or self.book.request.search(f"{asked}{' '.join(words)} ") is None

    def _denies(self) -> bool:
        """Return whether the sentence says that something is not to be done."""
        return self.book.denies([token.word for token in self.tokens])

    def _is_known(self, word: str) -> bool:
        things = self._vocabulary_words() if self.vocabulary else english_things()
        return any(word in words for words in (self.book.lexicon, self.book.unmended, PUNCTUATION, things))

    def _mended(self, kept: Collection[str]) -> Iterator[tuple[str, Plan]]:
        """Yield plans within a few typing errors; none for a sentence that says what not to do."""
        for text in () if self._denies() else self.mended_texts():
            reading = Reading(self.book, text, self.vocabulary, self.knows)
            plan = reading.plan()
            if plan is not None and (
                self._asks(reading, kept) if plan.only_answers else self._is_meant(reading)
            ):
                yield text, plan

    def _asks(self, mended: Reading, kept: Collection[str]) -> bool:
        """Return whether a corrected question is one: it had a known word, and none of `kept` was changed."""
        is_known = any(word[0].isalnum() for word in self.known_words)
        return is_known and not self._changed(mended)[0] & set(kept)

    def _is_meant(self, mended: Reading) -> bool:
        """Return whether a corrected order says the same as this one, and nothing that no motion can obey.

        It may omit only articles and replace only misspelt words. It may add articles, and as second word
        one that is no side, size or number and not the model's: "to".
        """
        lost, added = self._changed(mended)
        slips = {word: closest(word, added) for word in lost if self._is_strange(word)}
        is_whole = all(slips.get(word) or word in self.book.articles for word in lost)
        entries = (*self._vocabulary_words(), *self.book.spoken("sides"), *self.book.spoken("sizes"))
        telling = {word for entry in (*entries, *self.book.numerals.words) for word in entry.split()}
        more = added - set(slips.values()) - self.book.articles
        after_first = set(mended.plain_words[1:2]) - telling
        return is_whole and more <= after_first and not why_unsupported(self.book, self.plain_words)

    def _changed(self, mended: Reading) -> tuple[set[str], set[str]]:
        """Return the words that a corrected sentence lacks, and those that it adds."""
        own, other = Counter(self.plain_words), Counter(mended.plain_words)
        return set(own - other), set(other - own)

    def mended_texts(self) -> Iterator[str]:
        """Yield the sentence with its unknown words corrected in several ways; see `mended_texts`."""
        words = [token.word for token in self.tokens]
        more = tuple(self._vocabulary_words())
        return mended_texts(self.book, words, self._is_strange, more, self._nearest())

    def _is_strange(self, word: str) -> bool:
        return word.isalpha() and not self._is_known(word)

    def _vocabulary_words(self) -> Iterator[str]:
        for words in self.vocabulary.slots.values() if self.vocabulary else ():
            yield from words

    def _nearest(self) -> list[str]:
        """Return the words of the nearest trained sentence, if all of them are known."""
        if not self.vocabulary or self.book.language != "en":
            return []
        near = nearest(self.sentence, self.vocabulary)
        return near.sentence.split() if near and not near.unknown and not near.missing else []


def _without_words(previous: Step | None) -> Step | None:
    """Return a step without its words where the next step does not depend on them."""
    return type(previous)("") if isinstance(previous, Ask | Follow | Remember) else previous


def knows_nothing(thing: str) -> bool:
    """Return False, as the memory of a robot that remembers nothing."""
    return False
