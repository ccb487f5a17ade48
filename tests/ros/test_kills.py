"""`outrider eval kills` with a few kills: the shipped pair in processes of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.core.values import Velocity
from outrider.nodes.kill_trials import Sample, driven, to_zero_s
from outrider.runtime.process_kills import evaluate_kills

pytestmark = pytest.mark.ros


@pytest.mark.timeout(900)  # some starts of a model: a minute, and minutes on a starved machine
def test_a_killed_verifier_costs_no_token_and_a_killed_camera_stops_the_robot(tmp_path: Path) -> None:
    figures = evaluate_kills(2, 1, 3, None, tmp_path / "kills.json")
    verifier, texts = figures["verifier_kills"], figures["texts"]
    assert verifier["kills"] == 2 and verifier["unbounded"] == 0
    assert figures["reached"] == figures["goals"] >= 1
    assert texts["steps"] >= 2 and texts["agree"] == texts["steps"]
    camera = figures["node_kills"]["camera"]
    # How soon is a matter of the machine's load here; that it stands within the time watched is not.
    assert camera["kills"] == camera["moving"] == 1 and camera["worst_to_zero_s"] < 1.0
    assert json.loads((tmp_path / "kills.json").read_text())["runs"]


def test_the_time_to_zero_ends_with_the_last_moving_command() -> None:
    ahead, still = Velocity(vx=0.5), Velocity()
    samples = [Sample(0.0, ahead), Sample(0.1, ahead), Sample(0.3, still), Sample(0.4, still)]
    assert to_zero_s(samples, 0.05, 9.0) == pytest.approx(0.25)
    assert to_zero_s(samples, 0.2, 9.0) == 0.0
    assert to_zero_s([*samples, Sample(0.5, ahead)], 0.05, 0.45) == pytest.approx(0.25)
    assert driven(samples, -1.0) == pytest.approx((0.15, 0.0))
