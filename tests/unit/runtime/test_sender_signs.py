"""When the sender of a goal counts as gone."""

from __future__ import annotations

import random

import pytest

from outrider.runtime.mission.sender_signs import (
    GONE_S,
    LOOK_PERIOD_S,
    REMEMBERED,
    SIGN_PERIOD_S,
    SILENT_LOOKS,
    SenderSigns,
)

GOAL, OTHER = b"goal", b"other"
HELD_UP_S, RUN_S = 0.5, 30.0


def begun(*heard_before: bytes) -> SenderSigns:
    signs = SenderSigns()
    for goal in heard_before:
        signs.heard(goal)
    signs.begin(GOAL)
    return signs


def missed_s(signs: SenderSigns, rng: random.Random, dies_s: float) -> float:
    """Returns when a sender with delayed heartbeats is missed. Heartbeats and looks have random phases."""
    sign_s, look_s = rng.uniform(0.0, SIGN_PERIOD_S), rng.uniform(0.0, LOOK_PERIOD_S)
    signs.heard(GOAL)
    while look_s < RUN_S:
        if sign_s < min(look_s, dies_s):
            signs.heard(GOAL)
            sign_s += SIGN_PERIOD_S if rng.random() < 0.8 else HELD_UP_S
        else:
            if signs.are_missed():
                return look_s
            look_s += LOOK_PERIOD_S
    return RUN_S


@pytest.mark.parametrize("seed", range(50))
def test_a_sender_that_is_held_up_is_not_missed_and_one_that_dies_is_soon(seed: int) -> None:
    rng = random.Random(seed)
    assert missed_s(begun(), rng, dies_s=RUN_S) == RUN_S
    dies_s = rng.uniform(1.0, 20.0)
    assert 0.0 < missed_s(begun(), rng, dies_s) - dies_s <= GONE_S


def test_a_sender_that_says_nothing_is_not_missed() -> None:
    signs = begun(OTHER)
    assert not any(signs.are_missed() for _ in range(100))


def test_a_sign_before_the_goal_begins_counts_and_those_for_another_do_not() -> None:
    signs = begun(GOAL)
    looks = []
    for _ in range(SILENT_LOOKS):
        signs.heard(OTHER)
        looks.append(signs.are_missed())
    assert looks == [False] * (SILENT_LOOKS - 1) + [True]


def test_what_has_ended_is_not_missed_and_the_next_goal_begins_anew() -> None:
    signs = begun(GOAL)
    for _ in range(SILENT_LOOKS - 1):
        assert not signs.are_missed()
    signs.end()
    assert not any(signs.are_missed() for _ in range(100))
    signs.heard(OTHER)
    signs.begin(OTHER)
    assert [signs.are_missed() for _ in range(SILENT_LOOKS)].index(True) == SILENT_LOOKS - 1


@pytest.mark.parametrize("others", [REMEMBERED - 1, 10 * REMEMBERED])
def test_other_senders_do_not_make_one_be_forgotten(others: int) -> None:
    waiting, running = SenderSigns(), begun(GOAL)
    waiting.heard(GOAL)
    for number in range(others):
        for _ in range(10):
            waiting.heard(bytes([number]))
            running.heard(bytes([number]))
    assert [running.are_missed() for _ in range(SILENT_LOOKS)][-1]
    if others < REMEMBERED:
        waiting.begin(GOAL)
        assert [waiting.are_missed() for _ in range(SILENT_LOOKS)][-1]
