# SPDX-License-Identifier: Apache-2.0
"""Sentences with a stop word, and texts without one: training data for the spotter of stops."""

from __future__ import annotations

import random
import re
from functools import cache

from outrider.core.language.grammar import COMMANDS, Vocabulary
from outrider.core.language.sentences.stops import says_to_stop
from outrider.core.language.words.phrasebook import phrasebook
from outrider.core.language.words.things import Thing
from outrider.runtime.datasets.real_prompts import training_questions
from outrider.runtime.mission.words import ASKED, JOINED, TO_MEMORY, TOLD

_NEAR = """
    top shop step stoop storm start store stock stomp stuff stab stub stump stone staff steep strap
    strip stamp stack stick stuck steak stall stool stair stand state station study story street strong
    drop crop pop hop chop mop cop prop swap spot spoon pot at it hold hall hot hat hut heart hurt home
    hauled harp salt fault malt vault bolt colt halls hello help half hard held free freed fries trees
    please sneeze cheese three fleece priest reef fridge friend fresh frame front floor breeze squeeze
    knees keys these seize peas bees desktop laptop tabletop scotch stash stove steam stem slop slope
    soap sap sob shock sock sort taught tall what walk want watch wait lot not hood hoot hook
"""
NEAR_WORDS = tuple(_NEAR.split())
"""Words that sound a little like a stop word, or begin or end like one."""
UNSURE = re.compile(r"stop|halt|free[sz]|frieze|abort|whoa")
"""A text that matches this cannot be labelled for certain, with a stop word or without: it is left out."""
_TAILS = (
    "it",
    "that",
    "moving",
    "there",
    "here",
    "right there",
    "everything",
    "walking",
    "turning",
    "and wait",
)
_JOINTS = (" and", " then", ",", "")


def stop_sentence(rng: random.Random, word: str, known: Vocabulary) -> tuple[str, int]:
    """Returns a sentence with a stop word, often among others, and the index of that word."""
    book = phrasebook("en")
    ordered = f"{_order(rng, known)}{rng.choice(_JOINTS)}"
    before = rng.choice(["", "", "", rng.choice(book.spoken("polite_before")), ordered])
    place = _about_a_thing(rng, known, "at the {}")
    after = rng.choice(["", "", "", rng.choice(book.spoken("polite_after")), rng.choice(_TAILS), place])
    return f"{before} {word} {after}".strip(), len(before) + 1 if before else 0


def other_text(rng: random.Random, known: Vocabulary) -> str:
    """Returns a text without a stop word: a sentence of the grammar, similar words, or part of a question."""
    while True:
        share = rng.random()
        if share < 0.5:
            return _order(rng, known)
        if share < 0.6:
            text = rng.choice(known.phrasings(("kind",))).format(rng.choice(NEAR_WORDS))
        elif share < 0.8:
            text = " ".join(rng.choices(NEAR_WORDS, k=rng.randint(1, 4)))
        else:
            words = rng.choice(_questions()).split()
            start = rng.randrange(len(words))
            text = " ".join(words[start : start + rng.randint(2, 8)])
        if _is_other(text):
            return text


@cache
def _questions() -> tuple[str, ...]:
    return training_questions()


def _order(rng: random.Random, known: Vocabulary) -> str:
    """Returns a sentence of the grammar that orders no stop."""
    while True:
        if rng.random() < 0.6:
            text = _about_a_thing(rng, known)
        else:
            text = rng.choice((*COMMANDS, *TOLD, *JOINED, *ASKED, *TO_MEMORY))
        if _is_other(text):
            return text


def _is_other(text: str) -> bool:
    return not UNSURE.search(text.lower()) and not says_to_stop(text)


def _about_a_thing(rng: random.Random, known: Vocabulary, phrasing: str = "") -> str:
    shape = rng.choice(known.named_shapes)
    thing = Thing(**{slot: rng.choice(known.words(slot)) for slot in shape})
    return (phrasing or rng.choice(known.phrasings(shape))).format(thing.phrase)
