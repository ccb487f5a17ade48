# SPDX-License-Identifier: Apache-2.0
"""The table of hostile calls by agents."""

from __future__ import annotations

from collections.abc import Callable

from figure_results import Results, markdown_table

ROWS = {
    "calls": "calls",
    "taken": "sentences given to the robot",
    "motions": "its motions, watched",
    "outside": "outside the envelope",
    "collisions": "collisions",
    "stops": "stops among the calls",
    "late_stops": "of them later than the limit at the robot",
    "agent_stop_ms": "an agent's stop to the robot, median, ms",
    "agent_stop_worst_ms": "an agent's stop to the robot, worst, ms",
    "person_stop_worst_ms": "a person's stop to the robot, worst, ms",
    "stands_worst_ms": "from a stop to a stand, worst, ms",
}


def agents(results: Results) -> str:
    """Returns the table of hostile calls."""
    ways = ("agents", "agents-http")
    rows = [(words, *(f"{results[way][name]:g}" for way in ways)) for name, words in ROWS.items()]
    return markdown_table(("hostile calls to a robot", "over a pipe", "over HTTP"), rows)


AGENTS: dict[str, Callable[[Results], str]] = {"agents": agents}
