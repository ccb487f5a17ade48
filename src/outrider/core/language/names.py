# SPDX-License-Identifier: Apache-2.0
"""A clause as it was said, and the names of things in it by the words of one language and of one model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.core.language.grammar import Vocabulary
from outrider.core.language.phrasebook import Phrasebook, Token, joined, stop_words
from outrider.core.language.things import Thing


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
        if self.holds_more(words):
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
        kept = self.book.words("never_in_things") | self.book.words("negations") | stop_words()
        return any(word in kept or not word[0].isalpha() for word in words)


class Said:
    """A clause: its words as phrases have them, and as they were said."""

    def __init__(self, tokens: Sequence[Token], sentence: str) -> None:
        self._tokens, self._sentence = tokens, sentence
        self.words = [token.word for token in tokens]
        self.text = joined(tokens)

    def original(self, end: str) -> str:
        """The clause's last words as they were said."""
        first = self._tokens[-end.count(" ")]
        return self._sentence[first.start : self._tokens[-1].end]

    def question(self) -> str:
        """The clause as it was asked, in small letters."""
        end = self._tokens[-1].end
        mark = "?" if self._sentence[end:].lstrip().startswith("?") else ""
        return " ".join(self._sentence[self._tokens[0].start : end].lower().split()) + mark
