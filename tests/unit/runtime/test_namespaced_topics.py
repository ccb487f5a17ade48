"""What follows from a robot's namespace; without one, nothing changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.core.errors import ConfigError
from outrider.runtime.node_graph.namespaces import (
    apart,
    checked_namespace,
    diagnostics_name,
    has_own_tf,
    spec_of_status,
)
from outrider.runtime.node_graph.node_graphs import (
    CLOUD_GRAPH,
    GAZEBO_GRAPH,
    ROBOT_GRAPH,
    SIM_GRAPH,
    TELEOP_GRAPH,
    wanted_nodes,
)
from outrider.runtime.node_graph.parameter_values import graph_parameters
from outrider.runtime.wiring.memory_stores import default_store

GRAPHS = (SIM_GRAPH, ROBOT_GRAPH, GAZEBO_GRAPH, TELEOP_GRAPH, CLOUD_GRAPH)
ENDPOINT = "tcp://127.0.0.1:7777"


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.parameter_file)
def test_every_graph_may_be_in_a_namespace_or_in_none(graph) -> None:
    assert apart(graph, "", False, ENDPOINT) == {}
    parameters = graph_parameters(graph, apart(graph, "/go2", False, ENDPOINT), {})
    framed = [values["frame_prefix"] for values in parameters.values() if "frame_prefix" in values]
    assert set(framed) <= {"go2/"} and (framed or graph is CLOUD_GRAPH)
    own_tf = graph_parameters(graph, apart(graph, "/go2", True, ENDPOINT), {})
    assert all(values.get("frame_prefix", "") == "" for values in own_tf.values())


def test_what_would_collide_on_one_machine_does_not() -> None:
    red, blue = (
        apart(SIM_GRAPH, name, False, f"tcp://127.0.0.1:{port}") for name, port in (("/red", 1), ("/blue", 2))
    )
    for node, parameter in (
        ("verifier", "endpoint"),
        ("navigator", "endpoint"),
        ("simulation", "frame_prefix"),
        ("simulation", "go2_prefix"),
        ("action", "go2_prefix"),
    ):
        assert red[node][parameter] != blue[node][parameter]
    assert red["console"]["port"] == 0


def test_a_real_go2_and_a_verifier_elsewhere_are_where_they_are() -> None:
    values = apart(ROBOT_GRAPH, "/go2", False, ENDPOINT)
    assert not any("go2_prefix" in v or "endpoint" in v for v in values.values())
    assert apart(CLOUD_GRAPH, "/go2", False, ENDPOINT) == {"verifier": {}}


def test_one_verifier_may_serve_several_robots() -> None:
    parameters = graph_parameters(SIM_GRAPH, {}, {"verifier": False})
    assert "verifier" not in wanted_nodes(SIM_GRAPH, parameters)
    alone = graph_parameters(CLOUD_GRAPH, {"verifier": {"serve": False}}, {})
    assert wanted_nodes(CLOUD_GRAPH, alone) == ("verifier",)


@pytest.mark.parametrize(
    ("text", "namespace"),
    [
        ("", ""),
        ("/", ""),
        ("go2", "/go2"),
        ("/go2/", "/go2"),
        ("fleet/go2", "/fleet/go2"),
        ("_a/b2", "/_a/b2"),
    ],
)
def test_a_namespace_may_be_written_with_and_without_slashes(text: str, namespace: str) -> None:
    assert checked_namespace(text) == namespace


@pytest.mark.parametrize("text", ["my robot", "2go", "go2-b", "a//b", "~", "{x}", "a/2"])
def test_what_is_no_namespace_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="namespace="):
        checked_namespace(text)


def test_diagnostics_and_memories_tell_robots_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert diagnostics_name("/", "action") == diagnostics_name("", "action") == "outrider/action"
    assert diagnostics_name("/fleet/go2", "action") == "fleet/go2/outrider/action"
    for namespace in ("", "/go2", "/fleet/go2"):
        assert spec_of_status(diagnostics_name(namespace, "action")) == "action"
    assert not spec_of_status("nav2/action") and not spec_of_status("my_outrider/action")
    monkeypatch.setenv("OUTRIDER_MEMORY", str(tmp_path / "memory.db"))
    assert default_store("/") == default_store() == tmp_path / "memory.db"
    assert default_store("/go2") == tmp_path / "go2" / "memory.db"


def test_tf_is_a_robots_own_where_it_is_remapped_into_its_namespace() -> None:
    assert has_own_tf([("/tf", "tf"), ("/tf_static", "tf_static")])
    assert not has_own_tf([]) and not has_own_tf([("/tf", "/other/tf")]) and not has_own_tf([("scan", "tf")])
