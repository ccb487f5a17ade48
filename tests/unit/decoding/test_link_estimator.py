"""The edge's estimates: when to send, and whether robots take turns."""

from __future__ import annotations

import pytest

from outrider.decoding.config import DecodingConfig
from outrider.decoding.edge.link_estimator import EdgeEstimator, VerdictObservation


def outlook(strategy: str = "picospec", round_trip_s: float = 0.2, verify_s: float = 0.1) -> EdgeEstimator:
    """Return an estimator that has measured the link, a draft token of 10 ms and a verdict at 0 s."""
    one = EdgeEstimator(DecodingConfig(strategy=strategy, num_draft_tokens=4))
    one.round_trip.add(round_trip_s, 0.0)
    one.draft.add(0.01)
    one.on_verdict(0.0, news(0, verify_s))
    return one


def news(num_tokens: int, compute_s: float | None, drafted: int = 4, next_sent_s=None) -> VerdictObservation:
    return VerdictObservation(num_tokens, drafted, compute_s, next_sent_s)


def test_before_any_verification_a_whole_chunk_is_awaited():
    one = EdgeEstimator(DecodingConfig(num_draft_tokens=4))
    assert [one.should_send(length, 1.0) for length in (1, 3, 4, 5)] == [False, False, True, True]


def test_a_busy_cloud_is_worth_waiting_for():
    one = outlook()
    one.on_sent(0.0)
    # It arrives after 0.1 s and takes 0.1 s: a draft sent before 0.1 s would have to wait there.
    assert not one.should_send(8, 0.05)
    assert not one.should_send(1, 0.05)
    assert one.should_send(8, 0.1)


def test_an_idle_cloud_is_sent_a_draft_if_waiting_gains_less():
    one = outlook()
    times = [one.should_send(length, 0.0) for length in range(1, 12)]
    assert times == sorted(times), "once it is time, more tokens do not change that"
    assert times[-1]


def test_where_drafts_are_right_longer_chunks_are_worth_their_time():
    right, wrong = outlook(), outlook()
    for _ in range(100):
        right.acceptance.on_outcome(0)
        wrong.acceptance.on_outcome(None)
    assert wrong.should_send(1, 0.0)
    assert not right.should_send(4, 0.0)


def test_a_draft_that_has_arrived_keeps_the_cloud_busy():
    idle, busy = outlook(), outlook()
    idle.on_verdict(10.0, news(3, 0.1))
    busy.on_verdict(10.0, news(3, 0.1, next_sent_s=9.95))
    # Sent at 9.95 s, it arrives at 10.05 s and is verified until 10.15 s; a draft sent at 10.05 s is in time.
    assert idle.should_send(8, 10.0)
    assert not busy.should_send(8, 10.0)
    assert busy.should_send(8, 10.05)


def test_a_verdict_without_a_forward_teaches_no_time():
    one = outlook(verify_s=0.1)
    for compute_s in (None, 0.0):
        one.on_verdict(1.0, news(1, compute_s))
    assert one.verify.value == pytest.approx(0.1)
    one.on_verdict(1.0, news(1, 0.7, drafted=0))
    assert one.verify.value == pytest.approx(0.1)
    assert one.step.value == pytest.approx(0.7)


def test_a_chunk_is_useful_from_the_length_that_beats_a_step():
    one = outlook("outrider", verify_s=0.1)
    assert one.min_useful_tokens == 1, "nothing is known of steps yet"
    for step_s, least in ((0.1, 1), (0.055, 2), (0.01, 4)):
        for _ in range(50):
            one.on_verdict(1.0, news(1, step_s, drafted=0))
        assert one.min_useful_tokens == least


def test_a_cloud_that_has_just_opened_is_free():
    one = outlook()
    one.on_sent(100.0)
    assert not one.should_send(8, 100.0)
    one.on_opened(100.0)
    assert one.should_send(8, 100.0)


class Robot:
    """Estimates that receive one verdict after another, each from a batch of 0.1 s."""

    def __init__(self) -> None:
        self.estimates = outlook("outrider")
        self.now_s = 0.0

    def verdict(self, gap_s: float, passes: int = 1, drafted: int = 4, lead_s: float = 0.25) -> bool:
        """Receive a verdict `gap_s` after the last one; return whether robots take turns by then.

        The next draft was sent `lead_s` before this verdict came.
        """
        self.now_s += gap_s
        observed = VerdictObservation(4, drafted, 0.1, self.now_s - lead_s, passes)
        self.estimates.on_verdict(self.now_s, observed)
        return self.estimates.waits_for_others


def test_robots_take_turns_where_another_batch_runs_before_each_drafts_own():
    robot = Robot()
    robot.verdict(0.2)
    assert not robot.verdict(0.2), "a single wait has many a reason"
    assert all(robot.verdict(0.2) for _ in range(5))


def test_waits_shorter_than_a_chunk_are_not_turns():
    """A chunk of 4 tokens and the token after it take 0.11 s or 0.09 s; the draft waits for 0.1 s."""
    for draft_s, waits_for_others in ((0.022, False), (0.018, True)):
        robot = Robot()
        for _ in range(60):
            robot.estimates.draft.add(draft_s)
        assert [robot.verdict(0.2) for _ in range(20)][-1] == waits_for_others


def test_turns_end_when_the_other_robots_leave():
    robot = Robot()
    waits = [robot.verdict(gap_s) for gap_s in [0.2] * 20 + [0.1] * 20]
    assert waits[19] and not waits[-1]


def test_only_a_draft_that_arrived_in_time_counts_as_waiting():
    """A verdict is sent 0.1 s before it arrives, and a draft takes 0.1 s to arrive."""
    late, in_time = Robot(), Robot()
    assert not any(late.verdict(0.4, lead_s=0.19) for _ in range(20))
    assert [in_time.verdict(0.4, lead_s=0.21) for _ in range(20)][-1]


@pytest.mark.parametrize(
    "verdicts",
    [
        [(0.1, 1, 4)],
        [(0.25, 2, 4), (0.25, 3, 4)],
        [(0.18, 1, 4), (0.18, 2, 4), (0.18, 2, 4), (0.18, 2, 4), (0.18, 2, 4)],
        [(0.13, 1, 6)],
        [(0.4, 1, 0), (0.1, 1, 4)],
        [(0.3, 1, 4), (0.0, 1, 4), (0.0, 1, 4)],
        [(0.4, 4, 4), (0.0, 0, 4)],
    ],
    ids=[
        "nothing between",
        "forwards aborted half way",
        "forwards aborted late, their sum rounded",
        "the cloud drafts between two verifications",
        "steps, since drafts are late after all",
        "verdicts that a slow link brings together",
        "a verdict that was lost and asked for again",
    ],
)
def test_a_robot_alone_takes_no_turns(verdicts):
    robot = Robot()
    assert not any(robot.verdict(*one) for one in [(0.1, 1, 4), *verdicts * 20])


def test_the_time_between_two_texts_is_no_wait():
    robot = Robot()
    for _ in range(20):
        assert not robot.verdict(0.1)
        robot.estimates.on_opened(robot.now_s + 1.0)
        assert not robot.verdict(1.1)
