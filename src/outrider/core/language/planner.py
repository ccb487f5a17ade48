# SPDX-License-Identifier: Apache-2.0
"""From a sentence to a plan, or to a refusal that says what to do. Pure: nothing moves, nothing is looked up.

The command line, the console, the navigator and agents all go through `plan_of`. It decides what is refused;
`refusals` says why. "Did you mean" comes of `_Reading.respelt`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile

from outrider.core.edit_distance import closest
from outrider.core.errors import InstructionError
from outrider.core.language.clauses import Clauses
from outrider.core.language.grammar import Vocabulary, nearest
from outrider.core.language.phrasebook import (
    LANGUAGES,
    PUNCTUATION,
    Phrasebook,
    Token,
    joined,
    phrasebook,
)
from outrider.core.language.plan import MOST_STEPS, Ask, Plan, Step, Stop, says_stop
from outrider.core.language.refusals import EXAMPLE, MOST_CHARACTERS, MOST_WORDS, refusal, shortened

AFTER_A_STOP = "after a stop nothing else is done: say the rest anew"
ANY_QUESTION = Ask("").intent
DENIAL_REACH = 2
"""Words before a stop word that may deny it: "do not ever stop"."""
ASKS_AND_ORDERS = "asks and orders at once: end the question with a question mark, or say one at a time"
_MOST_RESPELT = 14


def plan_of(sentence: str, vocabulary: Vocabulary | None, knows: Callable[[str], bool] | None = None) -> Plan:
    """The plan of a sentence. `vocabulary` is that of a model made for few words; None is a general model.

    `knows`: whether the robot can go to a thing by its memory. A stop is never refused. Raises
    InstructionError, with `meant` where another sentence was probably meant, before anything moves.
    """
    if says_to_stop(sentence):
        return Plan((Stop(),), () if _is_only_a_stop(sentence) else (AFTER_A_STOP,))
    _check_form(sentence)
    knows = knows or _knows_nothing
    readings = [_Reading(phrasebook(language), sentence, vocabulary, knows) for language in LANGUAGES]
    readings.sort(key=lambda reading: reading.num_strange)
    likely = [reading for reading in readings if reading.num_strange == readings[0].num_strange]
    for plan in _one_by_one(likely, readings):
        if plan is not None:
            return plan
    first = likely[0]
    raise refusal(sentence, vocabulary, first.book, first.clauses)


def _one_by_one(likely: Sequence[_Reading], readings: Sequence[_Reading]) -> Iterator[Plan | None]:
    """What the sentence comes to as it stands, then with its spelling mended, language by language.

    One that is an order, but for its thing or for what was wrong with it, is mended in its own language
    alone, and to no question.
    """
    yield from (reading.plan() for reading in likely)
    orders = [reading for reading in likely if reading.clauses.unknown or reading.clauses.problems]
    if not likely[0].num_strange and any(reading.clauses.problems for reading in likely):
        return
    others = readings if likely[0].num_strange else likely
    mended = (reading.respelt(is_order=bool(orders)) for reading in orders or others)
    yield from mended


def says_to_stop(sentence: str) -> bool:
    """Whether a sentence orders a stop, in any language, however long or strange the rest of it is.

    A plan in any language is one if it begins with a stop word, or says nothing but to stop; else a stop word
    counts that no negation denies.
    """
    books = [phrasebook(language) for language in LANGUAGES]
    stop_words = frozenset(word for book in books for word in book.words("stop_words"))
    words = _words(books[0].tokens(sentence[: 4 * MOST_CHARACTERS]))
    if len(words) <= MOST_WORDS:
        plans = [
            plan for book in books if (plan := _Reading(book, sentence, None, _knows_nothing).steps(False))
        ]
        if plans:
            starts = any(_first_word(book, sentence) in stop_words for book in books)
            return any(says_stop(plan) and (starts or set(plan) == {Stop()}) for plan in plans)
    if len(words) == 1 and closest(words[0], sorted(stop_words)):
        return True
    denials = frozenset(word for book in books for word in book.denials)
    said = [book.tokens(sentence[: 4 * MOST_CHARACTERS]) for book in books]
    # A language's own tokens alone show its negations whole: "don't" is two words to others.
    held = [_stops(tokens, stop_words, denials) for tokens in said]
    return any(held) and all(any(stops) for stops in held if stops)


def _stops(tokens: Sequence[Token], stop_words: frozenset[str], denials: frozenset[str]) -> list[bool]:
    """Each stop word among them: whether it stands, or a negation just before it in its clause denies it.

    A negation of something else denies nothing: a needless stop does less harm than a missed one.
    """
    words = [token.word for token in tokens]
    clauses = (
        takewhile(lambda word: word not in PUNCTUATION, reversed(words[:at])) for at in range(len(words))
    )
    return [
        denials.isdisjoint(islice(before, DENIAL_REACH))
        for word, before in zip(words, clauses, strict=True)
        if word in stop_words
    ]


def _first_word(book: Phrasebook, sentence: str) -> str:
    """The first word after politeness; empty for none."""
    words = [token for token in book.tokens(sentence) if token.word not in PUNCTUATION]
    bare = book.without(book.polite_before, words)
    return bare[0].word if bare else ""


def _words(tokens: Sequence[Token]) -> list[str]:
    return [token.word for token in tokens if token.word not in PUNCTUATION]


def _knows_nothing(thing: str) -> bool:
    return False


def _is_only_a_stop(sentence: str) -> bool:
    readings = (_Reading(phrasebook(language), sentence, None, _knows_nothing) for language in LANGUAGES)
    return any(reading.steps(False) == (Stop(),) for reading in readings)


def _check_form(sentence: str) -> None:
    """Raises InstructionError for what is no plain line of words."""
    if any(unicodedata.category(character) == "Cc" for character in sentence.strip()):
        raise InstructionError("the instruction holds control characters; use one plain line of words")
    if not any(character.isalnum() for character in sentence):
        raise InstructionError(f"the instruction is empty of words; say what to do, {EXAMPLE}")


@dataclass
class _Reading:
    """A sentence read in one language."""

    book: Phrasebook
    sentence: str
    vocabulary: Vocabulary | None
    knows: Callable[[str], bool]

    def __post_init__(self) -> None:
        self.tokens = self.book.tokens(self.sentence)
        self.clauses = Clauses(self.book, self.vocabulary, self.knows)

    @property
    def num_strange(self) -> int:
        """How many letters are in words of neither the language's file nor the model's vocabulary."""
        words = (token.word for token in self.tokens)
        return sum(len(word) for word in words if word[0].isalpha() and not self._is_known(word))

    def plan(self) -> Plan | None:
        """The plan, or None where this is no sentence of the language."""
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
        if len(steps) > MOST_STEPS:
            self.clauses.problems.insert(0, f"has {len(steps)} steps; at most {MOST_STEPS} are taken")
            return None
        notes = (step.note(self.vocabulary is None) for step in steps)
        return Plan(steps, tuple(dict.fromkeys(filter(None, notes))))

    def steps(self, described: bool) -> tuple[Step, ...] | None:
        """The steps of the sentence as it stands, a correction's "no" left out."""
        tokens, corrected = self._without_correction()
        correct = None if corrected else self._spoken_correction()
        if correct is not None:
            return (correct,)
        count = sum(token.word not in PUNCTUATION for token in tokens)
        remembers = self.clauses.read(tokens, self.sentence, None, corrected, False)
        if remembers is not None and remembers.intent == "remember":
            return (remembers,)
        if count > MOST_WORDS or len(self.sentence) > MOST_CHARACTERS:
            return None
        return self._split(tokens, None, corrected, described)

    def respelt(self, is_order: bool) -> Plan | None:
        """The plan of the sentence with its spelling mended; None where that makes no plan either.

        Raises InstructionError for one that acts: it is to be confirmed. Of an order no question is made.
        """
        mended = (one for one in self._mended() if not (is_order and one[1].only_tells))
        text, plan = next(mended, ("", None))
        if plan is None:
            return None
        if plan.only_tells:
            return replace(plan, notes=(*plan.notes, f'read as "{text}"'))
        said = shortened(self.sentence)
        raise InstructionError(
            f'"{said}" is no instruction that this model knows: did you mean "{text}"?', meant=text
        )

    def _without_correction(self) -> tuple[list[Token], bool]:
        match = self.book.correction.match(joined(self.tokens))
        if match is None or (match["pause"] is None and match[0].split()[0] in self.book.words("negations")):
            return self.tokens, False
        return self.tokens[match[0].count(" ") :], True

    def _spoken_correction(self) -> Step | None:
        """A correction whose "no" has no comma after it, as a recogniser writes it: "no the other one"."""
        match = self.book.correction.match(joined(self.tokens))
        after = self.tokens[match[0].count(" ") :] if match else []
        step = self.clauses.read(after, self.sentence, None, True, False)
        return step if step is not None and step.intent.startswith("correct(") else None

    def _split(
        self, tokens: Sequence[Token], previous: Step | None, corrected: bool, described: bool
    ) -> tuple[Step, ...] | None:
        """One step, or a step, a word such as "then", and the rest; a question in any words if need be."""
        step = self.clauses.read(tokens, self.sentence, previous, corrected, described)
        if step is not None and step.intent != ANY_QUESTION:
            return (step,)
        text = joined(tokens)
        for link in self.book.connector.finditer(text):
            before, after = text[: link.start()].count(" "), text[: link.end()].count(" ")
            if before == 0 or after == len(tokens):
                continue
            first = self.clauses.read(tokens[:before], self.sentence, previous, corrected, described)
            rest = self._split(tokens[after:], first, False, described) if first is not None else None
            if first is None or rest is None:
                continue
            if first.intent != ANY_QUESTION or "?" in link[0]:
                return (first, *rest)
            if tokens[-1].word != "?" and not all(step.tells for step in rest):
                self.clauses.problems.insert(0, ASKS_AND_ORDERS)
                return None
        return (step,) if step is not None else None

    def _denies(self) -> bool:
        """Whether a word of the sentence says that something is not to be done."""
        return self.book.denies([token.word for token in self.tokens])

    def _is_known(self, word: str) -> bool:
        slots = self.vocabulary.slots.values() if self.vocabulary else ()
        return word in self.book.lexicon or word in PUNCTUATION or any(word in words for words in slots)

    def _mended(self) -> Iterator[tuple[str, Plan]]:
        """Plans within slips of the keyboard: with all strange words mended, or one other word."""
        words = [token.word for token in self.tokens]
        if len(words) > _MOST_RESPELT or self.book.is_unspaced or self._denies():
            return
        choices = sorted({*self.book.lexicon, *self._vocabulary_words()} - self.book.words("negations"))
        strange = [w if self._is_known(w) or not w.isalpha() else closest(w, choices) or w for w in words]
        tries = [strange]
        for index, word in enumerate(words):
            other = closest(word, [choice for choice in choices if choice != word]) if word.isalpha() else ""
            tries += [[*strange[:index], other, *strange[index + 1 :]]] if other else []
        tries.append(self._nearest())
        for mended in tries:
            plan = self._plan_of_words(mended) if mended and mended != words else None
            if plan is not None:
                yield _spaced(mended), plan

    def _vocabulary_words(self) -> Iterator[str]:
        for words in self.vocabulary.slots.values() if self.vocabulary else ():
            yield from words

    def _nearest(self) -> list[str]:
        """The trained sentence that comes nearest, if all of its words are known."""
        near = (
            nearest(self.sentence, self.vocabulary)
            if self.vocabulary and self.book.language == "en"
            else None
        )
        return near.said.split() if near and not near.unknown and not near.missing else []

    def _plan_of_words(self, words: Sequence[str]) -> Plan | None:
        return _Reading(self.book, _spaced(words), self.vocabulary, self.knows).plan()


def _spaced(words: Sequence[str]) -> str:
    """Words as a sentence, with no space before a comma."""
    text = " ".join(words)
    for sign in PUNCTUATION:
        text = text.replace(f" {sign}", sign)
    return text
