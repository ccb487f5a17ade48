"""How kills are judged: bounds, counts, and texts decoded again."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.core.errors import ConfigError
from outrider.core.values import Decoded, DecodeRequest, Prompt
from outrider.evaluation.kills import process_kills
from outrider.evaluation.kills.process_kills import (
    Kill,
    Run,
    Texts,
    check_texts,
    figures_of,
    is_bounded,
    is_late,
    read_result,
    write_result,
)
from outrider.runtime.reports.recording import RecordedStep


@pytest.mark.parametrize(
    ("action", "metres", "degrees", "bounded"),
    [
        ("move forward large", 0.75, 3.0, True),
        ("move forward large", 1.0, 0.0, False),
        ("move forward large", 0.2, 20.0, False),
        ("move forward small", 0.75, 0.0, False),
        ("turn right large", 0.0, 45.0, True),
        ("turn left large", 0.0, 60.0, False),
        ("turn left large", 0.5, 45.0, False),
        ("turn left small", 0.0, 45.0, False),
        ("stop", 0.25, 0.0, False),
        ("", 0.25, 0.0, False),
        ("", 0.0, 0.0, True),
    ],
)
def test_after_a_kill_no_more_than_the_action_verified_last_may_follow(
    action: str, metres: float, degrees: float, bounded: bool
) -> None:
    assert is_bounded(Kill("verifier", True, 0.1, metres, degrees, action)) is bounded


def test_a_base_that_moves_after_its_limit_is_late() -> None:
    assert not is_late(Kill("camera", True, 0.3)) and is_late(Kill("camera", True, 0.301))


def test_no_kills_at_all_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least one kill"):
        process_kills.evaluate_kills(0, 0, 1, None, None)


def test_whatever_is_not_as_it_must_be_counts_as_failed() -> None:
    good = Run(1, True, "there", (Kill("verifier", True, 0.1, 0.1, action="move forward small"),))
    assert figures_of([good], [Kill("camera", True, 0.2)], Texts(5, 5))["failed"] == 0
    lost = Run(2, False, "lost", (Kill("verifier", True, 0.1, 2.0),))
    figures = figures_of([good, lost], [Kill("action", True, 0.4), Kill("camera", True, 0.2)], Texts(5, 4, 1))
    assert figures["failed"] == 4  # not reached, unbounded, late, another text
    assert (figures["goals"], figures["reached"]) == (2, 1)
    assert figures["verifier_kills"]["kills"] == 2 and figures["verifier_kills"]["most_metres"] == 2.0
    assert figures["node_kills"]["action"]["late"] == 1 and "navigator" not in figures["node_kills"]
    assert Texts(5, 4, 1, 2) + Texts(1, 1, 0, 1, 1) == Texts(6, 5, 1, 3, 1)


def test_a_goal_lost_with_a_process_that_the_motion_does_not_need_fails() -> None:
    kills = [Kill("memory", True, 0.0, reached=reached) for reached in (True, False)]
    figures = figures_of([], kills, Texts(), (0, 2))
    assert figures["bystander_kills"] == {"memory": {"kills": 2, "reached": 1}}
    assert figures["failed"] == 1 and not figures["node_kills"]


def test_fewer_kills_or_texts_than_were_asked_for_fail() -> None:
    assert figures_of([], [], Texts())["failed"] == 3
    run = Run(1, True, "there", (Kill("verifier", False, 0.0),))
    camera = Kill("camera", True, 0.2)
    assert figures_of([run], [camera], Texts(1, 1), (1, 1))["failed"] == 0
    assert figures_of([run], [camera], Texts(1, 1), (3, 2))["missing"] == 3
    assert figures_of([run, run], [camera], Texts(1, 1, empty=4), (2, 1))["failed"] == 1
    assert figures_of([], [camera], Texts(), (0, 1))["failed"] == 0
    assert figures_of([run], [camera], Texts(), (1, 1))["failed"] == 1
    assert figures_of([run], [camera], Texts(9, 9, unread=1), (1, 1))["failed"] == 1


def test_of_a_base_that_is_gone_the_row_says_what_was_looked_at() -> None:
    figures = figures_of([], [Kill("simulation", True, 0.1)], Texts(), (0, 1))
    assert list(figures["node_kills"]) == ["simulation (cmd_vel)"]


def test_only_steps_with_tokens_are_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    request = DecodeRequest(Prompt("find it", b""))
    ids, text = (1, 2), "stop\nthere"
    steps = [
        RecordedStep("a", 1, request, text, 2, finished=True),
        RecordedStep("a", 2, request, "stop", 1),
        RecordedStep("a", 3, request, "turn", 1),
        RecordedStep("a", 4, request),
    ]

    class Target:
        def decode(self, request: DecodeRequest, *_: object) -> Decoded:
            return Decoded(text, ids, True, 0.1, 0.1, 2)

    monkeypatch.setattr(process_kills, "read_steps", lambda _: steps)
    assert check_texts(Path("a.mcap"), Target()) == Texts(3, 2, 2, empty=1)


def test_a_recording_without_a_step_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "a.mcap").write_bytes(b"")
    assert check_texts(tmp_path / "a.mcap", None) == Texts(unread=1)  # type: ignore[arg-type]


def test_a_result_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    kills = [Kill("camera", True, 0.2, 0.1, 3.0)]
    runs = [Run(3, True, "there", (Kill("verifier", False, 0.0),)), Run(4, False, "no")]
    write_result(tmp_path / "r.json", runs, kills)
    assert read_result(tmp_path / "r.json") == (runs, kills)
