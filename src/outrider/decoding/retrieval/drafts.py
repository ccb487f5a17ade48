"""All sources of retrieved drafts together: the likeliest continuation, with the chance of each token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from outrider.decoding.retrieval.continuation import Continuation, Credit, Drafter
from outrider.decoding.retrieval.lookup import PromptLookup
from outrider.decoding.retrieval.suffix import SuffixDrafter

SOURCES: dict[str, Callable[[], Drafter]] = {"lookup": PromptLookup, "suffix": SuffixDrafter}


@dataclass(frozen=True)
class Likely:
    """Retrieved tokens; `chances[i]` that the target writes tokens[i], those before it being right."""

    tokens: tuple[int, ...]
    chances: tuple[float, ...]

    @property
    def expected(self) -> float:
        """How many of the tokens the target may be expected to accept."""
        total, reached = 0.0, 1.0
        for chance in self.chances:
            reached *= chance
            total += reached
        return total


class RetrievedDrafts:
    """Sources by name, asked as one. Events as of `Drafter`; the first must be `begin`."""

    def __init__(self, names: Sequence[str], eos_id: int) -> None:
        self._eos_id = eos_id
        self._drafters = [SOURCES[name]() for name in names]
        self._credit = Credit()

    def __bool__(self) -> bool:
        return bool(self._drafters)

    def begin(self, prompt: Sequence[int]) -> None:
        """Another text, with nothing answered yet."""
        for drafter in self._drafters:
            drafter.begin(prompt)

    def extend(self, tokens: Sequence[int]) -> None:
        """More of the answer is final; each source is judged by what it would have said."""
        for drafter in self._drafters:
            proposed = drafter.propose((), len(tokens))
            if proposed is not None:
                self._credit.on_outcome(proposed, tokens)
            drafter.extend(tokens)

    def forget(self) -> None:
        """Nothing of any earlier text is kept; the next event is `begin`."""
        for drafter in self._drafters:
            drafter.forget()

    def likely(self, branch: Sequence[int], limit: int) -> Likely | None:
        """What may follow the text and `branch`; where a source ends, the others are asked how to go on."""
        tokens: tuple[int, ...] = ()
        chances: tuple[float, ...] = ()
        while len(tokens) < limit and self._eos_id not in tokens[-1:]:
            best = self._best((*branch, *tokens), limit - len(tokens))
            if best is None:
                break
            tokens, chances = tokens + best.tokens, chances + best.chances
        return Likely(tokens, chances) if tokens else None

    def _best(self, branch: Sequence[int], limit: int) -> Likely | None:
        proposals = [drafter.propose(branch, limit) for drafter in self._drafters]
        likely = [self._valued(proposal) for proposal in proposals if proposal is not None]
        return max(likely, key=lambda one: one.expected, default=None)

    def _valued(self, proposal: Continuation) -> Likely:
        tokens = proposal.tokens
        if self._eos_id in tokens:
            tokens = tokens[: tokens.index(self._eos_id) + 1]
        beliefs = proposal.beliefs[: len(tokens)]
        return Likely(tokens, tuple(self._credit.chance(proposal.source, belief) for belief in beliefs))
