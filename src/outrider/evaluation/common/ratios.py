# SPDX-License-Identifier: Apache-2.0
"""Measured ratios, each with its bound; the work that they compare is timed on this thread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from outrider.core.model_options import DRAFT_BRANCHES
from outrider.core.ports import Chunk, LanguageModel, ModelSession
from outrider.core.values import Prompt


@dataclass(frozen=True)
class Ratio:
    """A measured ratio and its bound: at most `bound` if `is_limit`, else at least `bound`."""

    what: str
    value: float
    bound: float
    is_limit: bool
    detail: str

    @property
    def is_within_bound(self) -> bool:
        """Whether the ratio is within its bound."""
        return self.value <= self.bound if self.is_limit else self.value >= self.bound

    @property
    def bound_text(self) -> str:
        """The bound in words, and whether it was missed."""
        missed = "" if self.is_within_bound else ": missed"
        return f"{'at most' if self.is_limit else 'at least'} {self.bound:g}{missed}"


def forward_seconds(session: ModelSession, num_tokens: int, exits: bool = False) -> float:
    """Return the seconds of one forward after the session's content, which is kept."""
    length, token_ids = session.length, list(range(10, 10 + num_tokens))
    took_s = cpu_seconds(lambda: session.forward(token_ids, (lambda index, rows: None) if exits else None))
    session.truncate(length)
    return took_s


def branch_seconds(draft: LanguageModel, prompt: Prompt, repeats: int) -> float:
    """Return the seconds that each further branch adds to a forward over DRAFT_BRANCHES of them.

    They are the median of `repeats` measurements. The draft's cache must have room for the branches.
    """
    sessions = [draft.open_session() for _ in range(DRAFT_BRANCHES)]
    for session in sessions:
        session.prefill(prompt)
    lengths, branch_s = [session.length for session in sessions], []
    for _ in range(repeats):
        chunks = [Chunk(session, [1 + index]) for index, session in enumerate(sessions)]
        alone_s = cpu_seconds(partial(draft.forward_together, chunks[:1]))
        sessions[0].truncate(lengths[0])
        together_s = cpu_seconds(partial(draft.forward_together, chunks))
        branch_s.append((together_s - alone_s) / (len(sessions) - 1))
        for session, length in zip(sessions, lengths, strict=True):
            session.truncate(length)
    return max(0.0, statistics.median(branch_s))


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the processor seconds that some work takes on this thread."""
    began_s = time.thread_time()
    work()
    return time.thread_time() - began_s


def median_ms(seconds: Sequence[float]) -> str:
    """Return the median in milliseconds, as text."""
    return f"{1e3 * statistics.median(seconds):.2f}"
