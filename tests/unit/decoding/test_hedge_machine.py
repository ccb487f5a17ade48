"""The hedge alone: which verifier leads, which is asked, and what is sent to one that reconnects."""

from __future__ import annotations

import pytest
from support.toys import request

from outrider.core.frames import (
    CloudFrame,
    Draft,
    Open,
    Opened,
    Ping,
    Pong,
    Refused,
    Rules,
    StandBy,
    Verdict,
)
from outrider.core.pairs import checksum_text
from outrider.decoding.edge.hedging import INITIAL_WAIT_S, MIN_WAIT_S, MIN_WAITS, Directed, Hedge, Patience
from outrider.decoding.protocol.prefix_digest import extend_digest, prompt_digest

ASKED = request().prompt

ROOT = prompt_digest(ASKED)

RULES = Rules("wait", "greedy", 0.0, 1.0, 0, 7, True, "none")

OPENING = Open(1, 1, ROOT, ASKED.text, ASKED.jpeg, (), 20, "toy-32", RULES)


def after(*tokens: int) -> int:
    return extend_digest(ROOT, tokens)


def opened_hedge() -> tuple[Hedge, list[Directed]]:
    """Return a hedge whose two verifiers have read the prompt of a text, and the frames sent for it."""
    hedge = Hedge()
    hedge.watch([True, True], [1, 1], 0.0)
    asked = hedge.send(OPENING, 0.0)
    for number in (0, 1):
        hedge.receive(number, Pong(1, 1, "target", 100, 1, 8), 0.0)
        hedge.receive(number, Opened(1, 1, 0, ROOT, 10, (2,)), 0.0)
    return hedge, asked


def test_only_the_leader_is_asked_until_it_is_late() -> None:
    hedge, asked = opened_hedge()
    assert [type(frame) for number, frame in asked if number == 1][-2:] == [Open, StandBy]
    assert {number for number, _ in hedge.send(Draft(1, 1, 0, None, b"\x01\x05"), 0.1)} == {0}
    assert hedge.watch([True, True], [1, 1], 0.2) == []
    late = hedge.watch([True, True], [1, 1], INITIAL_WAIT_S)
    assert {number for number, _ in late} == {1} and hedge.num_hedged == 1
    assert all(isinstance(frame, Draft) and frame.digest is not None for _, frame in late)


def test_the_first_answer_counts_and_the_other_verifier_goes_on_standby() -> None:
    hedge, _ = opened_hedge()
    hedge.watch([True, True], [1, 1], INITIAL_WAIT_S)
    forward, send = hedge.receive(1, Verdict(1, 1, 0, ROOT, (5, 6), 0, 2, 0), 0.3)
    assert isinstance(forward, Verdict) and send == [(0, StandBy(1, 1))]
    forward, send = hedge.receive(0, Verdict(1, 1, 0, ROOT, (5, 6), 0, 3, 0), 0.31)
    assert forward is None and send == []
    forward, _ = hedge.receive(1, Verdict(1, 1, 2, after(5, 6), (7,), 0, 3, 0), 0.32)
    assert isinstance(forward, Verdict) and forward.passes == 6, "the work of both"


def test_an_unknown_or_unreachable_verifier_is_never_asked() -> None:
    hedge = Hedge()
    hedge.watch([True, True], [1, 1], 0.0)
    hedge.send(OPENING, 0.0)
    hedge.receive(0, Pong(1, 1, "target", 100, 1, 8), 0.0)
    assert hedge.watch([True, True], [1, 1], 9.0) == [], "the second verifier's model is unknown"
    hedge.receive(1, Pong(1, 1, "target", 100, 1, 8), 9.0)
    assert hedge.watch([True, False], [1, 1], 9.1) == []
    assert hedge.due_s() is None


def test_a_verifier_that_refused_and_then_serves_leads() -> None:
    hedge, _ = opened_hedge()
    for number in (0, 1):
        hedge.receive(number, Refused(1, 1, "busy", "full"), 0.1)
    assert hedge.watch([True, True], [1, 1], 0.2) == []
    assert hedge.send(Draft(1, 1, 0, ROOT, b"\x01\x05"), 0.2) == [], "nobody serves it"
    opening = hedge.watch([True, True], [2, 1], 0.3)
    assert (0, Open) in [(number, type(frame)) for number, frame in opening]
    hedge.receive(0, Opened(1, 1, 0, ROOT, 10, (2,)), 0.4)
    hedge.watch([True, True], [2, 1], 0.41)
    assert {number for number, _ in hedge.send(Draft(1, 1, 0, ROOT, b"\x01\x06"), 0.5)} == {0}


@pytest.mark.parametrize("word", [Verdict(1, 1, 0, ROOT, (5,), 0, 1, 0), Opened(1, 1, 0, ROOT, 10, (2,))])
def test_a_repeated_refusal_excludes_no_verifier_that_answers(word: CloudFrame) -> None:
    hedge, _ = opened_hedge()
    for number in (0, 1):
        hedge.receive(number, Refused(1, 1, "busy", "full"), 0.1)
    hedge.receive(0, word, 0.2)
    hedge.watch([True, True], [1, 1], 0.3)
    assert {number for number, _ in hedge.send(Draft(1, 1, 0, ROOT, b"\x01\x06"), 0.4)} == {0}


def test_a_reconnected_verifier_receives_the_text_so_far() -> None:
    hedge, _ = opened_hedge()
    hedge.receive(0, Verdict(1, 1, 0, ROOT, (5, 6), 0, 1, 0), 0.1)
    hedge.watch([True, False], [1, 1], 0.12)
    (_, opening), (_, waits_then), (_, asked) = hedge.watch([True, True], [1, 2], 0.15)
    assert isinstance(asked, Ping)
    assert isinstance(opening, Open) and opening.tokens == (5, 6) and opening.digest == after(5, 6)
    assert waits_then == StandBy(1, 1)
    assert opening.model == checksum_text(ROOT), "it may have been started again with another model"


def test_restarted_verifiers_are_not_compared_with_their_old_models() -> None:
    hedge, _ = opened_hedge()
    back = hedge.watch([True, True], [2, 2], 0.1)
    assert [number for number, frame in back if isinstance(frame, Ping)] == [0, 1]
    for number in (0, 1):
        assert isinstance(hedge.receive(number, Pong(1, 1, "newer", 100, 1, 8), 0.2).forward, Pong)
    assert isinstance(hedge.receive(1, Pong(1, 1, "target", 100, 1, 8), 0.3).forward, Refused)


@pytest.mark.parametrize(("live", "up"), [(0, [True, False]), (1, [False, True])])
def test_a_lost_verifier_does_not_fix_the_model_of_the_next_text(live: int, up: list[bool]) -> None:
    hedge, _ = opened_hedge()
    hedge.watch(up, [1, 1], 0.1)
    hedge.watch(up, [1 + one for one in up], 0.2)
    assert any(isinstance(frame, Open) for number, frame in hedge.send(OPENING, 0.3) if number == live)
    assert isinstance(hedge.receive(live, Pong(1, 1, "newer", 100, 1, 8), 0.4).forward, Pong)


def test_a_text_fails_if_only_a_verifier_of_another_model_remains() -> None:
    hedge, _ = opened_hedge()
    hedge.receive(0, Verdict(1, 1, 0, ROOT, (5, 6), 0, 1, 0), 0.1)
    hedge.watch([False, False], [1, 1], 0.2)
    hedge.watch([False, True], [1, 2], 0.3)
    refused = hedge.receive(1, Pong(1, 1, "newer", 100, 1, 8), 0.4).forward
    assert isinstance(refused, Refused) and "'target' and 'newer'" in refused.message


@pytest.mark.parametrize("pongs", [[], ["another"]], ids=["none", "of another model"])
def test_a_text_is_bound_to_the_model_that_wrote_it_whatever_pongs_say(pongs: list[str]) -> None:
    hedge = Hedge()
    hedge.watch([True, True], [1, 1], 0.0)
    hedge.send(OPENING, 0.0)
    hedge.receive(0, Opened(1, 1, 0, 7, 10, (2,)), 0.0)
    opening = hedge.watch([True, True], [2, 1], 0.05)[0].frame
    assert isinstance(opening, Open) and opening.model == OPENING.model, "it has written nothing yet"
    hedge.receive(0, Opened(1, 1, 0, 8, 10, (2,)), 0.06)
    hedge.receive(0, Verdict(1, 1, 0, ROOT, (5, 6), 0, 1, 0), 0.1)
    for name in pongs:
        hedge.receive(0, Pong(1, 1, name, 100, 1, 8), 0.12)
    for generation in (3, 4):
        opening = hedge.watch([True, True], [generation, 1], 0.15)[0].frame
        assert isinstance(opening, Open) and opening.model == checksum_text(8)
        hedge.receive(0, Opened(1, 1, 2, 9, 10, (2,)), 0.16)


def test_the_patience_follows_usual_answer_times_not_outliers() -> None:
    patience = Patience()
    assert patience.seconds(True) == patience.seconds(False) == INITIAL_WAIT_S
    for number in range(4 * MIN_WAITS):
        patience.add(False, 5.0 if number % 5 == 0 else 0.04)
    assert 0.04 < patience.seconds(False) < 0.1
    assert patience.seconds(True) == INITIAL_WAIT_S
    for _ in range(4 * MIN_WAITS):
        patience.add(False, 0.2)
        patience.add(True, 0.0)
    assert patience.seconds(False) > 0.2, "a slower link is not a late one"
    assert patience.seconds(True) == MIN_WAIT_S
