"""The benchmark of idle nodes: the nodes that it starts, and their limits."""

from pathlib import Path

from outrider.evaluation.robot.bench_idle import LIMITS, NODES_WITHOUT_A_GOAL, REMAPPED, _parameters
from outrider.runtime.node_graph.node_graphs import ROBOT_GRAPH
from outrider.runtime.node_graph.node_specs import NODES


def test_everything_that_runs_on_a_robot_has_a_limit() -> None:
    on_robot = {*ROBOT_GRAPH.nodes, "console"} - {"mission"}
    assert set(LIMITS) == on_robot <= set(NODES_WITHOUT_A_GOAL)
    assert all(0.0 < limit < 0.05 for limit in LIMITS.values())


def test_every_node_is_started_with_parameters_of_its_own(tmp_path: Path) -> None:
    parameters = _parameters(tmp_path)
    assert set(NODES_WITHOUT_A_GOAL) <= set(parameters)
    assert set(REMAPPED) <= set(NODES) and parameters["record"]["file"] == str(tmp_path / "run.mcap")
