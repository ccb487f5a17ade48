"""Robots that share a verifier cannot harm each other: arbitrary frames, repeated opens, failures, rates."""

from __future__ import annotations

import pytest
from cloud_machine import (
    ALICE,
    BOB,
    PROMPT,
    ROOT,
    both_opened,
    draft,
    next_job,
    opened,
    opening,
    own,
    service,
    step,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.toy_models import ToySession
from support.toys import JPEG, own_text, request, toy_pair

from outrider.core.errors import OutOfMemoryError
from outrider.core.frames import (
    Cancel,
    Close,
    Draft,
    Open,
    Opened,
    Peer,
    Ping,
    Proposal,
    Refused,
    Resume,
    Rules,
    Verdict,
)
from outrider.core.values import Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.linked_decoder import LinkedDecoder
from outrider.decoding.drivers.local_link import LocalLink
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.protocol.branch_codec import Run, pack_runs
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.protocol.prefix_digest import extend_digest


def test_a_verification_that_fails_in_a_batch_fails_alone(monkeypatch, caplog):
    cloud = service()
    both_opened(cloud)
    for peer in (ALICE, BOB):
        cloud.receive(peer, draft(0, own()[:3]))
    forward, calls = ToySession.forward, []

    def failing(session, token_ids, on_exit=None):
        calls.append(session)
        if session is calls[0]:
            raise RuntimeError("boom")
        return forward(session, token_ids, on_exit)

    monkeypatch.setattr(ToySession, "forward", failing)
    answers = {reply.peer: reply.frame for reply in step(cloud)}
    assert isinstance(answers[ALICE], Refused) and answers[ALICE].reason == "internal"
    assert isinstance(answers[BOB], Verdict)


small = st.integers(0, 3)

tokens = st.lists(st.integers(0, 40), max_size=4).map(tuple)

any_digest = st.sampled_from([ROOT, 7])

any_rules = st.builds(
    Rules,
    st.sampled_from(["wait", "step", "adaptive"]),
    st.sampled_from(["greedy", "coupled", "rejection", "split", "sparse"]),
    st.sampled_from([0.0, 1.0, -1.0, float("nan")]),
    st.sampled_from([1.0, 0.5, 0.0]),
    small,
    small,
    st.booleans(),
    st.sampled_from(["none", "all", "useful"]),
)

any_frame = st.one_of(
    st.builds(
        Open,
        small,
        small,
        any_digest,
        st.just(PROMPT.text),
        st.sampled_from([JPEG, b""]),
        tokens,
        st.integers(1, 9),
        st.sampled_from(["toy-32", "other"]),
        any_rules,
    ),
    st.builds(Resume, small, small, small, any_digest, small),
    st.builds(
        Draft,
        small,
        small,
        small,
        any_digest,
        st.binary(max_size=6) | tokens.map(lambda t: pack_runs([Run(0, t)])),
    ),
    st.builds(
        Proposal,
        small,
        small,
        small,
        any_digest,
        st.none() | st.integers(0, 40),
        tokens,
        st.binary(max_size=8),
    ),
    st.builds(Cancel, small, small),
    st.builds(Close, small, small),
    st.builds(Ping, small, small),
)


@pytest.mark.lengthy
@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.tuples(any_frame, st.booleans()), max_size=30), st.integers(0, 10))
def test_no_peer_can_disturb_another(noise, seed):
    """Between a robot's frames, a stranger sends any well-formed frames, even for the same session number."""
    target, draft = toy_pair(seed, 0.7)
    cloud = VerifierService(target, CloudLimits(max_sessions=3))
    link = _NoisyLink(cloud, noise)
    decoder = LinkedDecoder(link, draft, target.tokenizer, DecodingConfig(), 1, "the target")
    assert decoder.decode(request()).token_ids == own_text(target, request())
    assert cloud.stats.open_sessions <= 3


class _NoisyLink(LocalLink):
    """A link that lets a stranger send frames after each frame of its own."""

    def __init__(self, cloud: VerifierService, noise: list) -> None:
        super().__init__(cloud)
        self._cloud = cloud
        self._noise = iter(noise)

    def send(self, frame) -> int:
        sent = super().send(frame)
        for noise_frame, steps in self._noise:
            for reply in self._cloud.receive(BOB, noise_frame):
                assert reply.peer == BOB
                assert not isinstance(reply.frame, Refused) or reply.frame.reason in (
                    "protocol",
                    "busy",
                    "model",
                    "frame",
                )
            if steps:
                self._inbox.extend(reply.frame for reply in step(self._cloud) if reply.peer != BOB)
                break
        return sent


def test_a_text_without_memory_is_refused_as_busy():
    cloud = service()
    cloud.receive(ALICE, opening())
    [refusal] = cloud.finish([next_job(cloud)], [OutOfMemoryError("no room for a cache")], 0.1)
    assert refusal.frame.reason == "busy"
    opened(cloud)


def test_more_sessions_bring_a_robot_no_higher_rate():
    cloud = service(tokens_per_s=4.0)
    for session in (5, 6, 7):
        cloud.receive(ALICE, replace(opening(max_new_tokens=40), session=session))
    while step(cloud):
        pass
    cloud._clock.now_s += 60.0
    for session in (5, 6, 7):
        cloud.receive(ALICE, replace(draft(0, own()[:3]), session=session))
    assert len(step(cloud)) == 3, "at once they may be overdrawn"
    cloud.receive(ALICE, replace(draft(4, (1,), digest=extend_digest(ROOT, own()[:4])), session=5))
    assert step(cloud) == []
    assert cloud.max_wait_s() == pytest.approx(2.0, abs=0.01), "12 tokens, of which 4 were there"


def test_repeated_opens_with_other_texts_delay_no_other_robot(monkeypatch):
    def in_parts(session: ToySession, prompt: Prompt):
        for _ in range(4):
            yield
        return session.prefill(prompt)

    monkeypatch.setattr(ToySession, "prefill_parts", in_parts)
    cloud, text, served, mallory = service(), own(200), [], Peer("", b"mallory")
    cloud.receive(mallory, opening(tokens=text[:70], max_new_tokens=200))
    for peer in (ALICE, BOB):
        cloud.receive(peer, opening())
    for turn in range(60):
        cloud.receive(mallory, opening(tokens=(turn % 2, *text[: 70 + turn]), max_new_tokens=200))
        jobs = cloud.next_jobs()
        answers = cloud.finish(jobs, cloud.run(jobs, lambda job, hint: None), 0.1)
        served += [reply.peer for reply in answers if isinstance(reply.frame, Opened)]
    assert served.count(ALICE) == served.count(BOB) == 1
    assert {ALICE, BOB} <= set(served[:3])
