# SPDX-License-Identifier: Apache-2.0
"""Turns a sentence into a plan, or a refusal that says what to do. Pure: nothing moves or is looked up.

The command line, the console, the navigator and agents all use `plan_of`. It decides what is refused;
`refusals` says why. "Did you mean" comes from `Reading.respelt`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.plan import Follow, Plan, Step, Stop
from outrider.core.language.reading import Reading, knows_nothing
from outrider.core.language.refusals import (
    EXAMPLE,
    MAX_CHARACTERS,
    MAX_READ,
    refusal,
    too_long,
)
from outrider.core.language.sentences.stops import (
    LEFT_BY_A_STOP,
    begins_with_a_stop,
    left_by_a_stop,
    says_to_stop,
)
from outrider.core.language.words.phrasebook import LANGUAGES, phrasebook
from outrider.core.language.words.signs import visible


def plan_of(sentence: str, vocabulary: Vocabulary | None, knows: Callable[[str], bool] | None = None) -> Plan:
    """Return the plan of a sentence.

    `vocabulary` is that of a model made for few words; None: a general model.
    `knows`: whether the robot's memory has a thing to go to. A stop is never refused. Raises
    InstructionError before anything moves, with `meant` if another sentence was probably meant.
    """
    sentence = visible(sentence)
    if says_to_stop(sentence):
        left = left_by_a_stop(sentence)
        return Plan((Stop(),), (left,) if left else ())
    _check_form(sentence)
    knows = knows or knows_nothing
    readings = [Reading(phrasebook(language), sentence, vocabulary, knows) for language in LANGUAGES]
    readings.sort(key=lambda reading: reading.num_strange)
    likely = [reading for reading in readings if reading.num_strange == readings[0].num_strange]
    for plan in _one_by_one(likely, readings):
        if plan is not None:
            return plan
    first = likely[0]
    raise refusal(sentence, vocabulary, first.book, first.clauses)


def _one_by_one(likely: Sequence[Reading], readings: Sequence[Reading]) -> Iterator[Plan | None]:
    """Yield the plans of the sentence as it is, then with its spelling corrected, language by language.

    An order whose thing is unknown, or that has a problem, is corrected only in its own language, and never
    to a question.
    """
    yield from (reading.plan() for reading in likely)
    if begins_with_a_stop(likely[0].sentence):
        yield Plan((Stop(),), (LEFT_BY_A_STOP,))
    orders = [reading for reading in likely if reading.clauses.unknown or reading.clauses.problems]
    is_read = not likely[0].num_strange and any(reading.clauses.problems for reading in likely)
    if is_read or any(reading.clauses.is_unsupported for reading in likely):
        return
    candidates = readings if likely[0].num_strange else likely
    known = frozenset().union(*(reading.known_words for reading in likely))
    mended = (reading.respelt(bool(orders), known) for reading in orders or candidates)
    yield from mended


def _check_form(sentence: str) -> None:
    """Raise InstructionError unless the sentence is one plain line of words."""
    if len(sentence) > MAX_READ:
        raise too_long(len(sentence), "characters", MAX_CHARACTERS)
    if any(unicodedata.category(character) == "Cc" for character in sentence.strip()):
        raise InstructionError("the instruction holds control characters; use one plain line of words")
    if not any(character.isalnum() for character in sentence):
        raise InstructionError(f"the instruction is empty of words; say what to do, {EXAMPLE}")


def brief(sentence: str) -> str:
    """Return the steps of a sentence in short, to be kept forever: without anything about memory.

    If the sentence is not a plan for a general model, return only its length, because it may hold a secret.
    """
    try:
        steps = plan_of(sentence, None).steps
    except InstructionError:
        return f"a sentence of {len(sentence)} characters"
    return "; ".join(map(_brief, steps))


def _brief(step: Step) -> str:
    shows_argument = step.moves and not isinstance(step, Follow)
    return step.intent if shows_argument else step.intent.partition("(")[0]
