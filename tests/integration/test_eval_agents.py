"""`outrider eval agents` end to end: a real server for agents, a console and a simulated robot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.evaluation.agents.hostile_agents import evaluate_agents

CALLS = 60


@pytest.mark.parametrize("over_http", [False, True], ids=["over a pipe", "over HTTP"])
def test_hostile_calls_move_a_robot_no_further_than_an_agent_may(tmp_path: Path, over_http: bool) -> None:
    file = tmp_path / "agents.json"
    found = evaluate_agents(CALLS, seed=4, json_file=file, over_http=over_http)
    assert (found.outside, found.collisions) == (0, 0)
    assert found.calls == sum(found.kinds.values()) == CALLS
    assert found.taken > 0, "the openings at least"
    assert found.stops == (1 if over_http else 2) and found.answered > 0
    assert json.loads(file.read_text(encoding="utf-8"))["stops"] == found.stops
