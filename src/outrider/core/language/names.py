# SPDX-License-Identifier: Apache-2.0
"""A clause as it was said: what it tells to remember, and the names of things in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from outrider.core.language.amounts import Token
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.heeding import ANYWHERE
from outrider.core.language.phrasebook import Phrasebook, joined, phrasebook, stop_words
from outrider.core.language.plan import Remember, Step
from outrider.core.language.sentences.stop_phrases import is_long, of_all, stop_phrases
from outrider.core.language.signs import PUNCTUATION, plain
from outrider.core.language.things import Thing
from outrider.core.values import Visibility

_VISIBILITY = re.compile(r"[\s,;.(]+(?:keep (?:it|this) )?(?P<visibility>private|shareable)\)?$", re.I)
_HERE = re.compile(
    r"\b(?:is|are|lies|lie|hangs|hang|stands|stand|sits|sit) (?:right |just )?here$|^(?:this|here) is ", re.I
)
_NO_STATEMENT = re.compile(r"(?:how|when|where|what)\b", re.I)
_PARTING = ",.;!?，。；！？、"
_ENDS = frozenset(f"{PUNCTUATION}:")
_AMOUNTS = ("angle", "distance", "seconds", "x", "y")
"""The slots of a phrase that hold numbers."""


class Said:
    """A clause after another step: its words as phrases have them, and as they were said."""

    def __init__(self, tokens: Sequence[Token], sentence: str, previous: Step | None) -> None:
        self._tokens, self._sentence = tokens, sentence
        self.previous = previous
        self.words = [token.word for token in tokens]
        self.text = joined(tokens)

    def parted(self, start: int, end: int) -> list[str]:
        """Some of its words, by their numbers, in parts between which signs stand in the sentence."""
        tokens = self._tokens[start:end]
        parts = [f"{token.word} " for token in tokens[:1]]
        for one, other in pairwise(tokens):
            if any(sign in _PARTING for sign in self._sentence[one.end : other.start]):
                parts.append("")
            parts[-1] += f"{other.word} "
        return parts

    def sign_in_amount(self, match: re.Match[str]) -> str:
        """A sign that stands at a number of a phrase or within it, such as "!"; empty for none.

        Without it the number may be another: "! 5 m" may be 1.5 m.
        """
        at_numbers = set[int]()
        for span in (match.span(slot) for slot in _AMOUNTS if match.groupdict().get(slot)):
            start, end = (match.string.count(" ", 0, at) for at in span)
            is_bare = self.words[end - 1][-1].isdecimal() and end < len(self.words)
            at_numbers.update(range(max(start, 1), end + is_bare))
        gaps = (
            self._sentence[self._tokens[at - 1].end : self._tokens[at].start] for at in sorted(at_numbers)
        )
        return next((sign for gap in gaps for sign in gap if not _ENDS.isdisjoint(plain(sign))), "")

    def original(self, end: str) -> str:
        """The clause's last words as they were said."""
        first = self._tokens[-end.count(" ")]
        return self._sentence[first.start : self._tokens[-1].end]

    def question(self) -> str:
        """The clause as it was asked, in small letters."""
        end = self._tokens[-1].end
        mark = "?" if self._sentence[end:].lstrip().startswith("?") else ""
        return " ".join(self._sentence[self._tokens[0].start : end].lower().split()) + mark


def statement(text: str) -> Remember | None:
    """A text as what to remember, private unless it says otherwise; None for a question."""
    text = text.strip(" .!,:")
    if not text or _NO_STATEMENT.match(text):
        return None
    visibility = Visibility.PRIVATE
    said = _VISIBILITY.search(text)
    if said is not None:
        visibility = Visibility(said["visibility"].lower())
        text = text[: said.start()]
    return Remember(text, visibility, _HERE.search(text) is not None)


_OTHERS = 'says "{}": only what you say yourself is done; say it in full'
_LIMITED = 'says "{}": a way in words takes no lengths, times or speeds; say each move by itself'
WHY_UNHEEDED = {
    "negation": 'says what not to do ("{}"): say what to do instead, such as "find the silver bottle"',
    "condition": 'says "{}": conditions and choices are not checked; say what to do now',
    "order": _OTHERS,
    "harm": 'says "{}": nothing is done that may hurt or break, or that leaves a safeguard out',
    "beyond": 'says "{}", which is no step of a plan: say what to find, or each move by itself',
    "takeback": 'says "{}", which takes something back: say anew what to do, and no more',
    "wish": 'says "{}", which is no order: say what to find, or how to move',
    "task": 'says "{}", which is no step of a plan: say what to find, or each move by itself',
    "run_on": 'says "{}" in the name of a thing: say "then" before the next step',
    "amount": _LIMITED,
    "order_in_ways": _OTHERS,
    "limit_in_ways": _LIMITED,
}
"""Why words are refused, by their kind."""


@dataclass(frozen=True)
class Names:
    """Reads names of things. `vocabulary` is that of a model made for few words; None is a general model."""

    book: Phrasebook
    vocabulary: Vocabulary | None

    def in_room(self, said: str) -> str:
        """The words of the thing that a room is named by; empty for no room, or none that the models find."""
        if self.vocabulary is not None and not self.vocabulary.rooms:
            return ""
        matches = (pattern.fullmatch(said) for pattern in self.book.rooms)
        return next((match["thing"] for match in matches if match), "")

    def name_of(self, said: str) -> str:
        """A thing's name in English as far as its words are known; empty for words that are no name.

        What an English sentence says of a thing that no model knows stays as it was said.
        """
        words = self.bare(said)
        if self.holds_more(words) or self._only_tells(words) or self.holds_a_stop(said):
            return ""
        slots = [self.translated(word) for word in words]
        name = self._named(slots)
        as_said = self.book.language == "en"
        if name and (not as_said or self.is_known(name)):
            return name
        named = words if as_said else [word for _, word in slots]
        space = "" if self.book.is_unspaced and not all(word.isascii() for word in named) else " "
        return space.join(named)

    def _named(self, slots: Sequence[tuple[str, str]]) -> str:
        """A thing's name of words with their slots, in an order of the language; empty for other words."""
        said = [slot for slot, _ in slots]
        ordered = any(said == [slot for slot in order if slot in said] for order in self.book.orders)
        return Thing(**dict(slots)).phrase if ordered and "kind" in said else ""

    def is_known(self, thing: str, room: bool = False) -> bool:
        """Whether the models know a thing by its name, or the room that it stands in."""
        meant = self.vocabulary.thing(thing) if self.vocabulary else None
        return meant is not None and bool(self.vocabulary and self.vocabulary.phrasings(meant.shape, room))

    def names_known(self, said: str) -> bool:
        """Whether some words, with their article, name a thing that the models know."""
        return self.is_known(self.name_of(said))

    def tells(self, slot: str, word: str) -> bool:
        """Whether a word tells a thing from others of its kind, as far as the models know."""
        known = self.vocabulary is None or self.vocabulary.fills(word, (slot,))
        return slot in ("colour", "size", "side") and known

    def contradiction(self, said: str) -> tuple[str, str] | None:
        """Two words that no one thing can be: "left" and "right", "small" and "large", two colours on end.

        Words of two things, parted by what tells of neither, contradict nothing: "the left chair by the right
        door".
        """
        words = self.bare(said)
        slots = [self._telling(word) for word in words]
        is_of_one = slots.count("") + slots.count("kind") <= 1
        told = dict[str, str]()
        for slot, word in zip(slots, words, strict=True):
            if slot not in ("side", "size", "colour"):
                told = told if is_of_one else {}
            elif slot in told and self.translated(told[slot])[1] != self.translated(word)[1]:
                return told[slot], word
            else:
                told[slot] = word
        return None

    def are_whole(self, first: str, second: str) -> bool:
        """Whether each of two things, named one after the other, has a name of its own.

        "The red and blue chair" has not, to a model that may know any word. "An orange" may be a thing.
        """
        has_article = self.book.without_article(second) != second
        things = phrasebook("en").words("colours_of_things") if has_article else frozenset[str]()
        told = (first.split(), self.bare(second))
        return self.vocabulary is not None or all(
            any(word in things or not self._is_quality(word) for word in words) for words in told
        )

    def _is_quality(self, word: str) -> bool:
        english = phrasebook("en")
        telling = self._telling(word) in ("side", "size", "colour") or word in english.colours
        return telling or word in english.qualities

    def _only_tells(self, words: Sequence[str]) -> bool:
        """Whether words tell which one, but not what: "the left", to a model that may know any word."""
        return self.vocabulary is None and all(self._telling(word) in ("side", "size") for word in words)

    def _telling(self, word: str) -> str:
        """The slot of a thing that a word fills for any model."""
        slot, _ = self.translated(word)
        return slot or ("colour" if word in self.book.colours else "")

    def is_english(self, said: str) -> bool:
        """Whether a thing's words are English, or translated: what the models read is English."""
        known = (*self.book.translations, *self.book.things)
        return self.book.language == "en" or all(word in known for word in self.bare(said))

    def translated(self, word: str) -> tuple[str, str]:
        """The slot of a thing that a word fills, or none, and the word in English."""
        if word in self.book.translations:
            return self.book.translations[word]
        slots = self.vocabulary.slots.items() if self.vocabulary else ()
        slot = next((slot for slot, words in slots if word in words), "")
        return slot, self.book.things.get(word, word)

    def bare(self, said: str) -> list[str]:
        """The words of a thing without its article."""
        return self.book.grouped(self.book.without_article(said).split())

    def holds_more(self, words: Sequence[str]) -> bool:
        """Whether words are among it that no thing's name has, such as stop words, or signs."""
        kept = self.book.words("never_in_things"), self.book.words("negations"), stop_words()
        return any(not word[0].isalpha() or any(word in some for some in kept) for word in words)

    def holds_a_stop(self, said: str) -> bool:
        """Whether a stop phrase of several words is in what is no name then: "sofa stand still rex".

        It may begin the name of a thing with an article, but for what tells which: "the red light".
        """
        bare = self.book.without_article(said)
        found = (match for phrase in stop_phrases(self.book) for match in phrase.finditer(bare))
        whole = of_all("whole_stops")
        told = [
            bare[: match.start()].split()
            for match in found
            if is_long(self.book, match[0]) and self.book.as_written(match[0]) not in whole
        ]
        return any(bare == said or not all(map(self._is_quality, before)) for before in told)

    def is_place(self, said: str) -> bool:
        """Whether one can stop at what words name: a known kind of thing, or one with an article."""
        words = self.bare(said)
        has_article = self.book.without_article(said) != said
        known = has_article or any(slot == "kind" for slot, _ in map(self.translated, words))
        return known and self.book.words("moments").isdisjoint(words)

    def is_parted(self, match: re.Match[str], said: Said, by_any_sign: bool) -> bool:
        """Whether a sign such as a comma parts the thing of a phrase into what may be two things' names."""
        thing = match.groupdict().get("thing")
        if not thing or self.names_known(thing):
            return False
        parts = said.parted(*(match.string.count(" ", 0, end) for end in match.span("thing")))
        by_any_sign = by_any_sign or self.book.is_unspaced
        return any(by_any_sign or self.book.without_article(part) != part for part in parts[1:])

    def is_statement(self, said: str) -> bool:
        """Whether words say something of a thing, as "the chair is nice" does."""
        return not self.book.words("statements").isdisjoint(said.split())


def why_unheeded(book: Phrasebook, words: Sequence[str], kinds: Iterable[str] = ANYWHERE) -> str:
    """Why no motion can heed some words; empty where it can."""
    found = book.unheeded(words, kinds)
    return WHY_UNHEEDED[found[0]].format(found[1]) if found else ""
