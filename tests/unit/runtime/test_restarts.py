"""When a node is started again."""

from __future__ import annotations

from outrider.runtime.common.ending_signals import COULD_NOT_START
from outrider.runtime.node_graph.node_specs import ACTION, NODES
from outrider.runtime.node_graph.observer_specs import MISSION, RECORD
from outrider.runtime.node_graph.restarts import MAX_RESTARTS, WITHIN_S, Restarts
from outrider.runtime.node_graph.simulation_specs import SIMULATION


def test_nodes_that_the_robot_can_stand_without_are_started_again() -> None:
    kept = {name for name, spec in NODES.items() if spec.restarted}
    assert {"action", "navigator", "verifier", "camera", "gazebo", "gazebo_watchdog"} <= kept
    assert kept.isdisjoint({spec.name for spec in (MISSION, RECORD, SIMULATION)})


def test_a_node_that_keeps_dying_is_not_restarted_but_one_that_rarely_dies_is() -> None:
    now_s = 0.0
    restarts = Restarts(ACTION, lambda: now_s)
    assert [restarts.allow(-9) for _ in range(MAX_RESTARTS + 1)] == [True] * MAX_RESTARTS + [False]
    now_s = WITHIN_S
    assert restarts.allow(0)
    assert not restarts.allow(COULD_NOT_START)
    assert not Restarts(MISSION).allow(1)
