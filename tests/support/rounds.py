"""One round of each stochastic scheme, with both of its sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from outrider.core.ports import Array
from outrider.decoding.acceptance import packing, rejection, sparse
from outrider.decoding.acceptance.counter_rng import Chance, Purpose

Rows = Callable[[tuple[int, ...]], Array]
"""A model: maps a text to the quantized distribution of its next token."""


@dataclass(frozen=True)
class Pair:
    target: Rows
    draft: Rows


@dataclass(frozen=True)
class Round:
    """The settings of a round. `num_head`, `num_draws` and `refills` belong to `sparse`.

    After `refills` sparse residues, P is sent whole. With `packed`, all that would cross the wire is packed
    and unpacked.
    """

    scheme: str
    num_draft_tokens: int = 2
    with_bonus: bool = True
    num_head: int = 1
    num_draws: int = 1
    refills: int = 1
    packed: bool = False

    def extend(self, pair: Pair, text: tuple[int, ...], chance: Chance) -> tuple[int, ...]:
        """Returns the tokens that a round adds to a text."""
        draft, rows = _draft(pair, text, chance, self.num_draft_tokens)
        target_probs = torch.stack([pair.target(text + draft[:count]) for count in range(len(draft) + 1)])
        outcome = self._judge(target_probs, torch.stack(rows), draft, len(text), chance)
        kept = draft[: outcome.accepted]
        if outcome.next_token is not None:
            return (*kept, outcome.next_token)
        if outcome.accepted == len(draft):
            return kept
        at, draft_row = len(text) + outcome.accepted, rows[outcome.accepted]
        if self.scheme == "split":
            return (*kept, rejection.resample(self._row_down(outcome.residue), draft_row, at, chance))
        return (*kept, self._resample_sparse(outcome.residue, draft_row, at, chance))

    def _judge(
        self, target_probs: Array, draft_probs: Array, draft: tuple[int, ...], position: int, chance: Chance
    ) -> rejection.Outcome:
        if self.scheme == "rejection":
            rows = self._rows_up(draft_probs)
            return rejection.judge_rejection(target_probs, rows, draft, position, chance, self.with_bonus)
        scalars = self._scalars_up([float(row[x]) for row, x in zip(draft_probs, draft, strict=True)])
        return rejection.judge_split(target_probs, scalars, draft, position, chance, self.with_bonus)

    def _resample_sparse(self, target_row: Array, draft_row: Array, position: int, chance: Chance) -> int:
        first = 0
        for _ in range(1 + self.refills):
            sent = sparse.sparse_residue(target_row, position, chance, self.num_head, self.num_draws, first)
            residue = self._residue_down(sent, len(target_row))
            token = sparse.resample_sparse(residue, draft_row, position, chance)
            if token is not None:
                return token
            first = residue.draws.end
        return rejection.resample(target_row, draft_row, position, chance)

    def _rows_up(self, rows: Array) -> Array:
        if not self.packed or not len(rows):
            return rows
        arrived = packing.unpack_draft_rows(packing.pack_draft_rows(rows), *rows.shape)
        return torch.stack([row.dense() for row in arrived])

    def _scalars_up(self, probs: Sequence[float]) -> Sequence[float]:
        return (
            packing.unpack_token_probs(packing.pack_token_probs(probs), len(probs)) if self.packed else probs
        )

    def _row_down(self, row: Array) -> Array:
        return packing.unpack_target_row(packing.pack_target_row(row), len(row)) if self.packed else row

    def _residue_down(self, residue: sparse.SparseResidue, vocab_size: int) -> sparse.SparseResidue:
        return packing.unpack_residue(packing.pack_residue(residue), vocab_size) if self.packed else residue


def _draft(
    pair: Pair, text: tuple[int, ...], chance: Chance, count: int
) -> tuple[tuple[int, ...], list[Array]]:
    draft: tuple[int, ...] = ()
    rows = []
    for _ in range(count):
        rows.append(pair.draft(text + draft))
        draft += (chance.pick(rows[-1], Purpose.DRAFT, len(text) + len(draft)),)
    return draft, rows
