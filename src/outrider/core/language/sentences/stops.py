# SPDX-License-Identifier: Apache-2.0
"""Decides whether a sentence orders a stop, which nothing refuses, delays or gates.

A needless stop does less harm than a missed one: if a sentence can be read in two ways, the stop counts.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from outrider.core.language.plan import Step, Stop, says_stop
from outrider.core.language.reading import Reading, knows_nothing
from outrider.core.language.refusals import MAX_CHARACTERS, MAX_READ, MAX_WORDS
from outrider.core.language.sentences.disguises import is_written_as_one, undrawn, unveiled
from outrider.core.language.sentences.slips import respelt, slips
from outrider.core.language.words.phrase_group import PhraseGroup
from outrider.core.language.words.phrasebook import LANGUAGES, Phrasebook, joined, phrasebook, stop_words
from outrider.core.language.words.signs import PUNCTUATION, plain, visible
from outrider.core.language.words.stop_phrases import (
    between_signs,
    called,
    is_long,
    no_orders,
    of_all,
    stop_phrases,
    without_calls,
    without_emphasis,
    without_ends,
    without_politeness,
)

LEFT_BY_A_STOP = "after a stop nothing else is done: say the rest anew"
DENIAL_REACH = 2  # words allowed between a negation and the stop word that it denies: "do not ever stop"
_MAX_MENDED = 8
_MAX_AFTER = 4  # words after a stop phrase that may change its meaning: "for a sec", "ahead of you"
_WORD = re.compile(r"[^\W\d_\u4e00-\u9fff]+(?:'[^\W\d_]+)*")
_CUT_AT_BEGIN, _CUT_AT_END = re.compile(r"^\S{1,20}\s"), re.compile(r"\s\S{1,20}$")


def read_phrases() -> None:
    """Load the phrases of all languages now, so that no stop waits for them: for plans and other texts."""
    for sentence in ("turn left", "-"):
        says_to_stop(sentence)


def says_to_stop(sentence: str) -> bool:
    """Return whether a sentence orders a stop, in any language, however long or strange the rest of it is.

    A sentence that is a plan in some language orders one in these cases: it begins with a stop; it has one
    that no word such as "then" makes its last step, or that is to happen now; it is a question that ends in
    one. Any other sentence orders one if it has a stop word or stop phrase that no negation denies, a
    misspelt one, or letters that form one: "stopitnow", "dont move". Words that only add emphasis are
    ignored: "don't even move". So are signs, politeness, names and oaths at its ends. In a text much longer
    than a sentence, both ends are read, and the rest is searched for stop words.
    """
    sentence = visible(sentence)
    if len(sentence) > MAX_READ:
        return _holds_a_stop_word(sentence) or any(map(says_to_stop, _ends(sentence)))
    sentence = unveiled(sentence)
    return _says_to_stop(sentence) or any(map(_says_to_stop, _barer(sentence)))


def _barer(sentence: str) -> set[str]:
    """Return the sentence without words that only add emphasis, or without meaningless ones at its ends."""
    return {*without_emphasis(sentence), *without_ends(sentence)} - {sentence}


def _says_to_stop(sentence: str) -> bool:
    readings = [Reading(phrasebook(language), sentence, None, knows_nothing) for language in LANGUAGES]
    plans = (plan for reading in readings if (plan := _steps(reading)))
    plan = next(plans, None)
    if plan:  # cheap checks come first: the plans of the other languages take most of the time
        return (
            says_stop(plan)
            or any(_bursts_out(each.book, [token.word for token in each.tokens]) for each in readings)
            or any(map(says_stop, plans))
            or any(_asks_and_stops(each) or _breaks_in(each) or _is_urgent(each) for each in readings)
            or any(map(slips, _likely(readings)))
        )
    if any(map(_breaks_in, readings)):
        return True
    found = [list(_stops(reading.book, joined(reading.tokens))) for reading in readings]
    # Only a language's own words show its negations whole: "don't" is two words in others.
    if any(found):
        return all(any(stops) for stops in found if stops)
    if any(is_written_as_one(reading.book, sentence) for reading in readings):
        return True
    return any(slips(reading) or _is_mended_to_a_stop(reading) for reading in _likely(readings))


def left_by_a_stop(sentence: str) -> str:
    """Return a note about the rest of a sentence that orders a stop; empty if it says nothing else."""
    return "" if _is_only_a_stop(sentence) else LEFT_BY_A_STOP


def _is_only_a_stop(sentence: str) -> bool:
    sentence = visible(sentence)
    if len(sentence) > MAX_READ:
        return False
    sentence = unveiled(sentence)
    readings = (Reading(phrasebook(language), sentence, None, knows_nothing) for language in LANGUAGES)
    return any(_steps(reading) == (Stop(),) for reading in readings)


def _ends(sentence: str) -> tuple[str, str]:
    """Return the beginning and the end of a text, as long as a sentence may be, cut between words."""
    first, last = sentence[:MAX_CHARACTERS], sentence[-MAX_CHARACTERS:]
    return _CUT_AT_END.sub("", first), _CUT_AT_BEGIN.sub("", last)


def _holds_a_stop_word(text: str) -> bool:
    """Return whether a text of any length has a stop word that no negation denies, in one pass."""
    letters = plain(text)
    words = _WORD.findall(letters)
    if any(
        word in stop_words() and not _is_denied(words[max(0, at - 8) : at]) for at, word in enumerate(words)
    ):
        return True
    run_on = "|".join(re.escape(word) for word in stop_words() if not word.isascii())
    denials = tuple(word for word in of_all("denials") if not word.isascii())
    return any(not letters.endswith(denials, 0, match.start()) for match in re.finditer(run_on, letters))


def begins_with_a_stop(sentence: str) -> bool:
    """Return whether the first significant word of a sentence is a stop word, in any language."""
    return any(words[0] in stop_words() for _, words in _openings(sentence))


def begins_to_stand(sentence: str) -> bool:
    """Return whether a sentence begins with a stop word or an order to wait: "wait! what are you doing?".

    While the robot moves, a person means a stop by it; while it stands, it may be a step of a plan.
    """
    openings = _openings(undrawn(sentence))
    return any(words[0] in stop_words() or _begins_with_a_wait(book, words) for book, words in openings)


def _openings(sentence: str) -> Iterator[tuple[Phrasebook, list[str]]]:
    """Yield the words of a sentence from the first significant one, for each language that has any."""
    sentence = unveiled(visible(sentence[:MAX_READ]))
    for book in map(phrasebook, LANGUAGES):
        words = [token.word for token in book.tokens(sentence)]
        ignored = called(book) - of_all("negations") | {word for word in words if not word[:1].isalnum()}
        words = list(itertools.dropwhile(ignored.__contains__, words))
        if words:
            yield book, words


def _begins_with_a_wait(book: Phrasebook, words: Sequence[str]) -> bool:
    text = " ".join([*words, ""])
    corrects = book.correction.match(text)
    first = corrects.end() if corrects else 0
    return any(match.start() == first for match in _waits(book).found_in(text))


def _waits(book: Phrasebook) -> PhraseGroup:
    """Return the orders to wait of a language."""
    return next(group for group in book.groups if group.name == "wait")


def _steps(reading: Reading) -> tuple[Step, ...] | None:
    """Return the steps of a sentence, unless it is too long for a plan."""
    num_words = sum(token.word not in PUNCTUATION for token in reading.tokens)
    return reading.steps(False) if num_words <= MAX_WORDS else None


def _bursts_out(book: Phrasebook, words: Sequence[str]) -> bool:
    """Return whether a stop is between punctuation signs, so that no word such as "then" makes it a step.

    A word that begins a correction, such as "no", counts if nothing follows it.
    """
    clauses = list(between_signs(words))
    orders = [clause for clause in clauses if _orders_a_stop(book, clause)]
    ends = len(clauses) > 1 and "?" not in words[-1:] and orders[-1:] == clauses[-1:]
    repeats = any(stop_words().issuperset(clause[-2:]) for clause in clauses if len(clause) > 1)
    corrects = book.correction.fullmatch
    variants = (
        (" ".join([*variant, ""]) for variant in (order, without_calls(book, order) or order))
        for order in orders
    )
    return ends or repeats or any(not any(map(corrects, texts)) for texts in variants)


def _orders_a_stop(book: Phrasebook, clause: Sequence[str]) -> bool:
    """Return whether a clause only orders a stop: "stop please", "i said enough rex"."""
    opener = book.correction.match(" ".join([*clause, ""]))
    rest = clause[opener[0].count(" ") :] if opener else clause
    variants = [list(clause), without_politeness(book, clause), without_calls(book, clause)]
    variants += [without_calls(book, rest), without_calls(book, clause, of_all("negations"))]
    texts = [" ".join([*words, ""]) for words in variants]
    alone = any(text.strip() in book.words("lone_stops") for text in texts)
    return alone or any(any(stop_phrases(book).matches(text)) for text in texts)


def _asks_and_stops(reading: Reading) -> bool:
    """Return whether a question ends in a stop word that no negation denies: "is that a person stop?"."""
    book = reading.book
    *questions, _ = no_orders(book).sub("", joined(reading.tokens)).split("? ")
    clauses = [without_politeness(book, words) for part in questions for words in between_signs(part.split())]
    return any(words[-1] in stop_words() and not _is_denied(words[:-1]) for words in clauses if words)


def _is_urgent(reading: Reading) -> bool:
    """Return whether the last step is to stop now, not at the end of the plan:
    "turn left and stop right now".
    """
    book, text = reading.book, joined(reading.tokens).rstrip(f"{PUNCTUATION} ") + " "
    *_, last = book.connector.split(text)
    if book.words("urgent").isdisjoint(last.split()):
        return False
    return Stop() in (_steps(reading) or ())[-1:]


def _breaks_in(reading: Reading) -> bool:
    """Return whether a stop phrase follows a sentence complete without it:
    "what are you doing stand still rex".

    A phrase of one word counts only after an order, "turn left enough" but not "is that enough", and if at
    most a name or the like follows. After a word such as "then" the phrase is a step, after an article a
    thing: "find the emergency stop". In an order to wait it may be how long: "wait one minute".
    """
    book = reading.book
    words = without_politeness(book, [token.word for token in reading.tokens])
    text = no_orders(book).sub("", f"{' '.join(words)} ")
    if "?" in words[-1:] or len(words) > MAX_WORDS:
        return False
    waits = list(_waits(book).found_in(text))
    for match in stop_phrases(book).found_in(text):
        before = text[: match.start()].split()
        after = text[match.end() :].split()
        if not before or _is_denied(before) or _leads_on(book, before) or len(after) > _MAX_AFTER:
            continue
        if any(wait.start() < match.start() and match.end() <= wait.end() for wait in waits):
            continue
        long = is_long(book, match[0])
        if after and (_goes_on(book, match) if long else not _is_addressed(book, match[0], after)):
            continue
        steps = _steps(Reading(book, book.as_written(" ".join(before)), None, knows_nothing))
        if steps and steps[-1].intent != "remember" and (long or steps[-1].moves):
            return True
    return False


def _is_addressed(book: Phrasebook, phrase: str, after: Sequence[str]) -> bool:
    """Return whether only a name or the like follows a one-word phrase; False if the phrase may go on."""
    is_whole = book.as_written(phrase) in of_all("whole_stops") and not called(book).issuperset(after)
    return not is_whole and _orders_a_stop(book, [*phrase.split(), *after])


def _leads_on(book: Phrasebook, before: Sequence[str]) -> bool:
    """Return whether words end in an article, or in a word such as "then"."""
    text = " ".join([*without_politeness(book, before), ""])
    parts = any(link.end() == len(text) for link in book.connector.finditer(text))
    return parts or not book.without_article(f"{before[-1]} ").strip()


def _stops(book: Phrasebook, text: str) -> Iterator[bool]:
    """Yield for each stop word or phrase of a text whether it counts, or is denied by a negation before it.

    A negation of something else denies nothing. A phrase of one word that is not a stop word, such as
    "stay", counts between punctuation signs and at the start of a clause: "cancel there is a kid".
    """
    text = no_orders(book).sub("", text)
    for match in stop_phrases(book).found_in(text):
        if is_long(book, match[0]) or match[0].strip() in stop_words():
            if _goes_on(book, match):
                continue
            before = text[max(0, match.start() - 80) : match.start()].split()
            yield not _is_denied(before)
        elif _begins_a_clause(book, match):
            yield True
    if _bursts_out(book, text.split()):
        yield True


def _begins_a_clause(book: Phrasebook, match: re.Match[str]) -> bool:
    """Return whether a one-word phrase begins its clause, apart from names, oaths and politeness.

    False for one that means something else if more follows, such as "help".
    """
    phrase, start = book.as_written(match[0]), match.start()
    before = re.split(f"[{PUNCTUATION}]", match.string[max(0, start - 80) : start])[-1].split()
    is_part = phrase in of_all("whole_stops") or phrase in of_all("negations")
    return not is_part and (called(book) - of_all("negations")).issuperset(before)


def _goes_on(book: Phrasebook, match: re.Match[str]) -> bool:
    """Return whether a phrase that alone would be a stop goes on: "don't go to the door"."""
    if book.as_written(match[0]) not in of_all("whole_stops"):
        return False
    after = re.split(f"[{PUNCTUATION}]", match.string[match.end() : match.end() + 80], maxsplit=1)[0]
    return len(without_calls(book, [match[0], *after.split()])) > 1


def _is_denied(before: Sequence[str]) -> bool:
    """Return whether words before a stop word deny it: a negation comes last, or before words such as "ever".

    The second part of a negation denies nothing if its first part is before it: "n'y va pas arrête".
    """
    for at in range(len(before) - 1, max(-1, len(before) - DENIAL_REACH - 2), -1):
        word = before[at]
        if word in of_all("denials"):
            earlier = {text.partition("'")[0] for text in before[: max(0, at - 1)]}
            begun = earlier & of_all("negation_begins")
            return not (begun and word in of_all("negation_ends"))
        if word not in of_all("between_denials"):
            return False
    return False


def _likely(readings: Sequence[Reading]) -> list[Reading]:
    """Return the readings with the fewest letters in unknown words."""
    least = min(reading.num_strange for reading in readings)
    return [reading for reading in readings if reading.num_strange == least]


def _is_mended_to_a_stop(reading: Reading) -> bool:
    if len(reading.tokens) > _MAX_MENDED:
        return False
    texts = itertools.chain([respelt(reading)], reading.mended_texts())
    mended = (Reading(reading.book, text, None, knows_nothing) for text in texts)
    return any(says_stop(plan) for each in mended if (plan := _steps(each)))
