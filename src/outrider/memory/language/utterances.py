# SPDX-License-Identifier: Apache-2.0
"""What a person says about memory: to remember, to be told, to be led to. Pure functions, plain rules.

remember that my keys hang by the door            a statement, private
remember that the bins go out on Monday, shareable
remember that my bag is here                      a statement about the place where the robot stands
where did you last see the red ball?              a question, answered without motion
what do you know about my keys?                   any other question
find my keys                                      a wish, which memory may know the place of
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from outrider.core.values import Visibility

_POLITE = r"(?:please |hey |could you |can you |would you |will you )*"
_ARTICLE = r"(?:(?:the|a|an|my|our|your|his|her|their|that|this|some|any) )?"
_REMEMBER = re.compile(
    rf"{_POLITE}(?:remember|note|keep in mind)(?: that\b|:|,)? +(?!how\b|when\b|where\b|what\b)(?P<text>.+)",
    re.I | re.S,
)
_VISIBILITY = re.compile(r"[\s,;.(]+(?:keep (?:it|this) )?(?P<visibility>private|shareable)\)?$", re.I)
_HERE = re.compile(r"\b(?:is|are|lies|lie|hangs|hang|stands|stand|sits|sit) (?:right |just )?here$", re.I)
_SEEN = re.compile(
    rf"{_POLITE}(?:tell me )?(?:where|when) (?:did|have) you (?:last |ever )?(?:see|seen|saw|notice|noticed) "
    rf"{_ARTICLE}(?P<what>.+?)(?: last)?",
    re.I,
)
_VERBS = (
    r"find|search the \w+ for|search for|look for|locate|fetch|where is|where are|where did i (?:put|leave)|"
    r"where have i (?:put|left)|go to|go and find|go find|walk to|walk over to|run to|move to|drive to|"
    r"come to|take me to|bring me to|show me|lead me to|guide me to|i need|i am looking for|i want to see|"
    r"head for|get to|approach|stop at|stand next to|wait at"
)
_ASK = re.compile(rf"{_POLITE}(?:tell me|what|who|whose|when|why|how|which|do you know)\b.+", re.I)
_FIND = re.compile(rf"{_POLITE}(?:{_VERBS}) {_ARTICLE}(?P<what>.+)", re.I)


@dataclass(frozen=True)
class Remember:
    """A statement to keep. `here`: its place is where the robot stands."""

    text: str
    visibility: Visibility = Visibility.PRIVATE
    here: bool = False


@dataclass(frozen=True)
class AskSeen:
    """A question for where a thing was seen last, and how it was asked."""

    what: str
    question: str = field(default="", compare=False)


@dataclass(frozen=True)
class Ask:
    """Any other question."""

    question: str


@dataclass(frozen=True)
class Find:
    """A wish to be at a thing; `what` is said without its article."""

    what: str


def understand(sentence: str) -> Remember | AskSeen | Find | Ask | None:
    """What a sentence asks of memory; None for any other, a motion command for example."""
    said = " ".join(sentence.split())
    remember = _REMEMBER.fullmatch(said)
    if remember is not None:
        return _statement(remember["text"])
    plain = said.rstrip(" ?!.")
    seen, found = _SEEN.fullmatch(plain), _FIND.fullmatch(plain)
    if seen is not None:
        return AskSeen(plain_name(seen["what"]), said.lower())
    if found is not None:
        return Find(plain_name(found["what"]))
    return Ask(said.lower()) if _ASK.fullmatch(plain) else None


def plain_name(words: str) -> str:
    """A thing's name as sightings have it: lower case, no politeness behind it."""
    return re.sub(r",? (?:please|for me)$", "", words.lower().strip(" ,?!."))


def _statement(text: str) -> Remember:
    text = text.strip(" .!")
    visibility = Visibility.PRIVATE
    said = _VISIBILITY.search(text)
    if said is not None:
        visibility = Visibility(said["visibility"].lower())
        text = text[: said.start()]
    return Remember(text, visibility, _HERE.search(text) is not None)
