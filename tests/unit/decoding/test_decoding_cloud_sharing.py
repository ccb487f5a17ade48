"""The cloud machine alone: robots share batches and time, and cannot harm each other."""

from __future__ import annotations

import pytest
from cloud_machine import (
    ALICE,
    BOB,
    ROOT,
    USEFUL,
    both_opened,
    draft,
    frames,
    next_job,
    opened,
    opening,
    own,
    service,
    step,
)
from support.toy_models import ToySession

from outrider.core.errors import ConfigError
from outrider.core.frames import (
    Cancel,
    Close,
    Opened,
)
from outrider.core.values import Prompt
from outrider.decoding.cloud.machine import Reply
from outrider.decoding.jobs import PrefillTarget, Unfinished, Verify
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.protocol.prefix_digest import extend_digest
from outrider.decoding.tuning import DEFAULT_TUNING


def test_sessions_share_a_batch():
    cloud = service()
    both_opened(cloud, when_idle="step")
    for _ in range(6):
        assert {reply.peer for reply in step(cloud)} == {ALICE, BOB}


def test_the_cost_of_exits_is_measured_while_a_robot_is_alone():
    """In a shared batch the exits run for the other robots anyway, so they are always used."""
    for open_texts, tries in ((opened, True), (both_opened, False)):
        cloud = service()
        open_texts(cloud, **USEFUL, max_new_tokens=60)
        exits_read = []
        for _ in range(40):
            jobs = cloud.next_jobs()
            exits_read += [job.hints for job in jobs]
            cloud.finish(jobs, cloud.run(jobs, lambda job, hint: None), 0.01)
        assert (False in exits_read) == tries


def test_a_prompt_waits_while_its_robot_has_used_more_time_than_the_others():
    cloud = service()
    both_opened(cloud, when_idle="step", max_new_tokens=200)
    cloud.receive(ALICE, Cancel(5, 1))
    cloud.receive(ALICE, opening(epoch=2, when_idle="step"))
    kinds = []
    for epoch in range(3, 23):
        jobs = cloud.next_jobs()
        kinds.append(type(jobs[0]))
        compute_s = 0.03 if kinds[-1] is PrefillTarget else 0.01
        cloud.finish(jobs, cloud.run(jobs, lambda job, hint: None), compute_s)
        if kinds[-1] is PrefillTarget:
            cloud.receive(ALICE, opening(epoch=epoch, when_idle="step"))
    assert 5 <= kinds.count(PrefillTarget) <= 6, "three batches of the other's for a prompt of three times"


@pytest.mark.parametrize(("written", "comes_first"), [(1, False), (DEFAULT_TUNING.prompt_lead_after, True)])
def test_the_prompt_after_a_text_goes_before_other_verifications(written: int, comes_first: bool):
    cloud = service()
    both_opened(cloud, when_idle="step", max_new_tokens=200)
    for epoch in (2, 3):
        for _ in range(written):
            jobs = cloud.next_jobs()
            assert {job.key.peer for job in jobs} == {ALICE, BOB}
            cloud.finish(jobs, cloud.run(jobs, lambda job, hint: None), 0.01)
        cloud.receive(ALICE, opening(epoch=epoch, when_idle="step", max_new_tokens=200))
        jobs = cloud.next_jobs()
        if epoch == 2:  # at equal shares of time the prompt comes first anyway
            assert isinstance(jobs[0], PrefillTarget)
            cloud.finish(jobs, cloud.run(jobs, lambda job, hint: None), 0.5 * DEFAULT_TUNING.prompt_lead_s)
    assert isinstance(jobs[0], PrefillTarget) == comes_first


def test_drafts_are_verified_between_the_parts_of_a_prompt(monkeypatch):
    def in_parts(session: ToySession, prompt: Prompt):
        for _ in range(10):
            yield
        return session.prefill(prompt)

    cloud = service()
    opened(cloud, when_idle="step", max_new_tokens=200)
    monkeypatch.setattr(ToySession, "prefill_parts", in_parts)
    cloud.receive(BOB, opening())
    kinds = ""
    while not kinds.endswith("PB"):
        jobs = cloud.next_jobs()
        kinds += "P" if isinstance(jobs[0], PrefillTarget) else "V"
        answers = cloud.finish(jobs, cloud.run(jobs, lambda job, hint: None), 0.0001)
        kinds += "B" * any(reply.peer == BOB for reply in answers)
    assert kinds.count("P") == 11
    assert kinds.count("V") <= 11, "a prompt does not starve"
    assert "P" * (DEFAULT_TUNING.prompt_parts + 1) not in kinds


def test_exits_are_not_read_while_other_work_waits():
    cloud = service()
    both_opened(cloud, hints="all", max_new_tokens=80)
    cloud.receive(ALICE, draft(0, own()[:5]))
    assert next_job(cloud).hints
    cloud.receive(BOB, Cancel(5, 1))
    cloud.receive(BOB, opening(epoch=2))
    jobs = cloud.next_jobs()
    while isinstance(jobs[0], PrefillTarget):
        cloud.finish(jobs, [Unfinished()], 0.01)
        jobs = cloud.next_jobs()
    assert [(job.key.peer, job.hints) for job in jobs] == [(ALICE, False)]


def test_a_robot_has_its_share_of_a_batch_and_no_more():
    cloud = service(batch_tokens=18)
    both_opened(cloud, max_new_tokens=80)
    cloud.receive(ALICE, draft(0, own(60)[:50]))
    cloud.receive(BOB, draft(0, own()[:5]))
    jobs = {job.key.peer: job for job in cloud.next_jobs()}
    assert (len(jobs[ALICE].draft), len(jobs[BOB].draft)) == (7, 5)


def test_a_robots_share_is_the_rows_that_its_device_runs_at_once():
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


def test_a_session_left_out_of_a_batch_goes_first_in_the_next():
    cloud = service(batch_tokens=9)
    both_opened(cloud)
    for peer in (ALICE, BOB):
        cloud.receive(peer, draft(0, own()[:7]))
    served = []
    for _ in range(2):
        jobs = cloud.next_jobs()
        cloud.finish(jobs, cloud.run(jobs, lambda job, hint: None), 0.01)
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
    assert cloud.max_wait_s() == pytest.approx(1.0, abs=0.01)
    cloud._clock.now_s += 1.01
    assert {reply.peer for reply in step(cloud)} == {ALICE}


def test_a_late_draft_does_not_count_as_waiting_for_the_next_text():
    cloud = service()
    opened(cloud)
    for frame in (draft(0, own()[:19]), draft(0, own()[:3])):
        cloud.receive(ALICE, frame)
        while step(cloud):
            pass
    before_s = cloud.stats.waited_s
    cloud._clock.now_s = 100.0
    cloud.receive(ALICE, opening(epoch=2))
    cloud._clock.now_s = 101.0
    assert len(cloud.next_jobs()) == 1
    assert cloud.stats.waited_s - before_s == 1.0


def test_the_time_of_a_prompt_is_summed_over_its_parts(monkeypatch):
    cloud = service()

    def in_parts(session: ToySession, prompt: Prompt):
        for _ in range(3):
            yield
        return session.prefill(prompt)

    monkeypatch.setattr(ToySession, "prefill_parts", in_parts)

    def part() -> list[Reply]:
        jobs = cloud.next_jobs()
        return cloud.finish(jobs, cloud.run(jobs, lambda job, hint: None), 1.0)

    cloud.receive(ALICE, opening())
    assert part() == part() == []
    cloud.receive(ALICE, Cancel(5, 1))
    cloud.receive(ALICE, opening(epoch=2))
    opened_frames = [reply.frame for _ in range(4) for reply in part()]
    assert [frame.prefill_us for frame in opened_frames] == [4_000_000]
    cloud.receive(BOB, opening())
    part()
    cloud.receive(BOB, Close(5, 1))
    assert not cloud._prefill_s


def test_a_batch_holds_at_least_a_draft_token_and_the_next():
    for limits in ({"shared_tokens": 1}, {"batch_tokens": 1}):
        with pytest.raises(ConfigError, match="must be at least 2"):
            service(**limits)
    cloud = service(batch_tokens=2, shared_tokens=2)
    both_opened(cloud)
    for peer in (ALICE, BOB):
        cloud.receive(peer, draft(0, own()[:3]))
    served = {reply.peer for _ in range(2) for reply in step(cloud)}
    assert served == {ALICE, BOB}


def test_a_long_resumed_text_is_prefilled_in_parts():
    """The robot's session stayed open while it went on alone; the other robot decodes between the parts."""
    cloud, text = service(), own(400)
    both_opened(cloud, max_new_tokens=400, when_idle="step")
    step(cloud)
    assert (
        frames(cloud.receive(ALICE, opening(tokens=text[:300], max_new_tokens=400, when_idle="step"))) == []
    )
    sizes, verdicts = [], 0
    while True:
        jobs = cloud.next_jobs()
        sizes += [len(job.tokens) for job in jobs if isinstance(job, PrefillTarget)]
        answers = cloud.finish(jobs, cloud.run(jobs, lambda job, hint: None), 0.01)
        verdicts += sum(reply.peer == BOB for reply in answers)
        if any(isinstance(reply.frame, Opened) for reply in answers):
            break
    assert sizes == [300] * 6 and verdicts >= 1
    alice = next(job for job in cloud.next_jobs() if job.key.peer == ALICE)
    assert isinstance(alice, Verify) and alice.tokens == text[:300]
    close = opening(tokens=text[:310], max_new_tokens=400, when_idle="step")
    assert isinstance(frames(cloud.receive(ALICE, close))[0], Opened), (
        "a few are cached by the next verification"
    )
