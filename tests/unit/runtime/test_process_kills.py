"""What kills are judged by: bounds, counts, and texts decoded again."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.runtime.process_kills import (
    Kill,
    Run,
    Texts,
    figures_of,
    is_bounded,
    is_late,
    read_result,
    write_result,
)


@pytest.mark.parametrize(
    ("metres", "degrees", "bounded"),
    [(0.0, 0.0, True), (0.75, 0.0, True), (0.0, 45.0, True), (1.0, 0.0, False), (0.0, 60.0, False)],
)
def test_after_a_kill_no_more_than_one_action_may_follow(
    metres: float, degrees: float, bounded: bool
) -> None:
    assert is_bounded(Kill("verifier", True, 0.1, metres, degrees)) is bounded


def test_a_base_that_moves_after_its_limit_is_late() -> None:
    assert not is_late(Kill("camera", True, 0.3)) and is_late(Kill("camera", True, 0.301))


def test_whatever_is_not_as_it_must_be_counts_as_failed() -> None:
    good = Run(1, True, "there", (Kill("verifier", True, 0.1, 0.1),))
    assert figures_of([good], [Kill("camera", True, 0.2)], Texts(5, 5))["failed"] == 0
    lost = Run(2, False, "lost", (Kill("verifier", True, 0.1, 2.0),))
    figures = figures_of([good, lost], [Kill("action", True, 0.4), Kill("camera", True, 0.2)], Texts(5, 4, 1))
    assert figures["failed"] == 4  # not reached, unbounded, late, another text
    assert (figures["goals"], figures["reached"]) == (2, 1)
    assert figures["verifier_kills"]["kills"] == 2 and figures["verifier_kills"]["most_metres"] == 2.0
    assert figures["node_kills"]["action"]["late"] == 1 and "navigator" not in figures["node_kills"]
    assert Texts(5, 4, 1) + Texts(1, 1, 0) == Texts(6, 5, 1)


def test_a_result_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    kills = [Kill("camera", True, 0.2, 0.1, 3.0)]
    runs = [Run(3, True, "there", (Kill("verifier", False, 0.0),)), Run(4, False, "no")]
    write_result(tmp_path / "r.json", runs, kills)
    assert read_result(tmp_path / "r.json") == (runs, kills)
