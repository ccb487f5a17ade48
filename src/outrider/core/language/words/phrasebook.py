# SPDX-License-Identifier: Apache-2.0
"""The phrases of a language, read from its file in `phrases/`, and the words of a sentence.

A phrase consists of words, `[optional ones]`, `(this|or that)` and slots: {thing}, {text}, {side}, {size},
{which}, {word}, {angle}, {distance}, {seconds}, {x} and {y}. Accents and case do not count.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from typing import Any

import yaml  # type: ignore[import-untyped]

from outrider.core.language.words.amounts import DIGITS, Token, numerals_of
from outrider.core.language.words.phrase_group import PhraseGroup
from outrider.core.language.words.signs import PUNCTUATION, plain
from outrider.core.language.words.things import ORDER
from outrider.core.language.words.tokens import Tokenizer
from outrider.core.language.words.unsupported_words import (
    ANYWHERE,
    NEVER,
    SLOT_NAME,
    UnsupportedWords,
    classes,
)

LANGUAGES = ("en", "de", "fr", "es", "zh")
"""In order of precedence for a sentence that fits several languages."""
_PART = re.compile(r"\{(\w+)\}|([()\[\]|])|([^\s()\[\]|{}]+)")
_SIGNS = {"(": "(?:", "[": "(?:", "|": "|", ")": ")", "]": ")?"}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML's safe loader in C takes a tenth of the time, but not every build of PyYAML has it."""
_COORDINATE = rf"(?:- )?{DIGITS} "
_MAX_THING_WORDS, _MAX_TELLING_WORDS = 10, 4


def joined(tokens: Iterable[Token]) -> str:
    """Return the words of tokens, each followed by a space; phrases are matched against this."""
    return "".join([f"{token.word} " for token in tokens])


class Phrasebook:
    """One language. Its data are lists of words by use; see `phrases/en.yaml`."""

    def __init__(self, language: str, data: Mapping[str, Any]) -> None:
        self.language = language
        self._data = data
        self._words: dict[str, frozenset[str]] = {}
        self.numerals = numerals_of(data)
        self.metres = {plain(word): float(value) for word, value in data["metres"].items()}
        self.seconds = {plain(word): float(value) for word, value in data["seconds"].items()}
        self.colours = frozenset(map(plain, data.get("colours", ())))
        self.qualities = frozenset(map(plain, data.get("classes", {}).get("quality", ())))
        self._units = frozenset((*self.metres, *self.seconds, *self.words("degrees")))
        self.is_unspaced = bool(data.get("unspaced"))
        self.orders = (ORDER, *map(tuple, data.get("orders", ())))
        self.translations = {
            plain(said): (slot, word)
            for slot, words in data.get("words", {}).items()
            for word, forms in words.items()
            for said in forms
        }
        self._forms = {plain(verb): forms for verb, forms in data.get("forms", {}).items()}
        self.verbs = frozenset(map(plain, itertools.chain(self._forms, *self._forms.values())))
        self.things = {plain(said): word for word, forms in data.get("things", {}).items() for said in forms}
        self._named = self.translations.keys() | self.things.keys()

    def words(self, use: str) -> frozenset[str]:
        """Return the words of a list of single words."""
        if use not in self._words:
            self._words[use] = frozenset(map(plain, self._data[use]))
        return self._words[use]

    def spoken(self, use: str) -> tuple[str, ...]:
        """Return the entries of a list or table of words, such as units of length, in the file's order."""
        table = self._data[use]
        nested = isinstance(table, Mapping) and all(isinstance(words, list) for words in table.values())
        entries = [word for words in table.values() for word in words] if nested else list(table)
        return tuple(map(plain, entries))

    def phrases_by_group(self) -> dict[str, tuple[str, ...]]:
        """Return the phrases as written, by group, in the file's order."""
        return {group: tuple(map(plain, phrases)) for group, phrases in self._data["phrases"].items()}

    @cached_property
    def articles(self) -> frozenset[str]:
        """The articles of the language; some are several words, such as "n importe quel"."""
        return self.words("articles")

    @cached_property
    def _article(self) -> re.Pattern[str]:
        return re.compile(rf"(?<!\S)(?:{self._any(self.articles)})")

    @cached_property
    def groups(self) -> tuple[PhraseGroup, ...]:
        """The groups of phrases, in the file's order."""
        groups = self._data["phrases"].items()
        return tuple(PhraseGroup(name, [self._expression(p) for p in phrases]) for name, phrases in groups)

    @cached_property
    def rooms(self) -> tuple[re.Pattern[str], ...]:
        """Expressions for a room, named by a thing in it."""
        return tuple(re.compile(self._expression(phrase)) for phrase in self._data["room"])

    @cached_property
    def refused(self) -> re.Pattern[str]:
        """An expression for phrases that are refused; its groups are keys of `clauses.WHY_REFUSED`."""
        refused = self._data["refused"].items()
        patterns = ((why, "|".join(map(self._without_slots, phrases))) for why, phrases in refused)
        return re.compile("|".join(f"(?P<{why}>{pattern})" for why, pattern in patterns))

    @cached_property
    def here(self) -> tuple[re.Pattern[str], ...]:
        """Expressions for statements about the robot's own place."""
        return tuple(re.compile(self._without_slots(phrase)) for phrase in self._data["here"])

    @cached_property
    def polite_before(self) -> re.Pattern[str]:
        """An expression for words that may begin a clause without changing its step."""
        lists = (self._data[use] for use in ("polite_before", "requests", "firsts"))
        return re.compile(f"(?:{self._any(itertools.chain(*lists))})+")

    @cached_property
    def first(self) -> re.Pattern[str]:
        """An expression for words such as "first", its only group, after politeness and perhaps a verb."""
        polite, verb = self._any(self._data["polite_before"]), self._any(self.verbs) or NEVER
        return re.compile(f"(?:{polite})*(?:{verb})?({self._any(self._data['firsts'])})")

    @cached_property
    def polite_after(self) -> re.Pattern[str]:
        """An expression for polite words that may end a sentence."""
        lists = (self._data[use] for use in ("polite_after", "requests_after"))
        return re.compile(f"(?:{self._any(itertools.chain(*lists))})+$")

    @cached_property
    def request(self) -> re.Pattern[str]:
        """An expression for words that turn a question into an order, such as "can you"."""
        return re.compile(rf"(?<!\S)(?:{self._any(self._data['requests'])})")

    @cached_property
    def denials(self) -> frozenset[str]:
        """The negations that are never an interjection: "don't stop" denies a stop, "no stop" is one."""
        return self.words("negations") - self.words("correction")

    @cached_property
    def stop_words(self) -> frozenset[str]:
        """The words that order a stop; in unspaced writing also the file's words that contain one.

        Unspaced text is split by the longest word that fits, so a word with "停" in it would hide the stop.
        """
        words = self.words("stop_words")
        if not self.is_unspaced:
            return words
        return words | {word for word in self.lexicon if any(stop in word for stop in words)}

    @cached_property
    def _asides(self) -> re.Pattern[str]:
        return re.compile(rf"(?<!\S)(?:{self._any(self._data['asides'])})")

    @cached_property
    def correction(self) -> re.Pattern[str]:
        """An expression for the words that begin a correction, such as "no"."""
        return re.compile(f"(?:(?:{self._any(self._data['correction'])})(?P<pause>, )?)+")

    @cached_property
    def opener(self) -> re.Pattern[str]:
        """An expression for one of the words that begin a correction, and the comma after it."""
        return re.compile(f"(?P<said>{self._any(self._data['correction'])})(?P<pause>, )?")

    @cached_property
    def connector(self) -> re.Pattern[str]:
        """An expression for what separates the steps of a plan: a word such as "then", or punctuation."""
        signs = f"(?:[{re.escape(PUNCTUATION)}] )"
        others = f"(?!{self._any(self._data['not_then'])})" if self._data["not_then"] else ""
        return re.compile(f"(?<!\\S){signs}*{others}(?:{self._any(self._data['then'])}){signs}*|{signs}+")

    @cached_property
    def unmended(self) -> frozenset[str]:
        """Words outside the lexicon that are not misspelt, such as those that no motion can obey."""
        listed = [entry for entries in self._data["unsupported"].values() for entry in entries]
        listed += [part[2] for group in self._data["refused"].values() for p in group for part in _parts(p)]
        uses = (self._data.get(use, ()) for use in ("negations", "pronouns", "other_words"))
        return frozenset(word for entry in itertools.chain(listed, *uses) for word in plain(entry).split())

    @cached_property
    def lexicon(self) -> frozenset[str]:
        """Every word in this language's file."""
        phrases = [p for group in (*self._data["phrases"].values(), self._data["room"]) for p in group]
        in_phrases = [part[2] for phrase in phrases for part in _parts(phrase)]
        polite = ("polite_before", "firsts", "polite_after", "asides")
        lists = (*polite, "articles", "then", "correction", "stop_words", "never_in_things", "degrees")
        in_lists = [word for use in lists for word in self._data.get(use, ())]
        in_lists += [w for way in ("sides", "sizes") for words in self._data[way].values() for w in words]
        numbers = (part for word in self.numerals.words for part in word.split())
        units = (*self.metres, *self.seconds, *self.translations, *self.things)
        in_lists += itertools.chain(*self._forms.values())
        words = (word for entry in (*in_phrases, *in_lists) for word in plain(entry).split())
        return frozenset((*words, *numbers, *units)) - {""}

    def tokens(self, sentence: str) -> list[Token]:
        """Return the words, numbers and signs of a sentence, without quotation marks."""
        return self._tokenizer.tokens(sentence)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        kinds = {kind for kind in ("parted", "unspaced", "digraphs") if self._data.get(kind)}
        return Tokenizer(self.numerals, self._units, self.lexicon, kinds)

    def without_article(self, phrase: str) -> str:
        """Return the words of a thing without the article that may begin them."""
        match = self._article.match(phrase)
        return phrase[match.end() :] if match else phrase

    def denies(self, words: Sequence[str]) -> bool:
        """Return whether words forbid something: they have a negation that is not part of an article."""
        return bool(self.unsupported(words, ("negation",)))

    def unsupported(self, words: Sequence[str], kinds: Iterable[str] = ANYWHERE) -> tuple[str, str] | None:
        """Return the kind and the words of what no motion can obey; None if there is nothing.

        The kinds of `ANYWHERE` count in all languages, so a prohibition in another language counts too.
        """
        others = (phrasebook(code).unsupported_words for code in LANGUAGES if code != self.language)
        return self.unsupported_words.first(f"{' '.join(words)} ", kinds, others)

    def as_written(self, words: str) -> str:
        """Return words as the language writes them: with spaces between, or without."""
        return words.replace(" ", "") if self.is_unspaced else words.strip()

    @cached_property
    def unsupported_words(self) -> UnsupportedWords:
        """The finder of words that no motion can obey."""
        return UnsupportedWords(self._data, self.numerals, self._any, self._expression)

    @cached_property
    def _classes(self) -> dict[str, str]:
        return classes(self._data, self.numerals, self._any)

    def without_asides(self, tokens: Sequence[Token]) -> list[Token]:
        """Return tokens without words that may be anywhere but within a number, such as "please" and "uh"."""
        text = joined(tokens)
        spans = (match.span() for match in self._asides.finditer(text))
        ranges = [range(text.count(" ", 0, start), text.count(" ", 0, end)) for start, end in spans]
        aside = {at for span in ranges for at in span if not self.numerals.surround(tokens, span)}
        return [token for at, token in enumerate(tokens) if at not in aside]

    def key_of(self, use: str, word: str) -> str:
        """Return the key of a table of words, such as the sides, that the said words belong to."""
        table: Mapping[str, Sequence[str]] = self._data[use]
        return next(key for key, words in table.items() if plain(word.strip()) in map(plain, words))

    def without(self, pattern: re.Pattern[str], tokens: Sequence[Token], at_end: bool = False) -> list[Token]:
        """Return tokens without the words at their beginning, or end, that match an expression."""
        text = joined(tokens)
        match = pattern.search(text) if at_end else pattern.match(text)
        if match is None or (at_end and match.start() > 0 and text[match.start() - 1] != " "):
            return list(tokens)
        if at_end:
            return list(tokens[: text[: match.start()].count(" ")])
        return list(tokens[match[0].count(" ") :])

    def grouped(self, words: Sequence[str]) -> list[str]:
        """Return words with those joined that are translated as one, the longest first: `de gauche`."""
        groups, at = list[str](), 0
        while at < len(words):
            runs = (" ".join(words[at:end]) for end in range(len(words), at, -1))
            groups.append(next(filter(self._named.__contains__, runs), words[at]))
            at += groups[-1].count(" ") + 1
        return groups

    def _any(self, entries: Iterable[str]) -> str:
        """Return an expression for any of the words, the longest first; apostrophes may be left out."""
        words = sorted(dict.fromkeys(map(plain, entries)), key=len, reverse=True)
        spelt = ("".join(f"{re.escape(w)} " for w in self._spelt(entry)) for entry in words)
        return "|".join(spelt).replace("'", "'?")

    def _spelt(self, entry: str) -> list[str]:
        return [token.word for token in self.tokens(entry)] if self.is_unspaced else entry.split()

    def _expression(self, phrase: str) -> str:
        out = ""
        for slot, sign, word in _parts(phrase):
            known = [word, *self._forms.get(plain(word), ())]
            out += self._slot(slot) if slot else _SIGNS[sign] if sign else f"(?:{self._any(known)})"
        return out

    def _without_slots(self, phrase: str) -> str:
        """Return an expression for a phrase, without slots."""
        return SLOT_NAME.sub("?:", self._expression(phrase))

    def _slot(self, slot: str) -> str:
        if slot in self._classes:
            return self._classes[slot]
        known = {
            "thing": rf"(?:\S+ ){{1,{_MAX_THING_WORDS}}}?",
            "text": r"(?:\S+ )+",
            "word": r"\S+ ",
            "which": rf"(?:\S+ ){{1,{_MAX_TELLING_WORDS}}}?",
            "side": self._any(w for words in self._data["sides"].values() for w in words),
            "size": self._any(w for words in self._data["sizes"].values() for w in words),
            "angle": rf"(?:{self._amount(self._data['degrees'])}|{DIGITS} |{self._tens})",
            "distance": f"{self._amount(self.metres)}(?:{DIGITS} |{self._number_word})*",
            "seconds": self._amount(self.seconds),
            "x": _COORDINATE,
            "y": _COORDINATE,
        }
        return f"(?P<{slot}>{known[slot]})"

    @cached_property
    def _tens(self) -> str:
        """An expression for a number of ten or more in words, which may be an angle by itself: "ninety"."""
        counts = {**self.numerals.values, **self.numerals.multipliers}
        tens = [word for word in counts if counts[word] >= 10.0 and len(self._spelt(word)) == 1]
        return f"(?=(?:{self._number_word})*?(?:{self._any(tens)}))(?:{self._number_word})+"

    @cached_property
    def _number_word(self) -> str:
        """An expression for one word of a number; "dix sept" next to "dix" and "sept" would be ambiguous."""
        return self._any({word for entry in self.numerals.words for word in self._spelt(entry)})

    def _amount(self, units: Iterable[str]) -> str:
        """Return an expression for a number, its unit, and words for half a unit more: "and a half"."""
        unit, half = f"(?:{self._any(units)})", f"(?:{self._any(self.numerals.halves) or NEVER})"
        return rf"(?:(?:{DIGITS} |{self._number_word})+{unit}{half}?|{unit}{half})"


def _parts(phrase: str) -> Iterator[tuple[str, str, str]]:
    """Yield the slot, sign or word of each part of a phrase; the other two are empty."""
    return (match.groups(default="") for match in _PART.finditer(phrase))  # type: ignore[misc]


@cache
def stop_words() -> frozenset[str]:
    """Return the stop words of all languages; each counts in every language."""
    return frozenset().union(*(phrasebook(language).stop_words for language in LANGUAGES))


@lru_cache
def phrasebook(language: str) -> Phrasebook:
    """Return the phrases of a language of `LANGUAGES`."""
    paths = (
        files(__package__) / "phrases" / name for name in (f"{language}.yaml", f"unsupported_{language}.yaml")
    )
    data = [yaml.load(file.read_text(encoding="utf-8"), _LOADER) for file in paths if file.is_file()]
    return Phrasebook(language, {use: words for part in data for use, words in part.items()})
