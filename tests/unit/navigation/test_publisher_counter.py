"""How many publishers drive, found from the numbers of their messages."""

from __future__ import annotations

import random

import pytest

from outrider.navigation.sensing.publisher_counter import PublisherCounter

SILENCE_S = 0.3


def test_a_publisher_counts_once_despite_lost_messages() -> None:
    sources, chance = PublisherCounter(SILENCE_S), random.Random(3)
    numbers = [number for number in range(1, 500) if chance.random() < 0.3]
    assert {sources.take(number, 0.02 * number) for number in numbers} == {1}


@pytest.mark.parametrize("ahead", [0, 1, 7, 63, 64, 65, 100_000])
def test_two_publishers_are_two_whatever_they_have_sent_before(ahead: int) -> None:
    sources = PublisherCounter(SILENCE_S)
    counts = []
    for number in range(1, 50):
        counts.append(sources.take(number, 0.05 * number))
        counts.append(sources.take(number + ahead, 0.05 * number + 0.01))
    assert set(counts[3:]) == {2}


def test_two_publishers_of_different_rates_count_as_two_while_one_overtakes_the_other() -> None:
    sources = PublisherCounter(SILENCE_S)
    events = [(0.02 * number, number) for number in range(1, 400)]
    events += [(0.05 * number + 0.003, 60 + number) for number in range(1, 160)]
    counts = [sources.take(number, time_s) for time_s, number in sorted(events)]
    assert set(counts[4:]) == {2}


def test_one_that_died_counts_no_longer_than_its_silence() -> None:
    sources = PublisherCounter(SILENCE_S)
    for number in range(1, 600):
        sources.take(number, 0.05 * number)
    died_s = 0.05 * 599
    assert sources.take(1, died_s + 0.2) == 2
    assert sources.take(2, died_s + 0.31) == 1
