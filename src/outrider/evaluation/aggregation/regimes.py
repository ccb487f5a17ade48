# SPDX-License-Identifier: Apache-2.0
"""The conditions of DRAGON's evaluation: benchmarks/aggregation.yaml, validated and in seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from outrider.core.frames import Drafted, Frame
from outrider.core.link_profile import LinkProfile
from outrider.decoding.aggregation.virtual import PeerCompute, PeerWorld
from outrider.evaluation.common.choices import AGGREGATION_FILE, read_regimes
from outrider.runtime.common.paths import benchmark_file
from outrider.wire.codec import frame_bytes

JITTER_SHARE = 0.2
"""The jitter, as a share of the extra delay, to both sides of it (section 7.3)."""
INITIAL_WINDOW_BYTES = 14_600
"""Bytes that TCP sends before the first acknowledgement, ten segments (RFC 6928); doubled each round trip."""
DELAYED_LINKS = {"server": "on the way to the device, as in the paper", "both": "each way"}
_BYTES_PER_MEGABIT = 125_000.0

_Milliseconds = Annotated[float, Meta(ge=0.0, le=60_000.0)]
_Whole = Annotated[int, Meta(ge=1, le=1 << 20)]


class Published(Struct, frozen=True, forbid_unknown_fields=True):
    """The paper's per-token latencies in ms over `extra_delays_ms`."""

    sequence: tuple[float, ...]
    token: tuple[float, ...]
    dragon: tuple[float, ...]


class AggregationRegime(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One entry of the file, whose head explains the fields."""

    source: str
    device_token_ms: _Milliseconds
    device_one_context_ms: _Milliseconds
    cloud_token_ms: _Milliseconds
    further_token_share: Annotated[float, Meta(ge=0.0, le=1.0)]
    device_prefill_ms: _Milliseconds
    cloud_prefill_ms: _Milliseconds
    acceptance: Annotated[float, Meta(ge=0.5, le=1.0)]
    contexts: _Whole
    vocab_size: _Whole
    bytes_per_probability: _Whole
    mbps: Annotated[float, Meta(gt=0.0)]
    base_delay_ms: _Milliseconds
    base_jitter_ms: _Milliseconds
    num_tokens: _Whole
    extra_delays_ms: tuple[_Milliseconds, ...]
    published: Published
    derived: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def device_prefill_s(self) -> float:
        """The prefill time of the device in seconds."""
        return self.device_prefill_ms / 1e3

    def link(self, extra_ms: float) -> LinkProfile:
        """Return one direction of the link, with an extra delay and its jitter."""
        jitter_s = JITTER_SHARE * extra_ms / 1e3
        return LinkProfile(
            delay_s=self.base_delay_ms / 1e3 + extra_ms / 1e3 - jitter_s,
            jitter_s=self.base_jitter_ms / 1e3 + 2.0 * jitter_s,
            bytes_per_s=self.mbps * _BYTES_PER_MEGABIT,
        )

    def links(self, extra_ms: float, delayed_links: str) -> tuple[LinkProfile, LinkProfile]:
        """Return uplink and downlink, with the extra delay on one of DELAYED_LINKS."""
        return self.link(extra_ms if delayed_links == "both" else 0.0), self.link(extra_ms)

    def world(
        self,
        extra_ms: float,
        delayed_links: str,
        seed: int,
        one_context: bool = False,
        sequence: bool = False,
    ) -> PeerWorld:
        """Return both computers and the link.

        `sequence`: whole distributions are sent, as that method needs.
        """
        uplink, downlink = self.links(extra_ms, delayed_links)
        round_trip_s = sum(link.delay_s + link.jitter_s / 2.0 for link in (uplink, downlink))
        token_ms = self.device_one_context_ms if one_context else self.device_token_ms
        further = self.further_token_share
        return PeerWorld(
            frame_bytes=self.whole_rows_bytes if sequence else frame_bytes,
            device=PeerCompute(self.device_prefill_s, token_ms / 1e3, further),
            cloud=PeerCompute(self.cloud_prefill_ms / 1e3, self.cloud_token_ms / 1e3, further),
            uplink=uplink,
            downlink=downlink,
            extra_delay_s=lambda frame, num_bytes, now_s: slow_start_s(num_bytes, round_trip_s),
            seed=seed,
        )

    def whole_rows_bytes(self, frame: Frame) -> int:
        """Return the size of a frame whose tokens each come with the distributions of all contexts."""
        tokens = len(frame.tokens) if isinstance(frame, Drafted) else 0
        return frame_bytes(frame) + tokens * self.contexts * self.vocab_size * self.bytes_per_probability


def slow_start_s(num_bytes: int, round_trip_s: float) -> float:
    """Return the seconds for which a message waits while TCP's window grows."""
    return round_trip_s * max(0, math.ceil(math.log2(num_bytes / INITIAL_WINDOW_BYTES + 1.0)) - 1)


def load_aggregation_regimes(names: Sequence[str] = ()) -> dict[str, AggregationRegime]:
    """Return the regimes with these names, or all if none is given. Raises ConfigError."""
    return read_regimes(benchmark_file(AGGREGATION_FILE), AggregationRegime, names)
