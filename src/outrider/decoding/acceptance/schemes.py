# SPDX-License-Identifier: Apache-2.0
"""The acceptance schemes by name: what the machines' jobs ask of `acceptance`, and its results as bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from outrider.core.ports import Array
from outrider.decoding.acceptance.confidence import CONFIDENCE_DIGITS, token_confidence
from outrider.decoding.acceptance.counter_rng import CounterChance, Purpose
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
from outrider.decoding.acceptance.rejection import Outcome, judge_rejection, judge_split, resample
from outrider.decoding.acceptance.sampling import perturbed
from outrider.decoding.acceptance.sparse import resample_sparse, sparse_residue
from outrider.decoding.config import DETERMINISTIC, Sampling
from outrider.decoding.drafting.retrieval.reuse import SHORTEST, longest_run
from outrider.decoding.jobs import Choices, Evidence, ExitHint, Judgement, Residue, Verify

NUM_HEAD = 32
NUM_DRAWS = 4


def draft_choices(logits: Array, scheme: str, sampling: Sampling, position: int, num_choices: int) -> Choices:
    """The draft's next tokens from its logits (V,)."""
    if scheme not in DETERMINISTIC:
        row = draft_distribution(logits, sampling)
        token = CounterChance(sampling.seed).pick(row, Purpose.DRAFT, position)
        return Choices((token,), row, float(row[token]))
    ranked = logits if sampling.temperature == 0.0 else perturbed(logits, sampling, position)
    best = ranked.topk(num_choices)
    confidence = math.exp(float(best.values[0] - ranked.logsumexp(-1)))
    return Choices(tuple(best.indices.tolist()), confidence=confidence)


def certain_row(token: int, vocab_size: int) -> Array:
    """float64 (V,): the distribution of a token that could have been no other."""
    row = torch.zeros(vocab_size, dtype=torch.float64)
    row[token] = 1.0
    return row


def pack_evidence(scheme: str, tokens: Sequence[int], draft_rows: Sequence[Array]) -> bytes:
    """How each token of a branch was drawn, for the wire."""
    if scheme == "rejection":
        return pack_draft_rows(torch.stack(list(draft_rows))) if tokens else b""
    return pack_token_probs([float(row[token]) for row, token in zip(draft_rows, tokens, strict=True)])


def unpack_evidence(scheme: str, payload: bytes, num_tokens: int, vocab_size: int) -> tuple[Evidence, ...]:
    """An entry for each token. Raises ProtocolError for bytes that are no evidence."""
    if scheme == "rejection":
        return tuple(unpack_draft_rows(payload, num_tokens, vocab_size))
    return unpack_token_probs(payload, num_tokens)


def judge(job: Verify, logits: Array) -> Judgement:
    """What a scheme that tests distributions makes of the target's logits (len(draft) + 1, V)."""
    position = len(job.tokens)
    outcome = _outcome(job, logits, position)
    residue = None
    if outcome.residue is not None:
        row = outcome.residue.clone()  # kept for a while, and the other rows need not be
        residue = Residue(job.scheme, row, position + outcome.accepted, job.sampling)
    kept = kept_run(job.draft, logits.argmax(-1).tolist(), outcome.accepted)
    return Judgement(outcome.accepted, outcome.next_token, residue, outcome.margin, kept)


def kept_run(draft: Sequence[int], choices: Sequence[int], accepted: int) -> tuple[int, ...]:
    """The run past the mistake that equals the target's own choices; no draw decides on what it tells."""
    first = accepted + 1
    rest = draft[first:]
    if len(rest) < SHORTEST:
        return ()
    return tuple(first + place for place in longest_run(rest, choices[first : len(draft)]))


def _outcome(job: Verify, logits: Array, position: int) -> Outcome:
    chance = CounterChance(job.sampling.seed)
    target = target_distribution(logits, job.sampling)
    if job.scheme == "rejection":
        rows = torch.stack(job.evidence) if job.draft else target[:0]
        return judge_rejection(target, rows, job.draft, position, chance, job.bonus)
    return judge_split(target, job.evidence, job.draft, position, chance, job.bonus)


def judge_exit(
    job: Verify, known: Array, exit_logits: Array, token_ids: Array, vocab_size: int
) -> ExitHint | None:
    """What an exit expects such a scheme to say; None where the verdict has no token of the cloud's own.

    All on the host: `exit_logits` (M, S) over the shortlist `token_ids` (S,); `known` (V,), float32, is the
    final row before them, if any.
    """
    rows = torch.full((len(exit_logits), vocab_size), -torch.inf)
    rows[:, token_ids] = exit_logits.float()
    confidences = token_confidence(exit_logits.float())
    if known is not None:
        rows = torch.cat((known[None], rows))
        confidences = torch.cat((torch.ones(1), confidences))
    outcome = _outcome(job, rows, len(job.tokens))
    if outcome.next_token is None:
        return None
    confidence = round(float(confidences[: outcome.accepted + 1].prod()), CONFIDENCE_DIGITS)
    return ExitHint(0, outcome.accepted, outcome.next_token, confidence)


def pack_residual(residue: Residue, first_draw: int) -> bytes:
    """What the edge draws its token from; of the tail, the draws from index `first_draw` on."""
    if residue.scheme == "split":
        return pack_target_row(residue.row)
    chance = CounterChance(residue.sampling.seed)
    return pack_residue(
        sparse_residue(residue.row, residue.position, chance, NUM_HEAD, NUM_DRAWS, first_draw)
    )


@dataclass(frozen=True)
class Drawn:
    """The edge's own token, or, where the draws ran out, the index of the next one needed."""

    token: int | None
    draws: int = 0


def settle(scheme: str, payload: bytes, draft_row: Array, position: int, sampling: Sampling) -> Drawn:
    """Draw the token after a rejection. Raises ProtocolError for bytes that are no residue."""
    chance = CounterChance(sampling.seed)
    if scheme == "split":
        row = unpack_target_row(payload, len(draft_row))
        return Drawn(resample(row, draft_row, position, chance))
    residue = unpack_residue(payload, len(draft_row))
    return Drawn(resample_sparse(residue, draft_row, position, chance), residue.draws.end)
