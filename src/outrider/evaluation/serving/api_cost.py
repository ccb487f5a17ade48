# SPDX-License-Identifier: Apache-2.0
"""What a million requests cost at a provider's prices, from the target's passes a token (FSD, Table 1).

A pass is paid for as a token of output, a prompt as its tokens of input; what the robot drafts costs nothing.
A draft in the cloud (`csd`) is paid for too: its prompt, and each token that it drafts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

INPUT_TOKENS = 100
OUTPUT_TOKENS = 500
NUM_DRAFT_TOKENS = 4
"""Drafted for each pass."""
PAPER_PASSES = 1.0 / 2.5
"""The table takes 2.5 tokens to a round."""


@dataclass(frozen=True)
class Price:
    """Dollars for a million tokens of a target and of its draft, and what the paper prints for a million
    requests: autoregressive, with the draft in the cloud, with the draft at the edge."""

    provider: str
    target: str
    input: float
    output: float
    draft_input: float
    draft_output: float
    paper_ar: float
    paper_cloud: float
    paper_edge_cloud: float


PRICES = (
    Price("Together AI", "Qwen1.5-72B", 0.9, 0.9, 0.1, 0.1, 540.0, 360.0, 270.0),
    Price("OpenRouter", "llama-3.1-405b", 0.9, 0.9, 0.02, 0.05, 540.0, 312.0, 270.0),
    Price("Groq", "llama3-70b-8192", 0.59, 0.79, 0.05, 0.08, 454.0, 286.0, 217.0),
    Price("OpenRouter", "Qwen-2-VL-72B", 0.7, 0.7, 0.2, 0.2, 420.0, 390.0, 210.0),
)
"""As of May 2025, FSD (arXiv 2505.21594), Table 1."""


def request_cost(price: Price, passes_per_token: float) -> float:
    """Dollars for a million requests."""
    return price.input * INPUT_TOKENS + price.output * OUTPUT_TOKENS * passes_per_token


def cloud_request_cost(price: Price, passes_per_token: float) -> float:
    """The same where the provider drafts: the column "Cloud SD"."""
    drafted = NUM_DRAFT_TOKENS * passes_per_token * OUTPUT_TOKENS
    draft = price.draft_input * INPUT_TOKENS + price.draft_output * drafted
    return request_cost(price, passes_per_token) + draft


def cost_table(passes_per_token: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Dollars for a million requests of each target under each strategy; `csd` has the passes of `sd`."""
    return {
        f"{price.provider}, {price.target}": {
            **{strategy: request_cost(price, passes) for strategy, passes in passes_per_token.items()},
            "csd": cloud_request_cost(price, passes_per_token["sd"]),
        }
        for price in PRICES
    }


def cost_lines(passes: Mapping[str, float]) -> Iterator[str]:
    """What an API would cost at the measured passes a token."""
    for price, costs in zip(PRICES, cost_table(passes).items(), strict=True):
        dollars = ", ".join(f"{way} {value:.0f}" for way, value in costs[1].items())
        printed = f"{price.paper_ar:.0f} / {price.paper_cloud:.0f} / {price.paper_edge_cloud:.0f}"
        yield (
            f"a million requests of 100 + 500 tokens to {costs[0]}, dollars: {dollars}; "
            f"paper: ar / cloud / edge {printed}"
        )
