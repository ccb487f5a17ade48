# SPDX-License-Identifier: Apache-2.0
"""Tables of published language models as draft and target."""

from __future__ import annotations

from collections.abc import Callable

from figure_results import Results, markdown_table


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


WEIGHTS: dict[str, Callable[[Results], str]] = {"weights_lossless": lossless}
