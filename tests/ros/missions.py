"""Missions to a silver bottle, each run with a live view."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO

from rich.console import Console

from outrider.nodes.navigator.mission_node import MissionNode
from outrider.runtime.node_graph.parameters import Value
from outrider.runtime.reports.live_view import LiveView


@contextmanager
def mission_of(**parameters: Value) -> Iterator[MissionNode]:
    """Yields a mission with a time limit of 90 s, unless the parameters say otherwise."""
    mission = MissionNode({"instruction": "find the silver bottle", "time_limit_s": 90.0, **parameters})
    try:
        yield mission
    finally:
        mission.destroy_node()


def watch(
    mission: MissionNode, stopping: threading.Event | None = None, view: type[LiveView] = LiveView
) -> tuple[int, str]:
    """Runs a mission. Returns its exit status and what its view printed."""
    printed = StringIO()
    with view(Console(file=printed, width=200)) as shown:
        status = mission.run(shown, stopping or threading.Event())
    return status, printed.getvalue()
