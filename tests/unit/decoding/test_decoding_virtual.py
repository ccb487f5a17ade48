"""The virtual clock: modelled times add up, and a lost link is handled according to the policy."""

from __future__ import annotations

import dataclasses

import pytest
from cloud_machine import EAGER
from support.toys import greedy_token_after, own_text, request, toy_pair

from outrider.core.errors import FrameError, LinkError
from outrider.core.frames import Peer
from outrider.core.link_profile import LinkProfile, Outage
from outrider.core.values import DecodeRequest, LinkState, Prompt, TokenFate
from outrider.decoding.acceptance.schemes import GREEDY
from outrider.decoding.config import DecodingConfig
from outrider.decoding.jobs import SessionKey, Verify
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.decoding.simulation.compute import ComputeProfile, DeviceQueue
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.virtual_verifier import VirtualWorld

COMPUTE = ComputeProfile(
    draft_prefill_s=0.1, draft_token_s=0.01, target_prefill_s=0.3, verify_s=0.05, verify_token_s=0.001
)

SD = DecodingConfig(strategy="sd", acceptance="greedy", num_draft_tokens=4)


def world(delay_s: float = 0.02, outages: tuple[Outage, ...] = ()) -> VirtualWorld:
    link = LinkProfile(delay_s=delay_s)
    return VirtualWorld(lambda frame: 10, COMPUTE, uplink=link, downlink=link, outages=outages)


def test_ar_pays_the_round_trip_once_and_its_first_token_comes_from_the_prefill():
    target, _ = toy_pair(1, 1.0, eos_bias=-9.0)
    decoded = VirtualDecoder(target, None, DecodingConfig(strategy="ar"), world()).decode(
        request(max_new_tokens=10)
    )
    assert decoded.elapsed_s == pytest.approx(0.02 + 0.3 + 9 * 0.05 + 0.02)
    assert decoded.prefill_s == pytest.approx(0.3)


def test_both_sides_prefill_at_the_same_time_and_sd_pays_every_round():
    target, draft = toy_pair(1, 1.0, eos_bias=-9.0)
    decoded = VirtualDecoder(target, draft, SD, world()).decode(request(max_new_tokens=10))
    first = 0.02 + 0.3 + 0.054 + 0.02
    second = 4 * 0.01 + 0.02 + 0.054 + 0.02
    assert decoded.elapsed_s == pytest.approx(first + second)
    assert [stats.bytes_up for stats in decoded.rounds] == [10, 10]
    assert decoded.speculation.prompt_bytes == 20
    assert [stats.draft_s for stats in decoded.rounds] == pytest.approx([0.04, 0.04])
    assert decoded.rounds[1].round_trip_s == pytest.approx(0.02 + 0.054 + 0.02)


def test_drafting_during_a_verification_is_not_counted_in_the_round():
    target, draft = toy_pair(4, 0.9, eos_bias=-9.0)
    config = DecodingConfig(strategy="fsd", num_draft_tokens=3)
    decoded = VirtualDecoder(target, draft, config, world()).decode(request(max_new_tokens=20))
    assert decoded.rounds[0].draft_s == pytest.approx(3 * 0.01)
    assert sum(stats.draft_s for stats in decoded.rounds) < 0.75 * decoded.speculation.draft_busy_s


def test_retries_do_not_pile_up_on_a_link_slower_than_the_retry_timer():
    """Each frame takes five seconds, and the edge asks again after two seconds of silence."""
    target, draft = toy_pair(4, 0.7, eos_bias=-9.0)
    slow = dataclasses.replace(world(), uplink=LinkProfile(delay_s=0.02, bytes_per_s=2.0))
    asked = request(max_new_tokens=60, deadline_s=3000.0)
    decoded = VirtualDecoder(target, draft, SD, slow).decode(asked)
    assert decoded.token_ids == own_text(target, asked)
    assert sum(stats.bytes_up for stats in decoded.rounds) <= 4 * 10 * len(decoded.rounds)


@pytest.mark.parametrize(
    ("queue", "left_s"), [(DeviceQueue(), 0.2), (DeviceQueue(10), 0.3), (DeviceQueue(2), 1.0)]
)
def test_an_aborted_forward_still_runs_its_queued_segments(queue, left_s):
    """All exits are right, so each forward is aborted at its first exit."""
    target, draft = toy_pair(4, 0.5, eos_bias=-9.0)
    target.exit_row = lambda index, digest: target.row(digest)
    compute = ComputeProfile(verify_s=1.0, step_s=1.0, exit_fractions=(0.2, 0.6, 0.8), target_queue=queue)
    took_s: list[float] = []

    def observe(event):
        if event.kind in ("verify", "step"):
            took_s.append(event.end_s - event.start_s)

    given = dataclasses.replace(world(), compute=compute)
    asked = request(max_new_tokens=20)
    config = DecodingConfig(tuning=EAGER)
    decoded = VirtualDecoder(target, draft, config, given, observe).decode(asked)
    assert decoded.token_ids == own_text(target, asked)
    seen = {round(one_s, 6) for one_s in took_s if one_s > 0.0}
    assert seen == {left_s, 1.0}


@pytest.mark.lengthy
def test_tokens_from_the_targets_exits_count_as_no_answer_to_a_draft():
    """All exits are right: the text runs ahead of the edge, and its drafts arrive too late."""
    target, draft = toy_pair(4, 0.6, eos_bias=-9.0)
    target.exit_row = lambda index, digest: target.row(digest)
    compute = ComputeProfile(draft_token_s=0.01, verify_s=0.05, step_s=0.05)
    decoder = VirtualDecoder(
        target, draft, DecodingConfig(), dataclasses.replace(world(0.25), compute=compute)
    )
    asked = request(max_new_tokens=200)
    decoded = decoder.decode(asked)
    assert decoded.token_ids == own_text(target, asked)
    assert decoded.target_passes < 0.7 * len(decoded.token_ids)
    assert sum(stats.accepted for stats in decoded.rounds) < 0.2 * len(decoded.token_ids)
    assert decoder._machine._policy.estimates.round_trip.value == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(("draft", "plain_s"), [((), 0.4), ((5, 6), 0.52)])
def test_exits_take_time_only_if_they_are_read(draft, plain_s):
    compute = ComputeProfile(
        verify_s=0.5, verify_token_s=0.01, step_s=0.4, verify_exit_s=0.01, step_exit_s=0.006
    )
    key = SessionKey(Peer("", b"robot"), 1)
    job = Verify(key, 1, (4,), draft, (None,) * len(draft), GREEDY, Sampling(), True, False)
    assert compute.target_s(job, 5) == pytest.approx(plain_s)
    exits_s = 0.05 if draft else 0.03
    assert compute.target_s(job._replace(hints=True), 5) == pytest.approx(plain_s + exits_s)


def test_exits_hint_when_their_layer_is_done_unless_told_otherwise():
    target, draft = toy_pair(4, 0.5, eos_bias=-9.0)
    for given, fractions in (((), (0.25, 0.5, 0.75)), ((0.1, 0.2, 0.9), (0.1, 0.2, 0.9))):
        compute = dataclasses.replace(COMPUTE, verify_token_s=0.0, exit_fractions=given)
        events = []
        config = DecodingConfig(strategy="fsd", num_draft_tokens=3)
        one_world = VirtualWorld(lambda frame: 10, compute)
        VirtualDecoder(target, draft, config, one_world, events.append).decode(request())
        forwards = [event for event in events if event.kind in ("verify", "step")]
        for exit_event in (event for event in events if event.kind == "exit"):
            running = [event for event in forwards if event.start_s < exit_event.start_s < event.end_s]
            assert len(running) == 1
            share = (exit_event.start_s - running[0].start_s) / COMPUTE.verify_s
            assert any(share == pytest.approx(fraction) for fraction in fractions)
        assert any(event.kind == "exit" for event in events)


def test_the_same_seed_gives_the_same_schedule():
    target, draft = toy_pair(5, 0.6)
    noisy = LinkProfile(delay_s=0.05, jitter_s=0.1, loss=0.3, retransmit_s=0.1, ordered=False)
    times = []
    for _ in range(2):
        one_world = VirtualWorld(lambda frame: 10, COMPUTE, uplink=noisy, downlink=noisy, seed=9)
        decoded = VirtualDecoder(target, draft, DecodingConfig(), one_world).decode(request())
        times.append([stats.finished_s for stats in decoded.rounds])
    assert times[0] == times[1]


def test_with_draft_only_the_edge_continues_alone_until_the_link_returns():
    target, draft = toy_pair(2, 0.3, eos_bias=-9.0)
    config = DecodingConfig(strategy="sd", acceptance="greedy", link_loss="draft_only", link_grace_s=0.2)
    asked = request(max_new_tokens=60)
    lost = world(outages=(Outage(0.9, 1.3, verifier_restarts=True),))
    decoded = VirtualDecoder(target, draft, config, lost).decode(asked)
    sources = [_sources(target, draft, asked, decoded.token_ids, at) for at in range(60)]
    assert all(sources)
    only_draft = [at for at, source in enumerate(sources) if source == {"draft"}]
    assert only_draft
    assert decoded.unverified_tokens >= len(only_draft)
    assert {"target"} in sources[: only_draft[0]]
    assert {"target"} in sources[only_draft[-1] :]
    assert decoded.link is LinkState.LOST


def _sources(target, draft, asked, tokens, at) -> set[str]:
    """Return which models would have written the token at index `at`, given those before it."""
    names = set()
    for name, model in (("target", target), ("draft", draft)):
        if greedy_token_after(model, asked, tokens[:at]) == tokens[at]:
            names.add(name)
    return names


@pytest.mark.parametrize("strategy", ["sd", "fsd", "picospec", "outrider"])
def test_draft_only_finishes_when_the_link_never_comes_back(strategy):
    target, draft = toy_pair(2, 0.3)
    config = DecodingConfig(strategy=strategy, acceptance="greedy", link_loss="draft_only", link_grace_s=0.2)
    decoded = VirtualDecoder(target, draft, config, world(outages=(Outage(0.0, 1e9),))).decode(request())
    assert decoded.token_ids == own_text(draft, request())
    assert decoded.unverified_tokens == len(decoded.token_ids)
    assert decoded.rounds == ()


def test_stop_raises_at_the_deadline_when_the_link_never_comes_back():
    target, draft = toy_pair(2, 0.3)
    decoder = VirtualDecoder(target, draft, DecodingConfig(), world(outages=(Outage(0.5, 1e9),)))
    with pytest.raises(LinkError, match="within 3 virtual s"):
        decoder.decode(request(deadline_s=3.0))


@pytest.mark.parametrize("strategy", ["ar", "sd"])
def test_a_bad_frame_is_refused_and_the_next_text_is_fine(strategy):
    target, draft = toy_pair(2, 0.9)
    decoder = VirtualDecoder(target, draft, DecodingConfig(strategy=strategy), world())
    with pytest.raises(FrameError):
        decoder.decode(DecodeRequest(Prompt("find it", b"no jpeg")))
    assert decoder.decode(request()).token_ids == own_text(target, request())


@pytest.mark.parametrize("strategy", ["ar", "sd", "picospec", "outrider"])
def test_the_fate_of_each_token_is_reported_in_text_order(strategy):
    target, draft = toy_pair(2, 0.6, eos_bias=-9.0)
    seen = []
    drafting = None if strategy == "ar" else draft
    decoder = VirtualDecoder(target, drafting, DecodingConfig(strategy=strategy), world())
    decoded = decoder.decode(request(max_new_tokens=30), seen.append)
    confirmed = (TokenFate.ACCEPTED, TokenFate.WRITTEN)
    final = [word for verified in seen for word, fate in verified.trace if fate in confirmed]
    assert final == [target.tokenizer.decode([token]) for token in decoded.token_ids]
    fates = [fate for verified in seen for _, fate in verified.trace]
    accepted = sum(stats.accepted for stats in decoded.rounds)
    assert fates.count(TokenFate.ACCEPTED) == accepted
    assert (TokenFate.REJECTED in fates) == (strategy != "ar")
    assert all(fate is TokenFate.AHEAD for _, fate in seen[-1].trace[len(seen[-1].token_ids) :])
