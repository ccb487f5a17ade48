"""The parameter files of the chains behind the action node agree with its code."""

import json
from pathlib import Path

import pytest
import yaml

from outrider.navigation.limits import Footprint
from outrider.navigation.sensing.clearance import CONTACT_MARGIN_M
from outrider.runtime.node_graph.node_specs import ACTION

CONFIG = Path(__file__).resolve().parents[3] / "config"


def parameters(name: str) -> dict:
    return yaml.safe_load((CONFIG / f"{name}.yaml").read_text())[name]["ros__parameters"]


def test_twist_mux_is_as_impatient_as_the_action_node_and_locked_by_the_e_stop() -> None:
    mux = parameters("twist_mux")
    deadman_s = next(p.default for p in ACTION.parameters if p.name == "deadman_s")
    topics = mux["topics"]
    assert all(topic["timeout"] <= deadman_s for topic in topics.values())
    assert topics["joystick"]["priority"] > topics["navigation"]["priority"] > topics["outrider"]["priority"]
    lock = mux["locks"]["e_stop"]
    assert lock["topic"] == "e_stop"
    assert lock["priority"] > max(topic["priority"] for topic in topics.values())


def test_every_version_of_the_chain_takes_the_twist_that_the_action_node_sends() -> None:
    assert parameters("twist_mux")["use_stamped"] is False
    assert parameters("collision_monitor")["enable_stamped_cmd_vel"] is False
    assert next(p.default for p in ACTION.parameters if p.name == "command_interface") == "twist"


def test_the_collision_monitor_stops_at_the_contact_margin_of_the_body() -> None:
    monitor, body = parameters("collision_monitor"), Footprint()
    corners = json.loads(monitor["stop"]["points"])
    assert max(x for x, _ in corners) == pytest.approx(body.half_length_m + CONTACT_MARGIN_M)
    assert max(y for _, y in corners) == pytest.approx(body.half_width_m + CONTACT_MARGIN_M)
    assert monitor["source_timeout"] <= 0.3 and monitor["scan"]["topic"] == "scan"
    assert set(monitor["polygons"]) <= set(monitor)
