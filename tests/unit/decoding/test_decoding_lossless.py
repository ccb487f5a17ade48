"""Every strategy writes the target's own text through loss, delay, outages, exits, hints and restarts."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from cloud_machine import HASTY
from hypothesis import given, settings
from hypothesis import strategies as st
from support.schedules import schedules, worlds, worlds_of
from support.toys import greedy_token_after, own_text, request, toy_pair

from outrider.core.errors import Cancelled
from outrider.core.link_profile import LinkProfile
from outrider.core.values import LinkState
from outrider.decoding.cloud.target_sequence import TargetSequence
from outrider.decoding.config import HINT_ORDERS, STRATEGIES, DecodingConfig
from outrider.decoding.drivers.linked_decoder import LinkedDecoder
from outrider.decoding.drivers.local_link import LocalLink
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.tuning import DEFAULT_TUNING, SWITCHES

DRAFTERS = (
    ("model",),
    ("suffix",),
    ("model", "suffix"),
    ("model", "suffix", "calibration", "reuse"),
    ("lookup", "suffix", "reuse"),
)


@st.composite
def configs(draw, strategies=tuple(sorted(STRATEGIES))):
    """Draw a configuration: at temperature 0 any scheme that the strategy takes, above 0 the coupled one."""
    strategy = draw(st.sampled_from(strategies))
    temperature = draw(st.sampled_from([0.0, 1.0]))
    schemes = ["coupled"]
    if temperature == 0.0:
        plan = STRATEGIES[strategy]
        schemes += ["greedy"]
        schemes += ["rejection"] if plan.when_idle == "wait" else []
        schemes += ["split", "sparse"] if plan.when_idle == "wait" and plan.hints == "none" else []
    return DecodingConfig(
        strategy=strategy,
        num_draft_tokens=draw(st.integers(1, 9)),
        acceptance=draw(st.sampled_from(schemes)),
        temperature=temperature,
        top_p=draw(st.sampled_from([1.0, 0.8])),
        top_k=draw(st.sampled_from([0, 1, 3])),
        drafters=draw(st.sampled_from(DRAFTERS)),
        seed=draw(st.integers(0, 3)),
        workers=draw(st.integers(1, 4)),
        silence_s=0.4,
        edge_hint_order=draw(st.sampled_from(HINT_ORDERS)),
        cloud_hint_order=draw(st.sampled_from(HINT_ORDERS)),
    )


@pytest.mark.lengthy
@schedules
@given(
    worlds,
    configs(),
    st.integers(0, 50),
    st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    st.sampled_from([-3.0, 1.5]),
    st.integers(1, 40),
)
def test_any_schedule_gives_the_targets_own_text(world, config, seed, agreement, eos_bias, max_new_tokens):
    target, draft = toy_pair(seed, agreement, eos_bias)
    decoder = VirtualDecoder(target, draft, config, world)
    for name in ("first", "second", "first"):
        asked = request(name, max_new_tokens, deadline_s=1e5)
        reported: list[int] = []
        decoded = decoder.decode(
            asked, lambda verified, reported=reported: reported.extend(verified.token_ids)
        )
        assert decoded.token_ids == own_text(target, asked, config.sampling_for(asked.prompt))
        assert tuple(reported) == decoded.token_ids
        assert decoded.unverified_tokens == 0
        assert sum(stats.emitted for stats in decoded.rounds) == len(decoded.token_ids)
        assert all(stats.accepted <= stats.drafted for stats in decoded.rounds)


AIMED = ("drafts", "steps", "right", "wrong")


@pytest.fixture
def aims(monkeypatch) -> Counter[str]:
    """Count aborted drafts and steps, and verifications whose predicted tokens were right or wrong."""
    seen: Counter[str] = Counter()

    def on_aborted(text, job, now_s, plain=TargetSequence.on_aborted):
        seen["drafts" if job.draft else "steps"] += 1
        plain(text, job, now_s)

    def on_judged(text, job, judgement, *times, plain=TargetSequence.on_judged):
        known = len(text.policy.assumed)
        seen["right"] += 0 < known <= judgement.accepted
        seen["wrong"] += known > judgement.accepted
        return plain(text, job, judgement, *times)

    monkeypatch.setattr(TargetSequence, "on_aborted", on_aborted)
    monkeypatch.setattr(TargetSequence, "on_judged", on_judged)
    return seen


near = st.builds(LinkProfile, delay_s=st.floats(0.0, 0.03), loss=st.floats(0.0, 0.2), ordered=st.booleans())
quick_edges = st.builds(
    ComputeProfile,
    draft_token_s=st.sampled_from([0.001, 0.01]),
    verify_s=st.sampled_from([0.1, 0.4]),
    step_s=st.sampled_from([None, 0.08]),
    exit_fractions=st.just((0.2, 0.5, 0.8)),
)
near_worlds = worlds_of(quick_edges, near)


@pytest.mark.lengthy
def test_hints_and_restarts_change_no_token(aims):
    """Predictions are right or wrong, for a draft or a step, and the edge drafts quickly or slowly."""

    @settings(schedules, max_examples=240)
    @given(
        near_worlds | worlds,
        configs(("outrider",)),
        st.integers(0, 50),
        st.sampled_from([0.5, 0.9, 1.0]),
        st.sampled_from([-9.0, -3.0, 1.5]),
        st.integers(1, 40),
    )
    def any_schedule(world, config, seed, agreement, eos_bias, max_new_tokens):
        target, draft = toy_pair(seed, agreement, eos_bias)
        config = replace(config, tuning=HASTY)
        decoder = VirtualDecoder(target, draft, config, world)
        for name in ("first", "second", "first"):
            asked = request(name, max_new_tokens, deadline_s=1e5)
            decoded = decoder.decode(asked)
            assert decoded.token_ids == own_text(target, asked, config.sampling_for(asked.prompt))
            assert sum(stats.emitted for stats in decoded.rounds) == len(decoded.token_ids)
            assert all(stats.accepted <= stats.drafted for stats in decoded.rounds)

    any_schedule()
    assert all(aims[kind] > 10 for kind in AIMED), aims


@pytest.mark.lengthy
@settings(schedules, max_examples=100)
@given(
    worlds,
    configs(("outrider",)),
    st.sets(st.sampled_from(SWITCHES), min_size=1),
    st.integers(0, 50),
    st.sampled_from([0.5, 0.9]),
)
def test_whatever_is_switched_off_the_text_is_the_targets_own(world, config, off, seed, agreement):
    target, draft = toy_pair(seed, agreement, eos_bias=-3.0)
    config = replace(config, tuning=DEFAULT_TUNING.without(*off))
    decoder = VirtualDecoder(target, draft, config, world)
    for name in ("first", "second"):
        asked = request(name, deadline_s=1e5)
        assert decoder.decode(asked).token_ids == own_text(target, asked, config.sampling_for(asked.prompt))


@pytest.mark.lengthy
@schedules
@given(worlds, configs(), st.integers(0, 50), st.integers(0, 60))
def test_a_cancelled_text_leaves_no_trace_in_the_next(world, config, seed, cancel_after_events):
    target, draft = toy_pair(seed, agreement=0.7, eos_bias=-3.0)
    decoder = VirtualDecoder(target, draft, config, world)
    events = iter(range(cancel_after_events))
    first, second = request("first", deadline_s=1e5), request("second", deadline_s=1e5)
    with contextlib.suppress(Cancelled):
        assert decoder.decode(first, cancelled=lambda: next(events, None) is None).finished
    assert decoder.decode(second).token_ids == own_text(target, second, config.sampling_for(second.prompt))


@pytest.mark.lengthy
@schedules
@given(worlds, st.integers(1, 6), st.integers(0, 50))
def test_every_token_is_the_targets_or_with_draft_only_the_draft_models(world, num_draft_tokens, seed):
    target, draft = toy_pair(seed, agreement=0.5, eos_bias=-3.0)
    config = DecodingConfig(
        strategy="sd",
        acceptance="greedy",
        num_draft_tokens=num_draft_tokens,
        silence_s=0.4,
        link_loss="draft_only",
        link_grace_s=0.1,
    )
    asked = request(deadline_s=1e5)
    decoded = VirtualDecoder(target, draft, config, world).decode(asked)
    tokens = decoded.token_ids
    by_draft = sum(greedy_token_after(target, asked, tokens[:at]) != token for at, token in enumerate(tokens))
    assert by_draft <= decoded.unverified_tokens
    assert all(
        token
        in (greedy_token_after(target, asked, tokens[:at]), greedy_token_after(draft, asked, tokens[:at]))
        for at, token in enumerate(tokens)
    )
    assert tokens[-1] in target.end_ids or len(tokens) == asked.max_new_tokens


@pytest.mark.parametrize("num_draft_tokens", [1, 2, 4, 8])
@pytest.mark.parametrize("agreement", [0.0, 0.6, 1.0])
def test_sd_in_process_saves_target_passes(num_draft_tokens, agreement):
    target, draft = toy_pair(7, agreement, eos_bias=-9.0)
    asked = request(max_new_tokens=48)
    texts = {}
    for strategy in ("ar", "sd"):
        config = DecodingConfig(strategy=strategy, num_draft_tokens=num_draft_tokens)
        link = LocalLink(VerifierService(target))
        texts[strategy] = LinkedDecoder(link, draft, target.tokenizer, config, 1, "the target").decode(asked)
    assert texts["sd"].token_ids == texts["ar"].token_ids == own_text(target, asked)
    assert texts["ar"].target_passes == 47
    assert texts["ar"].link is LinkState.LOCAL
    rounds = len(texts["sd"].rounds)
    assert texts["sd"].target_passes == rounds
    if agreement == 1.0:
        assert rounds == -(-48 // (num_draft_tokens + 1))
    if agreement == 0.0:
        assert texts["sd"].tokens_per_round < 1.2


@pytest.mark.lengthy
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_verifier_counts_every_token_of_its_robots_once(strategy, temperature):
    target, draft = toy_pair(3, 0.6, eos_bias=-4.0)
    service = VerifierService(target)
    config = DecodingConfig(strategy=strategy, temperature=temperature)
    decoder = LinkedDecoder(LocalLink(service), draft, target.tokenizer, config, 1, "the target")
    texts = [decoder.decode(request(f"task {number}")).token_ids for number in range(5)]
    assert service.stats.tokens == sum(map(len, texts))


def test_the_verified_text_grows_by_whole_tokens_and_hides_the_end_token():
    target, draft = toy_pair(3, 0.8, eos_bias=1.5)
    link = LocalLink(VerifierService(target))
    decoder = LinkedDecoder(link, draft, target.tokenizer, DecodingConfig(), 1, "the target")
    seen = []
    decoded = decoder.decode(request(max_new_tokens=200), seen.append)
    assert decoded.token_ids[-1] in target.end_ids
    assert decoded.text == target.tokenizer.decode(decoded.token_ids[:-1]) == seen[-1].text
    assert all(later.text.startswith(earlier.text) for earlier, later in pairwise(seen))
    assert [item.elapsed_s for item in seen] == sorted(item.elapsed_s for item in seen)


class Unanswered(LocalLink):
    """A link that sends nothing until `answers`: never connected, or its verifier lost the key or is full."""

    answers = False

    def send(self, frame):
        return super().send(frame) if self.answers else 0


@pytest.mark.parametrize("state", [LinkState.CONNECTING, LinkState.REFUSED, LinkState.LOST])
def test_text_written_without_a_verifier_is_reported_as_unverified(state):
    target, draft = toy_pair(3, 0.8, eos_bias=-3.0)
    link = Unanswered(VerifierService(target))
    link.state = state
    config = DecodingConfig(strategy="sd", link_loss="draft_only", link_grace_s=0.01)
    decoder = LinkedDecoder(link, draft, target.tokenizer, config, 1, "the target")
    assert not decoder.wrote_alone
    reported = []
    decoded = decoder.decode(request(max_new_tokens=12), lambda _: reported.append(decoder.wrote_alone))
    assert decoded.unverified_tokens and all(reported) and decoder.wrote_alone
    link.state, link.answers = LinkState.CONNECTED, True
    reported.clear()
    assert not decoder.decode(
        request("second", max_new_tokens=12), lambda _: reported.append(decoder.wrote_alone)
    ).unverified_tokens
    assert reported and not any(reported)
