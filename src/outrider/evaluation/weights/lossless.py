# SPDX-License-Identifier: Apache-2.0
"""`outrider eval weights`: checks that published models over real sockets write the target's own texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from outrider.core.files.terminal import tracked
from outrider.core.model_options import Precision
from outrider.core.ports import LanguageModel
from outrider.core.values import Prompt
from outrider.decoding.config import DecodingConfig
from outrider.evaluation.common.intervals import wilson_interval
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.tables import interval_text, print_results, results_table
from outrider.evaluation.pair.lossless import first_difference
from outrider.evaluation.weights.live import SILENCE_S, decode_missing, key_of
from outrider.evaluation.weights.networks import COLOCATED, NAMED_LINKS, networks
from outrider.evaluation.weights.published_pair import load_draft, target_service
from outrider.evaluation.weights.speeds import Journal
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.datasets.published_weights import Size
from outrider.runtime.datasets.real_prompts import real_prompts
from outrider.runtime.wiring.verifier_process import verifier_process

STRATEGY = "outrider"


@dataclass(frozen=True)
class Draws:
    """How the texts of one pass over the prompts are drawn. See `draws_of`."""

    temperature: float
    seed: int

    def config(self, strategy: str) -> DecodingConfig:
        """Returns the configuration of a strategy with these draws."""
        return DecodingConfig(strategy, temperature=self.temperature, seed=self.seed, silence_s=SILENCE_S)


@dataclass(frozen=True)
class NetworkFigures:
    """Texts over one network. `first_differences`: where each text that differs first departs from `ar`."""

    network: str
    texts: int
    tokens: int
    tokens_per_round: float
    met_outage: int
    first_differences: list[int]


def draws_of(texts: int) -> list[tuple[Draws, dict[int, Prompt]]]:
    """Returns the draws of `texts` texts: all prompts greedily, then at temperature 1 with seed 1, 2, ..."""
    prompts = real_prompts()
    return [
        (Draws(1.0 if turn else 0.0, turn), dict(enumerate(prompts[: texts - turn * len(prompts)])))
        for turn in range(-(-texts // len(prompts)))
    ]


def evaluate_weights(
    texts: int,
    tokens: int,
    target: Size = "1.5b",
    target_precision: Precision = "bf16",
    draft_precision: Precision = "bf16",
    run: Path | None = None,
    json_file: Path | None = None,
) -> dict[str, Any]:
    """Decode `texts` texts over each network, compare, print, write JSON. `lossless`: no text differs.

    Texts kept in the folder `run` are not decoded again. Raises ModelError without weights.
    """
    common: dict[str, str | int] = {
        "target": f"{target} {target_precision}",
        "draft": f"0.5b {draft_precision}",
        "tokens": tokens,
    }
    journal, draft = Journal(run, common), load_draft(draft_precision)
    with verifier_process(target_service, target, target_precision) as endpoint:
        rows = count_all(endpoint, draft, texts, tokens, journal)
    figures = {
        **common,
        "strategy": STRATEGY,
        "networks": [asdict(row) for row in rows],
        "texts": sum(row.texts for row in rows),
        "different": sum(len(row.first_differences) for row in rows),
    }
    figures["lossless"] = not figures["different"]
    title = f"{figures['different']} of {figures['texts']} texts differ from the target's own"
    print_results(results_table(title, *LEGENDS["eval weights"], rows=map(_cells, rows)))
    write_figures(json_file, figures)
    return figures


def count_all(
    endpoint: str, draft: LanguageModel, texts: int, tokens: int, journal: Journal
) -> list[NetworkFigures]:
    """Decode with `ar` over no network and with STRATEGY over each of NAMED_LINKS; returns the comparison."""
    draws_with_prompts, known = draws_of(texts), networks()
    for draws, prompts in draws_with_prompts:
        for name, strategy in [(COLOCATED, "ar"), *((name, STRATEGY) for name in NAMED_LINKS)]:
            missing = decode_missing(
                endpoint, known[name], draft, [draws.config(strategy)], prompts, tokens, journal
            )
            for _ in tracked(missing, f"{strategy}, {name}, draw {draws.seed}", total=len(prompts)):
                pass
    return [_count(name, draws_with_prompts, journal) for name in NAMED_LINKS]


def _count(
    network: str, draws_with_prompts: Sequence[tuple[Draws, dict[int, Prompt]]], journal: Journal
) -> NetworkFigures:
    pairs = [
        (
            journal[key_of(network, draws.config(STRATEGY), index)],
            journal[key_of(COLOCATED, draws.config("ar"), index)].token_ids,
        )
        for draws, prompts in draws_with_prompts
        for index in prompts
    ]
    return NetworkFigures(
        network=network,
        texts=len(pairs),
        tokens=sum(len(text.token_ids) for text, _ in pairs),
        tokens_per_round=sum(text.emitted for text, _ in pairs)
        / max(1, sum(text.rounds for text, _ in pairs)),
        met_outage=sum(text.met_outage for text, _ in pairs),
        first_differences=[
            first_difference(ar_tokens, text.token_ids)
            for text, ar_tokens in pairs
            if text.token_ids != ar_tokens
        ],
    )


def _cells(row: NetworkFigures) -> tuple[str, ...]:
    different = len(row.first_differences)
    return (
        row.network,
        f"{different} of {row.texts}",
        interval_text(wilson_interval(different, row.texts), ".3f"),
        str(row.tokens),
        f"{row.tokens_per_round:.2f}",
        str(row.met_outage),
    )
