# SPDX-License-Identifier: Apache-2.0
"""Tables and numbers of decoding, latency and drafting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from figure_results import Results, formatted, markdown_table, span

from outrider.evaluation.common.intervals import wilson_interval

DRAFTING = ("sd", "dssd", "fsd", "picospec", "outrider")
SHOWN = ("ar", "sd", "outrider")
Rows = list[tuple[str, ...]]


def speeds(part: str) -> Callable[[Results], str]:
    """Returns a function that writes the table of all conditions of a part, `replayed` or `regimes`."""

    def table(results: Results) -> str:
        rows = [(f"`{name}`", *_speeds(row)) for name, row in results["decoding"][part].items()]
        heads = tuple(f"`{name}`" for name in DRAFTING)
        return markdown_table(("speed over `ar`", *heads, "95 % interval of `outrider`"), rows)

    return table


def live(results: Results) -> str:
    """Returns the table of speeds over `ar`, each in real time and on the virtual clock."""
    rows = []
    for name, row in results["live"]["regimes"].items():
        alone = row["ar"]
        pairs = [
            (
                one["tokens_per_s"] / alone["tokens_per_s"],
                one["clock_tokens_per_s"] / alone["clock_tokens_per_s"],
            )
            for one in (row[strategy] for strategy in DRAFTING)
        ]
        late = max(one["late_share"] for one in row.values())
        rows.append((f"`{name}`", *(f"{real:.2f} / {clock:.2f}" for real, clock in pairs), f"{late:.1%}"))
    heads = (f"`{name}`" for name in DRAFTING)
    return markdown_table(("real time / clock", *heads, "late at most"), rows)


def hedging(results: Results) -> str:
    """Returns the table of the gains from a second verifier."""
    rows = [
        (
            f"`{one['link']}`",
            one["losses"],
            f"{one['median_ms']:.0f} / {one['hedged_median_ms']:.0f} ms",
            f"{one['p99_ms']:.0f} / {one['hedged_p99_ms']:.0f} ms",
            f"{one['stand_ms'] / 1e3:.2f} / {one['hedged_stand_ms'] / 1e3:.2f} s",
            f"{one['work']:.2f}",
            f"{one['num_bytes']:.2f}",
        )
        for one in results["hedging"]["conditions"]
    ]
    heads = ("link", "losses", "median: one / two", "99th percentile", "longest wait", "work", "bytes")
    return markdown_table(heads, rows)


def changes(results: Results) -> str:
    """Returns the table of the slowest windows after a change."""
    both, alone = (results["changes"]["windows"]["full"][drafts] for drafts in ("both ends", "robot"))
    rows = [
        (name, *(f"{one['slowest']:.2f} / {one['at_change']:.2f}" for one in (both[name], alone[name])))
        for name in both
    ]
    return markdown_table(("after", "drafts at both ends", "drafts of the robot"), rows)


def _speeds(row: Mapping[str, Any]) -> tuple[str, ...]:
    values = [f"{row[strategy]['speedup_vs_ar']:.2f}" for strategy in DRAFTING]
    return (*values, span(row["outrider"]["speedup_interval"]))


def all_conditions(results: Results) -> list[Mapping[str, Any]]:
    """Returns the figures of every condition, synthetic and of the shipped pair."""
    decoding = results["decoding"]
    return [row for part in ("regimes", "replayed") for row in decoding[part].values()]


def gains(results: Results) -> list[float]:
    """Returns, for each condition, the speed of `outrider` over that of the best other strategy that drafts
    on the robot. That strategy uses its best draft length in the condition.
    """
    rows = results["alternatives"]["conditions"].values()
    speeds = ({name: one["speedup_vs_ar"] for name, one in row["strategies"].items()} for row in rows)
    return [own["outrider"] / max(own[name] for name in DRAFTING[:-1] if name in own) for own in speeds]


def conditions_ahead(results: Results) -> str:
    """Returns in how many of the conditions `outrider` is ahead of the other drafting strategies."""
    every = gains(results)
    return f"{sum(gain > 1.0 for gain in every)} of {len(every)}"


def gain_span(results: Results) -> str:
    """Returns the least and the greatest gain over the best other drafting strategy."""
    return span((min(gains(results)), max(gains(results))))


def slower_than_ar(results: Results) -> str:
    """Returns in how many conditions `outrider` is slower than the cloud alone."""
    rows = all_conditions(results)
    return f"{sum(row['outrider']['speedup_vs_ar'] < 1.0 for row in rows)} of {len(rows)}"


def bound_span(results: Results) -> str:
    """Returns the least and the greatest share of the bound that `outrider` reaches."""
    shares = [one["outrider"] for one in results["decoding"]["bounds"].values()]
    return span((min(shares), max(shares)))


def lte_best_other(results: Results) -> str:
    """Returns the best other strategy's speed over `ar` on LTE with the shipped pair. Only strategies that
    draft on the robot count, each with its best draft length.
    """
    row = results["alternatives"]["conditions"]["lte, shipped pair"]
    return f"{row['strategies'][row['best_paper']]['speedup_vs_ar']:.2f}"


def lte_speeds(results: Results) -> str:
    """Returns the README's row of speeds on LTE with the shipped pair."""
    row = results["decoding"]["replayed"]["lte"]
    return " / ".join(f"{row[name]['speedup_vs_ar']:.2f}" for name in ("sd", "picospec", "outrider"))


def lte_intervals(results: Results) -> str:
    """Returns the intervals of `lte_speeds`."""
    row = results["decoding"]["replayed"]["lte"]
    return " / ".join(span(row[name]["speedup_interval"]) for name in ("sd", "picospec", "outrider"))


def bytes_a_token(results: Results) -> str:
    """Returns the most bytes per token that `outrider` sends up and receives, with the shipped pair."""
    rows = [row["outrider"] for row in results["decoding"]["replayed"].values()]
    ways = (max(row[f"bytes_{way}_per_token"] for row in rows) for way in ("up", "down"))
    return " up and ".join(f"{value:.1f}" for value in ways) + " down"


def overhead(results: Results) -> str:
    """Returns the table of the engine's own processor time on the robot."""
    own = results["decoding"]["overhead"]
    rows = [
        (f"`{name}`", *(f"{own[part][name]['edge_cpu_ms']:.2f}" for part in ("strategies", "sampled")))
        for name in DRAFTING
    ]
    return markdown_table(("ms of the robot's processor a round", "temperature 0", "temperature 1"), rows)


def latency(results: Results) -> str:
    """Returns the table of times to the verified action and to the end of the text."""
    rows: Rows = []
    for row in results["latency"]["rows"]:
        if row["strategy"] in SHOWN:
            delay, action = formatted(row["one_way_s"], "ms"), formatted(row["decision_s"], "ms")
            rows.append((f"`{row['strategy']}`", delay, action, *_finish(row)))
    return markdown_table(
        ("strategy", "ms one way", "ms to the action", "ms to the end (95 %)", "target passes a token"), rows
    )


def _finish(row: Mapping[str, Any]) -> tuple[str, str]:
    whole = f"{formatted(row['finish_s'], 'ms')} ({span(row['finish_interval_s'], 'ms')})"
    return whole, f"{row['target_passes_per_token']:.2f}"


def _far(results: Results) -> list[Mapping[str, Any]]:
    """Returns the entries of the strategies in SHOWN at the longest delay."""
    rows = results["latency"]["rows"]
    farthest = max(row["one_way_s"] for row in rows)
    return [row for row in rows if row["one_way_s"] == farthest and row["strategy"] in SHOWN]


def far_texts(results: Results) -> str:
    """Returns the README's row of whole texts at the longest delay."""
    return " / ".join(formatted(row["finish_s"], "ms") for row in _far(results)) + " ms"


def far_intervals(results: Results) -> str:
    """Returns the intervals of `far_texts`."""
    return " / ".join(span(row["finish_interval_s"], "ms") for row in _far(results))


def differences(results: Results) -> str:
    """Returns the number of frames on which a text of the pair differs from the target's own."""
    return str(_differing(results))


def differences_interval(results: Results) -> str:
    """Returns the interval of the share of frames on which texts differ."""
    return span(wilson_interval(_differing(results), results["lossless"]["frames"]), ".3f")


def _differing(results: Results) -> int:
    return len({one["frame"] for one in results["lossless"]["differences"]})


def lossless_strategies(results: Results) -> str:
    """Returns the strategies whose texts were compared with the target's own."""
    return " and ".join(f"`{name}`" for name in results["lossless"].get("strategies", ["sd"]))


def exits(results: Results) -> str:
    """Returns the table of the shipped target's early exits."""
    result = results["exits"]
    rows = [
        (
            f"{one['layer']} of {result['num_layers']}",
            *(f"{one[key]:.2f}" for key in ("agreement", "auc", "cost")),
        )
        for one in result["exits"]
    ]
    return markdown_table(
        ("after layer", "agrees with the last layer", "AUC", "cost, of a verification"), rows
    )


def head(results: Results) -> str:
    """Returns the table of gains from drafts in the cloud, for a robot without a draft model."""
    rows = [
        (
            f"`{name}`" if name == "ar" else name,
            f"{one['over_ar']:.2f} ({span(one['interval'], '.2f')})",
            f"{one['tokens_per_pass']:.2f}",
            "-" if one["token_share"] is None else f"{one['token_share']:.2f}",
        )
        for name, one in results["head"]["drafts"].items()
    ]
    headings = ("beside the target drafts", "speed over `ar`", "tokens a pass", "a token's time, of a step")
    return markdown_table(headings, rows)


def drafting(results: Results, forms: Sequence[str]) -> str:
    """Returns a table of tokens per verification, by the source of the drafts."""
    texts = results["drafting"]["texts"]
    rows = []
    for name, figures in texts.items():
        values = (figures[form]["acceptance_length"] if form in figures else None for form in forms)
        rows.append((name, *("-" if value is None else f"{value:.2f}" for value in values)))
    heads = tuple(f"`{form.replace('+', ',')}`" for form in forms)
    return markdown_table(("tokens a verification", *heads), rows)


def drafting_chains(results: Results) -> str:
    """Returns the table of drafts in a chain."""
    return drafting(
        results, ("lookup", "suffix", "suffix+calibration", "suffix+reuse", "model", "model+suffix")
    )


def drafting_trees(results: Results) -> str:
    """Returns the table of drafts in branches, compared with chains of the same length."""
    return drafting(
        results, ("suffix+long", "suffix+tree", "suffix+calibration+tree", "suffix+calibration+reuse+tree")
    )


DECODING: dict[str, Callable[[Results], str]] = {
    "speeds_pair": speeds("replayed"),
    "speeds_synthetic": speeds("regimes"),
    "hedging": hedging,
    "live": live,
    "live_order": lambda results: f"{results['live']['in_order']} of {results['live']['pairs']}",
    "changes": changes,
    "conditions_ahead": conditions_ahead,
    "gain_span": gain_span,
    "slower_than_ar": slower_than_ar,
    "bound_span": bound_span,
    "lte_best_other": lte_best_other,
    "lte_speeds": lte_speeds,
    "lte_intervals": lte_intervals,
    "bytes_a_token": bytes_a_token,
    "overhead": overhead,
    "latency": latency,
    "far_texts": far_texts,
    "far_intervals": far_intervals,
    "differences": differences,
    "differences_interval": differences_interval,
    "lossless_strategies": lossless_strategies,
    "exits": exits,
    "head": head,
    "drafting_chains": drafting_chains,
    "drafting_trees": drafting_trees,
}
