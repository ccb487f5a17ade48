# SPDX-License-Identifier: Apache-2.0
"""Tables of published language models as draft and target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from figure_results import Results, markdown_table

HEADINGS = ("network", "strategy", "over `ar`", "of 95 %", "over co-located", "tokens a round", "B up / down")


def speeds(results: Results) -> str:
    """Returns the table of strategies on the virtual clock, with measured times."""
    return _speeds(results["weights"]["rows"])


def live_speeds(results: Results) -> str:
    """Returns the table of strategies over sockets."""
    return _speeds(results["weights-live"]["rows"])


def _speeds(rows: Sequence[dict[str, Any]]) -> str:
    cells = []
    for row in rows:
        low, high = row["speedup_interval"]
        cells.append(
            (
                row["network"],
                f"`{row['strategy']}`",
                f"{row['speedup_vs_ar']:.2f}",
                f"{low:.2f} to {high:.2f}",
                f"{row['over_colocated']:.2f}",
                f"{row['tokens_per_round']:.2f}",
                f"{row['bytes_up_per_token']:.0f} / {row['bytes_down_per_token']:.0f}",
            )
        )
    return markdown_table(HEADINGS, cells)


def positions(results: Results) -> str:
    """Returns the table of how often the draft at each position is accepted."""
    shares = results["weights"]["acceptance"]["by_position"]
    heads = ("draft token", *(str(place) for place in range(1, len(shares) + 1)))
    return markdown_table(heads, [("accepted where those before are", *(f"{one:.2f}" for one in shares))])


def exits(results: Results) -> str:
    """Returns the table of what exits foretell."""
    rows = [
        (str(one["layer"]), f"{one['agreement']:.2f}", f"{one['hint_agreement']:.2f}")
        for one in results["weights"]["exits"]
    ]
    return markdown_table(("after layer", "the target's token", "the whole verdict"), rows)


def precisions(results: Results) -> str:
    """Returns the table of accepted drafts by the bits of both models."""
    rows = [
        (
            f"`{one['target']}`",
            f"`{one['draft']}`",
            f"{one['accepted_per_verification']:.2f}",
            f"{one['relative']:.2f}",
        )
        for one in results["weights-precisions"]["rows"]
    ]
    return markdown_table(("target", "draft", "drafts accepted of 4", "over both at `bf16`"), rows)


def lossless(results: Results) -> str:
    """Returns the table of texts over each network, beside those of `ar`."""
    rows = [
        (
            f"`{one['network']}`",
            str(one["texts"]),
            str(one["tokens"]),
            str(one["met_outage"]),
            str(len(one["first_differences"])),
        )
        for one in results["weights-lossless"]["networks"]
    ]
    return markdown_table(("network", "texts", "tokens", "met an outage", "differ"), rows)


WEIGHTS: dict[str, Callable[[Results], str]] = {
    "weights_speeds": speeds,
    "weights_live": live_speeds,
    "weights_positions": positions,
    "weights_exits": exits,
    "weights_precisions": precisions,
    "weights_lossless": lossless,
}
