# SPDX-License-Identifier: Apache-2.0
"""Sentences with two things, one that is meant and one that is not: "not the red one, the blue one"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from outrider.core.language.clauses import Clauses
from outrider.core.language.plan import Correct, Find, Step
from outrider.core.language.words.amounts import Token
from outrider.core.language.words.phrasebook import Phrasebook, joined
from outrider.core.language.words.signs import PUNCTUATION
from outrider.core.language.words.things import Thing, may_be

_MAX_TOKENS = 16
_Contrast = tuple[Sequence[Token], Sequence[Token], bool]
"""The words of what is meant, those of what is not, and whether they correct an earlier sentence."""


def contrasted(clauses: Clauses, tokens: Sequence[Token], sentence: str) -> Step | None:
    """Return the step of what is meant, if the sentence also names what is not; else None."""
    for meant, denied, corrects in _contrasts(clauses.book, tokens):
        step = clauses.read(meant, sentence, None, corrects, False)
        other = clauses.read(denied, sentence, None, True, False)
        if isinstance(other, Find) and not clauses.names.is_kind(Thing.of(other.thing).kind):
            continue
        if _differ(step, other):
            return step
    return None


def _differ(step: Step | None, other: Step | None) -> bool:
    """Return whether what is meant and what is denied cannot be the same thing."""
    if isinstance(step, Correct) and isinstance(other, Correct):
        properties = [
            (bool(correction.other), bool(correction.colour), bool(correction.size), bool(correction.side))
            for correction in (step, other)
        ]
        return step != other and properties[0] == properties[1]
    if isinstance(step, Correct) and isinstance(other, Find):
        return bool(step.colour) and Thing.of(other.thing).colour not in ("", step.colour)
    if not isinstance(step, Find) or not isinstance(other, Find | Correct):
        return False
    denied = other.thing if isinstance(other, Find) else f"{other.colour} {Thing.of(step.thing).kind}"
    return not may_be(denied.strip(), step.thing)


def _contrasts(book: Phrasebook, tokens: Sequence[Token]) -> Iterator[_Contrast]:
    """Yield each way to divide a sentence into what is meant and what is not.

    A word that means both "not" and "no", as in Spanish, divides things only next to a sign or a "but": "la
    roja no la azul" may mean either.
    """
    if len(tokens) > _MAX_TOKENS or any(token.word == "?" for token in tokens):
        return
    opened = _openers(book, tokens)
    rest, corrects = tokens[opened:], opened > 0
    negations = book.words("not_this")
    at = next((at for at, token in enumerate(rest) if token.word in negations), len(rest))
    before, after = rest[:at], rest[at + 1 :]
    is_plain = at < len(rest) and rest[at].word not in book.words("correction")
    begins = {*book.articles, *(token.word for token in before)}
    if before and after and (before[-1].word in PUNCTUATION or (is_plain and after[0].word in begins)):
        yield before, after, corrects
    for start in range(1, len(after) if not before else 0):
        is_parted = after[start - 1].word in book.words("but_this") or after[start - 1].word in PUNCTUATION
        if is_parted or (is_plain and after[start].word in {*book.articles, after[0].word}):
            yield after[start:], after[: start - is_parted], True


def _openers(book: Phrasebook, tokens: Sequence[Token]) -> int:
    """Return how many tokens open a correction, such as "no" or "i said", before anything is denied."""
    text, end = joined(tokens), 0
    while opener := book.opener.match(text, end):
        if opener["said"].split()[0] in book.words("not_this"):
            break
        end = opener.end()
    return text[:end].count(" ")
