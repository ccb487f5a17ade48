"""The coupled choice, one position at a time: batched code must make the same choices."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.core.ports import Array
from outrider.decoding.acceptance.coupled import Draw, decide, draws_on
from outrider.decoding.acceptance.rejection import Outcome, judge_decided
from outrider.decoding.acceptance.sampling import perturbed
from outrider.decoding.protocol.sampling_rules import Sampling


def choose(logits: Array, sampling: Sampling, position: int) -> int:
    """Returns the coupled choice at a position from logits (V,): argmax(log P + noise), distributed as P.

    Target and draft share the noise of (seed, position). They make the same choice with probability at least
    (1 - TV) / (1 + TV) (Daliri, Musco, Suresh, arXiv 2408.07978). Ties go to the lowest id.
    """
    if sampling.temperature == 0.0:
        return int(logits.argmax())
    return int(perturbed(logits, sampling, position).argmax())


def judge_choices(logits: Array, draft: Sequence[int], sampling: Sampling, position: int) -> Outcome:
    """Verifies a draft with logits (len(draft) + 1, V). Raises ModelError for logits that are not numbers."""
    draws = [Draw(sampling, position + offset) for offset in range(len(logits))]
    return judge_decided(decide(logits, draws_on(logits.device, draws, logits.shape[-1])), draft)
