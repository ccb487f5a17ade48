"""Measures for kills of one of two verifiers: lost tokens, and standing time against goals without a kill."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.core.values import Decoded, DecodeRequest, Prompt
from outrider.evaluation.kills import hedged_kills
from outrider.evaluation.kills.hedged_kills import (
    HedgedGoal,
    Moment,
    Texts,
    check_texts,
    evaluate_hedged_kills,
    hedged_figures,
    hedged_tables,
)
from outrider.runtime.reports.recording import RecordedStep

REQUEST = DecodeRequest(Prompt("find it", b""))
TEXT, IDS = "stop\nthere now", (1, 2, 3)


class Target:
    def decode(self, request: DecodeRequest, *_: object) -> Decoded:
        return Decoded(TEXT, IDS, True, 0.1, 0.1, 2)


def step(text: str, tokens: int, finished: bool = False, cut: bool = False) -> RecordedStep:
    return RecordedStep("a", 1, REQUEST, text, tokens, finished, cut=cut)


@pytest.mark.parametrize(
    ("recorded", "counted"),
    [
        (step(TEXT, 3, finished=True), Texts(1, 3)),
        (step("stop", 1, cut=True), Texts(1, 1)),
        (step("stop", 1), Texts(1, 1, 0, 1, 2)),
        (step("", 0), Texts(1, 0, 0, 1, 3)),
        (step("turn left", 2, finished=True), Texts(1, 2, 1, 0, 2)),
        (step("stop", 1, finished=True), Texts(1, 1, 1, 0, 1)),
    ],
)
def test_a_token_is_lost_where_a_text_differs_or_ends_before_the_robot_has_read_enough(
    recorded: RecordedStep, counted: Texts
) -> None:
    assert check_texts([recorded], Target()) == counted


def goal(
    *moments: Moment, reached: bool = True, failed: bool = False, texts: Texts = Texts(5, 50)
) -> HedgedGoal:
    return HedgedGoal(1, reached, failed, "there", moments, texts)


def test_a_stand_after_a_kill_counts_beyond_the_longest_without_one() -> None:
    without = Moment("", True, 0.2)
    soon = goal(Moment("first", True, 0.4), without, Moment("second", False, None))
    late = goal(Moment("second", False, 0.6), without)
    figures = hedged_figures([soon], 2)
    assert figures["beyond_s"] == pytest.approx(0.2) and figures["failed"] == 0
    assert (figures["rows"]["second"]["times"], figures["rows"]["second"]["stands"]) == (1, 0)
    figures = hedged_figures([soon, late], 3)
    assert figures["beyond_s"] == pytest.approx(0.4) and figures["failed"] == 1
    assert (figures["kills"], figures["rows"]["none"]["times"]) == (3, 2)


def test_whatever_is_not_as_it_must_be_counts_as_failed() -> None:
    kill = Moment("first", True, 0.1)
    assert hedged_figures([goal(kill)], 1)["failed"] == 0
    assert hedged_figures([goal(kill)], 3)["failed"] == 2
    assert hedged_figures([goal(kill, reached=False)], 1)["failed"] == 0, "some searches are in vain"
    broken = hedged_figures([goal(kill, reached=False, failed=True)], 1)
    assert (broken["failed"], broken["failed_goals"]) == (1, 1)
    assert hedged_figures([goal(kill, texts=Texts())], 1)["failed"] == 1
    lost = hedged_figures([goal(kill, texts=Texts(5, 50, 1, 2, 9))], 1)
    assert (lost["failed"], lost["tokens_lost"]) == (3, 9)
    assert "9 of 50 tokens lost" in hedged_tables(lost)[1]


def test_goals_that_were_kept_are_not_driven_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driven = []

    def drive(seed: int, kills: int, *_: object) -> HedgedGoal:
        driven.append((seed, kills))
        return goal(Moment("first", True, 0.1), Moment("", True, 0.1), Moment("first", True, 0.1))

    monkeypatch.setattr(hedged_kills, "drive", drive)
    monkeypatch.setattr(hedged_kills, "decoder_of", lambda model, folder: None)
    assert evaluate_hedged_kills(3, 7, None, tmp_path, None)["kills"] == 4
    assert driven == [(7, 3), (8, 1)]
    assert evaluate_hedged_kills(5, 7, None, tmp_path, tmp_path / "kills.json")["goals"] == 3
    assert driven[2:] == [(9, 1)] and (tmp_path / "kills.json").is_file()
