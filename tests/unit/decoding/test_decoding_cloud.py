"""The cloud machine alone: sessions, stale epochs, refusals, and that peers cannot hurt each other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.toys import JPEG, own_text, request, toy_pair

from outrider.core.frames import (
    Cancel,
    Close,
    Draft,
    Open,
    Opened,
    Peer,
    Ping,
    Pong,
    PrefillAgain,
    Proposal,
    Refused,
    Resume,
    Rules,
    Unsettled,
    Verdict,
)
from outrider.core.values import Prompt
from outrider.decoding.cloud import CloudLimits
from outrider.decoding.config import DecodingConfig
from outrider.decoding.digest import extend_digest, prompt_digest
from outrider.decoding.driver import LinkedDecoder
from outrider.decoding.jobs import CloudJob, CloudResult, ExitHint, PrefillTarget
from outrider.decoding.local import LocalLink
from outrider.decoding.packing import pack_token_probs, unpack_residue, unpack_target_row
from outrider.decoding.schemes import NUM_DRAWS
from outrider.decoding.service import VerifierService
from outrider.decoding.token_runs import Run, pack_runs
from outrider.decoding.toy import ToyModel, ToySession, ToySettings
from outrider.wire.codec import decode_cloud_frame, encode

PROMPT = Prompt("find the chair", JPEG)
ROOT = prompt_digest(PROMPT)
ALICE, BOB = Peer("", b"alice"), Peer("", b"bob")


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def service(**limits) -> VerifierService:
    target, _ = toy_pair(1, 1.0, eos_bias=-9.0)
    return VerifierService(target, CloudLimits(**limits), Clock())


def opening(
    epoch: int = 1,
    tokens: tuple[int, ...] = (),
    when_idle="wait",
    acceptance="greedy",
    hints: str = "none",
    digest: int | None = None,
    **changes,
) -> Open:
    digest = extend_digest(ROOT, tokens) if digest is None else digest
    values = {"text": PROMPT.text, "jpeg": JPEG, "max_new_tokens": 20, **changes}
    return Open(
        5,
        epoch,
        digest,
        values["text"],
        values["jpeg"],
        tokens,
        values["max_new_tokens"],
        values.get("tokenizer", "toy-32-0"),
        Rules(when_idle, acceptance, values.get("temperature", 0.0), 1.0, 7, True, hints, "confidence"),
        values.get("model", ""),
    )


def frames(replies: list) -> list:
    return [reply.frame for reply in replies]


def step(cloud: VerifierService) -> list:
    """The replies of one job, hints included; [] where there is none."""
    replies: list = []
    cloud.step(replies.append)
    return replies


def next_job(cloud: VerifierService) -> CloudJob | None:
    """The only job there is, if any."""
    jobs = cloud.next_jobs()
    assert len(jobs) <= 1
    return jobs[0] if jobs else None


def run(cloud: VerifierService, job: CloudJob) -> CloudResult:
    [result] = cloud.run([job], lambda job, hint: None)
    return result


def opened(cloud: VerifierService, peer: Peer = ALICE, **options) -> None:
    assert frames(cloud.receive(peer, opening(**options))) == []
    assert isinstance(frames(step(cloud))[0], Opened)


def both_opened(cloud: VerifierService, **options) -> None:
    for peer in (ALICE, BOB):
        assert frames(cloud.receive(peer, opening(**options))) == []
    waiting = 2
    while waiting:
        waiting -= sum(isinstance(frame, Opened) for frame in frames(step(cloud)))


def draft(base: int, *runs: tuple[int, ...], epoch: int = 1, digest: int = ROOT) -> Draft:
    """Branches that all grow from one text."""
    lengths = [0, *(len(tokens) for tokens in runs)]
    return Draft(5, epoch, base, digest, pack_runs(map(Run, lengths, runs)))


def own(max_new_tokens: int = 20) -> tuple[int, ...]:
    """What the service's target writes alone."""
    return own_text(toy_pair(1, 1.0, -9.0)[0], request(PROMPT.text, max_new_tokens))


def test_a_draft_is_judged_once():
    cloud = service()
    text = own()
    opened(cloud)
    wrong = (text[2] + 1) % 32
    frame = draft(0, (*text[:2], wrong))
    assert cloud.receive(ALICE, frame) == cloud.receive(ALICE, frame) == []
    [verdict] = frames(step(cloud))
    assert verdict == Verdict(5, 1, 0, ROOT, text[:3], 3, 1, verdict.verify_us)
    assert step(cloud) == []
    assert cloud.receive(ALICE, frame) == []
    assert step(cloud) == []


def test_the_longest_waiting_branch_is_verified():
    cloud = service()
    text = own()
    opened(cloud)
    wrong = (text[0] + 1) % 32
    for branches in ((text[:2],), ((wrong,), text[:5]), (text[:3],)):
        cloud.receive(ALICE, draft(0, *branches))
    [verdict] = frames(step(cloud))
    assert (verdict.drafted, verdict.tokens) == (5, text[:6])


def test_a_lost_prefix_is_never_continued_from_an_empty_cache():
    cloud = service()
    again = [PrefillAgain(5, 1)]
    assert frames(cloud.receive(ALICE, draft(0, (1,)))) == again
    assert frames(cloud.receive(ALICE, Resume(5, 1, 0, ROOT))) == again
    opened(cloud)
    assert frames(cloud.receive(ALICE, Resume(5, 1, 3, ROOT))) == again
    assert frames(cloud.receive(ALICE, Resume(5, 1, 0, ROOT + 1))) == again
    for other in (draft(3, (1,), digest=extend_digest(ROOT, (1, 2, 3))), draft(0, (1,), digest=ROOT + 1)):
        assert cloud.receive(ALICE, other) == []
        assert step(cloud) == []


def test_a_robot_that_wants_another_model_is_told_which_one_is_served():
    cloud = service()
    opened(cloud)
    [refused] = frames(cloud.receive(BOB, opening(model="target:another")))
    assert (refused.reason, refused.epoch) == ("model", 1)
    assert "'target:another'" in refused.message and "'toy-1'" in refused.message
    assert cloud.stats.open_sessions == 1
    assert frames(cloud.receive(BOB, opening(model="toy-1"))) == []
    cloud.receive(ALICE, draft(0, own()[:2]))
    assert isinstance(frames(step(cloud))[0], Opened)
    assert isinstance(frames(step(cloud))[0], Verdict)


def test_an_open_with_tokens_continues_after_them():
    cloud = service()
    text = own()
    opened(cloud, tokens=text[:7], when_idle="step")
    [verdict] = frames(step(cloud))
    assert (verdict.base, verdict.tokens) == (7, (text[7],))


def test_the_edges_word_on_the_text_wins_even_over_a_running_job():
    """After a lost link the edge may have gone on alone."""
    cloud = service()
    opened(cloud, when_idle="step")
    text = frames(step(cloud))[0].tokens + frames(step(cloud))[0].tokens
    job = next_job(cloud)
    result = run(cloud, job)
    theirs = (text[0], text[1] % 31 + 1)
    assert theirs != text
    assert len(frames(cloud.receive(ALICE, opening(tokens=theirs, when_idle="step")))) == 1
    assert cloud.finish(job, result, 0.1) == []
    [verdict] = frames(step(cloud))
    assert verdict.base == 2
    assert verdict.digest == extend_digest(ROOT, theirs)


def test_stale_epochs_are_dropped_and_newer_ones_replace():
    cloud = service()
    opened(cloud, epoch=3)
    assert frames(cloud.receive(ALICE, opening(epoch=2))) == []
    assert frames(cloud.receive(ALICE, draft(0, (1,), epoch=2))) == []
    assert step(cloud) == []
    opened(cloud, epoch=4)
    cloud.receive(ALICE, Cancel(5, 4))
    assert frames(cloud.receive(ALICE, opening(epoch=4))) == []
    assert step(cloud) == []


def test_the_result_of_a_cancelled_job_is_dropped():
    cloud = service()
    cloud.receive(ALICE, opening())
    job = next_job(cloud)
    cloud.receive(ALICE, Cancel(5, 1))
    assert cloud.finish(job, run(cloud, job), 0.1) == []


def test_the_table_is_bounded_and_idle_places_are_freed():
    cloud = service(max_sessions=1, idle_s=10.0)
    opened(cloud)
    [refusal] = frames(cloud.receive(BOB, opening()))
    assert refusal.reason == "busy"
    assert isinstance(frames(cloud.receive(BOB, Ping(0, 0)))[0], Pong)
    cloud._clock.now_s = 11.0
    opened(cloud, BOB)
    assert frames(cloud.receive(ALICE, Resume(5, 1, 0, ROOT))) == [PrefillAgain(5, 1)]
    cloud.receive(BOB, Close(5, 0))
    assert cloud.stats.open_sessions == 0


def test_refused_texts_keep_no_place_from_those_who_need_one():
    cloud = service(max_sessions=2)
    opened(cloud, ALICE)
    strangers = [Peer("", b"stranger %d" % number) for number in range(5)]
    no_picture = opening(jpeg=b"none", digest=prompt_digest(Prompt(PROMPT.text, b"none")))
    for stranger in strangers:
        for bad, reason in ((opening(digest=ROOT + 1), "protocol"), (no_picture, "frame")):
            answers = frames([*cloud.receive(stranger, Close(5, 0)), *cloud.receive(stranger, bad)])
            [refusal] = answers or frames(step(cloud))
            assert refusal.reason == reason
            assert frames(cloud.receive(stranger, Resume(5, 1, 0, ROOT))) == [refusal]
    opened(cloud, BOB)
    [refusal] = frames(cloud.receive(strangers[-1], opening(epoch=2)))
    assert refusal.reason == "busy", "a text that is decoded keeps its place"
    cloud.receive(ALICE, Cancel(5, 1))
    [refusal] = frames(cloud.receive(strangers[-1], opening(epoch=2)))
    assert refusal.reason == "busy", "so does one that was cancelled"


def test_bad_opens_are_refused_with_the_reason_again_and_again():
    for bad, word in [
        (opening(digest=ROOT + 1), "digest"),
        (opening(tokens=(31, 32)), "vocabulary"),
        (opening(tokens=(1,) * 21), "allowed"),
    ]:
        cloud = service()
        [refusal] = frames(cloud.receive(ALICE, bad))
        assert (refusal.reason, word in refusal.message) == ("protocol", True)
        assert step(cloud) == []
    cloud = service()
    cloud.receive(ALICE, opening(jpeg=b"none", digest=prompt_digest(Prompt(PROMPT.text, b"none"))))
    [refusal] = frames(step(cloud))
    assert refusal.reason == "frame"
    assert frames(cloud.receive(ALICE, Resume(5, 1, 0, ROOT))) == [refusal]


def test_a_text_that_outgrows_the_model_is_a_config_refusal():
    cloud = service()
    cloud.receive(ALICE, opening(max_new_tokens=4000))
    [refusal] = frames(step(cloud))
    assert refusal.reason == "config"
    assert "max_new_tokens=4000" in refusal.message


def test_an_unexpected_failure_ends_one_text_only(caplog):
    cloud = service()
    opened(cloud, ALICE)
    cloud.receive(BOB, opening())
    job = next_job(cloud)
    [refusal] = frames(cloud.finish(job, RuntimeError("boom"), 0.0))
    assert refusal.reason == "internal"
    cloud.receive(ALICE, draft(0, (1,)))
    assert isinstance(frames(step(cloud))[0], Verdict)


def test_sessions_share_a_batch():
    cloud = service()
    both_opened(cloud, when_idle="step")
    for _ in range(6):
        assert {reply.peer for reply in step(cloud)} == {ALICE, BOB}


def test_a_prompt_waits_while_its_robot_has_had_more_than_the_others():
    cloud = service()
    both_opened(cloud, when_idle="step", max_new_tokens=200)
    cloud.receive(ALICE, Cancel(5, 1))
    cloud.receive(ALICE, opening(epoch=2, when_idle="step"))
    kinds = []
    for epoch in range(3, 23):
        jobs = cloud.next_jobs()
        kinds.append(type(jobs[0]))
        compute_s = 0.03 if kinds[-1] is PrefillTarget else 0.01
        cloud.finish_all(jobs, cloud.run(jobs, lambda job, hint: None), compute_s)
        if kinds[-1] is PrefillTarget:
            cloud.receive(ALICE, opening(epoch=epoch, when_idle="step"))
    assert 5 <= kinds.count(PrefillTarget) <= 6, "three batches of the other's for a prompt of three times"


def test_a_robot_has_its_share_of_a_batch_and_no_more():
    cloud = service(batch_tokens=18)
    both_opened(cloud, max_new_tokens=80)
    cloud.receive(ALICE, draft(0, own(60)[:50]))
    cloud.receive(BOB, draft(0, own()[:5]))
    jobs = {job.key.peer: job for job in cloud.next_jobs()}
    assert (len(jobs[ALICE].draft), len(jobs[BOB].draft)) == (7, 5)


def test_a_robots_share_is_what_the_device_takes_at_once():
    for device, longest in (("cpu", 7), ("cuda", 15), ("cuda:0", 15)):
        limits = CloudLimits().on(device)
        cloud = service(batch_tokens=limits.batch_tokens, shared_tokens=limits.shared_tokens)
        both_opened(cloud, max_new_tokens=80)
        cloud.receive(ALICE, draft(0, own(60)[:50]))
        cloud.receive(BOB, draft(0, own()[:5]))
        assert {len(job.draft) for job in cloud.next_jobs()} == {longest, 5}


def test_a_robot_alone_has_the_whole_batch():
    cloud = service(batch_tokens=18)
    opened(cloud, max_new_tokens=80)
    cloud.receive(ALICE, draft(0, own(60)[:50]))
    assert len(next_job(cloud).draft) == 17


def test_who_was_left_out_of_a_batch_comes_first_in_the_next():
    cloud = service(batch_tokens=9)
    both_opened(cloud)
    for peer in (ALICE, BOB):
        cloud.receive(peer, draft(0, own()[:7]))
    served = []
    for _ in range(2):
        jobs = cloud.next_jobs()
        cloud.finish_all(jobs, cloud.run(jobs, lambda job, hint: None), 0.01)
        served.append({job.key.peer for job in jobs})
    assert served in ([{ALICE}, {BOB}], [{BOB}, {ALICE}])


def test_a_robot_beyond_its_rate_waits_and_the_others_do_not():
    cloud = service(tokens_per_s=4.0)
    both_opened(cloud, max_new_tokens=40)
    text = own()
    cloud.receive(ALICE, draft(0, text[:7]))
    cloud.receive(BOB, draft(0, text[:1]))
    assert {reply.peer for reply in step(cloud)} == {ALICE, BOB}
    cloud.receive(ALICE, draft(8, (1,), digest=extend_digest(ROOT, text[:8])))
    cloud.receive(BOB, draft(2, (1,), digest=extend_digest(ROOT, text[:2])))
    assert {reply.peer for reply in step(cloud)} == {BOB}
    assert step(cloud) == []
    assert cloud.next_look_s() == pytest.approx(1.0, abs=0.01)
    cloud._clock.now_s += 1.01
    assert {reply.peer for reply in step(cloud)} == {ALICE}


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


def test_a_text_that_is_complete_gives_its_place_to_who_needs_one():
    cloud = service(max_sessions=1, rest_s=1.0)
    opened(cloud, ALICE, max_new_tokens=1, when_idle="step")
    step(cloud)
    [refusal] = frames(cloud.receive(BOB, opening()))
    assert refusal.reason == "busy", "its robot may not have heard the end yet"
    cloud._clock.now_s += 1.1
    opened(cloud, BOB)
    assert frames(cloud.receive(ALICE, Resume(5, 1, 0, ROOT))) == [PrefillAgain(5, 1)]


def proposal(text: tuple[int, ...], tokens: tuple[int, ...], settled: int | None = None) -> Proposal:
    """Tokens that were drawn with certainty, for `split` and `sparse`."""
    digest = extend_digest(ROOT, text)
    return Proposal(5, 1, len(text), digest, settled, tokens, pack_token_probs([1.0] * len(tokens)))


def test_a_draft_that_overtakes_the_prefill_is_kept():
    cloud = service()
    text = own()
    cloud.receive(ALICE, opening())
    assert cloud.receive(ALICE, draft(0, text[:3])) == []
    assert isinstance(frames(step(cloud))[0], Opened)
    assert frames(step(cloud))[0].tokens == text[:4]


def test_a_draft_from_a_text_left_behind_is_ignored():
    """To answer it by PrefillAgain would make an edge with many drafts on the way send its picture again."""
    cloud = service()
    text = own()
    opened(cloud)
    cloud.receive(ALICE, draft(0, text[:3]))
    step(cloud)
    late = Draft(5, 1, 1, extend_digest(ROOT, text[:1]), pack_runs([Run(0, (text[1], 9))]))
    assert cloud.receive(ALICE, late) == []
    assert step(cloud) == []


def test_branches_ahead_of_the_verdict_are_continued_with_at_once():
    cloud = service()
    text = own()
    opened(cloud)
    cloud.receive(ALICE, Draft(5, 1, 3, extend_digest(ROOT, text[:3]), pack_runs([Run(0, text[3:6])])))
    assert step(cloud) == []
    cloud.receive(ALICE, draft(0, text[:2]))
    assert [frames(step(cloud))[0].tokens for _ in range(2)] == [text[:3], text[3:7]]


def test_an_empty_draft_asks_for_a_step():
    cloud = service()
    opened(cloud)
    assert step(cloud) == []
    cloud.receive(ALICE, draft(0))
    [verdict] = frames(step(cloud))
    assert (verdict.tokens, verdict.drafted, verdict.passes) == (own()[:1], 0, 0)
    assert step(cloud) == [], "one step, not more"


@pytest.mark.parametrize(
    ("acceptance", "frame", "word"),
    [
        ("greedy", proposal((), (1,)), "send Draft"),
        ("coupled", proposal((), (1,)), "send Draft"),
        ("rejection", draft(0, (1,)), "send Proposal"),
        ("split", draft(0, (1,)), "send Proposal"),
        ("sparse", draft(0, (1,)), "send Proposal"),
        ("greedy", draft(0, (1, 32)), "vocabulary"),
        ("split", proposal((), (1, 32)), "vocabulary"),
        ("split", proposal((), (1,), settled=32), "vocabulary"),
        ("greedy", Draft(5, 1, 0, ROOT, b"\x05"), "cut short"),
        ("split", Proposal(5, 1, 0, ROOT, None, (1, 2), b"\x00\x00"), "probabilities"),
    ],
)
def test_a_frame_against_the_rules_ends_its_text_and_says_why(acceptance, frame, word):
    cloud = service()
    opened(cloud, acceptance=acceptance)
    opened(cloud, BOB, when_idle="step")
    [refusal] = frames(cloud.receive(ALICE, frame))
    assert (refusal.reason, word in refusal.message) == ("protocol", True)
    assert frames(cloud.receive(ALICE, Resume(5, 1, 0, ROOT))) == [refusal]
    assert [reply.peer for reply in step(cloud)] == [BOB]


def test_a_settled_token_counts_only_where_the_text_waits_for_it():
    cloud = service()
    text = own()
    wrong = text[1] % 31 + 1
    opened(cloud, acceptance="split")
    cloud.receive(ALICE, proposal((), (text[2],), settled=text[0]))
    assert step(cloud) == [], "nothing is unsettled yet"
    cloud.receive(ALICE, proposal((), (text[0], wrong)))
    [verdict] = frames(step(cloud))
    assert isinstance(verdict, Unsettled)
    assert (verdict.base, verdict.tokens, verdict.drafted) == (0, text[:1], 2)
    assert int(unpack_target_row(verdict.residue, 32).argmax()) == text[1]
    assert step(cloud) == [], "the text waits for the edge"
    cloud.receive(ALICE, proposal((), (), settled=9))
    assert step(cloud) == [], "that was another text"
    settled = proposal(text[:1], text[2:4], settled=text[1])
    for _ in range(2):
        assert cloud.receive(ALICE, settled) == []
    [verdict] = frames(step(cloud))
    assert isinstance(verdict, Verdict)
    assert (verdict.base, verdict.tokens) == (2, text[2:5])
    assert step(cloud) == []
    cloud.receive(ALICE, proposal(text[:5], (), settled=7))
    [verdict] = frames(cloud.receive(ALICE, Resume(5, 1, 0, ROOT)))
    assert verdict.tokens == text[:5]


def test_an_unsettled_verdict_is_repeated_with_the_draws_asked_for():
    model = ToyModel(ToySettings(seed=1, vocab_size=64, eos_bias=-9.0))
    cloud = VerifierService(model, CloudLimits(), Clock())
    opened(cloud, acceptance="sparse", temperature=3.0, tokenizer=model.tokenizer.fingerprint)
    token = int(model.row(ROOT).argmin())
    cloud.receive(ALICE, proposal((), (token,)))
    [first] = frames(step(cloud))
    assert isinstance(first, Unsettled)
    residue = unpack_residue(first.residue, 64)
    assert residue.draws.first == 0
    resume = Resume(5, 1, 0, ROOT, residue.draws.end)
    [more] = frames(cloud.receive(ALICE, resume))
    refilled = unpack_residue(more.residue, 64)
    assert (more.tokens, more.drafted) == (first.tokens, 0)
    assert refilled.head_ids == residue.head_ids
    assert refilled.draws.first == residue.draws.end
    assert len(refilled.draws.ids) == len(residue.draws.ids) == NUM_DRAWS
    assert frames(cloud.receive(ALICE, resume)) == [more]


def hinting(hints: str, when_idle="wait", max_new_tokens: int = 200):
    """A cloud that runs a verification of `draft`, and the job it runs."""
    cloud = service()
    opened(cloud, hints=hints, when_idle=when_idle, max_new_tokens=max_new_tokens)
    cloud.receive(ALICE, draft(0, own(70)[:64]))
    job = next_job(cloud)
    assert len(job.draft) == 64
    return cloud, job


def test_all_hints_are_passed_on_where_all_are_wanted():
    cloud, job = hinting("all")
    said = [ExitHint(0, 1, 9, 0.4), ExitHint(1, 1, 9, 0.41), ExitHint(2, 2, 7, 1.0)]
    answers = [frames(cloud.hint(job, hint)) for hint in said]
    expected = [(0, 40, (job.draft[0], 9)), (1, 41, (job.draft[0], 9)), (2, 100, (*job.draft[:2], 7))]
    assert [(hint.exit, hint.confidence, hint.tokens) for [hint] in answers] == expected
    assert all(hint.base == 0 for [hint] in answers)


def doubting(job, exit_index: int, at: int, token: int, confidence: float = 1.0) -> ExitHint:
    """An exit that contradicts the draft at one place."""
    choices = (*job.draft[:at], token, *job.draft[at + 1 :], 7)
    return ExitHint(exit_index, at, token, confidence, choices, (confidence,) * len(choices))


def test_a_useful_hint_is_news_that_deserves_trust():
    cloud, job = hinting("useful")
    [first] = frames(cloud.hint(job, doubting(job, 0, 0, 9)))
    assert first.tokens == (9,)
    assert first.confidence < 100, "a hint is not believed by its own word alone"
    assert cloud.hint(job, doubting(job, 1, 0, 9)) == [], "no news"
    assert cloud.hint(job, doubting(job, 2, 0, 8, 0.1)) == [], "hardly to be trusted"
    assert len(cloud.hint(job, doubting(job, 2, 0, 8))) == 1


def test_an_exit_that_contradicts_the_draft_twice_names_both_outcomes(monkeypatch):
    monkeypatch.setattr("outrider.decoding.session.LEAST_TRUST", 0.02)
    cloud, job = hinting("useful")
    once = doubting(job, 0, 1, 9)
    twice = replace(once, choices=(*once.choices[:3], 8, *once.choices[4:]))
    said = frames(cloud.hint(job, twice))
    assert [hint.tokens for hint in said] == [(job.draft[0], 9), (*job.draft[:3], 8)]
    assert said[0].confidence > said[1].confidence > 0


def test_useful_hints_keep_to_their_allowance():
    cloud, job = hinting("useful")
    sent = sum(len(cloud.hint(job, doubting(job, 0, 0, token))) for token in range(1, 32))
    assert 1 <= sent < 12


def test_hints_end_with_the_text_and_fit_the_wire():
    cloud, job = hinting("all")
    [hint] = frames(cloud.hint(job, ExitHint(0, 64, 9, 1.0)))
    assert decode_cloud_frame(encode(hint)) == hint
    assert hint.tokens == job.draft
    [short] = frames(cloud.hint(job, ExitHint(0, 2, 0, 1.0)))
    assert short.tokens == (*job.draft[:2], 0)


def test_a_hint_on_a_text_that_has_moved_on_is_dropped():
    cloud, job = hinting("all")
    cloud.finish(job, run(cloud, job), 0.1)
    assert cloud.hint(job, ExitHint(0, 1, 9, 1.0)) == []
    cloud.receive(ALICE, Cancel(5, 1))
    assert cloud.hint(job, ExitHint(0, 1, 9, 1.0)) == []


def test_an_adaptive_cloud_steps_to_the_end_and_then_rests():
    cloud = service()
    opened(cloud, when_idle="adaptive", max_new_tokens=6)
    tokens = [token for _ in range(6) for token in frames(step(cloud))[0].tokens]
    assert tuple(tokens) == own(6)
    assert next_job(cloud) is None
    assert cloud.next_look_s() is None
    cloud.receive(ALICE, draft(0, own(6)))
    assert next_job(cloud) is None


def test_an_adaptive_cloud_says_how_long_it_waits_and_then_steps():
    """Drafts that always came 20 ms after the verdict and always stood are worth 45 ms."""
    cloud = service()
    text = own(60)
    opened(cloud, when_idle="adaptive", max_new_tokens=60)
    at = _one_round(cloud, text, 0)
    at = _one_round(cloud, text, at)
    for _ in range(10):
        cloud._clock.now_s += 0.02
        chunk = pack_runs([Run(0, text[at : at + 4])])
        cloud.receive(ALICE, Draft(5, 1, at, extend_digest(ROOT, text[:at]), chunk))
        at = _one_round(cloud, text, at)
    assert next_job(cloud) is None
    wait_s = cloud.next_look_s()
    assert 0.02 < wait_s < 0.1
    cloud._clock.now_s += wait_s
    job = next_job(cloud)
    assert (job.tokens, job.draft) == (text[:at], ())


def _one_round(cloud: VerifierService, text: tuple[int, ...], at: int) -> int:
    job = next_job(cloud)
    cloud._clock.now_s += 0.05
    [verdict] = frames(cloud.finish(job, run(cloud, job), 0.05))
    assert verdict.tokens == text[at : at + len(verdict.tokens)]
    return at + len(verdict.tokens)


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
    st.booleans(),
    st.sampled_from(["none", "all", "useful"]),
    st.sampled_from(["confidence", "fifo", "random"]),
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
        st.sampled_from(["toy-32-0", "other"]),
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


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.tuples(any_frame, st.booleans()), max_size=30), st.integers(0, 10))
def test_no_peer_can_disturb_another(noise, seed):
    """A stranger sends any well-formed frames, the same session number included, between another's own."""
    target, draft = toy_pair(seed, 0.7)
    cloud = VerifierService(target, CloudLimits(max_sessions=3))
    link = _NoisyLink(cloud, noise)
    decoder = LinkedDecoder(link, draft, target.tokenizer, DecodingConfig(), 1, "the target")
    assert decoder.decode(request()).token_ids == own_text(target, request())
    assert cloud.stats.open_sessions <= 3


class _NoisyLink(LocalLink):
    """After each frame of its own it lets a stranger speak."""

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
