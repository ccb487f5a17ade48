# SPDX-License-Identifier: Apache-2.0
"""What was measured of published models as an entry of benchmarks/regimes.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outrider.evaluation.decoding.regimes import Exits, Layers, Models, Regime

NAME = "qwen2.5-0.5b-1.5b"
ONE_WAY_MS = 20
LAYERS = Layers(draft=24, target=28)
VOCABULARY = 151_665
"""Tokens that the models' tokenizer knows."""
DIGITS = 4


def regime_of(figures: Mapping[str, Any]) -> Regime:
    """The entry that follows from the figures of `outrider bench weights`, over a link of ONE_WAY_MS."""
    compute, acceptance = figures["compute"], figures["acceptance"]
    drafts, step_ms = figures["num_draft_tokens"], 1e3 * compute["step_s"]
    bits = [figures["models"][role].split()[1] for role in ("draft", "target")]
    share = LAYERS.target * 1e3 * compute["verify_exit_s"] / step_ms
    return Regime(
        source=f"outrider bench weights: Qwen2.5-Coder 0.5B in {bits[0]}, 1.5B in {bits[1]}, a core each",
        draft_token_ms=_rounded(1e3 * compute["draft_token_s"]),
        branch_cost=_rounded(compute["draft_branch_s"] / compute["draft_token_s"]),
        step_ms=_rounded(step_ms),
        verify_ms=_rounded(1e3 * (compute["verify_s"] + drafts * compute["verify_token_s"])),
        verify_token_ms=_rounded(1e3 * compute["verify_token_s"]),
        one_way_up_ms=ONE_WAY_MS,
        one_way_down_ms=ONE_WAY_MS,
        num_draft_tokens=drafts,
        temperature=figures["temperature"],
        tokens_per_round=_rounded(acceptance["tokens_per_verification"]),
        second_choice=_rounded(acceptance["second_choice"]),
        exits=_exits(figures),
        exit_layer_share=_rounded(share),
        layers=LAYERS,
        models=Models("qwen2.5-0.5b", "qwen2.5-1.5b"),
        vocab_size=VOCABULARY,
        measured={},
    )


def _exits(figures: Mapping[str, Any]) -> Exits:
    told = figures["exit_prediction"]
    return Exits(
        number=len(figures["exits"]),
        miss_rate=_rounded(told["miss_rate"]),
        average=_rounded(told["average"] or 1.0),
        workers=figures["workers"],
    )


def _rounded(value: float) -> float:
    return round(value, DIGITS)
