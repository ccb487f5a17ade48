# SPDX-License-Identifier: Apache-2.0
"""What a fleet on the virtual clock is given, and what is recorded of it."""

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
    """What a robot is to write, and for how long it does other things before."""

    prompt: Prompt
    max_new_tokens: int = 96
    pause_s: float = 0.0


@dataclass(frozen=True)
class FleetWorld:
    """Everything outside the machines. `frame_bytes` is the size of a frame on the wire, `unpacking` gives
    what makes of its bytes the frame again: at its real cost a verifier does that too. What is left ends at
    once: of `compute`, the queues do not count.

    `batch_s` says how long the verifier takes for a batch; where it is None, it takes the processor's time
    that it really takes. With `fill` it waits, but for `fill_wait_s` at most, until so many frames have come.
    `tuning` is the verifier's; each robot has that of its configuration. `cloud_draft` stands beside the
    target.
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
    """What became of one robot's texts. Seconds on the fleet's clock.

    `commits`: when so many tokens became final. `rounds`: verdicts on drafts. `first_s`: from the start of a
    text to its first tokens; `finished_s`: to its last.
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
    """Sizes and times of the verifier's batches of verifications, times of its own drafts' batches and of the
    parts of `prompts` between.

    `others_s`: the processor's time in the midst of batches that was spent on what robots and links do; it is
    part of no batch's.
    """

    batches: list[int] = field(default_factory=list)
    batch_s: list[float] = field(default_factory=list)
    prompt_s: list[float] = field(default_factory=list)
    prompts: int = 0
    others_s: float = 0.0
    draft_s: list[float] = field(default_factory=list)
