# SPDX-License-Identifier: Apache-2.0
"""The acceptance schemes, one object each: propose a token, encode how it was drawn, judge it, replace it.

| scheme | the edge sends | the cloud decides | after a rejection |
|---|---|---|---|
| greedy, coupled | ids | accept while equal to the target's own choice | the target's own choice |
| rejection | ids, distributions Q | accept with min(1, P(x) / Q(x)) | the cloud draws from (P - Q)+ |
| split | ids, Q(x) | as rejection | P goes down, the edge draws from (P - Q)+ |
| sparse | ids, Q(x) | as rejection | the head of P and draws from its tail go down |

The mathematics is in `coupled`, `rejection` and `sparse`. To add a scheme, write its class here and name it
in `SCHEMES` and in `core.frames.AcceptanceName`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from outrider.core.errors import ProtocolError
from outrider.core.frames import AcceptanceName
from outrider.core.ports import Array
from outrider.decoding.acceptance.counter_rng import CounterChance, Purpose
from outrider.decoding.acceptance.coupled import Draw, decide, draws_on
from outrider.decoding.acceptance.packing import (
    pack_draft_rows,
    pack_residue,
    pack_target_row,
    pack_token_probs,
    unpack_draft_rows,
    unpack_residue,
    unpack_target_row,
    unpack_token_probs,
)
from outrider.decoding.acceptance.quantized import draft_distribution, target_distribution
from outrider.decoding.acceptance.rejection import (
    Outcome,
    judge_decided,
    judge_rejection,
    judge_split,
    resample,
)
from outrider.decoding.acceptance.sampling import perturbed
from outrider.decoding.acceptance.sparse import resample_sparse, sparse_residue
from outrider.decoding.protocol.sampling_rules import Sampling

Evidence = Any
"""How a token was drawn, in the form that its scheme needs; None if the scheme needs nothing."""


@dataclass(frozen=True)
class Choices:
    """The draft's next tokens, best first. `row` (V,): the distribution of the first one, if it was drawn.

    `confidence`: the draft's own probability that the first is right.
    """

    tokens: tuple[int, ...]
    row: Array = None
    confidence: float = 1.0


@dataclass(frozen=True, eq=False)
class Residue:
    """What the edge needs to draw the token at `position`: the target's distribution `row` (V,) there."""

    row: Array
    position: int
    sampling: Sampling


@dataclass(frozen=True)
class Drawn:
    """The edge's token, or None and in `draws` the index of the next tail draw to ask for."""

    token: int | None
    draws: int = 0


@dataclass(frozen=True)
class AcceptanceScheme:
    """How both sides handle a draft token. Schemes are values: equal names are equal schemes.

    `samples`: whether it samples above temperature 0. `deterministic`: whether a token is compared with the
    target's own choice; then ids are enough, second choices may be right, and hints predict the text.
    `resamples_at_edge`: whether the edge draws the token after a rejection. `sends_draft_rows` and
    `sends_target_row`: whether whole distributions cross the link, up or down.
    """

    name: AcceptanceName
    samples: bool = True
    deterministic: bool = False
    resamples_at_edge: bool = False
    sends_draft_rows: bool = False
    sends_target_row: bool = False

    def propose(self, logits: Array, sampling: Sampling, position: int, num_choices: int) -> Choices:
        """Return the draft's next tokens from its logits (V,): one, drawn from the draft's distribution."""
        row = draft_distribution(logits, sampling)
        token = CounterChance(sampling.seed).pick(row, Purpose.DRAFT, position)
        return Choices((token,), row, float(row[token]))

    def certain_row(self, token: int, vocab_size: int) -> Array:
        """Return float64 (V,): the distribution of a token that was not drawn from a model."""
        return certain_row(token, vocab_size)

    def pack_evidence(self, tokens: Sequence[int], draft_rows: Sequence[Array]) -> bytes:
        """Return the wire form of how each token of a branch was drawn: here its probability Q(x)."""
        return pack_token_probs([float(row[token]) for row, token in zip(draft_rows, tokens, strict=True)])

    def unpack_evidence(self, payload: bytes, num_tokens: int, vocab_size: int) -> tuple[Evidence, ...]:
        """Return an entry per token. Raises ProtocolError for bytes that are not valid evidence."""
        return unpack_token_probs(payload, num_tokens)

    def judge(
        self,
        logits: Array,
        draft: Sequence[int],
        evidence: Sequence[Evidence],
        position: int,
        sampling: Sampling,
        with_bonus: bool,
    ) -> Outcome:
        """Return which draft tokens the target's logits (len(draft) + 1, V) accept, and what follows.

        `position` is that of the first draft token. Raises ProtocolError for impossible evidence.
        """
        target, chance = target_distribution(logits, sampling), CounterChance(sampling.seed)
        return judge_split(target, evidence, draft, position, chance, with_bonus)

    def pack_residue(self, residue: Residue, first_draw: int) -> bytes:
        """Return the bytes that the edge draws its token from; tail draws start at index `first_draw`."""
        raise self._leaves_nothing()

    def resample(self, payload: bytes, draft_row: Array, position: int, sampling: Sampling) -> Drawn:
        """Draw the token after a rejection, at the edge, which proposed from `draft_row` (V,).

        Raises ProtocolError for bytes that are not a residue.
        """
        raise self._leaves_nothing()

    def _leaves_nothing(self) -> ProtocolError:
        return ProtocolError(f"acceptance={self.name} leaves no token to the edge")


@dataclass(frozen=True)
class ChoiceScheme(AcceptanceScheme):
    """`coupled`: both sides choose with the same noise; and `greedy`, which is the same at temperature 0."""

    deterministic: bool = True

    def propose(self, logits: Array, sampling: Sampling, position: int, num_choices: int) -> Choices:
        """Return the `num_choices` best tokens; the first is the coupled choice by the draft's own logits."""
        ranked = logits if sampling.temperature == 0.0 else perturbed(logits, sampling, position)
        best = ranked.topk(num_choices)
        confidence = math.exp(float(best.values[0] - ranked.logsumexp(-1)))
        return Choices(tuple(best.indices.tolist()), confidence=confidence)

    def certain_row(self, token: int, vocab_size: int) -> Array:
        """Return None: no distribution is tested."""
        return None

    def judge(
        self,
        logits: Array,
        draft: Sequence[int],
        evidence: Sequence[Evidence],
        position: int,
        sampling: Sampling,
        with_bonus: bool,
    ) -> Outcome:
        """Accept while a token equals the target's choice.

        `execution.batch_verification` decides the rows of several texts at once, with the same outcome.
        """
        draws = [Draw(sampling, position + offset) for offset in range(len(logits))]
        return judge_decided(
            decide(logits, draws_on(logits.device, draws, logits.shape[-1])), draft, with_bonus
        )


@dataclass(frozen=True)
class RejectionScheme(AcceptanceScheme):
    """`rejection`: the cloud has all of Q and decides everything."""

    sends_draft_rows: bool = True

    def pack_evidence(self, tokens: Sequence[int], draft_rows: Sequence[Array]) -> bytes:
        """Return the distribution that each token was drawn from."""
        return pack_draft_rows(torch.stack(list(draft_rows))) if tokens else b""

    def unpack_evidence(self, payload: bytes, num_tokens: int, vocab_size: int) -> tuple[Evidence, ...]:
        """Return the distribution of each token, as it arrived."""
        return unpack_draft_rows(payload, num_tokens, vocab_size)

    def judge(
        self,
        logits: Array,
        draft: Sequence[int],
        evidence: Sequence[Evidence],
        position: int,
        sampling: Sampling,
        with_bonus: bool,
    ) -> Outcome:
        """Test each token; after a rejection draw from norm((P - Q)+)."""
        target, chance = target_distribution(logits, sampling), CounterChance(sampling.seed)
        rows = torch.stack([row.dense() for row in evidence]) if draft else target[:0]
        return judge_rejection(target, rows, draft, position, chance, with_bonus)


@dataclass(frozen=True)
class SplitScheme(AcceptanceScheme):
    """`split` (DSSD): the edge, which has Q, draws after a rejection; P crosses the link whole."""

    resamples_at_edge: bool = True
    sends_target_row: bool = True

    def pack_residue(self, residue: Residue, first_draw: int) -> bytes:
        """Return the whole of P."""
        return pack_target_row(residue.row)

    def resample(self, payload: bytes, draft_row: Array, position: int, sampling: Sampling) -> Drawn:
        """Draw from norm((P - Q)+)."""
        row = unpack_target_row(payload, len(draft_row))
        return Drawn(resample(row, draft_row, position, CounterChance(sampling.seed)))


@dataclass(frozen=True)
class SparseScheme(AcceptanceScheme):
    """`sparse` (PicoSpec): the cloud sends the `num_head` likeliest tokens of P and
    `num_draws` draws of its tail.
    """

    resamples_at_edge: bool = True
    num_head: int = 32
    num_draws: int = 4

    def pack_residue(self, residue: Residue, first_draw: int) -> bytes:
        """Return the head of P, and draws from its tail starting at index `first_draw`."""
        sizes, chance = (self.num_head, self.num_draws), CounterChance(residue.sampling.seed)
        return pack_residue(sparse_residue(residue.row, residue.position, chance, *sizes, first_draw))

    def resample(self, payload: bytes, draft_row: Array, position: int, sampling: Sampling) -> Drawn:
        """Draw as from norm((P - Q)+); the token is None if the tail draws ran out."""
        residue = unpack_residue(payload, len(draft_row))
        token = resample_sparse(residue, draft_row, position, CounterChance(sampling.seed))
        return Drawn(token, residue.draws.end)


GREEDY = ChoiceScheme("greedy", samples=False)
SCHEMES: dict[AcceptanceName, AcceptanceScheme] = {
    scheme.name: scheme
    for scheme in (
        GREEDY,
        ChoiceScheme("coupled"),
        RejectionScheme("rejection"),
        SplitScheme("split"),
        SparseScheme("sparse"),
    )
}
"""All schemes by their name on the wire and in a configuration."""


def certain_row(token: int, vocab_size: int) -> Array:
    """Return float64 (V,): a distribution with all its mass on one token."""
    row = torch.zeros(vocab_size, dtype=torch.float64)
    row[token] = 1.0
    return row
