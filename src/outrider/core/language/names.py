# SPDX-License-Identifier: Apache-2.0
"""The words of a clause: statements to remember, and names of things."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

from outrider.core.edit_distance import num_slips
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.plan import Remember, Step
from outrider.core.language.words.amounts import Token
from outrider.core.language.words.phrasebook import LANGUAGES, Phrasebook, joined, phrasebook, stop_words
from outrider.core.language.words.signs import PUNCTUATION, plain
from outrider.core.language.words.stop_phrases import is_long, of_all, stop_phrases
from outrider.core.language.words.things import Thing
from outrider.core.values import Visibility

_VISIBILITY = re.compile(r"[\s,;.(]+(?:keep (?:it|this) )?(?P<visibility>private|shareable)\)?$", re.I)
_NO_STATEMENT = re.compile(r"(?:how|when|where|what)\b", re.I)
_PARTING = ",.;!?，。；！？、"
_ENDS = frozenset(f"{PUNCTUATION}:")
_MIN_SWAPPED, _MIN_MISSPELT = 4, 6
_STEM, _MAX_FORMS = 3, 100
_AMOUNTS = ("angle", "distance", "seconds", "x", "y")
"""The slots of a phrase that hold numbers."""


class Clause:
    """A clause after another step: its words as phrases match them, and as they were said."""

    def __init__(self, tokens: Sequence[Token], sentence: str, previous: Step | None) -> None:
        self._tokens, self.sentence = tokens, sentence
        self.previous = previous
        self.words = [token.word for token in tokens]
        self.text = joined(tokens)

    def parted(self, start: int, end: int) -> list[str]:
        """Return the words from index `start` to `end`, split where the sentence has a sign between them."""
        tokens = self._tokens[start:end]
        parts = [f"{token.word} " for token in tokens[:1]]
        for current, following in itertools.pairwise(tokens):
            if any(sign in _PARTING for sign in self.sentence[current.end : following.start]):
                parts.append("")
            parts[-1] += f"{following.word} "
        return parts

    def sign_in_amount(self, match: re.Match[str]) -> str:
        """Return a sign next to a number of a phrase or within it, such as "!"; empty if there is none.

        Without the sign the number may be different: "! 5 m" may be 1.5 m. The same holds for a minus that
        is not written directly before its number and after a blank: "3-4".
        """
        at_numbers = set[int]()
        for start in (match.start(slot) for slot in ("x", "y") if match.groupdict().get(slot)):
            at = match.string.count(" ", 0, start)
            before, sign, *after = self._tokens[at - 1 : at + 2]
            if sign.word == "-" and (before.end == sign.start or sign.end != after[0].start):
                return sign.word
        for span in (match.span(slot) for slot in _AMOUNTS if match.groupdict().get(slot)):
            start, end = (match.string.count(" ", 0, at) for at in span)
            is_bare = self.words[end - 1][-1].isdecimal() and end < len(self.words)
            at_numbers.update(range(max(start, 1), end + is_bare))
        gaps = (self.sentence[self._tokens[at - 1].end : self._tokens[at].start] for at in sorted(at_numbers))
        return next((sign for gap in gaps for sign in gap if not _ENDS.isdisjoint(plain(sign))), "")

    def original(self, words: str) -> str:
        """Return words of the clause, given with a space after each, as they were said."""
        first = self.text.count(" ", 0, f" {self.text}".rindex(f" {words}"))
        last = first + words.count(" ") - 1
        return self.sentence[self._tokens[first].start : self._tokens[last].end] if words else ""

    def question(self) -> str:
        """Return the clause as it was asked, in small letters."""
        end = self._tokens[-1].end
        mark = "?" if self.sentence[end:].lstrip().startswith("?") else ""
        return " ".join(self.sentence[self._tokens[0].start : end].lower().split()) + mark


def statement(text: str, book: Phrasebook) -> Remember | None:
    """Return the step to remember a text, private unless it says otherwise; None for a question."""
    text = text.strip(" .!,:")
    if not text or _NO_STATEMENT.match(text):
        return None
    visibility = Visibility.PRIVATE
    visibility_match = _VISIBILITY.search(text)
    if visibility_match is not None:
        visibility = Visibility(visibility_match["visibility"].lower())
        text = text[: visibility_match.start()]
    words = joined(book.tokens(text))
    return Remember(text, visibility, any(here.fullmatch(words) for here in book.here))


@dataclass(frozen=True)
class Names:
    """Reads names of things. `vocabulary` is that of a model made for few words; None for a general model."""

    book: Phrasebook
    vocabulary: Vocabulary | None

    def in_room(self, phrase: str) -> str:
        """Return the words of the thing that names a room; empty if none does or the models find none."""
        if self.vocabulary is not None and not self.vocabulary.rooms:
            return ""
        matches = (pattern.fullmatch(phrase) for pattern in self.book.rooms)
        return next((match["thing"] for match in matches if match), "")

    def name_of(self, phrase: str) -> str:
        """Return a thing's name, in English where its words are known; empty if the words are not a name.

        In an English sentence, the name of a thing that no model knows is left as it was said.
        """
        words = self.bare(phrase)
        if self.holds_more(words) or self._has_only_qualifiers(words) or self.holds_a_stop(phrase):
            return ""
        slots = [self.translated(word) for word in words]
        of_things = ("kind" if word in self.book.things else "" for word in words)
        named_slots = zip(slots, of_things, strict=True)
        name = self._named([(slot or kind, word) for (slot, word), kind in named_slots])
        is_english = self.book.language == "en"
        if name and (not is_english or self.is_known(name)):
            return name
        parts = words if is_english else [word for _, word in slots]
        space = "" if self.book.is_unspaced and not all(word.isascii() for word in parts) else " "
        return space.join(parts)

    def _named(self, slots: Sequence[tuple[str, str]]) -> str:
        """Return a thing's name if its words' slots are in an order of the language; else empty."""
        filled = [slot for slot, _ in slots]
        ordered = any(filled == [slot for slot in order if slot in filled] for order in self.book.orders)
        return Thing(**dict(slots)).phrase if ordered and "kind" in filled else ""

    def is_known(self, thing: str, room: bool = False) -> bool:
        """Return whether the models know a thing by its name, or the room with it."""
        named = self.vocabulary.thing(thing) if self.vocabulary else None
        return named is not None and bool(self.vocabulary and self.vocabulary.phrasings(named.shape, room))

    def is_kind(self, word: str) -> bool:
        """Return whether a word is a kind of thing that the models or the languages' files know."""
        known = self.vocabulary is not None and self.vocabulary.fills(word, ("kind",))
        return known or word in _english_things()

    def names_known(self, phrase: str) -> bool:
        """Return whether words, with their article, name a thing that the models know."""
        return self.vocabulary is not None and self.is_known(self.name_of(phrase))

    def distinguishes(self, slot: str, word: str) -> bool:
        """Return whether a word distinguishes a thing from others of its kind, as far as the models know."""
        known = self.vocabulary is None or self.vocabulary.fills(word, (slot,))
        return slot in ("colour", "size", "side") and known

    def why_no_name(self, words: str, clause: str) -> str:
        """Return why words of a clause cannot be the name of a thing to find; empty if they can."""
        never, bare = self.book.words("never_in_things"), self.bare(words)
        named = itertools.takewhile(lambda word: word not in never, words.split())
        clash, stated = self.contradiction(words), self.statement_in(" ".join(named))
        if clash:
            return 'says "{}" and "{}" of one thing: say one of them'.format(*clash)
        if stated:
            return f'says "{stated}" of a thing, which is no order: say what to find, and no more'
        counts = (self.book.numerals.values.get(word, 1.0) for word in bare[:1])
        if self.vocabulary is None and any(count != 1.0 for count in counts):
            return f'says "{bare[0]}": one thing is found at a time'
        if self.vocabulary is None and bare[:1] == ["to"]:
            return f'says "{" ".join(bare)}" where a thing is to be named: say what to find, or how to move'
        kinds = [word for word in bare if self.translated(word)[0] == "kind"]
        if self.book.language != "en" and len(kinds) > 1:
            return f'names "{kinds[0]}" and "{kinds[1]}" at once: say one thing'
        into = (f" {word} {words}" in f" {clause}" for word in self.book.words("into"))
        return f'is to drive into "{kinds[0]}": say to drive to it' if kinds and any(into) else ""

    def contradiction(self, phrase: str) -> tuple[str, str] | None:
        """Return two words that exclude each other: "left" and "right", "small" and "large", two colours.

        Words of two things do not contradict each other if another word is between them: "the left chair by
        the right door".
        """
        words = self.bare(phrase)
        slots = [self._slot_of(word) for word in words]
        is_of_one = slots.count("") + slots.count("kind") <= 1
        filled = dict[str, str]()
        for slot, word in zip(slots, words, strict=True):
            if slot not in ("side", "size", "colour"):
                filled = filled if is_of_one else {}
            elif slot in filled and self.translated(filled[slot])[1] != self.translated(word)[1]:
                return filled[slot], word
            else:
                filled[slot] = word
        return None

    def are_whole(self, first: str, second: str) -> bool:
        """Return whether each of two things, named one after the other, has its own name.

        "The red and blue chair" has not, for a model that may know any word. "An orange" may be a thing.
        """
        has_article = self.book.without_article(second) != second
        things = phrasebook("en").words("colours_of_things") if has_article else frozenset[str]()
        both_names = (first.split(), self.bare(second))
        return self.vocabulary is not None or all(
            any(word in things or not self._is_quality(word) for word in words) for words in both_names
        )

    def _is_quality(self, word: str) -> bool:
        english = phrasebook("en")
        telling = self._slot_of(word) in ("side", "size", "colour") or word in english.colours
        return telling or word in english.qualities

    def _has_only_qualifiers(self, words: Sequence[str]) -> bool:
        """Return whether words say only which one: "the left", for a model that may know any word."""
        return self.vocabulary is None and all(self._slot_of(word) in ("side", "size") for word in words)

    def _slot_of(self, word: str) -> str:
        """Return the slot of a thing that a word fills for any model."""
        slot, _ = self.translated(word)
        return slot or ("colour" if word in self.book.colours else "")

    def is_english(self, phrase: str) -> bool:
        """Return whether a thing's words are English or have been translated: the models read English."""
        words = self.bare(phrase)
        if self.book.language == "en":
            return all(map(str.isascii, words)) and _foreign().isdisjoint(words)
        return all(word in self.book.translations or word in self.book.things for word in words)

    def translated(self, word: str) -> tuple[str, str]:
        """Return the slot of a thing that a word fills, or an empty one, and the word in English."""
        if word in self.book.translations:
            return self.book.translations[word]
        slots = self.vocabulary.slots.items() if self.vocabulary else ()
        slot = next((slot for slot, words in slots if word in words), "")
        return slot, self.book.things.get(word, word)

    def bare(self, phrase: str) -> list[str]:
        """Return the words of a thing without its article."""
        return self.book.grouped(self.book.without_article(phrase).split())

    def topic(self, phrase: str) -> str:
        """Return the name of what memory is to forget; empty for words without one, such as "all of it"."""
        return "" if self.has_pronoun(phrase) or self.is_vague(phrase) else self.name_of(phrase)

    def forms(self, phrase: str) -> Iterator[str]:
        """Yield a thing's name with each of its words in all its forms: "rote stuhl", "roten stuhl"."""
        forms = self.book.translations
        choices = [[word, *filter(partial(self._is_form, word), forms)] for word in self.bare(phrase)]
        yield from itertools.islice(map(" ".join, itertools.product(*choices)), _MAX_FORMS)

    def _is_form(self, word: str, other: str) -> bool:
        """Return whether another word means the same and begins alike: "roter" is a form of "rote"."""
        alike = other.startswith(word[: min(_STEM, len(other))])
        return alike and other != word and self.translated(other) == self.translated(word)

    def has_pronoun(self, text: str) -> bool:
        """Return whether a text has a pronoun."""
        bare = self.book.without_article(joined(self.book.tokens(text)))
        return not self.book.words("pronouns").isdisjoint(bare.split())

    def is_vague(self, text: str) -> bool:
        """Return whether a text names nothing by itself, such as "this place"."""
        vague = self.book.words("pronouns") | self.book.words("vague") | self.book.articles
        return all(token.word in vague or not token.word[0].isalnum() for token in self.book.tokens(text))

    def slip(self, words: Iterable[str]) -> tuple[str, str] | None:
        """Return a misspelt pronoun, or a thing's name with two letters swapped, and the right word."""
        known = self.book.lexicon | self.book.unmended | self.book.words("pronouns")
        things = sorted({*self.book.translations, *_english_things()} - known)
        pronouns = sorted(
            known_word for known_word in self.book.words("pronouns") if len(known_word) >= _MIN_MISSPELT
        )
        for word in (
            known_word for known_word in words if known_word.isalpha() and len(known_word) >= _MIN_SWAPPED
        ):
            near = [known_word for known_word in pronouns if num_slips(word, known_word) == 1]
            near += [
                known_word
                for known_word in things
                if sorted(known_word) == sorted(word) and num_slips(word, known_word) == 1
            ]
            if near and word not in known:
                return word, near[0]
        return None

    def holds_more(self, words: Sequence[str]) -> bool:
        """Return whether the words include signs, or words that no thing's name has, such as stop words."""
        excluded = self.book.words("never_in_things"), self.book.words("negations"), stop_words()
        return any(not word[0].isalpha() or any(word in some for some in excluded) for word in words)

    def holds_a_stop(self, phrase: str) -> bool:
        """Return whether a stop phrase of several words makes words no name: "sofa stand still rex".

        After an article, and at most qualities, it may begin a name instead: "the red light".
        """
        bare = self.book.without_article(phrase)
        whole = of_all("whole_stops")
        words_before = [
            bare[: match.start()].split()
            for match in stop_phrases(self.book).found_in(bare)
            if is_long(self.book, match[0]) and self.book.as_written(match[0]) not in whole
        ]
        return any(bare == phrase or not all(map(self._is_quality, before)) for before in words_before)

    def is_place(self, phrase: str) -> bool:
        """Return whether words name a place to stop at: a known kind of thing, or one with an article."""
        words = self.bare(phrase)
        has_article = self.book.without_article(phrase) != phrase
        known = has_article or any(slot == "kind" for slot, _ in map(self.translated, words))
        return known and self.book.words("moments").isdisjoint(words)

    def is_parted(self, match: re.Match[str], clause: Clause, by_any_sign: bool) -> bool:
        """Return whether a sign such as a comma divides the thing of a phrase into possibly two names."""
        thing = match.groupdict().get("thing")
        if not thing or self.names_known(thing):
            return False
        parts = clause.parted(*(match.string.count(" ", 0, end) for end in match.span("thing")))
        by_any_sign = by_any_sign or self.book.is_unspaced
        return any(by_any_sign or self.book.without_article(part) != part for part in parts[1:])

    def statement_in(self, phrase: str) -> str:
        """Return a word that makes a statement about a thing, as in "the chair is nice";
        empty if there is none.

        In "the cup that is full" the word only says which thing is meant, so it is no statement.
        """
        words = phrase.split()
        positions = (at for at, word in enumerate(words) if word in self.book.words("statements"))
        relatives = tuple(f" {relative}" for relative in self.book.words("relatives"))
        alone = (at for at in positions if not f" {' '.join(words[:at])}".endswith(relatives))
        return next((words[at] for at in alone), "")


@cache
def _english_things() -> frozenset[str]:
    """Return the English names of the things that the languages' files know."""
    books = [phrasebook(language) for language in LANGUAGES]
    kinds = (word for book in books for slot, word in book.translations.values() if slot == "kind")
    return frozenset((*kinds, *(word for book in books for word in book.things.values())))


@cache
def _foreign() -> frozenset[str]:
    """Return verbs, polite words and the like of the other languages that are not English words."""
    books = [phrasebook(language) for language in LANGUAGES if language != "en"]
    entries = ((*book.verbs, *book.spoken("then"), *book.spoken("polite_after")) for book in books)
    words = (word for entry in itertools.chain(*entries) for word in entry.split())
    return frozenset(words) - phrasebook("en").lexicon - phrasebook("en").unmended
