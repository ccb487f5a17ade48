"""When the sender of a goal counts as gone."""

from __future__ import annotations

import random

import pytest

from outrider.runtime.mission.sender_heartbeats import (
    GONE_S,
    HEARTBEAT_PERIOD_S,
    MAX_SENDERS,
    POLL_PERIOD_S,
    SILENT_POLLS,
    SenderHeartbeats,
)

GOAL, OTHER = b"goal", b"other"
HELD_UP_S, RUN_S = 0.5, 30.0


def begun(*heartbeats_before: bytes) -> SenderHeartbeats:
    heartbeats = SenderHeartbeats()
    for goal in heartbeats_before:
        heartbeats.on_heartbeat(goal)
    heartbeats.begin(GOAL)
    return heartbeats


def noticed_s(heartbeats: SenderHeartbeats, rng: random.Random, dies_s: float) -> float:
    """Returns when a sender with late heartbeats counts as gone. Heartbeats and polls have random phases."""
    heartbeat_s, poll_s = rng.uniform(0.0, HEARTBEAT_PERIOD_S), rng.uniform(0.0, POLL_PERIOD_S)
    heartbeats.on_heartbeat(GOAL)
    while poll_s < RUN_S:
        if heartbeat_s < min(poll_s, dies_s):
            heartbeats.on_heartbeat(GOAL)
            heartbeat_s += HEARTBEAT_PERIOD_S if rng.random() < 0.8 else HELD_UP_S
        else:
            if heartbeats.poll():
                return poll_s
            poll_s += POLL_PERIOD_S
    return RUN_S


@pytest.mark.parametrize("seed", range(50))
def test_a_delayed_sender_does_not_count_as_gone_and_a_dead_one_soon_does(seed: int) -> None:
    rng = random.Random(seed)
    assert noticed_s(begun(), rng, dies_s=RUN_S) == RUN_S
    dies_s = rng.uniform(1.0, 20.0)
    assert 0.0 < noticed_s(begun(), rng, dies_s) - dies_s <= GONE_S


def test_a_sender_without_heartbeats_never_counts_as_gone() -> None:
    heartbeats = begun(OTHER)
    assert not any(heartbeats.poll() for _ in range(100))


def test_a_heartbeat_before_the_goal_counts_and_those_for_another_goal_do_not() -> None:
    heartbeats = begun(GOAL)
    polls = []
    for _ in range(SILENT_POLLS):
        heartbeats.on_heartbeat(OTHER)
        polls.append(heartbeats.poll())
    assert polls == [False] * (SILENT_POLLS - 1) + [True]


def test_no_sender_counts_as_gone_after_the_goal_and_the_next_goal_counts_from_zero() -> None:
    heartbeats = begun(GOAL)
    for _ in range(SILENT_POLLS - 1):
        assert not heartbeats.poll()
    heartbeats.end()
    assert not any(heartbeats.poll() for _ in range(100))
    heartbeats.on_heartbeat(OTHER)
    heartbeats.begin(OTHER)
    assert [heartbeats.poll() for _ in range(SILENT_POLLS)].index(True) == SILENT_POLLS - 1


@pytest.mark.parametrize("others", [MAX_SENDERS - 1, 10 * MAX_SENDERS])
def test_heartbeats_of_other_senders_do_not_drop_the_current_one(others: int) -> None:
    waiting, running = SenderHeartbeats(), begun(GOAL)
    waiting.on_heartbeat(GOAL)
    for number in range(others):
        for _ in range(10):
            waiting.on_heartbeat(bytes([number]))
            running.on_heartbeat(bytes([number]))
    assert [running.poll() for _ in range(SILENT_POLLS)][-1]
    if others < MAX_SENDERS:
        waiting.begin(GOAL)
        assert [waiting.poll() for _ in range(SILENT_POLLS)][-1]


class Interrupting(bytes):
    """A goal's id, at whose comparison another thread records a heartbeat."""

    beats: SenderHeartbeats | None = None

    def __eq__(self, other: object) -> bool:
        beats, self.beats = self.beats, None
        if beats is not None:
            beats.on_heartbeat(GOAL)
        return False

    __hash__ = bytes.__hash__


def test_a_heartbeat_that_comes_as_the_goal_begins_counts() -> None:
    """It is the only one if the sender dies then: a goal without a heartbeat would have no sender to miss."""
    beats = SenderHeartbeats()
    earlier = Interrupting(OTHER)
    beats.on_heartbeat(earlier)
    earlier.beats = beats
    beats.begin(GOAL)
    assert [beats.poll() for _ in range(SILENT_POLLS)] == [False] * (SILENT_POLLS - 1) + [True]
