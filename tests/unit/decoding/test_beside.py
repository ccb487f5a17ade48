"""Other drafts of a text, verified beside the likeliest: the target follows one of them, and all agree."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cloud_machine import ALICE, BOB, PROMPT, Clock, frames, opening, own, step
from support.toys import toy_pair

from outrider.core.frames import Draft, Verdict
from outrider.core.link_profile import LinkProfile
from outrider.core.values import DecodeRequest
from outrider.decoding.cloud.target_sequence import TargetSequence
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.fakes.synthetic import SyntheticSettings, synthetic_pair
from outrider.decoding.fakes.toy import ToyModel
from outrider.decoding.jobs import (
    ExitHint,
    Judgement,
    SessionKey,
    Verify,
)
from outrider.decoding.policy.session_estimates import SessionEstimates
from outrider.decoding.protocol.branch_codec import Run, pack_runs
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.protocol.prefix_digest import common_length
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.decoding.tuning import DEFAULT_TUNING
from outrider.wire.codec import encode, wire_bytes

TEXT = own()


def other(token: int) -> int:
    """Not that token, and not the end."""
    return token % 30 + 1


def never(job: Verify, hint: ExitHint) -> bool:
    return False


def cloud(branches: int = 3, when_idle: str = "adaptive", hints: str = "useful", **limits) -> VerifierService:
    """Alice's text, for which the cloud knows what steps and verifications take, with so many branches that
    leave the likeliest draft.
    """
    one = VerifierService(toy_pair(1, 1.0, eos_bias=-9.0)[0], CloudLimits(**limits), Clock())
    one.receive(ALICE, opening(when_idle=when_idle, hints=hints))
    step(one)
    text = one._machine._sessions[SessionKey(ALICE, 5)].text
    assert text is not None
    if when_idle == "adaptive":
        step(one)
        text.policy.estimates.on_verified(0, 0.05)
        text.policy.estimates.on_verified(4, 0.05)
    offer(one, branches, len(text._text))
    return one


def offer(one: VerifierService, branches: int, at: int) -> None:
    """The likeliest branch leaves the target's text after a token, and so do all others but the last."""
    wrong = (TEXT[at], other(TEXT[at + 1]), 3, 4)
    free = [token for token in range(1, 32) if token not in (TEXT[at + 1], wrong[1])]
    right = [Run(3, (token, 9, 9)) for token in free[: branches - 1]]
    one.receive(
        ALICE, Draft(5, 1, at, None, pack_runs([Run(0, wrong), *right, Run(3, TEXT[at + 1 : at + 4])]))
    )


def pending(one: VerifierService) -> Verify:
    [job] = one.next_jobs()
    assert isinstance(job, Verify)
    return job


def test_branches_that_leave_the_likeliest_one_are_verified_beside_it():
    one = cloud(branches=1)
    job = pending(one)
    at = len(job.tokens)
    assert job.draft == (TEXT[at], other(TEXT[at + 1]), 3, 4)
    assert job.beside == (TEXT[at : at + 4],)
    [result] = one.run([job], never)
    [verdict] = frames(one.finish(job, result, 0.05))
    assert isinstance(verdict, Verdict)
    assert (verdict.base, verdict.tokens, verdict.drafted) == (at, TEXT[at : at + 5], 4)


@pytest.mark.parametrize(("places", "count"), [(1, 0), (2, 1), (3, 2), (8, 3)])
def test_they_have_the_places_that_nobody_needs(places, count):
    assert len(pending(cloud(max_sessions=places)).beside) == count


def test_they_are_so_many_at_most():
    assert len(pending(cloud(branches=12, max_sessions=99)).beside) == DEFAULT_TUNING.max_siblings


def test_all_together_they_have_the_rows_of_a_batch():
    job = pending(cloud(branches=3, batch_tokens=11))
    assert len(job.beside) == 1 and job.num_rows == 10


def test_each_is_at_most_as_long_as_a_forward_takes_at_no_further_cost():
    assert {len(draft) for draft in pending(cloud(branches=3, shared_tokens=4)).beside} == {3}


@pytest.mark.parametrize("limits", [{"tokens_per_s": 1000.0}, {}])
def test_a_robot_that_is_limited_or_not_alone_has_none(limits):
    one = cloud(**limits)
    if not limits:
        one.receive(BOB, opening())
        step(one)
    while not isinstance(job := one.next_jobs()[0], Verify):
        pass
    assert not job.beside


@pytest.mark.parametrize("when_idle", ["wait", "step"])
def test_the_papers_strategies_verify_one_draft(when_idle):
    assert not pending(cloud(when_idle=when_idle, hints="none")).beside


def test_a_model_that_takes_sessions_in_turn_verifies_one_draft(monkeypatch):
    monkeypatch.setattr(ToyModel, "shares_prompts", False)
    assert not pending(cloud()).beside


def test_what_runs_beside_counts_for_the_robots_share(monkeypatch):
    one, charged = cloud(branches=2), []
    monkeypatch.setattr(one._machine._shares, "charge", lambda owner, used_s: charged.append(used_s))
    job = pending(one)
    assert job.num_rows == 5 + 5 + 5
    one._machine.charge([job], 0.3)
    assert charged == [pytest.approx(0.3)]


def test_what_is_learnt_of_a_draft_is_how_far_it_stood_itself(monkeypatch):
    said: list[tuple] = []
    monkeypatch.setattr(SessionEstimates, "on_draft_judged", lambda pace, *given: said.append(given))
    monkeypatch.setattr(SessionEstimates, "on_second_judged", lambda pace, *given: said.append(given))
    one = cloud(branches=2)
    job = pending(one)
    one.finish(job, one.run([job], never)[0], 0.05)
    assert said == [(True,), (1, True)]


def followed_by(monkeypatch) -> list[tuple[int, int]]:
    """Of every draft beside another that counted: how much of it the other had, and how far it stood."""
    followed: list[tuple[int, int]] = []
    plain = TargetSequence.on_judged

    def noted(text: TargetSequence, job: Verify, judgement: Judgement, *given: object) -> list:
        if judgement.branch:
            stood = common_length(job.draft, job.beside[judgement.branch - 1][: judgement.accepted])
            followed.append((stood, judgement.accepted))
        return plain(text, job, judgement, *given)

    monkeypatch.setattr(TargetSequence, "on_judged", noted)
    return followed


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_texts_are_the_targets_own_and_branches_beside_a_draft_are_followed(temperature, monkeypatch):
    followed = followed_by(monkeypatch)
    target, draft = synthetic_pair(SyntheticSettings(3, 0.6, 0.8, (0.2, 0.4, 0.6)))
    world = VirtualWorld(
        lambda frame: wire_bytes(encode(frame)),
        ComputeProfile(draft_token_s=0.004, verify_s=0.05, step_s=0.05),
        LinkProfile(delay_s=0.01),
        LinkProfile(delay_s=0.01),
    )
    config = DecodingConfig(temperature=temperature, workers=4)
    alone, decoder = (
        VirtualDecoder(target, draft, one, world) for one in (replace(config, strategy="ar"), config)
    )
    for number in range(4):
        request = DecodeRequest(replace(PROMPT, text=f"go there {number}"), 60)
        assert decoder.decode(request).token_ids == alone.decode(request).token_ids
    assert len(followed) > 5 and all(stood < accepted for stood, accepted in followed)
