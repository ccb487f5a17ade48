# SPDX-License-Identifier: Apache-2.0
"""Tables of models, serving and DRAGON, and the list of all results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from figure_results import ROOT, Results, markdown_table

FLEET = 8
PUBLISHED = {"ar": "`ar`", "sd, filled": "`sd`, batches filled", "sd": "`sd`", "outrider": "`outrider`"}
METHODS = ("device", "sequence", "token", "dragon", "coupled")


def models(results: Results) -> str:
    """Returns the table of measured ratios with their bounds."""
    rows = [
        (
            one["what"],
            f"{one['value']:.2f}",
            f"{'at most' if one['is_limit'] else 'at least'} {one['bound']:g}",
        )
        for one in results["models"]["ratios"]
    ]
    return markdown_table(("what", "ratio", "is to be"), rows)


def models_on_gpu(results: Results) -> str:
    """Returns the table of the ratios measured on a GPU: the first that names cuda, and all after it."""
    ratios = results["models-cuda"]["ratios"]
    first = next(place for place, one in enumerate(ratios) if "on cuda" in one["what"])
    rows = [
        (
            one["what"],
            f"{one['value']:.2f}",
            f"{'at most' if one['is_limit'] else 'at least'} {one['bound']:g}",
            one["detail"],
        )
        for one in ratios[first:]
    ]
    return markdown_table(("what", "measured", "is to be", "how"), rows)


def fleets(results: Results) -> str:
    """Returns the table of tokens per second of whole fleets, by the way they are served."""
    found = results["fleets"]
    over_best = {
        f"both over best, {share.replace('%', ' %')}": ratios for share, ratios in found["over_best"].items()
    }
    rows = [
        (
            str(robots),
            *(f"{way[place]['tokens_per_s']:.0f}" for way in found["fleets"].values()),
            *(f"{ratios[place]:.2f}" for ratios in over_best.values()),
        )
        for place, robots in enumerate(found["robots"])
    ]
    return markdown_table(("robots", *(way.replace("%", " %") for way in found["fleets"]), *over_best), rows)


def serving(results: Results) -> str:
    """Returns the table of the figures of eight robots, divided by those of one."""
    rows = []
    for name, some in results["serving"]["rows"].items():
        alone, all_of_them = some[0], some[-1]
        keys = ("tokens_per_s", "round_s", "text_s", "first_s", "token_s")
        strategy, pause = name.split(", ")
        rows.append((f"`{strategy}`", pause, *(f"{all_of_them[key] / alone[key]:.1f}" for key in keys)))
    heads = ("strategy", "pause between texts", "tokens/s", "round", "text", "first token", "token after")
    return markdown_table(heads, rows)


def sharing(results: Results) -> str:
    """Returns the table of how evenly eight robots share the verifier."""
    every = results["serving"]["sharing"]
    rows = [
        ("the most over the least, of eight alike", *(f"{one['unfairness']:.2f}" for one in every.values()))
    ]
    for what in next(iter(every.values()))["beside"]:
        shares = (f"{one['beside'][what]:.2f}" for one in every.values())
        rows.append((f"what seven write beside one that {what}, over what they write otherwise", *shares))
    return markdown_table(("sharing", *(f"`{name}`" for name in every)), rows)


def published(results: Results) -> str:
    """Returns the table of fleets on the server of FSD's Table 9."""
    fleets = best_fleets(results)
    rows = [
        (str(robots), *(f"{fleets[name][robots]:.0f}" for name in PUBLISHED))
        for robots in next(iter(fleets.values()))
    ]
    return markdown_table(("robots", *(f"tokens/s, {name}" for name in PUBLISHED.values())), rows)


def best_fleets(results: Results) -> dict[str, dict[int, float]]:
    """Returns tokens/s by strategy and number of robots, with the best way to form batches in each fleet."""
    fleets = results["serving"]["published"]
    return {
        name: {ways[0]["robots"]: max(one["tokens_per_s"] for one in ways) for ways in fleets[name]}
        for name in PUBLISHED
    }


def cost(results: Results) -> str:
    """Returns the table of the cost of a million requests, at the measured passes per token."""
    strategies = ("ar", "sd", "picospec", "outrider", "csd")
    passes = results["serving"]["passes_per_token"]
    passes = {"csd": passes["sd"], **passes}
    rows = [("passes a token", *(f"{passes[name]:.2f}" for name in strategies))]
    for target, dollars in results["serving"]["cost"].items():
        rows.append((target, *(f"{dollars[name]:.0f}" if name in dollars else "-" for name in strategies)))
    return markdown_table(("dollars for a million requests", *(f"`{name}`" for name in strategies)), rows)


def dragon(results: Results) -> str:
    """Returns the table of both rules against DRAGON's baselines, for each model of the paper."""
    rows = []
    for name, places in results["aggregation"]["regimes"].items():
        for place, one in places.items():
            for rule, figures in one["summary"].items():
                shares = (
                    figures[key] for key in ("below_sequence", "below_token", "over_device", "over_crcg")
                )
                rows.append((f"`{name}`", place, f"`{rule}`", *(f"{share:+.1%}" for share in shares)))
    heads = (
        "regime",
        "extra delay at",
        "rule",
        "below sequence-wise",
        "below token-wise",
        "over the device alone",
        "over one context",
    )
    return markdown_table(heads, rows)


def dragon_first_tokens(results: Results) -> str:
    """Returns the table of ms to the first token at the longest delay."""
    rows = []
    for name, places in results["aggregation"]["regimes"].items():
        methods = next(iter(places.values()))["methods"]
        rows.append((f"`{name}`", *(f"{methods[method][-1]['first_token_ms']:.0f}" for method in METHODS)))
    return markdown_table(("ms to the first token", *(f"`{method}`" for method in METHODS)), rows)


def dragon_pair(results: Results) -> str:
    """Returns the table of the shipped pair as two peers."""
    rows = [
        (
            f"`{rule}`",
            f"{one['device_acceptance']:.2f} / {one['cloud_acceptance']:.2f}",
            f"{one['bytes_up']:.0f} / {one['bytes_down']:.0f}",
        )
        for rule, one in results["aggregation"]["pair"].items()
    ]
    return markdown_table(("rule", "drafts of device / cloud that stand", "bytes a token up / down"), rows)


def dragon_gain(results: Results) -> str:
    """Returns the table of answers, by the side whose documents are used."""
    aggregation = results["aggregation"]
    rows = [
        (who, *(_gain(one) for one in aggregation[key].values()))
        for key, who in (("readers_gain", "`models/reader`"), ("gain", "a count model that reads its prompt"))
    ]
    return markdown_table(("right / perplexity of the right answer", *aggregation["gain"]), rows)


def _gain(one: Mapping[str, Any]) -> str:
    return f"{one['exact_match']:.2f} / {one['perplexity']:.2f}"


def measured(results: Results) -> str:
    """Returns the table of all results: file, command and clock."""
    rows = [
        (f"`{results.path(name).relative_to(ROOT)}`", f"`{one['command']}`", one["clock"])
        for name, one in results.index.items()
    ]
    return markdown_table(("result", "command, with `--json FILE` for a result", "clock"), rows)


MODELS: dict[str, Callable[[Results], str]] = {
    "models": models,
    "models_on_gpu": models_on_gpu,
    "serving": serving,
    "fleets": fleets,
    "sharing": sharing,
    "published": published,
    "cost": cost,
    "dragon": dragon,
    "dragon_first_tokens": dragon_first_tokens,
    "dragon_pair": dragon_pair,
    "dragon_gain": dragon_gain,
    "measured": measured,
}
