# SPDX-License-Identifier: Apache-2.0
"""Tables and numbers of navigation: objects found, times and steps, and results in homes of other looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from figure_results import Results, markdown_table, share_text, span

from outrider.evaluation.common.intervals import wilson_interval

PLACEMENTS = {
    "in_view": "in view at the start",
    "hidden": "hidden in the same room",
    "other_room": "in another room",
}
WHO = {
    "navigation": "shipped pair",
    "navigation-memory": "shipped pair, place in memory",
    "navigation-draft": "draft model alone",
}
MOTIONS = [f"motion-{way}-{ms}" for ms in (0, 500, 2000) for way in ("stepwise", "continuous")]


def motion(results: Results) -> str:
    """Returns the table of continuous and stepwise motion, by round trip."""
    rows = []
    for result in map(results.__getitem__, MOTIONS):
        found = sum(run["success"] for run in result["runs"])
        rows.append(
            (
                f"`{result['motion']}`",
                f"{result['round_trip_ms']:.0f}",
                share_text(found, len(result["runs"])),
                f"{result['time_median_s']:.1f}",
                f"{result['time_mean_s']:.1f}",
                f"{result['standing_share']:.2f}",
                f"{result['steps_median']:g}",
            )
        )
    head = ("motion", "round trip, ms", "found of homes (95 %)", "s, median", "s, mean", "standing", "steps")
    return markdown_table(head, rows)


def looks(results: Results) -> str:
    """Returns the table of objects that the target model finds in homes of other looks."""
    rows = []
    for look, one in results["target"]["figures"]["looks"].items():
        away = one["episodes"] // 4
        same = one["episodes"] - away
        rows.append(
            (
                f"`{look}`",
                share_text(round(one["success_same_room"] * same), same),
                share_text(round(one["success_other_room"] * away), away),
                f"{one['collision_rate']:.2f}",
            )
        )
    return markdown_table(
        ("look", "found in the same room (95 %)", "in another room", "touched something"), rows
    )


def plans(results: Results) -> str:
    """Returns the table that compares plans of several finds with the same finds one at a time."""
    one = results["plans"]
    rows = [
        (words, *(share_text(round(one[name] * one[of]), one[of]) for name in names))
        for words, of, names in (
            ("all finds of a home (95 %)", "homes", ("plans_reached", "alone_all_reached")),
            ("finds (95 %)", "finds", ("finds_reached", "alone_reached")),
        )
    ]
    lost = f"{one['difference']:+.3f} ({span(one['difference_interval'], '+.3f')})"
    rows.append(("homes lost by plans (95 %)", lost, ""))
    return markdown_table((f"reached in {one['homes']} homes", "in a plan", "each alone"), rows)


PICTURE_SETS = {
    "as_shipped": "Gazebo Fortress, the world's colours before they were corrected",
    "corrected": "Gazebo Fortress, corrected colours",
    "mujoco": "MuJoCo, the same poses",
}


def gazebo_frames(results: Results) -> str:
    """Returns the table that compares the target model's answers to Gazebo's images with the expert's."""
    rows = []
    for name, meaning in PICTURE_SETS.items():
        one = results["gazebo-frames"]["sets"][name]
        shares = (one["action_agreement"], one["agreement_target_in_view"])
        texts = (share_text(round(share["share"] * share["n"]), share["n"]) for share in shares)
        rows.append((meaning, *texts, f"{one['object_precision']:.2f}", f"{one['object_recall']:.2f}"))
    head = ("pictures", "the expert's action (95 %)", "of those in view", "objects: precision", "recall")
    return markdown_table(head, rows)


def navigation(results: Results) -> str:
    """Returns the table of objects found, by the answering models and the object's placement."""
    rows = []
    for result, name in WHO.items():
        runs = results[result]["runs"]
        rows.append((name, *(_found(runs, place) for place in PLACEMENTS), _steps(results[result])))
    return markdown_table(
        ("found of homes (95 %)", *PLACEMENTS.values(), "median steps, hidden / other room"), rows
    )


def _found(runs: list[Mapping[str, Any]], placement: str) -> str:
    found = [run["success"] for run in runs if run["placement"] == placement]
    return share_text(sum(found), len(found))


def _steps(result: Mapping[str, Any]) -> str:
    medians = (result["steps_hidden"], result["steps_other_room"])
    return " / ".join("-" if value is None else f"{value:g}" for value in medians)


def _same_room(results: Results) -> tuple[int, int]:
    found = [run["success"] for run in results["navigation"]["runs"] if run["placement"] != "other_room"]
    return sum(found), len(found)


def _other_room(results: Results) -> tuple[int, int]:
    found = [run["success"] for run in results["navigation"]["runs"] if run["placement"] == "other_room"]
    return sum(found), len(found)


def _share(counts: Callable[[Results], tuple[int, int]]) -> Callable[[Results], str]:
    """Returns a function that writes a share, its number of trials and its interval as three cells."""

    def cells(results: Results) -> str:
        hits, trials = counts(results)
        return f"{hits / trials:.2f} | {trials} homes | {span(wilson_interval(hits, trials))}"

    return cells


NAVIGATION: dict[str, Callable[[Results], str]] = {
    "navigation": navigation,
    "motion": motion,
    "looks": looks,
    "plans": plans,
    "gazebo_frames": gazebo_frames,
    "same_room": _share(_same_room),
    "other_room": _share(_other_room),
}
