# SPDX-License-Identifier: Apache-2.0
"""Tables that compare `outrider` with its best alternatives: co-located drafts, and each strategy tuned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from figure_results import Results, markdown_table

COSTS = ("sizes", "5%", "10%")
VARIANTS = ("full-head-exits", "whole-forwards", "rows", "fewer-second-choices")
HEADS = (
    "speed over `ar`",
    "best paper",
    "`csd`",
    "`ssd`",
    "EAGLE-3, as printed",
    "`outrider`, the robot drafts, without / with exits",
    "the cloud too, on one device",
    "on two devices",
    "GPU ms a token: `ar` / `csd` 10 % / `outrider`",
)


def alternatives(shipped: bool) -> Callable[[Results], str]:
    """Returns a function that writes the table for the shipped pair's texts, or for synthetic ones."""

    def table(results: Results) -> str:
        conditions = results["alternatives"]["conditions"].items()
        rows = [_row(name, one) for name, one in conditions if one["shipped_pair"] == shipped]
        return markdown_table(HEADS, rows)

    return table


def _row(name: str, one: Mapping[str, Any]) -> tuple[str, ...]:
    speed = {strategy: f"{row['speedup_vs_ar']:.2f}" for strategy, row in one["strategies"].items()}
    gpu = {strategy: f"{row['gpu_ms_per_token']:.1f}" for strategy, row in one["strategies"].items()}
    eagle = one["eagle_published"]
    return (
        f"`{name.partition(',')[0]}`",
        f"{speed[one['best_paper']]} (`{one['best_paper']}`)",
        *(" / ".join(speed[f"{kind} {cost}"] for cost in COSTS) for kind in ("csd", "ssd")),
        f"{eagle['speedup']:.2f}" if eagle else "-",
        f"{speed['outrider without exits']} / {speed['outrider']}",
        *(" / ".join(speed[f"{kind} {cost}"] for cost in COSTS) for kind in ("both", "apart")),
        " / ".join(gpu[strategy] for strategy in ("ar", "csd 10%", "outrider")),
    )


def at_both_ends(kind: str, rival: str) -> Callable[[Results], str]:
    """Returns a function that counts the cases in which `outrider` with drafts at both ends reaches 0.98 of a
    rival's speed. A case is one cost in one condition.
    """

    def cases(results: Results) -> str:
        every = [one["strategies"] for one in results["alternatives"]["conditions"].values()]
        leads = [
            row[f"{kind} {cost}"]["speedup_vs_ar"] / row[f"{rival} {cost}"]["speedup_vs_ar"]
            for row in every
            for cost in COSTS
        ]
        return f"{sum(lead >= 0.98 for lead in leads)} of {len(leads)}"

    return cases


def colocated_with_the_target(results: Results) -> str:
    """Returns in how many conditions `outrider` is faster than the same draft model in the cloud."""
    every = [one["strategies"] for one in results["alternatives"]["conditions"].values()]
    faster = (row["outrider"]["speedup_vs_ar"] > row["csd sizes"]["speedup_vs_ar"] for row in every)
    return f"{sum(faster)} of {len(every)}"


def random_conditions(results: Results) -> str:
    """Returns the table of gains over other strategies in random conditions."""
    rows = [
        (other, f"{one['median']:.2f}", f"{one['tenth_percentile']:.2f}")
        for other, one in results["alternatives-random"]["outrider_over"].items()
    ]
    return markdown_table(("`outrider` over", "median", "10th percentile"), rows)


def both_ends_level(results: Results) -> str:
    """Returns in how many random cases drafts at both ends reach 0.98 of `csd`."""
    leads = _both_ends(results, "")
    return f"{sum(lead >= 0.98 for lead in leads)} of {len(leads)}"


def both_ends_bare(results: Results) -> str:
    """Returns the median speed of drafts at both ends over `csd`, for a target without exits."""
    return f"{median(_both_ends(results, ' without exits')):.2f}"


def _both_ends(results: Results, exits: str) -> list[float]:
    speeds = [one["speedup_vs_ar"] for one in results["alternatives-random"]["regimes"].values()]
    return [row[f"both {cost}{exits}"] / row[f"csd {cost}"] for cost in COSTS[1:] for row in speeds]


def variants(results: Results) -> str:
    """Returns the table of the speed over `ar` with other costs."""
    links = ("wifi6", "lte", "fsd-go2-cheap-exits")
    plain = results["alternatives"]["conditions"]
    rows = [("as above", *(_ours(plain[link]) for link in links))]
    for variant in VARIANTS:
        conditions = results[f"alternatives-{variant}"]["conditions"]
        rows.append((f"`{variant}`", *(_ours(conditions[f"{link}, {variant}"]) for link in links)))
    return markdown_table(("costs", *(f"`{link}`" for link in links)), rows)


def _ours(one: Mapping[str, Any]) -> str:
    return f"{one['strategies']['outrider']['speedup_vs_ar']:.2f}"


def draft_costs(results: Results) -> str:
    """Returns the costs of a draft token in the cloud, in the order of the table's figures."""
    return f"what sizes imply, {' and '.join(COSTS[1:])}"


ALTERNATIVES: dict[str, Callable[[Results], str]] = {
    "draft_costs": draft_costs,
    "alternatives_pair": alternatives(shipped=True),
    "alternatives_synthetic": alternatives(shipped=False),
    "beside_the_target": colocated_with_the_target,
    "alternatives_random": random_conditions,
    "alternatives_variants": variants,
    "one_device_level": at_both_ends("both", "csd"),
    "two_devices_level": at_both_ends("apart", "ssd"),
    "both_ends_level": both_ends_level,
    "both_ends_bare": both_ends_bare,
}
