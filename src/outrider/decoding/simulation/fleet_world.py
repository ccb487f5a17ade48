# SPDX-License-Identifier: Apache-2.0
"""The inputs of a fleet in virtual time, and its records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from outrider.core.frames import EdgeFrame, Frame
from outrider.core.link_profile import LinkProfile
from outrider.core.ports import LanguageModel
from outrider.core.values import Prompt
from outrider.decoding.jobs import CloudJob
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning


@dataclass(frozen=True)
class FleetText:
    """A text for a robot to write, after a pause."""

    prompt: Prompt
    max_new_tokens: int = 96
    pause_s: float = 0.0


@dataclass(frozen=True)
class FleetWorld:
    """Everything outside the machines.

    `frame_bytes` returns the size of a frame on the wire. `unpacking` takes a frame and returns a function
    that decodes its bytes again, at the cost that a verifier has. Aborted jobs end at once: the queues of
    `compute` are not used.

    `batch_s` returns how long the verifier takes for a batch; if it is None, the real processor time is
    measured. The verifier waits until `fill` frames have arrived, but at most for `fill_wait_s`. `tuning`
    is the verifier's; each robot uses that of its configuration. `cloud_draft` is a draft model in the
    cloud.
    """

    frame_bytes: Callable[[Frame], int]
    compute: ComputeProfile = field(default_factory=ComputeProfile)
    link: LinkProfile = field(default_factory=LinkProfile)
    batch_s: Callable[[Sequence[CloudJob]], float] | None = None
    limits: CloudLimits = field(default_factory=CloudLimits)
    seed: int = 0
    fill: int = 1
    fill_wait_s: float = 0.05
    unpacking: Callable[[EdgeFrame], Callable[[], EdgeFrame]] = lambda frame: lambda: frame
    tuning: AdaptiveTuning = DEFAULT_TUNING
    cloud_draft: LanguageModel | None = None


@dataclass
class RobotRecord:
    """The results of one robot's texts, in seconds of the fleet's clock.

    `commits`: times, and how many tokens became final then. `rounds`: verdicts on drafts. `first_s`: from
    the start of a text to its first tokens; `finished_s`: to its last.
    """

    texts: list[tuple[int, ...]] = field(default_factory=list)
    commits: list[tuple[float, int]] = field(default_factory=list)
    rounds: int = 0
    passes: int = 0
    first_s: list[float] = field(default_factory=list)
    finished_s: list[float] = field(default_factory=list)
    failure: str = ""


@dataclass
class CloudRecord:
    """The verifier's batches: sizes and times of verifications,
    and times of its own drafts and of prompt parts.

    `others_s`: processor time within batches that the simulated robots and links used; no batch includes
    it.
    """

    batches: list[int] = field(default_factory=list)
    batch_s: list[float] = field(default_factory=list)
    prompt_s: list[float] = field(default_factory=list)
    prompts: int = 0
    others_s: float = 0.0
    draft_s: list[float] = field(default_factory=list)
