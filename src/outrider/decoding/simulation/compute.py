# SPDX-License-Identifier: Apache-2.0
"""Simulated compute times of the models."""

from __future__ import annotations

import math
from dataclasses import dataclass

from outrider.core.ports import LanguageModel
from outrider.decoding.jobs import CloudDraft, CloudJob, DraftTokens, EdgeJob, PrefillTarget

_WHOLE = 1e-6
"""Tolerance within which a segment counts as ended, because times are sums of floats."""


@dataclass(frozen=True)
class DeviceQueue:
    """How long an aborted forward pass keeps its device busy.

    The device gets a pass in `segments` equal parts and completes every part that it has got; with 0
    segments it stops at once. At least one part waits behind the running one, and enough to last for the
    `host_s` seconds that the host needs to react, so that the device never idles (`step_launchers.Lead`).
    """

    segments: int = 0
    host_s: float = 0.0

    def left_s(self, after_s: float, whole_s: float) -> float:
        """Return how long a pass of `whole_s` lasts if it is aborted after `after_s`."""
        if not self.segments or whole_s <= 0.0:
            return after_s
        segment_s = whole_s / self.segments
        begun = math.ceil(after_s / segment_s - _WHOLE)
        waiting = max(1, math.ceil(self.host_s / segment_s - _WHOLE))
        return min((begun + waiting) * segment_s, whole_s)


NO_QUEUE = DeviceQueue()


@dataclass(frozen=True)
class ComputeProfile:
    """Simulated compute times in seconds.

    The draft model takes draft_token_s for a token, plus draft_branch_s for each further prefix of a batch.
    The target verifies n draft tokens in verify_s + n * verify_token_s. A step without draft tokens takes
    step_s, or if that is None as long as a verification. Each early exit that is read adds verify_exit_s or
    step_exit_s. The cloud's own draft model takes cloud_draft_token_s for a token, plus
    cloud_draft_branch_s for each further prefix; with `cloud_draft_apart` it runs on its own device. Exit i
    gives its hint after the share exit_fractions[i] of a pass; if none are given, when its layer is done.
    `draft_queue` and `target_queue`: how an aborted pass ends.
    """

    draft_prefill_s: float = 0.02
    draft_token_s: float = 0.005
    draft_branch_s: float = 0.0
    target_prefill_s: float = 0.05
    verify_s: float = 0.03
    verify_token_s: float = 0.0
    step_s: float | None = None
    exit_fractions: tuple[float, ...] = ()
    draft_queue: DeviceQueue = NO_QUEUE
    target_queue: DeviceQueue = NO_QUEUE
    verify_exit_s: float = 0.0
    step_exit_s: float = 0.0
    cloud_draft_token_s: float = 0.005
    cloud_draft_branch_s: float = 0.0
    cloud_draft_apart: bool = False

    def draft_s(self, job: EdgeJob) -> float:
        """Return the simulated seconds of a job of the draft model."""
        if isinstance(job, DraftTokens):
            return self.draft_token_s + (len(job.prefixes) - 1) * self.draft_branch_s
        return self.draft_prefill_s

    def cloud_draft_s(self, num_prefixes: int) -> float:
        """Return the simulated seconds of a token of the cloud's draft model after each
        of `num_prefixes` prefixes.
        """
        return self.cloud_draft_token_s + (num_prefixes - 1) * self.cloud_draft_branch_s

    def target_s(self, job: CloudJob, num_exits: int) -> float:
        """Return the simulated seconds of a job on a target with `num_exits` exits.

        The first token of a text comes from the prefill and takes no time.
        """
        if isinstance(job, CloudDraft):
            return self.cloud_draft_s(1)
        if isinstance(job, PrefillTarget):
            return self.target_prefill_s
        if not job.draft and not job.tokens:
            return 0.0
        if not job.draft and self.step_s is not None:
            return self.step_s + job.hints * num_exits * self.step_exit_s
        verify_s = self.verify_s + len(job.draft) * self.verify_token_s
        return verify_s + job.hints * num_exits * self.verify_exit_s


def layer_fractions(target: LanguageModel) -> tuple[float, ...]:
    """Return the share of a forward pass after which each exit is reached,
    if all layers take the same time.
    """
    exits = target.exits
    return tuple(layer / exits.num_layers for layer in exits.layers) if exits is not None else ()
