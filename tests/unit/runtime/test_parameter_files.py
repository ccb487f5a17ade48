"""ROS parameter files in every form that ROS takes, and what is ignored in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outrider.core.errors import ConfigError
from outrider.runtime.node_graph.node_graphs import ROBOT_GRAPH
from outrider.runtime.node_graph.node_specs import NODES
from outrider.runtime.node_graph.parameter_files import read_parameter_file, write_parameter_file
from outrider.runtime.node_graph.parameter_values import graph_parameters

MAX = "{ros__parameters: {max_forward_mps: 0.3}}"


def read(path: Path, text: str, namespace: str = "") -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Writes and reads a file. Returns each node's values, and notes on what is ignored."""
    notes: list[str] = []
    file = path / "own.yaml"
    file.write_text(text)
    return read_parameter_file(file, namespace, notes.append), notes


@pytest.mark.parametrize(
    "text",
    [
        f"action: {MAX}",
        f"/action: {MAX}",
        f"go2: {{action: {MAX}}}",
        f"/go2: {{/action: {MAX}}}",
        f"fleet: {{go2: {{action: {MAX}}}}}",
        f"/fleet/go2/action: {MAX}",
        f"/**/action: {MAX}",
        f"/*/action: {MAX}",
        f"/**: {MAX}",
        f"/go2/**: {MAX}",
        f"'**': {MAX}",
        f"/*: {MAX}",
        "action: {ros__parameters: {max_forward_mps: 3e-1}}",
    ],
)
def test_each_form_of_a_nodes_address_reaches_the_node(text: str, tmp_path: Path) -> None:
    given, notes = read(tmp_path, text)
    assert given["action"] == {"max_forward_mps": 0.3} and not notes
    assert graph_parameters(ROBOT_GRAPH, given, {})["action"]["max_forward_mps"] == 0.3


def test_a_section_for_all_nodes_gives_each_node_what_it_has(tmp_path: Path) -> None:
    given, notes = read(tmp_path, "/**: {ros__parameters: {use_sim_time: true, rate_hz: 25, base_frame: b}}")
    assert set(given) == set(NODES) and all(values["use_sim_time"] for values in given.values())
    assert given["action"]["rate_hz"] == given["camera"]["rate_hz"] == 25 and "rate_hz" not in given["memory"]
    assert notes == ["section /**: no node of Outrider has base_frame: left out"]


def test_what_a_dump_writes_is_taken(tmp_path: Path) -> None:
    own = "autostart: true, start_type_description_service: true, use_sim_time: false, max_forward_mps: 0.3"
    qos = "qos_overrides: {/clock: {subscription: {depth: 1}}}, qos_overrides./tf.publisher.depth: 5"
    given, notes = read(tmp_path, f"/action: {{ros__parameters: {{{own}, {qos}}}}}")
    action = graph_parameters(ROBOT_GRAPH, given, {})["action"]
    assert (action["max_forward_mps"], action["use_sim_time"]) == (0.3, False) and not notes
    assert action["qos_overrides"] == {"/clock": {"subscription": {"depth": 1}}}


def test_the_simulated_clock_may_be_for_one_node_and_is_a_yes_or_a_no(tmp_path: Path) -> None:
    given, _ = read(tmp_path, "camera: {ros__parameters: {use_sim_time: true}}")
    parameters = graph_parameters(ROBOT_GRAPH, given, {})
    assert [name for name, values in parameters.items() if "use_sim_time" in values] == ["camera"]
    with pytest.raises(ConfigError, match="camera: parameter use_sim_time='on' must be of type bool"):
        graph_parameters(ROBOT_GRAPH, {"camera": {"use_sim_time": "on"}}, {})


@pytest.mark.parametrize(
    ("namespace", "expected"), [("/go2", 0.2), ("/spot", 0.3), ("/fleet/go2", 0.4), ("/other", 0.5)]
)
def test_the_more_a_section_names_the_more_it_counts(namespace: str, expected: float, tmp_path: Path) -> None:
    text = """
/go2/action: {ros__parameters: {max_forward_mps: 0.2}}
/spot/*: {ros__parameters: {max_forward_mps: 0.3}}
/fleet/go2/action: {ros__parameters: {max_forward_mps: 0.4}}
/**: {ros__parameters: {max_forward_mps: 0.5}}
"""
    given, _ = read(tmp_path, text, namespace)
    assert given["action"]["max_forward_mps"] == expected
    assert set(given) == {"action"}


def test_another_robots_section_is_left_out_and_noted(tmp_path: Path) -> None:
    given, notes = read(tmp_path, f"/spot/action: {MAX}", "/go2")
    assert given == {} and notes == ["section /spot/action is not for namespace /go2: left out"]
    with pytest.raises(ConfigError, match="namespaces /go2, /spot: say which by namespace:="):
        read(tmp_path, f"/go2/action: {MAX}\n/spot/action: {MAX}")


@pytest.mark.parametrize(
    "section",
    [
        "slam_toolbox: {ros__parameters: {mode: mapping, max_foo: 1}}",
        "bt_navigator: {ros__parameters: {use_sim_time: true, transform_tolerance: 0.1}}",
        "camera1: {ros__parameters: {frame_id: cam, image_width: 640, framerate: 30.0}}",
        "local_costmap: {local_costmap: {ros__parameters: {robot_radius: 0.2}}}",
        "camera: {camera: {ros__parameters: {enable_depth: true}}}",
    ],
)
def test_sections_of_other_packages_are_left_out_and_noted(section: str, tmp_path: Path) -> None:
    given, notes = read(tmp_path, f"action: {MAX}\n{section}")
    assert given == {"action": {"max_forward_mps": 0.3}}
    assert len(notes) == 1 and notes[0].endswith("left out")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("action: {ros__parameters: {max_foward_mps: 0.3}}", "max_foward_mps: did you mean max_forward_mps?"),
        ("/go2/action: {ros__parameters: {max_foward_mps: 0.3}}", "did you mean max_forward_mps?"),
        ("/**: {ros__parameters: {max_foward_mps: 0.3}}", "did you mean max_forward_mps?"),
        (f"actoin: {MAX}", "section /actoin names no node: did you mean action?"),
        (f"action_node: {MAX}", "did you mean action?"),
        (f"go2: {{Action: {MAX}}}", "did you mean action?"),
        ("action: {ros__parameters: {frobnicate: 1}}", "unknown parameter frobnicate"),
    ],
)
def test_a_typo_in_a_section_of_ours_is_refused_with_the_near_name(
    text: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as raised:
        graph_parameters(ROBOT_GRAPH, read(tmp_path, text)[0], {})
    assert words in str(raised.value)


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1, 2]", "must map node names"),
        ("", "must map node names"),
        ("action: fast", "'action' must stand above or below ros__parameters"),
        ("action:", "'action' must stand"),
        ("action: {}", "'action' must stand"),
        ("navigator: {strategy: sd}", "'navigator/strategy' must stand"),
        ("action: {ros__parameters: [1, 2]}", "not be [1, 2]"),
        ("action: {ros__parameters: fast}", "not be 'fast'"),
        ("action: {ros__parameters: {}", "cannot be read"),
        ("action:\n\tros__parameters:", "cannot be read"),
        ("a: &a {b: *a}", "cannot be read"),
        ("a: 2024-13-45", "cannot be read"),
        ("[" * 5000, "cannot be read"),
        ("? [1]\n: 2", "'[1]' must stand"),
        ("action: {ros__parameters: {use_scan: true, use_scan: false}}", "use_scan is given twice"),
        (f"action: {MAX}\naction: {MAX}", "max_forward_mps is given twice"),
    ],
)
def test_what_is_no_parameter_file_is_refused_with_the_reason(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, text)
    assert str(raised.value).startswith(f"parameter file {tmp_path / 'own.yaml'}: ")
    assert words in str(raised.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "own.yaml", tmp_path, tmp_path / "none.yaml"):
        with pytest.raises(ConfigError, match="cannot be read"):
            read_parameter_file(path)


def test_a_section_given_twice_counts_as_one(tmp_path: Path) -> None:
    given, _ = read(tmp_path, f"action: {{ros__parameters: {{use_scan: false}}}}\naction: {MAX}")
    assert given["action"] == {"use_scan": False, "max_forward_mps": 0.3}


def test_an_empty_section_gives_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, "action: {ros__parameters: }") == ({"action": {}}, [])


def test_a_file_of_a_robot_in_a_namespace_round_trips(tmp_path: Path) -> None:
    parameters = graph_parameters(ROBOT_GRAPH, {}, {})
    write_parameter_file(tmp_path / "p.yaml", parameters, "/go2")
    assert read_parameter_file(tmp_path / "p.yaml", "/go2") == parameters


def test_bytes_that_are_no_text_are_refused_before_a_file_is_written() -> None:
    with pytest.raises(ConfigError, match=r"file=.* has bytes that are no text"):
        NODES["record"].checked({"file": "/tmp/\udcff.mcap"})
