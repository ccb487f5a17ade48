"""The layouts for Foxglove and RViz show only topics that the graph publishes, with a suitable QoS."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from outrider.runtime.reports.recording import RECORDED_TOPICS

CONFIG = Path(__file__).resolve().parents[3] / "config"
TOPIC_KEYS = ("imageTopic", "calibrationTopic", "topicPath", "topicToRender", "value")


def leaves(node: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yields every value that is not a container, with its key."""
    if isinstance(node, dict):
        for name, child in node.items():
            yield from leaves(child, name)
    elif isinstance(node, list):
        for child in node:
            yield from leaves(child, key)
    else:
        yield key, node


def panels_of(layout: Any) -> list[str]:
    if isinstance(layout, str):
        return [layout]
    return [*panels_of(layout["first"]), *panels_of(layout["second"])]


def recorded() -> set[str]:
    names = {"/" + topic.lstrip("/") for topic in RECORDED_TOPICS}
    return names - {"/camera/image_raw"} | {"/camera/image_raw/compressed"}


def test_every_panel_of_the_foxglove_layout_is_described_and_shows_recorded_topics() -> None:
    view = json.loads((CONFIG / "foxglove.json").read_text())
    assert sorted(panels_of(view["layout"])) == sorted(view["configById"])
    topics = {value.partition(".")[0] for key, value in leaves(view["configById"]) if key in TOPIC_KEYS}
    for panel in view["configById"].values():
        topics |= set(panel.get("topics", {}))
    assert len(topics) > 7 and topics <= recorded()


def test_rviz_shows_topics_of_the_graph_and_hears_their_publishers() -> None:
    displays = yaml.safe_load((CONFIG / "outrider.rviz").read_text())["Visualization Manager"]["Displays"]
    topics = {display["Topic"]["Value"]: display["Topic"] for display in displays if "Topic" in display}
    assert set(topics) == {"scan", "markers", "odom", "camera/image_raw"} <= set(RECORDED_TOPICS)
    reliable = {name for name, topic in topics.items() if topic["Reliability Policy"] == "Reliable"}
    assert reliable == {"markers"}  # the sensors publish best effort
