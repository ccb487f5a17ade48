# SPDX-License-Identifier: Apache-2.0
"""Reads one clause of a sentence as a step of a plan, with a language's phrases and a model's words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from outrider.core.language import plan as p
from outrider.core.language.grammar import Vocabulary, parse
from outrider.core.language.motions import Motions, Slots
from outrider.core.language.names import Clause, Names, statement
from outrider.core.language.unsupported import why_unsupported
from outrider.core.language.words.amounts import Token
from outrider.core.language.words.phrase_group import PhraseGroup
from outrider.core.language.words.phrasebook import Phrasebook, joined, stop_words
from outrider.core.language.words.signs import PUNCTUATION, is_symbol
from outrider.core.language.words.unsupported_words import ANYWHERE, IN_NAMES, UNSUPPORTED

AT_NUMBER = "at a number, which may change it: "
OF_SIGN = "leave the sign out, and write a number like 0.5 or 1000"
OF_MINUS = 'write a minus right before its number and after a blank, as in "3 -4", or leave it out'
_NO_TOPIC = 'names no topic to forget: say a thing, such as "forget my keys", or "forget everything"'
_SYMBOL = 'has the symbol "{}", which may change what is meant: leave it out, or say it in words'
_NOT_FIRST = 'says "{}" after another step: say the steps in their order, with "then" between them'
_PERSON = 'says "{}", and the robot does not know where you are: '
WHY_REFUSED = {
    "here": _PERSON + 'say what you stand by, such as "go to the door", or "come back" for where it set out',
    "follow": 'says "{}": it follows nobody; say what to find, such as "find the silver bottle"',
    "wait": 'says "{}": it waits for nobody; say how long, such as "wait 10 seconds"',
    "ahead": 'says "{}": say "go forward" if that is meant, or else what to do',
    "side": 'says only "{}": say "turn left" or "turn right"',
    "steps": 'says "{}": a step has no set length; say it in metres, such as "go forward 1 m"',
}
"""The reasons for refusing phrases, by their group in `refused` of a language's file."""
_CORRECTED = "_corrected"
UNCHECKED = frozenset(("stop", "remember", "forget_all", "forget", "did", "see", "where", "ask", "wait"))
"""Groups of phrases that move nothing, so their words are not checked for what no motion can obey."""
BARE = frozenset(("alone", "again"))
"""Groups of phrases that fit any words; the thing in them is checked."""
_VERBLESS = ("again", "alone", "other", "which", "side", "beside")
"""Groups of phrases that name a thing without a verb."""
_PARTED_BY_ANY_SIGN = ("other", "forget")
_MIN_DESCRIBED, _MAX_DESCRIBED = 4, 40


@dataclass
class Clauses(Motions):
    """Reads clauses. `knows`: whether the robot's memory has a thing that no model knows.

    Reasons why a clause is not a step are added to `problems`. `is_unsupported`: an order has words that no
    motion can obey. `_is_final`: a clause was refused that must not be read as a described way either.
    """

    book: Phrasebook
    vocabulary: Vocabulary | None
    knows: Callable[[str], bool]
    problems: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    is_unsupported: bool = False
    _is_final: bool = False
    _groups: dict[str, list[PhraseGroup]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = Names(self.book, self.vocabulary)

    def read(
        self,
        tokens: Sequence[Token],
        sentence: str,
        previous: p.Step | None,
        corrected: bool,
        described: bool,
    ) -> p.Step | None:
        """Return the step, or None.

        `described`: allow a way in words that only a general model understands.
        """
        plain = self._plain(tokens)
        words = self._stripped(plain)
        order_word = self.book.first.match(joined(plain)) if previous else None
        if order_word:
            return self._refuse_all(_NOT_FIRST.format(order_word[1].strip()))
        if not words:
            return None
        clause, num_problems = Clause(words, sentence, previous), len(self.problems)
        if self._is_refused(plain, clause):
            return None
        counting = (
            g for g in self._fitting(clause.text) if self._counts(g.name, previous, corrected, described)
        )
        for group, match in ((g.name, match) for g in counting for match in g.matches(clause.text)):
            if self.names.is_parted(match, clause, group.startswith(_PARTED_BY_ANY_SIGN)):
                continue
            if group not in UNCHECKED | BARE and self._is_unsupported_order(clause.words):
                continue
            if group == "described" and len(self.problems) > num_problems:
                continue  # a looser phrase must not accept what a stricter one refused
            step = _BUILDERS[group.removesuffix(_CORRECTED)](self, match.groupdict(), clause)
            if step is None:
                continue
            sign = clause.sign_in_amount(match)
            advice = OF_MINUS if sign == "-" else OF_SIGN
            return self._refuse(f'has "{sign}" {AT_NUMBER}{advice}') if sign else step
        return None

    def bare(self, tokens: Sequence[Token]) -> list[Token]:
        """Return the words without politeness, punctuation and words such as "first"."""
        return self._stripped(self._plain(tokens))

    def _stripped(self, plain: Sequence[Token]) -> list[Token]:
        words = self.book.without(self.book.polite_before, plain)
        text = joined(words)
        first = self.book.first.match(text)
        if first:
            start, end = (text.count(" ", 0, at) for at in first.span(1))
            words = [*words[:start], *words[end:]]
        return self.book.without(self.book.polite_after, words, True)

    def _fitting(self, text: str) -> list[PhraseGroup]:
        """Return the groups with a phrase that fits a clause's text; cached for repeated readings."""
        if text not in self._groups:
            self._groups[text] = [group for group in self.book.groups if group.fits(text)]
        return self._groups[text]

    def _plain(self, tokens: Sequence[Token]) -> list[Token]:
        return self.book.without_asides([token for token in tokens if token.word not in PUNCTUATION])

    def _counts(self, group: str, previous: p.Step | None, corrected: bool, described: bool) -> bool:
        bare = group.removesuffix(_CORRECTED)
        has_verb = previous is not None and (previous.answers or isinstance(previous, p.Forget))
        if bare in _VERBLESS and has_verb:
            return group == "again" and isinstance(previous, p.Forget | p.Where)
        if group == "again":
            return corrected or isinstance(previous, p.Find)
        if group == "return_after":
            return isinstance(previous, p.Find)
        if group == "described":
            return described
        return corrected or group == bare

    # One builder for each group of phrases; it returns None if the slots make no step.

    def remember(self, slots: Slots, clause: Clause) -> p.Step | None:
        """Return the step that stores a statement, in its original spelling."""
        return statement(clause.original(slots["text"]), self.book)

    def forget(self, slots: Slots, clause: Clause) -> p.Step | None:
        """Return the step that deletes records about a thing."""
        words = self.names.bare(slots["thing"])
        if self._holds_unsupported(words, (*ANYWHERE, "run_on")):
            return None
        slip, about = self.names.slip(words), self.names.topic(slots["thing"])
        if slip:
            return self._refuse('says "{}": say "{}" if that is meant'.format(*slip))
        original_words = clause.original(self.book.without_article(slots["thing"]))
        others = (original_words, *self.names.forms(slots["thing"]))
        return p.Forget(about, others) if about else self._refuse_all(_NO_TOPIC)

    def where(self, slots: Slots, clause: Clause) -> p.Step | None:
        """Return the step that tells where a thing was last seen."""
        words = self.names.in_room(slots["thing"]) or slots["thing"]
        what, original_words = self.names.topic(words), clause.original(self.book.without_article(words))
        return p.Where(what, clause.question(), original_words) if what else None

    def ask(self, slots: Slots, clause: Clause) -> p.Step | None:
        """Return the step that answers a question; None if it has a stop word and no question mark."""
        asked = clause.question()
        return p.Ask(asked) if asked.endswith("?") or stop_words().isdisjoint(clause.words) else None

    def find(self, slots: Slots, clause: Clause) -> p.Step | None:
        """Return the step to find a thing or the room with it; the thing if no model knows the room.

        "Stop at the chair" finds it; "stop at once" and "stop before it's too late" are stops.
        """
        if clause.words[0] in stop_words() and not self.names.is_place(slots["thing"]):
            return None
        inside = self.names.in_room(slots["thing"])
        room = self._to_find(inside, clause, room=True) if inside else None
        return room or self._to_find(slots["thing"], clause, room=False)

    def again(self, slots: Slots, clause: Clause) -> p.Step | None:
        """Apply the previous step to another thing: find it, ask for it or forget it too."""
        words = slots["thing"]
        if self.names.statement_in(words):
            return None
        if clause.previous is None or isinstance(clause.previous, p.Find):
            whole = clause.previous is None or self.names.are_whole(clause.previous.thing, words)
            return self.find(slots, clause) if whole else self._refuse_parts(clause.text)
        name = self.names.name_of(words)
        slots_named = [slot for slot, _ in map(self.names.translated, self.names.bare(words))]
        if not name or (self.book.without_article(words) == words and "kind" not in slots_named):
            return None
        return (
            p.Where(name, f"where is the {name}?") if clause.previous.answers else self.forget(slots, clause)
        )

    def alone(self, slots: Slots, clause: Clause) -> p.Step | None:
        """Find a thing that the models know, with an article or "to" but no verb: "a chair", "to the cup"."""
        words = slots["thing"]
        has_article = self.book.without_article(words) != words or words != clause.text
        is_known = has_article and self.names.names_known(words)
        return self._to_find(words, clause, room=False) if is_known else None

    def _to_find(self, words: str, clause: Clause, room: bool) -> p.Step | None:
        """Return the step to find a thing that the models, the memory or a general model may know."""
        wrong = self.names.why_no_name(words, "" if room else clause.text)
        if wrong:
            return self._refuse_all(wrong)
        thing = self.names.name_of(words)
        if not thing:
            return None
        sentence = p.sentence_to_find(thing, room)
        if self.names.is_known(thing, room):
            trained = self.vocabulary and parse(clause.text, self.vocabulary)
            is_order = trained and trained.room == room and not trained.text.startswith("where")
            return p.Find(thing, trained.text if trained and is_order else sentence, room=room)
        is_english = self.names.is_english(words)
        if self.vocabulary is None and is_english:
            ends = self._holds_unsupported(clause.words[-1:], ("limit_in_ways",))
            if ends or self._holds_unsupported(clause.words, IN_NAMES):
                return None
            return p.Find(thing, sentence, known=False, room=room)
        if not is_english:
            refuse = self._refuse_all if self.book.language == "en" else self._refuse
            refuse(f'names "{thing}", which is not translated: say the thing in English')
        self.unknown.append(thing)
        candidates = (thing, clause.original(self.book.without_article(words)))
        place = "" if room else next(filter(self.knows, candidates), "")
        return p.Find(place, "", known=False) if place else None

    def follow(self, slots: Slots, clause: Clause) -> p.Step | None:
        """Return the step that follows a route given in words."""
        return p.Follow(clause.text.strip())

    def described(self, slots: Slots, clause: Clause) -> p.Step | None:
        """Return a way in words for a general model: it names something on the way, and sets no limits."""
        words = clause.words
        names_something = any(word in self.book.articles for word in words)
        fits = _MIN_DESCRIBED <= len(words) <= _MAX_DESCRIBED and stop_words().isdisjoint(words)
        if self._is_final or not names_something or not fits or self._holds_unsupported(words, UNSUPPORTED):
            return None
        return p.Follow(clause.text.strip())

    def way(self, slots: Slots, clause: Clause) -> p.Step | None:
        """Return a turn if the sentence consists of a side; None for "right, go to the door"."""
        bare_words = self.bare(self.book.tokens(clause.sentence))
        return self.turn(slots, clause) if len(bare_words) == len(clause.words) else None

    def other(self, slots: Slots, clause: Clause) -> p.Step | None:
        """Return a correction to another object, of the named kind if there is one."""
        if slots.get("thing") is None:
            return p.Correct(other=True)
        words = self.names.bare(slots["thing"])
        more = self.names.holds_more(words) or self.names.holds_a_stop(slots["thing"])
        if not words or more or self.names.statement_in(slots["thing"]):
            return None
        if self.book.language != "en" and not self.names.is_english(slots["thing"]):
            return None
        translations = [self.names.translated(word) for word in words]
        kind = " ".join(word for _, word in translations)
        if self.vocabulary is not None and not all(slot for slot, _ in translations) and not self.knows(kind):
            return self._refuse(f'names "{kind}", which neither the model nor memory knows')
        return p.Correct(other=True, kind=kind)

    def which(self, slots: Slots, clause: Clause) -> p.Step | None:
        """Return a correction of the object's distinguishing words; None for other words."""
        pairs = [self.names.translated(word) for word in self.book.grouped(slots["which"].split())]
        if len(pairs) == 1 and self.names.bare(slots["which"]) and self.names.is_english(slots["which"]):
            pairs = [(slot or "colour", word) for slot, word in pairs]
        filled = dict(pairs)
        is_complete = len(filled) == len(pairs) and all(self.names.distinguishes(*pair) for pair in pairs)
        return p.Correct(**filled) if is_complete else None  # type: ignore[arg-type]

    def side(self, slots: Slots, clause: Clause) -> p.Step | None:
        """Return a correction to an object on a side, or beside the last one if no model knows sides."""
        side = self.book.key_of("sides", slots["side"])
        known = self.vocabulary is not None and self.vocabulary.fills(side, ("side",))
        return p.Correct(side=side) if known else p.Correct(beside=side)

    def beside(self, slots: Slots, clause: Clause) -> p.Step | None:
        """Return a correction to an object on one side of the last one."""
        return p.Correct(beside=self.book.key_of("sides", slots["side"]))

    def _is_unsupported_order(self, words: Sequence[str]) -> bool:
        """Return whether an order holds what no motion can obey, or a symbol such as a red cross."""
        symbol = next((word for word in words if is_symbol(word[0])), None)
        if symbol is None or symbol in self.book.words("degrees"):
            return self._holds_unsupported(words, ANYWHERE)
        self._refuse_all(_SYMBOL.format(symbol))
        return True

    def _holds_unsupported(self, words: Sequence[str], kinds: Iterable[str]) -> bool:
        """Return whether words hold something that no motion can obey; if so, add the problem."""
        problem = why_unsupported(self.book, words, kinds)
        if problem:
            self.is_unsupported = True
            self.problems.append(problem)
        return bool(problem)

    def _is_refused(self, plain: Sequence[Token], clause: Clause) -> bool:
        """Return whether a clause is a phrase that is understood but refused; if so, add the problem."""
        whole = joined(self.book.without(self.book.polite_before, plain))
        match = self.book.refused.fullmatch(whole) or self.book.refused.fullmatch(clause.text)
        if match and match.lastgroup:
            self._refuse_all(WHY_REFUSED[match.lastgroup].format(self.book.as_written(whole)))
        return match is not None

    def _refuse_parts(self, words: str) -> p.Step | None:
        problem = f'says "{self.book.as_written(words)}" beside another thing'
        return self._refuse_all(f'{problem}: name each with its kind, "the red ball"')

    def _refuse_all(self, problem: str) -> p.Step | None:
        self._is_final = self.is_unsupported = True
        return self._refuse(problem)


_Builder = Callable[[Clauses, Slots, Clause], p.Step | None]


def _always(step: p.Step) -> _Builder:
    return lambda clauses, slots, clause: step


def _turned(degrees: float) -> _Builder:
    return lambda clauses, slots, clause: clauses.turned(slots, degrees)


_ABOUT_THINGS = ("remember", "forget", "where", "ask", "find", "again", "alone", "follow", "described")
_MOTIONS = ("way", "turn", "forward", "back", "point", "wait")
_CORRECTIONS = ("other", "which", "side", "beside")
_NAMED = (*_ABOUT_THINGS, *_MOTIONS, *_CORRECTIONS)
"""The groups of phrases whose builder has the same name."""
_BUILDERS: dict[str, _Builder] = {
    "stop": _always(p.Stop()),
    "home": _always(p.Home()),
    "return": _always(p.Return()),
    "return_after": _always(p.Return()),
    "see": _always(p.See()),
    "did": _always(p.Did()),
    "forget_all": _always(p.Forget()),
    **{group: getattr(Clauses, group) for group in _NAMED},
    "find_asked": Clauses.find,
    "quarter": _turned(90.0),
    "around": _turned(180.0),
    "full": _turned(360.0),
}
