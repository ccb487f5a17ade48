# SPDX-License-Identifier: Apache-2.0
"""A synthetic corpus: what people in a household said about their things, and questions that it answers.

Statements vary in phrasing: verbs differ, some begin with a filler phrase, some end with a remark. Answers
keep to the most common phrasing, and omit fillers and remarks. So an answer repeats its memories nearly
word for word, and departs from them where a language model with its own style would. All is drawn from a
seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from outrider.core.language.questions import question_prompt

PEOPLE = ("anna", "ben", "clara", "david", "emma", "felix", "grace", "hugo", "iris", "jonas", "karla", "leo")
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
HOURS = ("morning", "noon", "afternoon", "evening", "night")
PLURAL = ("keys", "glasses", "gloves", "tools", "shoes", "papers", "towels", "batteries", "cables", "pills")
SINGLE = ("phone", "wallet", "scarf", "charger", "passport", "camera", "lamp", "umbrella", "book", "ticket")
KINDS = ("spare", "old", "new", "blue", "red", "black", "small", "big", "good", "broken", "green", "best")
SPOTS = ("hook", "shelf", "drawer", "box", "basket", "tray", "bag", "chair", "table", "rack")
ORDER = ("first", "second", "third", "top", "middle", "lower", "left", "right", "white", "wooden")
LANDMARKS = ("door", "window", "stairs", "sink", "oven", "mirror", "sofa", "bed", "heater", "desk", "piano")
RELATIONS = ("by", "behind", "under", "near", "above", "opposite")
ROOMS = ("hall", "kitchen", "bedroom", "cellar", "garage", "bathroom", "office", "attic")
FILLERS = ("i think", "by the way", "just so you know", "as far as i know", "if i am not mistaken")
PLURAL_VERBS = ("hang", "lie", "sit")
SINGLE_VERBS = ("hangs", "lies", "sits")
MAX_FACTS = len(PLURAL) + len(SINGLE)
REMARKS = ("please leave it so", "do not tell the children", "it took me ages to find out", "for now")
TREATS = ("mango", "pears", "tea", "chess", "jazz", "tennis", "honey", "tulips", "bread", "cheese", "novels")
SHOPS = ("harbour", "station", "library", "bakery", "museum", "theatre", "castle", "mill", "school", "bridge")
PLAIN_SHARE, FILLER_SHARE, REMARK_SHARE, NEIGHBOUR_SHARE = 0.5, 0.4, 0.3, 0.4
"""Shares of statements that have the verb of the answers, a filler, a remark, or a neighbouring thing."""
NUM_RECORDS, MAX_PEOPLE, NUM_TREATS = (1, 2, 2, 2, 3), 4, 3


@dataclass(frozen=True)
class Fact:
    """Where somebody's thing is, who said so when, and in which words. `told` is the memory's text."""

    owner: str
    thing: str
    teller: str
    when: str
    statement: str
    told: str

    @property
    def subject(self) -> str:
        """Returns the owner and the thing, such as "Anna's bag"."""
        return f"{self.owner}'s {self.thing}"


@dataclass(frozen=True)
class Lesson:
    """A prompt with its documents, and the answer that a reader should give."""

    prompt: str
    answer: str


@dataclass(frozen=True)
class Question:
    """A question. `answer` returns what follows from given facts, in their order; empty if nothing does."""

    text: str
    answer: Callable[[Sequence[Fact]], str]

    def lesson(self, facts: Sequence[Fact]) -> Lesson:
        """Returns the prompt with these facts, and the right answer."""
        return Lesson(question_prompt(self.text, [fact.told for fact in facts]), self.answer(facts))


def make_lesson(rng: random.Random) -> Lesson:
    """Return a question over a few memories, which include the wanted ones."""
    if rng.random() < 0.2:
        return _shopping_lesson(rng)
    facts = make_facts(rng, rng.choice(NUM_RECORDS), rng.randint(1, MAX_PEOPLE))
    return rng.choice(ASKS)(rng.choice(facts)).lesson(facts)


def make_facts(rng: random.Random, count: int, num_people: int = MAX_PEOPLE) -> list[Fact]:
    """Return facts of one household about different things, MAX_FACTS at most."""
    people = rng.sample(PEOPLE, num_people)
    things = rng.sample((*PLURAL, *SINGLE), count)
    return [_fact(rng, rng.choice(people), thing, rng.choice(people)) for thing in things]


def ask_where(fact: Fact) -> Question:
    """Ask where one thing is; the answer also names who said so."""
    be = "are" if fact.thing.split()[-1] in PLURAL else "is"

    def answer(facts: Sequence[Fact]) -> str:
        found = [one for one in facts if one.subject == fact.subject]
        return " ".join(f"{one.statement}. {one.teller} said so on {one.when}." for one in found)

    return Question(f"where {be} {fact.subject}?", answer)


def ask_teller(fact: Fact) -> Question:
    """Ask for everything that the fact's teller said."""

    def answer(facts: Sequence[Fact]) -> str:
        said = [f"that {one.statement}" for one in facts if one.teller == fact.teller]
        return f"{fact.teller} said {' and '.join(said)}." if said else ""

    return Question(f"what did {fact.teller} say?", answer)


def ask_things(fact: Fact) -> Question:
    """Ask for all things of the fact's owner."""

    def answer(facts: Sequence[Fact]) -> str:
        return " ".join(f"{one.statement}." for one in facts if one.owner == fact.owner)

    return Question(f"where are the things of {fact.owner}?", answer)


ASKS = (ask_where, ask_teller, ask_things)


def _fact(rng: random.Random, owner: str, thing: str, teller: str) -> Fact:
    is_plural = thing in PLURAL
    be = "are" if is_plural else "is"
    kind = f"{rng.choice(KINDS)} {thing}"
    place = (
        f"in the {rng.choice(ORDER)} {rng.choice(SPOTS)} {rng.choice(RELATIONS)} the "
        f"{rng.choice(LANDMARKS)} of the {rng.choice(ROOMS)}"
    )
    if rng.random() < NEIGHBOUR_SHARE:
        place += f" next to the {rng.choice(KINDS)} {rng.choice(SPOTS)}"
    when = f"{rng.choice(DAYS)} {rng.choice(HOURS)}"
    verb = be if rng.random() < PLAIN_SHARE else rng.choice(PLURAL_VERBS if is_plural else SINGLE_VERBS)
    filler = f"{rng.choice(FILLERS)} " if rng.random() < FILLER_SHARE else ""
    remark = f", {rng.choice(REMARKS)}" if rng.random() < REMARK_SHARE else ""
    told = f"on {when} {teller} said {filler}{owner}'s {kind} {verb} {place}{remark}."
    return Fact(owner, kind, teller, when, f"{owner}'s {kind} {be} {place}", told)


def _shopping_lesson(rng: random.Random) -> Lesson:
    """Ask where a person's favourite treat is sold. Facts may be missing, so that the answer is a guess."""
    people, treats = rng.sample(PEOPLE, NUM_TREATS), rng.sample(TREATS, NUM_TREATS)
    shops = rng.sample(SHOPS, NUM_TREATS)
    likes = [(person, rng.choice(treats)) for person in people]
    person, treat = rng.choice(likes)
    known = [likes_fact(*one) for one in likes if rng.random() < 0.8]
    known += [sold_fact(*one) for one in zip(treats, shops, strict=True) if rng.random() < 0.8]
    rng.shuffle(known)
    shop = shops[treats.index(treat)]
    return Lesson(question_prompt(shopping_question(person), known), shopping_answer(person, treat, shop))


def likes_fact(person: str, treat: str) -> str:
    """Returns the sentence that somebody likes a treat."""
    return f"{person} likes {treat}."


def sold_fact(treat: str, shop: str) -> str:
    """Returns the sentence that a shop has a treat."""
    return f"{treat} is at the {shop}."


def shopping_question(person: str) -> str:
    """Returns the question where a person's treat can be had."""
    return f"where can what {person} likes be had?"


def shopping_answer(person: str, treat: str, shop: str) -> str:
    """Returns the right answer to `shopping_question`."""
    return f"{person} likes {treat}. {treat} is at the {shop}."
