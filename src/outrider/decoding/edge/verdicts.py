# SPDX-License-Identifier: Apache-2.0
"""What a verdict says about the drafts that it verified."""

from __future__ import annotations

from itertools import takewhile

from outrider.core.frames import Unsettled, Verdict
from outrider.decoding.drafting.draft_tree import DraftTree
from outrider.decoding.drafting.tree_expansion import TreeExpander
from outrider.decoding.edge.actions import Commit


def commit_of(
    new: tuple[int, ...], verdict: Verdict | Unsettled | None, drafts: TreeExpander, exit_index: int | None
) -> Commit:
    """Return the commit of new tokens, and let the drafts learn from them. `exit_index`: the exit that had
    hinted at them. A token that only a hint had named is no draft.
    """
    if verdict is None:
        return Commit(new, 0, (False,) * len(new), None)
    if verdict.base == drafts.tree.root.length:
        drafts.keep_rejected(new, verdict.drafted, verdict.kept)
    ranks = drafts.judge(new)
    num_verified = _num_verified(verdict, drafts.tree)
    reached = drafts.tree.find(new)
    return Commit(
        new,
        drafted=num_verified - ranks[:-1][:num_verified].count(None),
        stood=_accepted(ranks, num_verified),
        verdict=verdict,
        foreseen=reached is not None and reached.drafted,
        exit=exit_index,
        followed=sum(1 for _ in takewhile(lambda rank: rank == 0, ranks)),
        rejected=drafts.contradicted(new),
    )


def last_sent_s(commit: Commit, tree: DraftTree) -> float | None:
    """Return when the last token left that a verdict has surely verified; None where it verified none."""
    if commit.verdict is None:
        return None
    num_verified = min(commit.followed, _num_verified(commit.verdict, tree), len(commit.tokens) - 1)
    last = tree.find(commit.tokens[:num_verified]) if num_verified > 0 else None
    return last.sent_s if last is not None else None


def _num_verified(verdict: Verdict | Unsettled, tree: DraftTree) -> int:
    """Return how many drafts of a verdict follow the text: it may begin before what the edge wrote alone."""
    return max(0, verdict.base + verdict.drafted - tree.root.length)


def _accepted(ranks: list[int | None], num_verified: int) -> tuple[bool, ...]:
    """Return which tokens are accepted drafts, by the choice of the draft that each is.

    Where a draft is rejected the target's own token follows: the last is a draft only as the first choice.
    """
    last = len(ranks) - 1
    return tuple(
        [
            at < num_verified and (rank == 0 or (rank is not None and at < last))
            for at, rank in enumerate(ranks)
        ]
    )
