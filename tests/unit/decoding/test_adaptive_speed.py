"""On the virtual clock `outrider` is never slower than `ar`, however bad the draft or distant the cloud."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from outrider.core.frames import Open
from outrider.core.link_profile import LinkProfile
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.fakes.synthetic import SyntheticSettings, synthetic_pair
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.wire.codec import encode, wire_bytes

DEAR_VERIFICATION = ComputeProfile(0.0, 0.072, 0.002, 0.0, 0.62, 0.0, 0.354, (0.25, 0.5, 0.75))
FLAT_VERIFICATION = ComputeProfile(0.0, 0.008, 0.0002, 0.0, 0.018, 0.0, 0.018, (0.25, 0.5, 0.75))
EXIT_S = 0.08 * 0.018 / 3
PAID_EXITS = replace(FLAT_VERIFICATION, verify_exit_s=EXIT_S, step_exit_s=EXIT_S)
EXITS = (0.3, 0.6, 0.9)
REQUESTS = [DecodeRequest(Prompt(f"text {n}", b""), 200, 1e9) for n in range(4)]


def tokens_per_s(
    strategy: str,
    confidence: float,
    compute: ComputeProfile,
    one_way_s: float,
    exits: tuple[float, ...] = EXITS,
    skipped: int = 0,
) -> float:
    target, draft = synthetic_pair(SyntheticSettings(1, confidence, 0.3, exits))
    config = DecodingConfig(strategy=strategy, silence_s=600.0, workers=4)
    link = LinkProfile(one_way_s)
    world = VirtualWorld(
        lambda frame: 0 if isinstance(frame, Open) else wire_bytes(encode(frame)), compute, link, link
    )
    decoder = VirtualDecoder(target, draft if config.needs_model else None, config, world)
    texts = [decoder.decode(request) for request in REQUESTS][skipped:]
    return sum(len(text.token_ids) for text in texts) / sum(text.elapsed_s for text in texts)


@pytest.mark.lengthy
@pytest.mark.parametrize("compute", [DEAR_VERIFICATION, FLAT_VERIFICATION], ids=["dear", "flat"])
@pytest.mark.parametrize("one_way_s", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("confidence", [0.02, 0.6])
def test_never_slower_than_the_cloud_alone(confidence, one_way_s, compute):
    alone = tokens_per_s("ar", confidence, compute, one_way_s)
    assert tokens_per_s("outrider", confidence, compute, one_way_s) >= 0.98 * alone


@pytest.mark.lengthy
@pytest.mark.parametrize("one_way_s", [0.0, 0.3])
def test_exits_that_are_never_right_are_not_paid_for(one_way_s):
    alone = tokens_per_s("ar", 0.02, PAID_EXITS, one_way_s)
    assert tokens_per_s("outrider", 0.02, PAID_EXITS, one_way_s, (0.0, 0.0, 0.0)) >= 0.98 * alone


@pytest.mark.lengthy
def test_exits_that_are_right_pay_for_themselves_where_no_draft_ever_comes_in_time():
    alone = tokens_per_s("ar", 0.02, PAID_EXITS, 0.3)
    assert tokens_per_s("outrider", 0.02, PAID_EXITS, 0.3, (0.8, 0.9, 0.95)) > 1.2 * alone


@pytest.mark.lengthy
def test_a_good_draft_beside_the_cloud_pays():
    alone = tokens_per_s("ar", 0.8, FLAT_VERIFICATION, 0.0)
    assert tokens_per_s("outrider", 0.8, FLAT_VERIFICATION, 0.0) > 1.5 * alone


@pytest.mark.lengthy
def test_exits_that_are_right_but_dear_cost_nothing_where_drafts_come_in_time():
    """Each verification with exits takes as long as two without."""
    dear = replace(FLAT_VERIFICATION, draft_token_s=0.002, verify_exit_s=0.006, step_exit_s=0.006)
    without = tokens_per_s("outrider", 0.8, dear, 0.0, ())
    assert tokens_per_s("outrider", 0.8, dear, 0.0) >= 0.93 * without


@dataclass(frozen=True)
class Sped(ComputeProfile):
    """A machine that becomes faster by `factor` after some forwards, verifications by `verify_factor` too."""

    after: int = 150
    factor: float = 1.0
    verify_factor: float = 1.0
    forwards: list[None] = field(default_factory=list)

    def target_s(self, job, num_exits):
        self.forwards.append(None)
        whole_s = super().target_s(job, num_exits)
        if len(self.forwards) <= self.after:
            return whole_s
        return whole_s / self.factor / (self.verify_factor if getattr(job, "draft", ()) else 1.0)


@pytest.mark.lengthy
@pytest.mark.parametrize("speeds", [{"factor": 3.0}, {"verify_factor": 5.0}], ids=["all", "verifications"])
def test_a_machine_that_becomes_faster_amid_a_text_is_used_as_such(speeds):
    slow = ComputeProfile(0.0, 0.008, 0.0002, 0.0, 1.4, 0.0, 0.354, (0.25, 0.5, 0.75))
    sped = Sped(**vars(slow), **speeds)
    at_once = tokens_per_s("outrider", 0.7, replace(sped, after=0, forwards=[]), 0.01, skipped=1)
    assert tokens_per_s("outrider", 0.7, sped, 0.01, skipped=1) > 0.9 * at_once, "from the next text on"
