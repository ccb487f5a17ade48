# SPDX-License-Identifier: Apache-2.0
"""What the models' work takes on the virtual clock."""

from __future__ import annotations

import math
from dataclasses import dataclass

from outrider.core.ports import LanguageModel
from outrider.decoding.jobs import CloudDraft, CloudJob, DraftTokens, EdgeJob, PrefillTarget

_WHOLE = 1e-6
"""A segment that lacks no more than this has ended: times are sums of floats."""


@dataclass(frozen=True)
class DeviceQueue:
    """How long a forward that is aborted runs on: a device takes it in so many `segments`, each whole; with
    none it leaves it at once.

    At least one segment waits behind the one that runs, and as many as last for the `host_s` seconds that the
    host needs for news, so that the device never does (`step_launchers.Lead`).
    """

    segments: int = 0
    host_s: float = 0.0

    def left_s(self, after_s: float, whole_s: float) -> float:
        """How long a forward takes that is aborted after so long; it would have taken `whole_s`."""
        if not self.segments or whole_s <= 0.0:
            return after_s
        segment_s = whole_s / self.segments
        begun = math.ceil(after_s / segment_s - _WHOLE)
        waiting = max(1, math.ceil(self.host_s / segment_s - _WHOLE))
        return min((begun + waiting) * segment_s, whole_s)


NO_QUEUE = DeviceQueue()


@dataclass(frozen=True)
class ComputeProfile:
    """Modelled compute times in seconds.

    One token of the draft takes draft_token_s, and draft_branch_s more for each further prefix of a batch.
    The target verifies n drafted tokens in verify_s + n * verify_token_s and takes a step, with none, in
    step_s (as long as a verification, where that is None); verify_exit_s and step_exit_s more for each of its
    early exits where they are asked. A token of a draft beside the target takes cloud_draft_token_s, and
    cloud_draft_branch_s more for each further place of its text, with `cloud_draft_apart` on a device of its
    own. Exit i hints at the share exit_fractions[i] of either; where none are given, when its layer is done.
    `draft_queue` and `target_queue`: how a forward ends that is given up.
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
        """Returns the modelled seconds of a job of the draft model."""
        if isinstance(job, DraftTokens):
            return self.draft_token_s + (len(job.prefixes) - 1) * self.draft_branch_s
        return self.draft_prefill_s

    def cloud_draft_s(self, places: int) -> float:
        """Returns the modelled seconds of a token of the cloud's draft at so many places at once."""
        return self.cloud_draft_token_s + (places - 1) * self.cloud_draft_branch_s

    def target_s(self, job: CloudJob, num_exits: int) -> float:
        """By a target with so many exits. A text's first token comes from the prefill and costs nothing."""
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
    """Return the share of a forward after which each exit speaks, all layers taking alike."""
    exits = target.exits
    return tuple(layer / exits.num_layers for layer in exits.layers) if exits is not None else ()
