"""The cloud machine and its service alone: when a verification is aborted, and what is verified next."""

from __future__ import annotations

import pytest
from cloud_machine import (
    ALICE,
    BOB,
    EAGER,
    ROOT,
    TRUSTING,
    USEFUL,
    branched,
    draft,
    frames,
    next_job,
    opened,
    opening,
    own,
    practised,
    run,
    service,
    should_abort,
    step,
    verdicts,
)

from outrider.core.frames import Cancel, Close
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.jobs import Aborted, ExitHint, Verify
from outrider.decoding.protocol.prefix_digest import extend_digest


def offer(cloud: VerifierService, text: tuple[int, ...], at: int = 1) -> Verify:
    """Offer a wrong draft and the right branch; return the job that verifies the wrong draft."""
    main, right = branched(text, at)
    cloud.receive(ALICE, draft(0, main))
    cloud.receive(ALICE, draft(0, right))
    job = next_job(cloud)
    assert job is not None and job.draft == main
    return job


def exit_hint(job: Verify, outcome: tuple[int, ...], exit_index: int = 0, sure: float = 1.0) -> ExitHint:
    """Return an exit's hint that predicts this outcome of the verification."""
    choices = (*outcome, *job.draft[len(outcome) :], 7)[: len(job.draft) + 1]
    return ExitHint(exit_index, len(outcome) - 1, outcome[-1], sure, choices, (sure,) * len(choices))


@pytest.mark.parametrize(("acceptance", "temperature"), [("greedy", 0.0), ("coupled", 0.0), ("coupled", 1.0)])
def test_after_an_abort_the_predicted_outcome_and_its_branch_are_verified_together(acceptance, temperature):
    cloud, text = service(EAGER), own(temperature=temperature)
    opened(cloud, acceptance=acceptance, temperature=temperature, **USEFUL)
    job = offer(cloud, text)
    assert not should_abort(cloud, job)
    hinted = [hint.tokens for hint in frames(cloud.hint(job, exit_hint(job, text[:2])).replies)]
    assert hinted == [text[:2], (*job.draft, 7)], "the draft may yet be right"
    assert should_abort(cloud, job)
    assert cloud.finish([job], [Aborted()], 0.01) == []
    again = next_job(cloud)
    assert (again.tokens, again.draft) == ((), text[:6])
    assert again.evidence == (None,) * 6 and not should_abort(cloud, again)
    [verdict] = frames(cloud.finish([again], [run(cloud, again)], 0.1))
    assert verdict.tokens == text[:7]
    assert (verdict.drafted, verdict.passes, verdict.kept) == (6, 2, ())
    assert cloud.stats.aborted == 0, "the model's worker aborted nothing"


def test_a_wrong_exit_token_is_rejected_by_the_target():
    cloud, text = service(EAGER), own()
    opened(cloud, **USEFUL)
    main, wrong = branched(text)
    other = (text[0], 29, 5, 6, 7)
    for tokens in (main, other):
        cloud.receive(ALICE, draft(0, tokens))
    job = next_job(cloud)
    assert 29 not in text[:2] and job.draft == main != wrong
    cloud.hint(job, exit_hint(job, other[:2]))
    cloud.finish([job], [Aborted()], 0.01)
    again = next_job(cloud)
    assert again.draft == other
    [verdict] = frames(cloud.finish([again], [run(cloud, again)], 0.1))
    assert verdict.tokens == text[:2]
    assert verdict.drafted == 4, "the rejected exit token does not count as drafted"
    cloud.receive(ALICE, draft(2, text[2:5], digest=extend_digest(ROOT, text[:2])))
    assert next_job(cloud).draft == text[2:5], "the predictions are forgotten"


def test_tokens_cut_off_in_a_shared_batch_are_not_counted_as_drafted():
    cloud, text = service(EAGER, shared_tokens=2), own()
    opened(cloud, BOB)
    opened(cloud, **USEFUL)
    main, other = branched(text)[0], (text[0], 29, 5, 6, 7)
    for tokens in (main, other):
        cloud.receive(ALICE, draft(0, tokens))
    job = next_job(cloud)
    cloud.hint(job, exit_hint(job, other[:2]))
    cloud.finish([job], [Aborted()], 0.01)
    cloud.receive(BOB, draft(0, text[:3]))
    jobs = cloud.next_jobs()
    assert {job.key.peer: job.draft for job in jobs} == {ALICE: text[:1], BOB: text[:1]}
    replies = cloud.finish(jobs, cloud.run(jobs, lambda job, hint: False), 0.1)
    assert [(frame.tokens, frame.drafted) for frame in frames(replies)] == [(text[:2], 1)] * 2


def test_an_exit_token_is_not_counted_as_drafted_if_the_draft_is_cut_after_it():
    cloud, text = service(EAGER, shared_tokens=3), own()
    opened(cloud, BOB)
    opened(cloud, **USEFUL)
    first, second = (text[0], 29, 5, 6, 7), (text[0], 29, 5, 9, 8, 8)
    for tokens in (branched(text)[0], first, second):
        cloud.receive(ALICE, draft(0, tokens))
    for outcome in (first[:2], second[:4]):
        job = next_job(cloud)
        assert cloud.hint(job, exit_hint(job, outcome)).should_abort
        cloud.finish([job], [Aborted()], 0.01)
    cloud.receive(BOB, draft(0, text[:3]))
    jobs = cloud.next_jobs()
    assert {job.key.peer: job.draft for job in jobs} == {ALICE: second[:2], BOB: text[:2]}
    replies = cloud.finish(jobs, cloud.run(jobs, lambda job, hint: False), 0.1)
    judged = {reply.peer: (len(reply.frame.tokens), reply.frame.drafted) for reply in replies}
    assert judged == {ALICE: (2, 1), BOB: (3, 2)}


def test_the_time_of_an_aborted_verification_is_not_learnt():
    """If an aborted verification counted as a whole one, a batch of two would seem too slow in comparison."""
    cloud, text = service(EAGER), own()
    opened(cloud, **USEFUL)
    job = offer(cloud, text)
    cloud.hint(job, exit_hint(job, text[:2]))
    cloud.finish([job], [Aborted()], 0.01)
    again = next_job(cloud)
    cloud.finish([again], [run(cloud, again)], 0.1)
    stats = cloud.stats
    assert (stats.batches, stats.rounds, stats.compute_s) == (2, 1, pytest.approx(0.11))
    opened(cloud, BOB, **USEFUL)
    for compute_s in (0.1, 0.17, 0.17):  # in the first batch only one job needs a forward pass
        jobs = cloud.next_jobs()
        assert {job.key.peer for job in jobs} == {ALICE, BOB}
        cloud.finish(jobs, cloud.run(jobs, lambda job, hint: False), compute_s)


def test_a_step_is_aborted_for_a_ready_branch():
    cloud, text = service(EAGER), own()
    opened(cloud, **USEFUL)
    first = next_job(cloud)
    assert first.draft == ()
    cloud.receive(ALICE, draft(0, text[:5]))
    assert cloud.hint(first, exit_hint(first, text[:1])).should_abort
    cloud.finish([first], [Aborted()], 0.01)
    assert next_job(cloud).draft == text[:5]


def test_nothing_is_aborted_without_a_ready_branch():
    cloud, text = practised(service(TRUSTING)), own()
    opened(cloud, **USEFUL)
    main, _ = branched(text)
    cloud.receive(ALICE, draft(0, main))
    job = next_job(cloud)
    assert not cloud.hint(job, exit_hint(job, text[:2])).should_abort
    cloud.receive(ALICE, draft(2, text[2:5], digest=extend_digest(ROOT, text[:2])))
    assert cloud.hint(job, exit_hint(job, text[:2], exit_index=1)).should_abort, (
        "the branch has arrived meanwhile"
    )


@pytest.mark.parametrize("when_idle", ["wait", "step"])
@pytest.mark.parametrize("hints", ["none", "all"])
def test_strategies_other_than_adaptive_never_abort(when_idle, hints):
    cloud, text = service(EAGER), own()
    opened(cloud, when_idle=when_idle, hints=hints)
    job = offer(cloud, text)
    assert not cloud.hint(job, exit_hint(job, text[:2])).should_abort


@pytest.mark.parametrize("when_idle", ["wait", "step", "adaptive"])
@pytest.mark.parametrize(
    "news",
    [Cancel(5, 1), Close(5, 1), opening(epoch=2), opening(tokens=(30,))],
    ids=lambda n: type(n).__name__,
)
def test_a_verification_of_a_text_that_has_ended_or_changed_is_aborted(when_idle, news):
    cloud, text = service(EAGER), own()
    opened(cloud, when_idle=when_idle, hints="useful")
    job = offer(cloud, text)
    cloud.receive(ALICE, news)
    assert cloud.hint(job, exit_hint(job, text[:2])) == ([], True)
    assert cloud.finish([job], [Aborted()], 0.01) == []
    later = next_job(cloud)
    assert not (isinstance(later, Verify) and later.draft)


@pytest.mark.parametrize(("aborted_after_s", "passes"), [(0.02, 2), (0.08, 3)])
def test_an_aborted_forward_counts_by_the_share_of_its_time_that_it_ran(aborted_after_s, passes):
    cloud, text = service(EAGER), own()
    opened(cloud, **USEFUL)
    cloud.receive(ALICE, draft(0, text[:4]))
    job = next_job(cloud)
    cloud.finish([job], [run(cloud, job)], 0.1)
    wrong = (text[5] + 1) % 31 + 1
    for tokens in ((wrong, 3, 4), text[5:9]):
        cloud.receive(ALICE, draft(5, tokens, digest=extend_digest(ROOT, text[:5])))
    job = next_job(cloud)
    cloud._clock.now_s += aborted_after_s
    assert cloud.hint(job, exit_hint(job, text[5:6])).should_abort
    cloud.finish([job], [Aborted()], aborted_after_s)
    again = next_job(cloud)
    [verdict] = frames(cloud.finish([again], [run(cloud, again)], 0.1))
    assert (verdict.tokens, verdict.passes) == (text[5:10], passes)


def test_nothing_is_aborted_in_a_shared_batch():
    cloud, text = service(EAGER), own()
    for peer in (ALICE, BOB):
        cloud.receive(peer, opening(**USEFUL))
    step(cloud)
    step(cloud)
    for peer in (ALICE, BOB):
        for tokens in branched(text):
            cloud.receive(peer, draft(0, tokens))
    replies = frames(step(cloud))
    assert verdicts(replies) == [text[:2], text[:2]]
    assert cloud.stats.aborted == 0
    cloud._clock.now_s += 5.0
    for peer in (ALICE, BOB):
        cloud.receive(peer, draft(2, text[2:4], digest=extend_digest(ROOT, text[:2])))
    step(cloud)
    sessions = cloud._machine._sessions.values()
    assert not any(session.estimates.times.begin_again_s for session in sessions), "no abort"
