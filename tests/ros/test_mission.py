"""A whole mission over DDS with a decoder that knows the way: success, report, and a stop too early."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import NodeThread
from fakes import FEW_PICTURES, ROUND, SLOW_CAMERA
from missions import mission_of, watch
from support_ros import EdgeNavigator, PatientAction

from outrider.core.values import Decoded, DecodeRequest, LinkState, Verified
from outrider.nodes.simulation.simulation_node import SimulationNode
from outrider.runtime.wiring.robot_pair import Edge
from outrider.simulation.simulator import Simulator

pytestmark = pytest.mark.ros
REACHED_M = 0.9
SEED = 25
"""A home whose bottle is one small turn and three small moves away."""


class Guide:
    """Implements TextDecoder: turns to the target, approaches it and stops, by the simulation's true pose."""

    link_state = LinkState.CONNECTED

    def __init__(self, simulator: Callable[[], Simulator], stop_at_once: bool = False) -> None:
        self._simulator = simulator
        self._stop_at_once = stop_at_once

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Decoded:
        text = f"{self._action()}\ngo: the way is known"
        on_verified(Verified((1, 2), text, 0.01))
        return Decoded(text, (1, 2), True, 0.02, 0.01, 1, (ROUND,), LinkState.CONNECTED)

    def _action(self) -> str:
        simulator = self._simulator()
        pose, target = simulator.truth(), simulator.home.target
        bearing_deg = math.degrees(pose.bearing_to(target.x, target.y))
        if self._stop_at_once or pose.distance_to(target.x, target.y) < REACHED_M + target.radius / 2:
            return "stop"
        if abs(bearing_deg) > 10:
            return f"turn {'left' if bearing_deg > 0 else 'right'} small"
        return "move forward small"

    def close(self) -> None:
        self._stop_at_once = True


def run_mission(
    run_node: Callable[..., NodeThread],
    out: Path,
    real_time_factor: float = 1.0,
    filmed: bool = False,
    **guide: Any,
) -> tuple[int, str]:
    """Runs a mission. Returns its exit status and its output."""
    clock = {} if real_time_factor == 1.0 else {"use_sim_time": True}
    options = {
        "real_time_factor": real_time_factor,
        "seed": SEED,
        "placement": "in_view",
        "instruction": "find the silver bottle",
        **FEW_PICTURES,
    }
    simulation = run_node(lambda: SimulationNode(options))
    decoder = Guide(lambda: simulation.node.simulator, **guide)
    run_node(lambda: PatientAction(clock))
    run_node(lambda: EdgeNavigator({**clock, **SLOW_CAMERA}, Edge(decoder, None)), threads=4)
    with mission_of(out=str(out)) as mission:
        ended = watch(mission)
        if filmed:
            mission.film(lambda: False)
    return ended


def test_a_found_object_is_a_success_with_a_whole_report(
    run_node: Callable[..., NodeThread], tmp_path: Path
) -> None:
    status, printed = run_mission(run_node, tmp_path)
    assert status == 0, printed
    assert "SUCCESS" in printed and "m to go" in printed
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["success"] is True and report["target_distance_m"] <= 1.2
    assert report["path_m"] > 0.2 and report["decision_latency_s"] > 0.0
    steps = report["step_log"]
    assert steps[-1]["action"] == "stop" and len(steps) == report["steps"] > 1
    assert all(s["frame_s"] <= s["action_s"] <= s["moved_s"] for s in steps)
    assert report["verdict"] == "success" and report["checked"] is True
    assert (report["seed"], report["placement"], report["link"]) == (SEED, "in_view", None)
    assert report["drafters"] == "model,suffix" and report["versions"]["outrider"] and report["host"]["cores"]


def test_the_graph_runs_on_a_faster_clock(run_node: Callable[..., NodeThread], tmp_path: Path) -> None:
    status, printed = run_mission(run_node, tmp_path, real_time_factor=3.0)
    assert status == 0, printed


def test_a_stop_far_from_the_object_is_a_failure_and_filmed_too(
    run_node: Callable[..., NodeThread], tmp_path: Path
) -> None:
    status, printed = run_mission(run_node, tmp_path, filmed=True, stop_at_once=True)
    assert status == 1 and "FAILED" in printed
    assert json.loads((tmp_path / "report.json").read_text())["success"] is False
    assert (tmp_path / "run.mp4").stat().st_size > 10_000
