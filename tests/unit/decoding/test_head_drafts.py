"""A verifier whose target has a draft head writes the target's own text, sooner if the head is right."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cloud_machine import ALICE, BOB, PROMPT, both_opened, opened, step
from hypothesis import given
from hypothesis import strategies as st
from support.heads import HeadedToy, ToyHead, toy_with_head
from support.schedules import schedules, worlds
from support.toys import EXIT_AGREEMENT, own_text, request, toy_pair

from outrider.core.errors import ModelError, OutOfMemoryError
from outrider.core.link_profile import LinkProfile, Outage
from outrider.core.ports import Array
from outrider.core.values import Prompt
from outrider.decoding.acceptance.schemes import SCHEMES, Choices
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.execution.cloud_draft_worker import HeadDraftWorker
from outrider.decoding.execution.workers import TargetWorker
from outrider.decoding.jobs import CloudDraft, PrefillTarget, SessionKey, Verify
from outrider.decoding.protocol.prefix_digest import extend_digest, prompt_digest
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.wire.codec import encode, wire_bytes

GREEDY = SCHEMES["greedy"]
KEY = SessionKey(ALICE, 5)


@pytest.mark.lengthy
@schedules
@given(
    worlds,
    st.sampled_from(sorted(STRATEGIES)),
    st.sampled_from([0.0, 0.8]),
    st.integers(0, 50),
    st.sampled_from([None, 0.5]),
    st.sampled_from([0.0, 0.6, 0.9, 1.0]),
    st.sampled_from([-3.0, 1.5]),
    st.integers(1, 40),
    st.sampled_from([(), EXIT_AGREEMENT]),
)
def test_any_schedule_gives_the_targets_own_text(
    world, strategy, temperature, seed, at_the_edge, of_head, eos_bias, max_new_tokens, exits
):
    target, head = toy_with_head(seed, of_head, eos_bias, exits)
    config = DecodingConfig(strategy, temperature=temperature, seed=seed, silence_s=0.4)
    edge = None
    if at_the_edge is not None or STRATEGIES[strategy].when_idle == "wait":
        edge = toy_pair(seed, at_the_edge or 0.0, eos_bias)[1]
    if config.scheme.deterministic:
        decoder = VirtualDecoder(target, edge, config, world, cloud_head=head)
        for name in ("first", "second"):
            asked = request(name, max_new_tokens, deadline_s=1e5)
            decoded = decoder.decode(asked)
            assert decoded.token_ids == own_text(target, asked, config.sampling_for(asked.prompt))


def seconds(head: ToyHead | None, target: HeadedToy, world: VirtualWorld) -> float:
    """Return the virtual time of four texts of a robot without a draft model."""
    decoder = VirtualDecoder(target, None, DecodingConfig(silence_s=1e3), world, cloud_head=head)
    for name in "abcd":
        decoder.decode(request(name, 100, deadline_s=1e5))
    return decoder.now_s


def world(draft_token_s: float) -> VirtualWorld:
    compute = ComputeProfile(verify_s=0.03, cloud_draft_token_s=draft_token_s)
    link = LinkProfile(0.05)
    return VirtualWorld(lambda frame: wire_bytes(encode(frame)), compute, link, link)


@pytest.mark.lengthy
def test_a_robot_without_a_draft_is_served_faster_and_a_useless_head_costs_little():
    target, good = toy_with_head(3, 0.8, -9.0)
    _, useless = toy_with_head(3, 0.0, -9.0)
    useless._target = target
    plain = seconds(None, target, world(0.001))
    assert seconds(good, target, world(0.001)) < 0.6 * plain
    assert seconds(useless, target, world(0.001)) < 1.05 * plain


def test_a_verifier_that_starts_again_amid_a_text_goes_on_with_it():
    target, head = toy_with_head(3, 0.9, -9.0)
    again = replace(world(0.001), outages=(Outage(0.4, 0.5, verifier_restarts=True),))
    asked = request("a", 100, deadline_s=1e5)
    decoder = VirtualDecoder(target, None, DecodingConfig(silence_s=0.4), again, cloud_head=head)
    assert decoder.decode(asked).token_ids == own_text(target, asked)


def judged(target: HeadedToy, key: SessionKey, prompt: Prompt, draft: tuple[int, ...]) -> TargetWorker:
    """Return a worker that has verified a draft as the first tokens of a text."""
    worker = TargetWorker(target, keeps_anchors=True)
    verify(worker, key, prompt, (), draft)
    return worker


def verify(
    worker: TargetWorker, key: SessionKey, prompt: Prompt, text: tuple[int, ...], draft: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the text after one more verification."""
    if not text:
        worker.run([PrefillTarget(key, 1, prompt, 40)], lambda job, hint: False)
    evidence = (None,) * len(draft)
    job = Verify(key, 1, text, draft, evidence, GREEDY, Sampling(), True, False)
    [judgement] = worker.run([job], lambda job, hint: False)
    return (*text, *draft[: judgement.accepted], judgement.next_token)


def asked_after(prefix: tuple[int, ...], key: SessionKey = KEY, epoch: int = 1) -> CloudDraft:
    return CloudDraft(key, epoch, PROMPT, 40, prefix, 2, GREEDY, Sampling())


def tokens_of(results: list[Choices | Exception]) -> list[int]:
    assert all(isinstance(one, Choices) for one in results)
    return [one.tokens[0] for one in results]


def test_drafts_continue_from_the_verdicts_last_token():
    target, head = toy_with_head(1, 1.0, -9.0)
    own = own_text(target, request(PROMPT.text, 20))
    worker = TargetWorker(target, keeps_anchors=True)
    drafter = HeadDraftWorker(worker, head)
    wrong = (own[0], own[1], (own[2] + 1) % 31 + 1, 7)
    text = verify(worker, KEY, PROMPT, (), wrong)
    assert text == own[:3]
    for end in range(3, 9):
        assert tokens_of(drafter.run([asked_after(own[:end])])) == [own[end]]
    assert head.steps == [1] * 6  # one step a token: earlier drafts are kept
    text = verify(worker, KEY, PROMPT, text, own[3:5])
    assert text == own[:6]
    assert tokens_of(drafter.run([asked_after(text)])) == [own[6]]


def test_positions_of_several_texts_are_drafted_in_common_steps():
    target, head = toy_with_head(1, 0.5, -9.0)
    prompts = {KEY: PROMPT, SessionKey(BOB, 5): Prompt("another", PROMPT.jpeg)}
    worker = TargetWorker(target, keeps_anchors=True)
    texts = {key: verify(worker, key, prompt, (), ()) for key, prompt in prompts.items()}
    jobs = [asked_after((*texts[key], *more), key) for key in texts for more in ((), (4,), (4, 9), (8,))]
    together = HeadDraftWorker(worker, head).run(jobs)
    assert max(head.steps) > 1
    alone = HeadDraftWorker(worker, head)
    assert tokens_of(together) == [tokens_of(alone.run([job]))[0] for job in jobs]


def test_the_first_token_is_drafted_from_the_prompts_last_row():
    target, head = toy_with_head(1, 1.0, -9.0)
    worker = TargetWorker(target, keeps_anchors=True)
    [before] = HeadDraftWorker(worker, head).run([asked_after(())])
    assert isinstance(before, ModelError)
    worker.run([PrefillTarget(KEY, 1, PROMPT, 40)], lambda job, hint: False)
    own = own_text(target, request(PROMPT.text, 3))
    assert tokens_of(HeadDraftWorker(worker, head).run([asked_after(()), asked_after(own[:1])])) == [*own[:2]]


def test_a_text_that_is_resumed_is_drafted_from_its_end():
    target, head = toy_with_head(1, 1.0, -9.0)
    own = own_text(target, request(PROMPT.text, 100))
    worker, job = TargetWorker(target, keeps_anchors=True), PrefillTarget(KEY, 1, PROMPT, 100, own[:90])
    while worker.run([job], lambda job, hint: False) != [None]:
        pass
    assert tokens_of(HeadDraftWorker(worker, head).run([asked_after(own[:90])])) == [own[90]]


def test_a_head_that_fails_for_one_job_fails_no_other(monkeypatch):
    target, head = toy_with_head(1, 1.0, -9.0)
    worker = judged(target, KEY, PROMPT, ())
    [own] = own_text(target, request(PROMPT.text, 1))
    rows = head.logits

    def failing(states: Array) -> Array:
        if head.begin(target.row(extend_digest(prompt_digest(PROMPT), (own, 9)))) in states.flatten():
            raise OutOfMemoryError("no room")
        return rows(states)

    monkeypatch.setattr(head, "logits", failing)
    right, wrong = HeadDraftWorker(worker, head).run([asked_after((own,)), asked_after((own, 9))])
    assert isinstance(right, Choices) and isinstance(wrong, OutOfMemoryError)


def test_a_new_text_does_not_continue_from_the_last_texts_state():
    target, head = toy_with_head(1, 1.0, -9.0)
    worker = judged(target, KEY, PROMPT, ())
    own = own_text(target, request(PROMPT.text, 20))
    drafter = HeadDraftWorker(worker, head)
    later, elsewhere = drafter.run([asked_after(own[:1], epoch=2), asked_after((own[0] + 1, 3))])
    assert isinstance(later, ModelError)
    assert isinstance(elsewhere, Choices)  # a branch: it may differ from the text
    verify(worker, KEY, PROMPT, own[:1], own[1:3])
    [behind] = drafter.run([asked_after(own[:1])])
    assert isinstance(behind, ModelError)


def test_one_row_per_session_is_kept_and_freed_with_it():
    target, head = toy_with_head(1, 1.0, -9.0)
    service = VerifierService(target, head=head)
    both_opened(service)
    while step(service):
        pass
    worker = service._worker
    keys = [SessionKey(peer, 5) for peer in (ALICE, BOB)]
    rows: list[Array] = [worker.anchor(key).row for key in keys]
    assert all(row.shape == (target.vocab_size,) and row.storage_offset() == 0 for row in rows)
    worker.keep_only([])
    assert [worker.anchor(key) for key in keys] == [None, None]


def test_without_a_head_nothing_is_kept():
    target, _ = toy_with_head(1, 1.0, -9.0)
    service = VerifierService(target)
    opened(service)
    assert service._worker.anchor(KEY) is None


def test_a_head_at_temperature_draws_with_the_texts_own_noise():
    target, head = toy_with_head(1, 1.0, -9.0)
    config = DecodingConfig(temperature=0.8, seed=3, silence_s=1e3)
    decoder = VirtualDecoder(target, None, config, world(0.001), cloud_head=head)
    asked = request("a", 60, deadline_s=1e5)
    decoded = decoder.decode(asked)
    assert decoded.token_ids == own_text(target, asked, config.sampling_for(asked.prompt))
    assert len(decoded.rounds) < 0.5 * len(decoded.token_ids)
