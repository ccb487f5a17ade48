# SPDX-License-Identifier: Apache-2.0
"""Drafting in the cloud, with no link within a round: small simulations on real texts.

`csd` drafts, then verifies, on one device. `ssd`: during a verification a second device drafts ahead from
the likely outcomes (Saguaro, arXiv 2603.03251). Both use only `ranks`: for each token of the target's text
its rank among the draft's choices, 0 for the draft's own choice. They accept what the engine accepts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

import torch

from outrider.core.ports import LanguageModel
from outrider.core.values import Prompt
from outrider.decoding.acceptance.coupled import Draw, draws_on
from outrider.decoding.protocol.sampling_rules import Sampling


@dataclass(frozen=True)
class CloudCosts:
    """Seconds in the cloud. `draft_branch_s` is what each further branch of a batch adds to a draft token."""

    step_s: float
    verify_s: float
    verify_token_s: float
    draft_token_s: float
    draft_branch_s: float

    def forward_s(self, drafted: int) -> float:
        """Return the target's time to verify this many drafts and add a token of its own."""
        return self.verify_s + drafted * self.verify_token_s if drafted else self.step_s

    def drafts_s(self, length: int, branches: int = 1) -> float:
        """Return the draft's time for a chunk on each of the branches."""
        return length * (self.draft_token_s + (branches - 1) * self.draft_branch_s)


class CloudRun(NamedTuple):
    """Tokens, the time they took, and the working time of the cloud's devices for them."""

    tokens: int = 0
    elapsed_s: float = 0.0
    device_s: float = 0.0


def draft_ranks(
    draft: LanguageModel, prompt: Prompt, token_ids: Sequence[int], sampling: Sampling
) -> tuple[int, ...]:
    """Return the rank of each token of a text among the draft's choices there, by the coupled choice.

    Of equally likely tokens the one with the lowest id comes first.
    """
    session = draft.open_session()
    first = session.prefill(prompt)
    later = session.forward(token_ids[:-1]) if len(token_ids) > 1 else first.new_zeros((0, len(first)))
    rows = torch.cat([first.unsqueeze(0), later])
    draws = [Draw(sampling, position) for position in range(len(token_ids))]
    noisy = draws_on(torch.device("cpu"), draws, rows.shape[-1]).noisy(rows)
    columns = torch.tensor(token_ids).unsqueeze(1)
    own_scores = noisy.gather(1, columns)
    before = torch.arange(noisy.shape[1]) < columns
    return tuple(((noisy > own_scores) | ((noisy == own_scores) & before)).sum(1).tolist())


def accepted(ranks: Sequence[int], position: int, drafted: int) -> int:
    """Return how many drafts from position `position` on are what the target writes."""
    return sum(1 for _ in takewhile(lambda rank: rank == 0, ranks[position : position + drafted]))


def csd_run(ranks: Sequence[int], costs: CloudCosts, length: int) -> CloudRun:
    """Simulate a text in chunks of `length` drafts. The prefill gives its first token, at no cost."""
    position, elapsed_s = 1, 0.0
    while position < len(ranks):
        drafted = min(length, len(ranks) - position - 1)
        elapsed_s += costs.drafts_s(drafted) + costs.forward_s(drafted)
        position += accepted(ranks, position, drafted) + 1
    return CloudRun(len(ranks), elapsed_s, elapsed_s)


def ssd_run(ranks: Sequence[int], costs: CloudCosts, length: int, fan_out: int) -> CloudRun:
    """Simulate a text while a second device drafts ahead from `fan_out` outcomes at each position of a chunk.

    After a rejection these are the draft's next choices, after a fully accepted chunk its first ones. A hit
    waits for its drafts, or drafts anew if that is sooner.
    """
    fresh_s, ahead_s = costs.drafts_s(length), costs.drafts_s(length, fan_out * (length + 1))
    position, elapsed_s, device_s, ready_s = 1, 0.0, 0.0, fresh_s
    while position < len(ranks):
        drafted = min(length, len(ranks) - position - 1)
        verify_s = costs.forward_s(drafted)
        elapsed_s += ready_s + verify_s
        device_s += ready_s + verify_s + min(ahead_s, verify_s)
        num_accepted = accepted(ranks, position, drafted)
        position += num_accepted + 1
        hit = ranks[position - 1] < fan_out + (num_accepted < drafted)
        ready_s = min(fresh_s, max(0.0, ahead_s - verify_s)) if hit else fresh_s
    return CloudRun(len(ranks), elapsed_s, device_s)
