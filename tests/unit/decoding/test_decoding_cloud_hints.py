"""The cloud machine alone: which hints of early exits it sends."""

from __future__ import annotations

from cloud_machine import ALICE, draft, frames, next_job, opened, own, run, service

from outrider.core.frames import Cancel
from outrider.decoding.jobs import ExitHint
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning
from outrider.wire.codec import decode_cloud_frame, encode


def hinting(hints: str, when_idle="wait", max_new_tokens: int = 200, tuning: AdaptiveTuning = DEFAULT_TUNING):
    """Return a cloud that runs a verification of 64 draft tokens, and its job."""
    cloud = service(tuning)
    opened(cloud, hints=hints, when_idle=when_idle, max_new_tokens=max_new_tokens)
    cloud.receive(ALICE, draft(0, own(70)[:64]))
    job = next_job(cloud)
    assert len(job.draft) == 64
    return cloud, job


def test_all_hints_are_sent_if_the_rules_ask_for_all():
    cloud, job = hinting("all")
    exit_hints = [ExitHint(0, 1, 9, 0.4), ExitHint(1, 1, 9, 0.41), ExitHint(2, 2, 7, 1.0)]
    answers = [frames(cloud.hint(job, hint).replies) for hint in exit_hints]
    expected = [(0, 40, (job.draft[0], 9)), (1, 41, (job.draft[0], 9)), (2, 100, (*job.draft[:2], 7))]
    assert [(hint.exit, hint.confidence, hint.tokens) for [hint] in answers] == expected
    assert all(hint.base == 0 for [hint] in answers)


def doubting(job, exit_index: int, at: int, token: int, confidence: float = 1.0) -> ExitHint:
    """Return an exit's hint that contradicts the draft at index `at`."""
    choices = (*job.draft[:at], token, *job.draft[at + 1 :], 7)
    return ExitHint(exit_index, at, token, confidence, choices, (confidence,) * len(choices))


def test_a_useful_hint_is_new_and_likely():
    cloud, job = hinting("useful", "adaptive")
    [first] = frames(cloud.hint(job, doubting(job, 0, 0, 9)).replies)
    assert first.tokens == (9,)
    assert first.confidence < 100, "the confidence is calibrated"
    assert cloud.hint(job, doubting(job, 1, 0, 9)).replies == [], "nothing new"
    assert cloud.hint(job, doubting(job, 2, 0, 8, 0.1)).replies == [], "too unlikely"
    assert len(cloud.hint(job, doubting(job, 2, 0, 8)).replies) == 1


def test_an_exit_that_contradicts_the_draft_twice_gives_two_hints():
    cloud, job = hinting("useful", "adaptive", tuning=AdaptiveTuning(min_outcome_prob=0.02))
    once = doubting(job, 0, 1, 9)
    twice = once._replace(choices=(*once.choices[:3], 8, *once.choices[4:]))
    sent = frames(cloud.hint(job, twice).replies)
    assert [hint.tokens for hint in sent] == [(job.draft[0], 9), (*job.draft[:3], 8)]
    assert sent[0].confidence > sent[1].confidence > 0


def test_hints_end_with_the_text_and_fit_the_wire():
    cloud, job = hinting("all")
    [hint] = frames(cloud.hint(job, ExitHint(0, 64, 9, 1.0)).replies)
    assert decode_cloud_frame(encode(hint)) == hint
    assert hint.tokens == job.draft
    [short] = frames(cloud.hint(job, ExitHint(0, 2, 0, 1.0)).replies)
    assert short.tokens == (*job.draft[:2], 0)


def test_a_hint_on_a_text_that_has_moved_on_is_dropped():
    cloud, job = hinting("all")
    cloud.finish([job], [run(cloud, job)], 0.1)
    assert cloud.hint(job, ExitHint(0, 1, 9, 1.0)).replies == []
    cloud.receive(ALICE, Cancel(5, 1))
    assert cloud.hint(job, ExitHint(0, 1, 9, 1.0)).replies == []
