"""Configuration, digests, acceptance, cached sequences and retries; and the toy model is strict."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.choices import judge_choices
from support.toy_models import ToyModel, ToySettings
from support.toys import JPEG, request, toy_pair

from outrider.core.errors import ConfigError, FrameError
from outrider.core.frames import Opened, Pong, Refused
from outrider.core.values import Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.execution.cached_sequence import CachedSequence
from outrider.decoding.protocol.prefix_digest import DigestedText, common_length, extend_digest, prompt_digest
from outrider.decoding.protocol.retry_timer import RetryTimer
from outrider.decoding.protocol.sampling_rules import Sampling


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("strategy", "magic"),
        ("acceptance", "maybe"),
        ("num_draft_tokens", 0),
        ("num_draft_tokens", 65),
        ("num_draft_tokens", True),
        ("num_draft_tokens", 2.0),
        ("link_loss", "panic"),
        ("silence_s", 0),
        ("link_grace_s", float("nan")),
        ("link_grace_s", "1"),
    ],
)
def test_a_wrong_option_is_named_with_its_value(field, value):
    with pytest.raises(ConfigError, match=f"{field}={value!r}"):
        DecodingConfig(**{field: value})


def test_a_wanted_model_that_would_not_pass_the_wire_is_refused():
    assert DecodingConfig(wanted_model="x" * 500).wanted_model
    with pytest.raises(ConfigError, match="wanted_model has 501 characters, at most 500"):
        DecodingConfig(wanted_model="x" * 501)
    with pytest.raises(ConfigError, match="'#1a2b3c4d', which is no model's name"):
        DecodingConfig(wanted_model="#1a2b3c4d")


def test_contradicting_options_are_refused():
    with pytest.raises(ConfigError, match="draft_only"):
        DecodingConfig(strategy="ar", link_loss="draft_only")


@given(st.lists(st.integers(0, 1 << 20), max_size=8), st.lists(st.integers(0, 1 << 20), max_size=8))
def test_digests_name_texts(first, second):
    text = DigestedText(3)
    text.extend(first)
    assert text.digest_at(len(first)) == text.digest == extend_digest(3, first)
    assert (extend_digest(3, first) == extend_digest(3, second)) == (first == second)
    assert common_length(first, [*first, *second]) == len(first)


def test_prompt_digests_separate_text_and_image():
    assert prompt_digest(Prompt("ab", b"c")) != prompt_digest(Prompt("a", b"bc"))
    assert prompt_digest(Prompt("ab", b"c")) == prompt_digest(Prompt("ab", b"c"))


def test_greedy_acceptance_by_hand():
    logits = torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 2.5], [0.0, 0.0, 9.0]])
    assert judge_choices(logits, (1, 0), Sampling(), 0).accepted == 2
    assert judge_choices(logits, (1, 0), Sampling(), 0).next_token == 2
    rejected = judge_choices(logits, (1, 2), Sampling(), 0)
    assert (rejected.accepted, rejected.next_token, rejected.margin) == (1, 0, pytest.approx(0.5))
    assert judge_choices(logits, (2, 0), Sampling(), 0).accepted == 0


@given(st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=6), st.integers(0, 6)), max_size=8))
def test_a_cached_sequence_predicts_like_a_fresh_one(texts):
    model, _ = toy_pair(1, 1.0)
    cached = CachedSequence(model)
    cached.prefill(request().prompt, 20)
    for tokens, num_last in texts:
        num_last = min(num_last, len(tokens))
        fresh = CachedSequence(model)
        fresh.prefill(request().prompt, 20)
        expected = fresh.logits(tokens, len(tokens))[-num_last - 1 :]
        assert torch.equal(cached.logits(tokens, num_last), expected)


def test_a_text_that_cannot_fit_is_refused():
    model, _ = toy_pair(1, 1.0)
    with pytest.raises(ConfigError, match="max_new_tokens=506"):
        CachedSequence(model).prefill(request().prompt, 506)


def test_the_toy_model_is_strict():
    session = toy_pair(1, 1.0)[0].open_session()
    with pytest.raises(FrameError):
        session.prefill(Prompt("find", b"png"))
    with pytest.raises(AssertionError):
        session.forward([1])
    session.prefill(Prompt("find", JPEG))
    for wrong in (session.length + 1, 6):
        with pytest.raises(AssertionError):
            session.truncate(wrong)
    with pytest.raises(AssertionError):
        session.forward([32])


def test_a_drafts_agreement_is_its_setting():
    target, draft = toy_pair(1, 0.6)
    agreeing = sum(torch.equal(target.row(i), draft.row(i)) for i in range(1000))
    assert 550 < agreeing < 650


@pytest.mark.lengthy
def test_toy_exits_agree_as_often_as_set_and_are_surer_when_right():
    model = ToyModel(ToySettings(seed=3, exit_agreement=(0.3, 0.8), shortlist_size=20))
    assert model.exits.layers == (1, 2) and model.exits.num_layers == 3
    chosen = model.exits.token_ids
    assert len(chosen) == 20 and bool((chosen.diff() > 0).all()) and chosen[-1] < model.vocab_size
    on_shortlist = [digest for digest in range(2000) if model.row(digest).argmax() in chosen]
    choices = [int(model.row(digest).argmax()) for digest in on_shortlist]
    right_at = []
    for index, agreement in enumerate((0.3, 0.8)):
        rows = [model.exit_row(index, digest) for digest in on_shortlist]
        right = [chosen[row.argmax()] == choice for row, choice in zip(rows, choices, strict=True)]
        assert sum(right) / len(right) == pytest.approx(agreement, abs=0.05)
        sure = torch.tensor([row.softmax(-1).max() for row in rows])
        assert sure[torch.tensor(right)].mean() > 1.5 * sure[~torch.tensor(right)].mean()
        right_at.append(right)
    assert all(later for earlier, later in zip(*right_at, strict=True) if earlier)


def test_toy_exits_come_in_mid_forward_and_change_nothing():
    model = ToyModel(ToySettings(seed=3, exit_agreement=(0.3, 0.8), shortlist_size=20))
    plain, session = model.open_session(), model.open_session()
    assert torch.equal(plain.prefill(request().prompt), session.prefill(request().prompt))
    before, seen = session.length, []
    logits = session.forward([4, 5, 6], lambda index, rows: seen.append((index, rows.shape, session.length)))
    assert torch.equal(logits, plain.forward([4, 5, 6]))
    assert seen == [(0, (3, 20), before), (1, (3, 20), before)]

    def interrupt(index, rows):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.forward([7], interrupt)
    assert torch.equal(session.forward([7]), plain.forward([7]))


def test_a_toy_without_exits_never_calls():
    model = ToyModel(ToySettings(seed=3))
    session = model.open_session()
    session.prefill(request().prompt)
    assert model.exits is None
    session.forward([1], lambda index, rows: pytest.fail("called"))


OPENED, BUSY = Opened(1, 1, 0, 0, 5, (0,)), Refused(1, 1, "busy", "try later")


def retry_times_s(timer: RetryTimer, until_s: float) -> list[float]:
    """Return the times at which it asks again, checked ten times a second."""
    times = [number / 10 for number in range(int(10 * until_s))]
    return [time_s for time_s in times if timer.advice(True, 1, time_s) == "retry"]


def test_the_wait_doubles_up_to_a_bound():
    asked = retry_times_s(RetryTimer(2.0, generation=1, now_s=0.0), 70.0)
    waits = [later - sooner for sooner, later in pairwise([0.0, *asked])]
    assert waits == pytest.approx([2.1, 4.1, 8.1, 16.1, 16.1, 16.1], abs=0.11)


def test_after_a_busy_refusal_the_wait_is_the_first_one():
    timer = RetryTimer(2.0, generation=1, now_s=0.0)
    retry_times_s(timer, 60.0)
    timer.on_frame(BUSY, 60.0)
    for turn in range(5):
        now_s = 60.0 + 2.5 * turn
        assert timer.advice(True, 1, now_s + 2.0) is None
        assert timer.advice(True, 1, now_s + 2.1) == "retry"
        timer.on_frame(BUSY, now_s + 2.5)


def test_a_pong_does_not_restart_the_wait():
    timer = RetryTimer(2.0, generation=1, now_s=0.0)
    timer.on_frame(Pong(1, 1, "toy", 32, 1, 1), 1.9)
    assert timer.advice(True, 1, 2.1) == "retry"


def test_the_retry_timer_step_by_step():
    timer = RetryTimer(2.0, generation=1, now_s=0.0, link_grace_s=1.0)
    assert timer.advice(True, 1, 1.0) is None
    assert timer.advice(True, 2, 1.5) == "retry"
    assert timer.advice(True, 2, 2.5) is None
    timer.on_frame(OPENED, 3.0)
    assert timer.advice(True, 2, 5.0) is None
    assert timer.advice(True, 2, 5.1) == "retry"
    assert timer.advice(True, 2, 9.1) is None, "the wait has doubled"
    assert timer.advice(True, 2, 9.2) == "retry"
    timer.on_frame(OPENED, 10.0)
    assert timer.advice(True, 2, 18.0) is None, "the answer may be to the first time it was asked"
    timer.on_frame(OPENED, 18.0)
    assert timer.advice(True, 2, 22.0) is None
    assert timer.advice(True, 2, 22.1) == "retry", "an answer that needed no repeat halves it"
    assert timer.advice(True, 3, 23.0) == "retry", "a new connection"
    assert timer.advice(True, 3, 25.0) is None
    assert timer.advice(True, 3, 25.1) == "retry"
    assert timer.advice(False, 3, 26.0) is None
    assert timer.advice(False, 3, 26.2) == "continue alone"


@pytest.mark.parametrize(
    ("strategy", "scheme"),
    [("sd", "rejection"), ("dssd", "split"), ("picospec", "sparse"), ("fsd", "rejection")],
)
def test_at_temperature_0_schemes_that_test_distributions_become_greedy(strategy: str, scheme: str) -> None:
    assert DecodingConfig(strategy=strategy).scheme.name == "greedy"
    assert DecodingConfig(strategy=strategy, temperature=0.5).scheme.name == scheme
    assert DecodingConfig(strategy=strategy, acceptance=scheme).scheme.name == scheme
