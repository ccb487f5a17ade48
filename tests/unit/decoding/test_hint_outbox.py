"""The order in which frames leave the cloud."""

from __future__ import annotations

import random

import pytest

from outrider.core.frames import Hint, Opened, Verdict
from outrider.decoding.simulation.virtual_verifier import Outbox


def hint(number: int, confidence: int) -> Hint:
    return Hint(1, 1, 0, number, confidence, (number,))


HINTS = [hint(0, 90), hint(1, 100), hint(2, 10), hint(3, 95)]
VERDICT = Verdict(1, 1, 0, 7, (4,), 1, 1, 10)


def order_of(outbox: Outbox) -> list[int]:
    popped = iter(outbox.pop, None)
    return [frame.exit for frame in popped]


@pytest.mark.parametrize(("order", "expected"), [("confidence", [1, 3, 0, 2]), ("fifo", [0, 1, 2, 3])])
def test_hints_leave_in_the_order_of_the_queue(order, expected):
    outbox = Outbox(order, random.Random(0))
    for one in HINTS:
        outbox.push(one)
    assert order_of(outbox) == expected


def test_random_order_is_the_seeds_and_loses_none():
    orders = set()
    for seed in range(40):
        twice = []
        for _ in range(2):
            outbox = Outbox("random", random.Random(seed))
            for one in HINTS:
                outbox.push(one)
            twice.append(tuple(order_of(outbox)))
        assert twice[0] == twice[1]
        orders.add(twice[0])
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    assert len(orders) > 10


def test_hints_of_equal_confidence_leave_in_order():
    outbox = Outbox("confidence", random.Random(0))
    for number in range(3):
        outbox.push(hint(number, 50))
    assert order_of(outbox) == [0, 1, 2]


def test_verdicts_leave_first_in_order_and_discard_hints():
    outbox = Outbox("confidence", random.Random(0))
    outbox.push(HINTS[0])
    outbox.push(Opened(1, 1, 0, 7, 100, (0,)))
    outbox.push(VERDICT)
    outbox.push(HINTS[1])
    assert [outbox.pop() for _ in range(4)] == [Opened(1, 1, 0, 7, 100, (0,)), VERDICT, HINTS[1], None]
