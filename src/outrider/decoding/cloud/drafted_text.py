# SPDX-License-Identifier: Apache-2.0
"""A committed text at the cloud and the drafts that may follow it: the `DraftView` of its policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from outrider.core.endings import until_end
from outrider.core.frames import MAX_CHUNK_TOKENS
from outrider.decoding.acceptance.schemes import Choices, Evidence
from outrider.decoding.cloud.branch_cache import BranchCache
from outrider.decoding.policy.speculation import DraftView
from outrider.decoding.protocol.branch_codec import Run
from outrider.decoding.protocol.prefix_digest import DigestedText, Tokens, common_length


class DraftedText(DraftView):
    """A text of at most `max_new_tokens` tokens. If it ends earlier, its last token is one of `end_ids`."""

    def __init__(self, root_digest: int, max_new_tokens: int, end_ids: frozenset[int]) -> None:
        self.committed = DigestedText(root_digest)
        self._max_new_tokens = max_new_tokens
        self._end_ids = end_ids
        self._branches = BranchCache()
        self._best: dict[Tokens, tuple[Tokens, tuple[Evidence, ...]]] = {}
        """Cached results of `best`, until the text or the branches change."""
        self._step_requested_at: int | None = None

    def replace(self, text: DigestedText) -> None:
        """Commit another text instead."""
        self.committed = text
        self._clear()

    def extend(self, tokens: Tokens) -> None:
        """Commit more tokens."""
        self.committed.extend(tokens)
        self._clear()

    def _clear(self) -> None:
        self._best.clear()
        self._branches.keep_after(len(self.committed), self.committed.digest)

    def offer_runs(self, length: int, digest: int, runs: Sequence[Run]) -> None:
        """Keep branches from the text with this length and digest. An empty `runs` asks for a step there."""
        if not runs:
            self._step_requested_at = digest
        self._branches.add_runs(length, digest, runs)
        self._best.clear()

    def offer_branch(self, length: int, digest: int, tokens: Tokens, evidence: Sequence[Evidence]) -> None:
        """Keep one branch with its evidence. An empty branch asks for a step there."""
        if not tokens:
            self._step_requested_at = digest
        self._branches.add_branch(length, digest, tokens, evidence)
        self._best.clear()

    def offer_choices(self, prefix: Tokens, choices: Choices) -> None:
        """Keep the choices of the cloud's own draft after `prefix`, unless the text has become another."""
        length = len(self.committed)
        if prefix[:length] == self.committed.tokens:
            self._branches.add_choices(len(prefix), self._digest_after(prefix[length:]), choices)
            self._best.clear()

    @property
    def room(self) -> int:
        return min(self._max_new_tokens - len(self.committed) - 1, MAX_CHUNK_TOKENS)

    @property
    def step_requested(self) -> bool:
        """See `DraftView`. A draft of an edge that was alone may cover only the very last token: there is
        no room to verify it, so it counts as a request for a step.
        """
        last = not self.room and self.first_offered() is not None
        return last or self._step_requested_at == self.committed.digest

    def best(self, after: Tokens = ()) -> tuple[Tokens, tuple[Evidence, ...]]:
        found = self._best.get(after)
        if found is None:
            found = self._best[after] = self._branches.best(self._digest_after(after), self.room - len(after))
        return found

    def open_ends(
        self,
        running: Tokens,
        outcomes: Sequence[tuple[Tokens, float]],
        beyond: int,
        most: int,
        chances: Callable[[int, Evidence], float],
    ) -> list[tuple[Tokens, float]]:

        def may_grow(path: Tokens) -> bool:
            common = common_length(path, running)
            return len(path) < min(common + 1 + beyond, self.room) and self.continues(path[-1:])

        rest = max(0.0, 1.0 - sum(chance for _, chance in outcomes))
        starts = [(tokens, self._digest_after(tokens), chance) for tokens, chance in (*outcomes, ((), rest))]
        return self._branches.open_ends(starts, may_grow, most, chances)

    def first_offered(self) -> int | None:
        """Return the likeliest next token, or None if no branch has one."""
        tokens, _ = self._branches.best(self.committed.digest, 1)
        return tokens[0] if tokens else None

    def continues(self, tokens: Tokens) -> bool:
        return len(tokens) <= self.room and self._end_ids.isdisjoint(tokens)

    def announced(self, tokens: Tokens) -> Tokens:
        return until_end(tokens, self._end_ids)[:MAX_CHUNK_TOKENS]

    def _digest_after(self, tokens: Tokens) -> int:
        return self._branches.digest_after(self.committed.digest, tokens)
