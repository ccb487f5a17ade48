# SPDX-License-Identifier: Apache-2.0
"""PicoSpec's top-K downlink, made exact.

Resampling from the top K of P alone biases the text by up to tau, the mass outside the top K. Here the
cloud sends the head (the K likeliest tokens with P) and a few draws w ~ P(. | tail) with P(w). With
A = sum over the head of (P - Q)+, the edge takes turns: with probability A / (A + tau) it returns a head
token in proportion to (P - Q)+; otherwise it returns the next draw w with probability (1 - Q(w) / P(w))+;
otherwise it takes another turn.

Each turn returns v with probability (P - Q)+(v) / (A + tau), head or tail, so the token is drawn from
norm((P - Q)+). A turn uses up the draw of its own index, so that index is the only state between two turns,
and after any turn the whole of P may be sent instead without bias. Per tested token, rejected or not, the
mean number of turns is at most A + tau.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch

from outrider.core.errors import ProtocolError
from outrider.core.ports import Array
from outrider.decoding.acceptance.counter_rng import Chance, Purpose


@dataclass(frozen=True)
class TailDraws:
    """Draws from the tail, starting at index `first`, with their probabilities under P."""

    first: int
    ids: tuple[int, ...]
    probs: tuple[float, ...]

    @property
    def end(self) -> int:
        """The index of the next draw to ask for."""
        return self.first + len(self.ids)


@dataclass(frozen=True)
class SparseResidue:
    """The head of P, ids ascending, all with probabilities above 0; the rest of the mass is the tail's."""

    head_ids: tuple[int, ...]
    head_probs: tuple[float, ...]
    draws: TailDraws

    @property
    def tail_mass(self) -> float:
        """tau; exact, because the probabilities are gridded."""
        return 1.0 - sum(self.head_probs)


def sparse_residue(
    target_row: Array, position: int, chance: Chance, num_head: int, num_draws: int, first: int = 0
) -> SparseResidue:
    """Return the cloud's answer to a rejection: the `num_head` likeliest tokens of P (V,), and `num_draws`
    tail draws starting at index `first`.
    """
    head_ids = head_of(target_row, num_head)
    return SparseResidue(
        tuple(head_ids.tolist()),
        tuple(target_row[head_ids].tolist()),
        tail_draws(target_row, head_ids, position, chance, first, num_draws),
    )


def head_of(target_row: Array, num_head: int) -> Array:
    """Return int64 (at most num_head,): the likeliest tokens with mass, ids ascending."""
    order = target_row.topk(min(num_head, int(target_row.count_nonzero()))).indices
    return order.sort().values


def tail_draws(
    target_row: Array, head_ids: Array, position: int, chance: Chance, first: int, count: int
) -> TailDraws:
    """Return independent draws from P (V,) outside the head, starting at index `first`;
    none if the tail is empty.
    """
    tail = target_row.clone()
    tail[head_ids] = 0.0
    support = tail.nonzero()[:, 0]
    if len(support) == 0:
        return TailDraws(first, (), ())
    weights = tail[support]
    picks = [chance.pick(weights, Purpose.TAIL_DRAW, position, first + index) for index in range(count)]
    return TailDraws(first, tuple(support[picks].tolist()), tuple(weights[picks].tolist()))


def resample_sparse(residue: SparseResidue, draft_row: Array, position: int, chance: Chance) -> int | None:
    """Do the edge's half: return the token after a rejection, or None if the draws ran out.

    After None, ask for a residue whose draws start at index `residue.draws.end`, and call again with it.
    Raises ProtocolError if nothing can have been rejected.
    """
    head_ids = list(residue.head_ids)
    excess = (torch.tensor(residue.head_probs, dtype=torch.float64) - draft_row[head_ids]).clamp_min_(0.0)
    head_mass, tail_mass = float(excess.sum()), residue.tail_mass
    if head_mass + tail_mass == 0.0:
        raise ProtocolError(f"a rejection at position {position} where target and draft are the same")
    tail_turn = tail_mass / (head_mass + tail_mass)
    for index in itertools.count(residue.draws.first):
        if index == residue.draws.end and tail_mass > 0.0:
            break  # before this turn's coin is tossed: an unfinished turn would bias what follows
        if not chance.happens(tail_turn, Purpose.TAIL_TURN, position, index):
            return head_ids[chance.pick(excess, Purpose.RESIDUAL, position, index)]
        token = residue.draws.ids[index - residue.draws.first]
        prob = residue.draws.probs[index - residue.draws.first]
        if chance.happens(
            max(0.0, 1.0 - float(draft_row[token]) / prob), Purpose.TAIL_ACCEPT, position, index
        ):
            return token
    return None
