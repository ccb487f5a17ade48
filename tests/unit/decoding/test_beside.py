"""Other drafts of a text, verified beside the likeliest: the target follows one of them, and all agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from cloud_machine import ALICE, BOB, PROMPT, Clock, frames, opening, own, step
from support.toys import own_text, toy_pair

from outrider.core.errors import OutOfMemoryError
from outrider.core.frames import Draft, Verdict
from outrider.core.link_profile import LinkProfile
from outrider.core.ports import Chunk
from outrider.core.values import DecodeRequest
from outrider.decoding.cloud import MOST_BESIDE
from outrider.decoding.config import DecodingConfig, Sampling
from outrider.decoding.digest import common_length
from outrider.decoding.forward_times import RECENT_FORWARDS
from outrider.decoding.jobs import (
    ExitHint,
    GivenUp,
    Judgement,
    PrefillTarget,
    SessionKey,
    Verify,
)
from outrider.decoding.limits import CloudLimits
from outrider.decoding.pace import Pace
from outrider.decoding.sequence import CachedSequence
from outrider.decoding.service import VerifierService
from outrider.decoding.session import TargetText
from outrider.decoding.synthetic import SyntheticSettings, synthetic_pair
from outrider.decoding.token_runs import Run, pack_runs
from outrider.decoding.toy import ToyModel
from outrider.decoding.virtual import ComputeProfile, VirtualDecoder, VirtualWorld
from outrider.decoding.workers import TargetWorker
from outrider.wire.codec import encode, wire_bytes

TEXT = own()
KEY = SessionKey(ALICE, 1)


def other(token: int) -> int:
    """Not that token, and not the end."""
    return token % 30 + 1


def verify(length: int, draft: tuple[int, ...], *beside: tuple[int, ...]) -> Verify:
    evidence = (None,) * len(draft)
    return Verify(KEY, 1, TEXT[:length], draft, evidence, "greedy", Sampling(), True, True, beside)


def never(job: Verify, hint: ExitHint) -> bool:
    return False


@pytest.fixture
def chunks(monkeypatch) -> list[list[int]]:
    """How many tokens each chunk of each forward has."""
    sizes: list[list[int]] = []
    plain = ToyModel.forward_together

    def noted(model: ToyModel, chunks: Sequence[Chunk], *given: object, **named: object) -> list:
        sizes.append([len(chunk.token_ids) for chunk in chunks])
        return plain(model, chunks, *given, **named)

    monkeypatch.setattr(ToyModel, "forward_together", noted)
    return sizes


def worker() -> TargetWorker:
    one = TargetWorker(toy_pair(1, 1.0, eos_bias=-9.0)[0])
    assert one.run([PrefillTarget(KEY, 1, PROMPT, 20)], never) == [None]
    return one


def outcome(judged: object) -> tuple[int, int, int | None]:
    assert isinstance(judged, Judgement)
    return judged.branch, judged.accepted, judged.next_token


def test_the_draft_that_the_target_follows_furthest_counts(chunks):
    one = worker()
    wrong = (*TEXT[:2], other(TEXT[2]), 5)
    [judged] = one.run([verify(0, wrong, TEXT[:1], TEXT[:5], TEXT[:4])], never)
    assert outcome(judged) == (2, 5, TEXT[5])
    assert chunks == [[4, 1, 5, 4]], "one forward for all of them"


def test_of_drafts_that_come_as_far_the_jobs_own_counts():
    [judged] = worker().run([verify(0, TEXT[:3], (*TEXT[:3], other(TEXT[3])), TEXT[:2])], never)
    assert outcome(judged) == (0, 3, TEXT[3])


def test_sequences_beside_take_over_what_the_jobs_own_has_of_the_text(chunks):
    """Whatever came between, a forward holds the drafts and the token before them alone."""
    one = worker()
    one.run([verify(0, TEXT[:5])], never)
    one.run([verify(6, TEXT[6:7], (*TEXT[6:7], 9))], never)
    one.run([verify(8, TEXT[8:11])], never)
    [judged] = one.run([verify(12, (other(TEXT[12]), 4), TEXT[12:14], TEXT[12:13])], never)
    assert outcome(judged) == (1, 2, TEXT[14])
    assert chunks == [[5], [2, 3], [4], [3, 3, 2]]


def test_after_a_branch_beside_has_stood_no_token_of_it_runs_again(chunks):
    """Else the next forward holds its tokens too, and is two where they do not fit into one."""
    one = worker()
    one.run([verify(0, TEXT[:2])], never)
    assert outcome(one.run([verify(3, (other(TEXT[3]), 4), TEXT[3:8])], never)[0]) == (1, 5, TEXT[8])
    assert outcome(one.run([verify(9, TEXT[9:11])], never)[0]) == (0, 2, TEXT[11])
    assert chunks == [[2], [3, 6], [3]]


def test_a_text_of_another_prompt_begins_with_nothing_of_the_last_one():
    target = toy_pair(1, 1.0, eos_bias=-9.0)[0]
    one, prompts = TargetWorker(target), [PROMPT, replace(PROMPT, text="go home")]
    for epoch, prompt in enumerate([*prompts, prompts[0]], 1):
        text = own_text(target, DecodeRequest(prompt, 20), Sampling())
        assert one.run([PrefillTarget(KEY, epoch, prompt, 20)], never) == [None]
        draft = (other(text[0]), 3)
        job = verify(0, draft, text[:4], text[:3])._replace(epoch=epoch)
        assert outcome(one.run([job], never)[0]) == (1, 4, text[4])


def test_a_verification_left_in_its_midst_leaves_all_as_they_were():
    one, heard = worker(), []

    def at_first_exit(job: Verify, hint: ExitHint) -> bool:
        heard.append(hint)
        return True

    one.run([verify(0, TEXT[:2], TEXT[:3])], never)
    [left] = one.run([verify(3, (7, 7), (8, 8), TEXT[3:6])], at_first_exit)
    assert isinstance(left, GivenUp)
    [judged] = one.run([verify(3, (7, 7), (8, 8), TEXT[3:6])], never)
    assert outcome(judged) == (2, 3, TEXT[6])
    [hint] = heard
    assert [len(word.choices) for word in hint.words] == [3, 3, 4], "exits speak of all of them at once"


def test_who_hears_an_exit_is_told_what_is_verified_beside():
    """Else a verification is given up for what it judges already."""
    one, heard = worker(), []

    def note(job: Verify, hint: ExitHint) -> bool:
        heard.append(job)
        return False

    one.run([verify(0, TEXT[:2])], never)
    job = verify(3, (7, 7), TEXT[3:6])
    one.run([job], note)
    assert heard and set(heard) == {job}


def test_without_room_for_another_sequence_fewer_are_verified(monkeypatch):
    one, opened = worker(), []

    def full(model: ToyModel) -> None:
        opened.append(model)
        raise OutOfMemoryError("no room")

    monkeypatch.setattr(ToyModel, "open_session", full)
    [judged] = one.run([verify(0, (7, 7), TEXT[:3])], never)
    assert outcome(judged) == (0, 0, TEXT[0]) and opened


def test_a_failure_beside_a_draft_is_not_its_own(monkeypatch):
    one = worker()
    one.run([verify(0, (7, 7), TEXT[:3])], never)

    def broken(*given: object) -> None:
        raise RuntimeError("a fault")

    one._beside[0]._session.forward = broken
    [judged] = one.run([verify(1, TEXT[1:2], TEXT[1:3])], never)
    assert outcome(judged) == (0, 1, TEXT[2])


def test_a_place_that_a_new_session_may_need_is_free():
    one = worker()
    one.run([verify(0, (7, 7), TEXT[:3])], never)
    assert one._beside
    one.run([PrefillTarget(SessionKey(BOB, 1), 1, PROMPT, 20)], never)
    assert not one._beside
    [judged] = one.run([verify(1, (7,), TEXT[1:3])], never)
    assert outcome(judged) == (1, 2, TEXT[3])


def test_a_sequence_that_has_as_much_copies_nothing(monkeypatch):
    target = toy_pair(1, 1.0, eos_bias=-9.0)[0]
    first, second = CachedSequence(target), CachedSequence(target)
    first.prefill(PROMPT, 20)
    first.logits(TEXT[:4], 1)
    second.follow(first, TEXT[:4])
    assert second.shared(TEXT) == 4
    monkeypatch.setattr(type(second._session), "copy_from", None)
    second.follow(first, TEXT[:4])
    second.follow(first, (*TEXT[:2], 5))
    assert second.shared(TEXT) == 4


# ------------------------------------------------------------------ the cloud's machine


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
        text._pace.on_verified(0, 0.05)
        text._pace.on_verified(4, 0.05)
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
    assert len(pending(cloud(branches=12, max_sessions=99)).beside) == MOST_BESIDE


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
    monkeypatch.setattr(Pace, "on_draft_judged", lambda pace, *given: said.append(given))
    monkeypatch.setattr(Pace, "on_second_judged", lambda pace, *given: said.append(given))
    one = cloud(branches=2)
    job = pending(one)
    one.finish(job, one.run([job], never)[0], 0.05)
    assert said == [(True,), (1, True)]


# ------------------------------------------------------------------ when it pays


def paced(rate_of: int = 3, wide_s: float | None = None) -> Pace:
    """Of drafts of 4 so many tokens stood; a forward of 4 takes as long as a step, one of 20 `wide_s`."""
    one = Pace()
    one.on_verified(0, 0.05)
    for _ in range(50):
        one.on_verified(4, 0.05)
        one.on_draft_judged(rate_of, rate_of < 4)
        if wide_s is not None:
            one.on_verified(4, wide_s, 16)
    return one


def test_nothing_is_verified_beside_a_draft_before_both_times_are_known():
    assert Pace().num_beside(4, [(0, 4)]) == 0
    fresh = Pace()
    fresh.on_verified(0, 0.05)
    assert fresh.num_beside(4, [(0, 4)]) == 0


LEAVES = [(0, 4), (1, 4), (2, 4)]


def test_what_takes_no_longer_pays():
    assert paced().num_beside(4, LEAVES) == 3
    assert paced(wide_s=0.05).num_beside(4, LEAVES) == 3


def test_what_takes_long_does_not_pay():
    assert paced(wide_s=0.2).num_beside(4, LEAVES) < 3
    assert paced(wide_s=0.06).num_beside(4, LEAVES) == paced(wide_s=0.05).num_beside(4, LEAVES)


def test_what_drafts_beside_another_take_says_nothing_of_a_draft_as_long():
    """A draft that is too long for one forward takes two."""
    one = paced(4)
    one.on_verified(12, 0.2)
    for _ in range(20):
        one.on_verified(4, 0.05, 8)
    assert one.chunk_length(12) < 12
    assert one.num_beside(4, [(0, 7)]) == 1


def test_what_seldom_stands_pays_less():
    lucky, unlucky = paced(wide_s=0.06), paced(wide_s=0.06)
    for _ in range(200):
        lucky.on_second_judged(True)
        unlucky.on_second_judged(False)
    assert (lucky.num_beside(4, [(0, 15)]), unlucky.num_beside(4, [(0, 15)])) == (1, 0)
    assert paced(1, wide_s=0.06).num_beside(4, [(3, 15)]) == 0, "the text seldom comes that far"


def test_the_first_of_a_text_tells_no_time_for_it_brings_the_prompt_there():
    one = paced()
    one.on_verified(4, 0.5, 5)
    assert one.num_beside(4, LEAVES) == 3
    one.on_verified(4, 0.5, 5)
    assert one.num_beside(4, LEAVES[:1]) == 0
    other = paced(wide_s=0.05)
    other.begin_text()
    other.on_verified(4, 0.5, 5)
    assert other.num_beside(4, LEAVES) == 3


def test_a_hiccup_is_forgotten():
    one = paced(wide_s=0.05)
    one.on_verified(4, 0.5, 5)
    assert one.num_beside(4, LEAVES[:1]) == 0
    for _ in range(RECENT_FORWARDS):
        one.on_verified(4, 0.05)
    assert one.num_beside(4, LEAVES[:1]) == 1


def test_of_drafts_that_leave_at_one_place_one_can_stand():
    dear = paced(wide_s=0.06)
    alone, twice, apart = [(1, 15)], [(1, 15), (1, 15)], [(0, 15), (1, 15)]
    dear.on_verified(4, 0.065, 32)
    assert dear.num_beside(4, alone) == dear.num_beside(4, twice) == 1
    assert dear.num_beside(4, apart) == 2
    assert paced(wide_s=0.05).num_beside(4, twice) == 2, "where it costs nothing it may"


# ------------------------------------------------------------------ whole texts


def followed_by(monkeypatch) -> list[tuple[int, int]]:
    """Of every draft beside another that counted: how much of it the other had, and how far it stood."""
    followed: list[tuple[int, int]] = []
    plain = TargetText.on_judged

    def noted(text: TargetText, job: Verify, judgement: Judgement, *given: object) -> list:
        if judgement.branch:
            stood = common_length(job.draft, job.beside[judgement.branch - 1][: judgement.accepted])
            followed.append((stood, judgement.accepted))
        return plain(text, job, judgement, *given)

    monkeypatch.setattr(TargetText, "on_judged", noted)
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
