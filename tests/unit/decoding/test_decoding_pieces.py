"""Configuration, digests, acceptance, cached sequences, and that the toy model is strict."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.toys import JPEG, request, toy_pair

from outrider.core.errors import ConfigError, FrameError
from outrider.core.values import Prompt
from outrider.decoding.acceptance import judge_greedy
from outrider.decoding.config import DecodingConfig
from outrider.decoding.digest import DigestedText, common_length, extend_digest, prompt_digest
from outrider.decoding.patience import Patience
from outrider.decoding.sequence import CachedSequence


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
        DecodingConfig.from_mapping({field: value})


def test_unknown_and_contradicting_options_are_refused():
    with pytest.raises(ConfigError, match=r"unknown decoding option.* gamma; known: acceptance"):
        DecodingConfig.from_mapping({"gamma": 4})
    with pytest.raises(ConfigError, match="draft_only"):
        DecodingConfig(strategy="ar", link_loss="draft_only")


@given(st.lists(st.integers(0, 1 << 20), max_size=8), st.lists(st.integers(0, 1 << 20), max_size=8))
def test_digests_name_texts(first, second):
    text = DigestedText(3)
    text.extend(first)
    assert text.digest_at(len(first)) == text.digest == extend_digest(3, first)
    assert (extend_digest(3, first) == extend_digest(3, second)) == (first == second)
    assert common_length(first, [*first, *second]) == len(first)


def test_prompt_digests_tell_text_from_frame():
    assert prompt_digest(Prompt("ab", b"c")) != prompt_digest(Prompt("a", b"bc"))
    assert prompt_digest(Prompt("ab", b"c")) == prompt_digest(Prompt("ab", b"c"))


def test_greedy_acceptance_by_hand():
    logits = torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 2.5], [0.0, 0.0, 9.0]])
    assert judge_greedy(logits, (1, 0)).accepted == 2
    assert judge_greedy(logits, (1, 0)).next_token == 2
    rejected = judge_greedy(logits, (1, 2))
    assert (rejected.accepted, rejected.next_token, rejected.margin) == (1, 0, pytest.approx(0.5))
    assert judge_greedy(logits, (2, 0)).accepted == 0


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


def test_patience():
    patience = Patience(DecodingConfig(silence_s=2.0, link_grace_s=1.0), generation=1, now_s=0.0)
    assert patience.verdict(True, 1, 1.0) is None
    assert patience.verdict(True, 2, 1.5) == "ask again"
    assert patience.verdict(True, 2, 2.5) is None
    patience.on_heard(3.0)
    assert patience.verdict(True, 2, 5.0) is None
    assert patience.verdict(True, 2, 5.1) == "ask again"
    assert patience.verdict(False, 2, 6.0) is None
    assert patience.verdict(False, 2, 6.2) == "go alone"
