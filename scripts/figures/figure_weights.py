# SPDX-License-Identifier: Apache-2.0
"""Tables of published language models as draft and target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from figure_results import Results, markdown_table, span

SPEED_HEADS = ("network", "strategy", "over `ar`", "95 %", "over co-located")


def positions(results: Results) -> str:
    """Returns the table of the acceptance rate at each position of a draft."""
    shares = results["weights"]["acceptance"]["by_position"]
    heads = ("draft token", *(str(place) for place in range(1, len(shares) + 1)))
    return markdown_table(heads, [("accepted where those before are", *(f"{one:.2f}" for one in shares))])


def exits(results: Results) -> str:
    """Returns the table of how well early exits predict the target model."""
    layers = results["weights"]["regime"]["layers"]["target"]
    rows = [
        (f"{one['layer']} of {layers}", f"{one['agreement']:.2f}", f"{one['hint_agreement']:.2f}")
        for one in results["weights"]["exits"]
    ]
    return markdown_table(("after layer", "the target's token", "the whole verdict"), rows)


def speeds(results: Results) -> str:
    """Returns the table of strategies on the virtual clock, with measured times."""
    rows = [
        (
            *_speed(row),
            f"{row['tokens_per_round']:.2f}",
            f"{row['bytes_up_per_token']:.0f} / {row['bytes_down_per_token']:.0f}",
        )
        for row in results["weights"]["rows"]
    ]
    return markdown_table((*SPEED_HEADS, "tokens a round", "B a token, up / down"), rows)


def drawn(results: Results) -> str:
    """Returns the table of strategies for sampled texts, with the number that differ from those of `ar`."""
    rows = [
        (*_speed(row), f"{row['different']} of {row['texts']}")
        for row in results["weights-t1"]["rows"]
        if row["strategy"] != "ar"
    ]
    return markdown_table((*SPEED_HEADS, "other texts"), rows)


def live(results: Results) -> str:
    """Returns the table of strategies in real time over sockets and emulated links."""
    rows = [
        (*_speed(row), f"{row['tokens_per_s']:.2f}", f"{row['different']} of {row['texts']}")
        for row in results["weights-live"]["rows"]
    ]
    return markdown_table((*SPEED_HEADS, "tokens/s", "other texts"), rows)


def integers(results: Results) -> str:
    """Returns the table of strategies with both models quantized to integers."""
    rows = [
        (f"`{bits}`", *_speed(row), f"{row['tokens_per_round']:.2f}")
        for bits in ("int8", "int4")
        for row in results[f"weights-{bits}"]["rows"]
        if row["strategy"] != "ar"
    ]
    return markdown_table(("both models", *SPEED_HEADS, "tokens a round"), rows)


def _speed(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the cells for SPEED_HEADS."""
    speed, over_colocated = row["speedup_vs_ar"], row["over_colocated"]
    names = (f"`{row[key]}`" for key in ("network", "strategy"))
    return (*names, f"{speed:.2f}", span(row["speedup_interval"]), f"{over_colocated:.2f}")


def bounds(results: Results) -> str:
    """Returns the highest speed over `ar` that any schedule can reach, by delay."""
    found = results["weights"]["bounds_vs_ar"]
    return ", ".join(f"{bound:.2f} at {delay} one way" for delay, bound in found.items())


def lossless(results: Results) -> str:
    """Returns the table of texts over each network that were compared with those of `ar`."""
    rows = [
        (
            f"`{one['network']}`",
            *(str(one[key]) for key in ("texts", "tokens", "met_outage")),
            f"{one['tokens_per_round']:.2f}",
            str(len(one["first_differences"])),
        )
        for one in results["weights-lossless"]["networks"]
    ]
    return markdown_table(("network", "texts", "tokens", "met an outage", "tokens a round", "differ"), rows)


def precisions(results: Results) -> str:
    """Returns the table of accepted drafts by the precision of both models."""
    rows = [
        (
            f"`{one['target']}`",
            f"`{one['draft']}`",
            str(one["verifications"]),
            f"{one['accepted_per_verification']:.2f}",
            f"{one['relative']:.3f}",
        )
        for one in results["precisions"]["rows"]
    ]
    return markdown_table(("target", "draft", "verifications", "drafts accepted in one", "over `bf16`"), rows)


def answers(results: Results) -> str:
    """Returns the table of answers, by the side whose documents they use."""
    rows = [
        (
            one["documents"],
            *(f"{one[key]:.2f}" for key in ("both", "private", "public")),
            "-" if one["perplexity"] is None else f"{one['perplexity']:.2f}",
        )
        for one in results["documents"]["answers"]
    ]
    return markdown_table(("documents", "both facts", "private", "public", "perplexity"), rows)


def answer_times(results: Results) -> str:
    """Returns the table of the peers' speed, by delay."""
    rows = [
        (
            f"{one['one_way_ms']} ms",
            f"`{one['method']}`",
            f"{one['first_token_ms']:.0f}",
            f"{one['token_ms']:.0f}",
            f"{one['bytes_up_per_token']:.0f} / {one['bytes_down_per_token']:.0f}",
        )
        for one in results["documents"]["latencies"]
    ]
    return markdown_table(
        ("one way", "method", "ms to the first token", "ms a token", "B a token, up / down"), rows
    )


WEIGHTS: dict[str, Callable[[Results], str]] = {
    "weights_positions": positions,
    "weights_exits": exits,
    "weights_speeds": speeds,
    "weights_drawn": drawn,
    "weights_live": live,
    "weights_integers": integers,
    "weights_bounds": bounds,
    "weights_lossless": lossless,
    "weights_precisions": precisions,
    "documents_answers": answers,
    "documents_times": answer_times,
}
