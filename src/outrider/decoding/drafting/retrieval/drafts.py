# SPDX-License-Identifier: Apache-2.0
"""All sources of retrieved drafts by name, and the likeliest continuation with a chance for each token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from outrider.core.endings import has_ended, until_end
from outrider.core.errors import ConfigError
from outrider.core.values import Successors
from outrider.decoding.drafting.retrieval.continuation import Continuation, Credit, Drafter
from outrider.decoding.drafting.retrieval.reuse import INSIDE, SegmentReuse
from outrider.decoding.drafting.retrieval.suffix import Detour, Spot, SuffixDrafter
from outrider.decoding.drafting.retrieval.tree import TokenTree, Way, grown_tree

MAX_NGRAM = 3
BELIEF = 0.5


class PromptLookup(Drafter):
    """Prompt lookup decoding, the baseline (Saxena 2023).

    Finds where the last three tokens, or two or one, first occurred in the current text, and proposes what
    followed.
    """

    source = "lookup"

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._tokens: list[int] = []
        self._first: dict[tuple[int, ...], int] = {}

    def begin(self, prompt: Sequence[int]) -> None:
        self.forget()
        self.extend(prompt)

    def extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            at = len(self._tokens)
            for size in range(1, min(MAX_NGRAM, at) + 1):
                self._first.setdefault(tuple(self._tokens[-size:]), at)
            self._tokens.append(token)

    def propose(self, branch: Sequence[int], limit: int) -> Continuation | None:
        end = (*self._tokens[-MAX_NGRAM:], *branch)[-MAX_NGRAM:]
        for size in range(len(end), 0, -1):
            at = self._first.get(end[-size:])
            if at is not None:
                tokens = tuple(self._tokens[at : at + limit])
                return Continuation(self.source, tokens, (BELIEF,) * len(tokens))
        return None


_DRAFTERS: dict[str, Callable[[], Drafter]] = {
    "lookup": PromptLookup,
    "suffix": SuffixDrafter,
    "reuse": SegmentReuse,
}
MODEL, CALIBRATION = "model", "calibration"
NUM_EXPECTED = 4
"""How many successors of each prompt token a calibration considers."""


def source_names() -> tuple[str, ...]:
    """Return all sources; `calibration` corrects the copies of `suffix`, the others draft on their own."""
    return (*_DRAFTERS, CALIBRATION)


def register_drafter(name: str, make: Callable[[], Drafter]) -> None:
    """Add a source of drafts that `DecodingConfig.drafters` may name from now on in this process.

    Raises ConfigError for a name that is taken or not an identifier.
    """
    if not name.isidentifier() or name in (MODEL, *source_names()):
        taken = ", ".join((MODEL, *source_names()))
        raise ConfigError(f"drafter {name!r}: give a plain word that is not one of {taken}")
    _DRAFTERS[name] = make


Likely = list[tuple[int, float]]
"""Tokens, each with the chance that the target writes it, given that those before it are right."""


def expected_accepted(likely: Likely) -> float:
    """Return the expected number of tokens that the target accepts."""
    total, reached = 0.0, 1.0
    for _, chance in likely:
        reached *= chance
        total += reached
    return total


class RetrievedDrafts:
    """Several sources combined into one. The calls are those of `Drafter`; the first must be `begin`."""

    def __init__(self, names: Sequence[str], end_ids: frozenset[int]) -> None:
        self.end_ids = end_ids
        self._drafters = [_DRAFTERS[name]() for name in names if name != CALIBRATION]
        self._suffix = next(
            (drafter for drafter in self._drafters if isinstance(drafter, SuffixDrafter)), None
        )
        self._is_calibrated = CALIBRATION in names
        self._credit = Credit()

    def __bool__(self) -> bool:
        return bool(self._drafters)

    def begin(self, prompt: Sequence[int]) -> None:
        """Start a new text with this prompt and an empty answer."""
        for drafter in self._drafters:
            drafter.begin(prompt)

    def extend(self, tokens: Sequence[int]) -> None:
        """Append final tokens; each source is scored on what it would have proposed in their place."""
        for drafter in self._drafters:
            proposed = drafter.propose((), len(tokens))
            if proposed is not None:
                self._credit.on_outcome(proposed, tokens)
            drafter.extend(tokens)

    def calibrate(self, successors: Successors) -> None:
        """Take a model's expectations for the current prompt, known since its prefill."""
        if self._is_calibrated and self._suffix is not None:
            self._suffix.calibrate(successors)

    def keep(self, segment: Sequence[int]) -> None:
        """Take a run of a rejected draft that matched the target's choices after the first mistake."""
        for drafter in self._drafters:
            if isinstance(drafter, SegmentReuse):
                drafter.keep(segment)

    def forget(self) -> None:
        """Drop all earlier text; the next call is `begin`."""
        for drafter in self._drafters:
            drafter.forget()

    def likely(self, branch: Sequence[int], limit: int) -> Iterator[tuple[int, float]]:
        """Yield what may follow the text and `branch`; where one source ends, all are asked again.

        Lazy: only tokens that are taken are looked up.
        """
        found: list[int] = []
        while len(found) < limit and not has_ended(found, self.end_ids):
            best = self._best([*branch, *found], limit - len(found))
            if not best:
                break
            yield from best
            found += [token for token, _ in best]

    def tree(self, most_tokens: int) -> TokenTree:
        """Return a tree of what may follow the text, with at most `most_tokens` tokens."""
        return grown_tree(self._first_ways(), self._onward, most_tokens)

    def _first_ways(self) -> Iterator[Way]:
        for drafter in self._drafters:
            if isinstance(drafter, SegmentReuse):
                for belief, segment in drafter.branches():
                    yield self._along(segment, self._credit.chance(drafter.source, belief), None)
        if self._suffix is not None:
            yield from self._in_context(1.0, self._suffix.root())

    def _onward(self, way: Way) -> Iterator[Way]:
        """Yield the next token of a way: its segment's next, or else the likely ones in the context."""
        if way.token in self.end_ids:
            return
        if way.rest:
            chance = way.chance * self._credit.chance(SegmentReuse.source, INSIDE)
            yield self._along(way.rest, chance, way.spot)
        elif way.spot is not None:
            yield from self._in_context(way.chance, way.spot)

    def _along(self, segment: tuple[int, ...], chance: float, spot: Spot | Detour | None) -> Way:
        """Return the way of a segment's first token; `spot`: that of the segment's tokens before it."""
        onward = None if self._suffix is None else self._suffix.after(spot, segment[0])
        return Way(chance, segment[0], onward, segment[1:])

    def _in_context(self, chance: float, spot: Spot | Detour) -> Iterator[Way]:
        assert self._suffix is not None
        for token, share, onward in self._suffix.steps(spot):
            yield Way(chance * share, token, onward)

    def _best(self, branch: Sequence[int], limit: int) -> Likely:
        proposals = [drafter.propose(branch, limit) for drafter in self._drafters]
        likely = [self._valued(proposal) for proposal in proposals if proposal is not None]
        return max(likely, key=expected_accepted, default=[])

    def _valued(self, proposal: Continuation) -> Likely:
        tokens = until_end(proposal.tokens, self.end_ids)
        beliefs = proposal.beliefs[: len(tokens)]
        chances = [self._credit.chance(proposal.source, belief) for belief in beliefs]
        return list(zip(tokens, chances, strict=True))
