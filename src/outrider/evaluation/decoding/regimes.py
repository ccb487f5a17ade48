# SPDX-License-Identifier: Apache-2.0
"""The conditions under which strategies are compared: benchmarks/regimes.yaml, validated and in seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from outrider.core.errors import ConfigError
from outrider.core.link_profile import LinkProfile
from outrider.decoding.simulation.compute import ComputeProfile, DeviceQueue
from outrider.decoding.theory import acceptance_rate, distribution_s, expected_tokens
from outrider.evaluation.common.choices import REGIMES_FILE, read_regimes
from outrider.evaluation.decoding.model_sizes import DRAFT_BILLIONS, TARGETS, Published, eagle_of
from outrider.models.backbone.cuda_graph_steps import SEGMENTS_OF_LAYER
from outrider.runtime.common.links import load_network
from outrider.runtime.common.paths import benchmark_file

BRANCH_COST = 0.0223
"""What each further branch of a batch adds to a draft token's time: FSD Table 9, 7.76 to 8.97 ms for 8."""
EXIT_COST = 0.06 * 6 / 5
"""What reading an exit adds, as a share of a layer's time in a step.

The shipped target's five exits cost 6% of its six layers (`outrider eval exits`).
"""
SECOND_CHOICE = 0.5
"""How often the draft's second choice is right when its first is not; 0.7 with the shipped pair."""
HOST_S = 0.5e-3
"""The host's time to handle an early exit's result or other news, while its GPU computes on."""
_BYTES_PER_MEGABIT = 125_000.0
_UNLIMITED = float("inf")

_Milliseconds = Annotated[float, Meta(ge=0.0, le=60_000.0)]
_Share = Annotated[float, Meta(ge=0.0, le=1.0)]
_Whole = Annotated[int, Meta(ge=1, le=1 << 20)]


class Exits(Struct, frozen=True, forbid_unknown_fields=True):
    """Early exits as the papers describe them. `average` counts from 1; `workers`: pre-drafts at a time.

    `in_verification`: whether `verify_ms` includes their time; read in a step, they then take as long.
    `assumed`: the paper has none.
    """

    number: Annotated[int, Meta(ge=0, le=1 << 20)]
    miss_rate: _Share
    average: Annotated[float, Meta(ge=1.0)]
    workers: _Whole
    in_verification: bool = False
    assumed: bool = False


class Layers(Struct, frozen=True, forbid_unknown_fields=True):
    """The layers of the two models: between and within them a forward may be aborted."""

    draft: _Whole
    target: _Whole


class Models(Struct, frozen=True, forbid_unknown_fields=True):
    """Names of the two models in `model_sizes`."""

    draft: str
    target: str

    def __post_init__(self) -> None:
        for name, known in ((self.draft, DRAFT_BILLIONS), (self.target, TARGETS)):
            if name not in known:
                raise ValueError(f"no model {name}: choose from {', '.join(known)}")


class Regime(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One entry of the file, whose head explains the fields. Has `tokens_per_round` or `acceptance_rate`."""

    source: str
    draft_token_ms: _Milliseconds
    step_ms: _Milliseconds
    verify_ms: _Milliseconds
    verify_token_ms: _Milliseconds = 0.0
    link: str | None = None
    one_way_up_ms: _Milliseconds = 0.0
    one_way_down_ms: _Milliseconds = 0.0
    up_mbps: float | None = None
    down_mbps: float | None = None
    num_draft_tokens: _Whole
    temperature: Annotated[float, Meta(ge=0.0)]
    tokens_per_round: float | None = None
    acceptance_rate: _Share | None = None
    exits: Exits
    layers: Layers
    models: Models
    cloud_draft: _Share | None = None
    second_choice: _Share = SECOND_CHOICE
    exit_layer_share: Annotated[float, Meta(ge=0.0, le=100.0)] = EXIT_COST
    branch_cost: _Share = BRANCH_COST
    abortable: bool = True
    vocab_size: _Whole
    bytes_per_probability: _Whole = 2
    measured: dict[str, float]
    derived: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """The probability that a draft token is accepted."""
        if self.acceptance_rate is not None:
            return self.acceptance_rate
        assert self.tokens_per_round is not None
        return acceptance_rate(self.tokens_per_round, self.num_draft_tokens)

    @property
    def expected_tokens(self) -> float:
        """The tokens that a round yields on average."""
        return expected_tokens(self.rate, self.num_draft_tokens)

    @property
    def cloud_draft_share(self) -> float:
        """A draft token's time in the cloud, as a share of a step: as printed, or by the models' sizes."""
        if self.cloud_draft is not None:
            return self.cloud_draft
        return DRAFT_BILLIONS[self.models.draft] / TARGETS[self.models.target].billions

    def cloud_token_s(self, share: float) -> float:
        """Return the seconds of a draft token in the cloud at this share of a step.

        They are never more than the robot's.
        """
        return min(share * self.step_s, self.draft_token_ms / 1e3)

    @property
    def eagle(self) -> Published:
        """What EAGLE-3 prints for a target of about this size at this temperature."""
        return eagle_of(self.models.target, sampled=self.temperature > 0.0)

    @property
    def draft_s(self) -> float:
        """The time of one round's drafts in seconds."""
        return self.num_draft_tokens * self.draft_token_ms / 1e3

    @property
    def step_s(self) -> float:
        """The time of a forward of the target in seconds."""
        return self.step_ms / 1e3

    def verify_s(self, reads_exits: bool = True) -> float:
        """Return the seconds of a verification; `reads_exits`: whether its early exits are read."""
        return self.verify_ms / 1e3 + (self.exits.number * self._verify_exit_s if reads_exits else 0.0)

    @property
    def round_trip_s(self) -> float:
        """The mean round trip in seconds, jitter included."""
        uplink, downlink = self.directions()
        return uplink.delay_s + downlink.delay_s + (uplink.jitter_s + downlink.jitter_s) / 2.0

    def at_round_trip(self, round_trip_ms: float) -> Regime:
        """Return the same machines over a link with this round trip and unlimited rate."""
        return msgspec.structs.replace(
            self,
            link=None,
            one_way_up_ms=round_trip_ms / 2.0,
            one_way_down_ms=round_trip_ms / 2.0,
            up_mbps=None,
            down_mbps=None,
        )

    def compute(self) -> ComputeProfile:
        """Return the machines' times. Prefills take none: the figures leave out the prompt."""
        token_s = self.verify_token_ms / 1e3
        return ComputeProfile(
            draft_prefill_s=0.0,
            draft_token_s=self.draft_token_ms / 1e3,
            draft_branch_s=self.branch_cost * self.draft_token_ms / 1e3,
            target_prefill_s=0.0,
            verify_s=self.verify_s(reads_exits=False) - self.rows_ms / 1e3,
            verify_token_s=token_s,
            step_s=self.step_s,
            step_exit_s=self.exit_ms / 1e3,
            verify_exit_s=self._verify_exit_s,
            draft_queue=self._queue(self.layers.draft),
            target_queue=self._queue(self.layers.target),
        )

    @property
    def rows_ms(self) -> float:
        """The time that a round's drafts add to a verification, in ms."""
        return self.num_draft_tokens * self.verify_token_ms

    @property
    def exit_ms(self) -> float:
        """The time that reading an exit adds to a forward, to a step as much as to a verification, in ms."""
        if self.exits.in_verification:
            return (self.verify_ms - self.rows_ms - self.step_ms) / self.exits.number
        return self.exit_layer_share / self.layers.target * self.step_ms

    def _queue(self, layers: int) -> DeviceQueue:
        """Return where a forward can be aborted: between two parts of a layer, or only at its end."""
        return DeviceQueue(SEGMENTS_OF_LAYER * layers, HOST_S) if self.abortable else DeviceQueue(1)

    @property
    def _verify_exit_s(self) -> float:
        return 0.0 if self.exits.in_verification else self.exit_ms / 1e3

    def directions(self) -> tuple[LinkProfile, LinkProfile]:
        """Return uplink and downlink. Raises ConfigError for a link that is not in config/links.yaml."""
        if self.link is not None:
            network = load_network(self.link)
            return network.uplink, network.downlink
        return (
            LinkProfile(self.one_way_up_ms / 1e3, bytes_per_s=_bytes_per_s(self.up_mbps)),
            LinkProfile(self.one_way_down_ms / 1e3, bytes_per_s=_bytes_per_s(self.down_mbps)),
        )

    def distribution_up_s(self) -> float:
        """Return the seconds of a round's full distributions on the uplink; 0 for greedy decoding."""
        return self._distribution_s(self.num_draft_tokens, self.directions()[0])

    def distribution_down_s(self) -> float:
        """Return the seconds of one full distribution on the downlink; 0 for greedy decoding."""
        return self._distribution_s(1, self.directions()[1])

    def _distribution_s(self, num_rows: int, link: LinkProfile) -> float:
        if self.temperature == 0.0:
            return 0.0
        return distribution_s(num_rows, self.vocab_size, self.bytes_per_probability, link.bytes_per_s)


def _bytes_per_s(mbps: float | None) -> float:
    return _UNLIMITED if mbps is None else mbps * _BYTES_PER_MEGABIT


def with_costly_rows(regime: Regime) -> Regime:
    """Return the regime with a tenth of a step added to a verification for each drafted token."""
    token_ms = 0.1 * regime.step_ms
    whole_ms = regime.verify_ms + regime.num_draft_tokens * token_ms
    return msgspec.structs.replace(regime, verify_token_ms=token_ms, verify_ms=whole_ms)


def without_exits(regime: Regime) -> Regime:
    """Return the regime with a target that has no exits.

    If `verify_ms` includes exits, a verification then takes as long as a step and its rows: no paper prints
    its time without them.
    """
    exits = msgspec.structs.replace(regime.exits, number=0, in_verification=False)
    verify_ms = regime.step_ms + regime.rows_ms if regime.exits.in_verification else regime.verify_ms
    return msgspec.structs.replace(regime, exits=exits, verify_ms=verify_ms)


def with_separate_exit_times(regime: Regime) -> Regime:
    """Return the regime with the time of exits taken out of `verify_ms` (`without_exits`)."""
    if not regime.exits.in_verification:
        return regime
    return msgspec.structs.replace(
        regime,
        exits=msgspec.structs.replace(regime.exits, in_verification=False),
        verify_ms=regime.step_ms + regime.rows_ms,
        exit_layer_share=regime.exit_ms * regime.layers.target / regime.step_ms,
    )


def with_full_heads(regime: Regime) -> Regime:
    """Return the regime with whole output layers at all exits, at the cost that the target's sizes imply."""
    share = TARGETS[regime.models.target].full_head_share
    return msgspec.structs.replace(regime, exit_layer_share=share)


VARIANTS: dict[str, Callable[[Regime], Regime]] = {
    "rows": with_costly_rows,
    "full-head-exits": with_full_heads,
    "whole-forwards": lambda regime: msgspec.structs.replace(regime, abortable=False),
    "fewer-second-choices": lambda regime: msgspec.structs.replace(regime, second_choice=0.3),
}
"""Other costs and chances, by name.

The rows of a verification; exits with the whole output layer, as FSD's; forwards that cannot be aborted;
second choices right in 0.3, not 0.5, of the cases in which the first is wrong.
"""


def varied(regimes: Mapping[str, Regime], variant: str | None) -> dict[str, Regime]:
    """Return the regimes with the costs of one of VARIANTS. Raises ConfigError for another name."""
    if variant is None:
        return dict(regimes)
    if variant not in VARIANTS:
        raise ConfigError(f"no variant {variant}: choose from {', '.join(VARIANTS)}")
    return {f"{name}, {variant}": VARIANTS[variant](regime) for name, regime in regimes.items()}


def load_regimes(names: Sequence[str] = (), file: Path | None = None) -> dict[str, Regime]:
    """Return the regimes with these names, or all if none is given. Raises ConfigError."""
    chosen = read_regimes(file or benchmark_file(REGIMES_FILE), Regime, names)
    for name, regime in chosen.items():
        _check(name, regime)
    return chosen


def _check(name: str, regime: Regime) -> None:
    if (regime.tokens_per_round is None) == (regime.acceptance_rate is None):
        raise ConfigError(f"regime {name}: give either tokens_per_round or acceptance_rate")
    if regime.exits.in_verification and (regime.exits.number < 1 or regime.exit_ms < 0.0):
        raise ConfigError(
            f"regime {name}: no exits fit into verify_ms={regime.verify_ms:g} beside "
            f"step_ms={regime.step_ms:g}"
        )
    longest = regime.num_draft_tokens + 1
    if regime.tokens_per_round is not None and not 1.0 <= regime.tokens_per_round <= longest:
        raise ConfigError(
            f"regime {name}: tokens_per_round={regime.tokens_per_round} is not within 1 and {longest}"
        )
