# SPDX-License-Identifier: Apache-2.0
"""Tables of published language models as draft and target."""

from __future__ import annotations

from collections.abc import Callable

from figure_results import Results, markdown_table, span


def positions(results: Results) -> str:
    """Returns the table of how often the draft at each position is accepted."""
    shares = results["weights"]["acceptance"]["by_position"]
    heads = ("draft token", *(str(place) for place in range(1, len(shares) + 1)))
    return markdown_table(heads, [("accepted where those before are", *(f"{one:.2f}" for one in shares))])


def exits(results: Results) -> str:
    """Returns the table of what early exits foretell."""
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
            f"`{row['network']}`",
            f"`{row['strategy']}`",
            f"{row['speedup_vs_ar']:.2f}",
            span(row["speedup_interval"]),
            f"{row['over_colocated']:.2f}",
            f"{row['tokens_per_round']:.2f}",
            f"{row['bytes_up_per_token']:.0f} / {row['bytes_down_per_token']:.0f}",
        )
        for row in results["weights"]["rows"]
    ]
    heads = ("network", "strategy", "over `ar`", "95 %", "over co-located", "tokens a round")
    return markdown_table((*heads, "B a token, up / down"), rows)


def bounds(results: Results) -> str:
    """Returns the most that any schedule can reach over `ar`, by delay."""
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


WEIGHTS: dict[str, Callable[[Results], str]] = {
    "weights_positions": positions,
    "weights_exits": exits,
    "weights_speeds": speeds,
    "weights_bounds": bounds,
    "weights_lossless": lossless,
}
