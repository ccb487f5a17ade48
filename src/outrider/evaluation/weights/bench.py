# SPDX-License-Identifier: Apache-2.0
"""`outrider bench weights`: published language models as draft and target.

In one process shares and times are measured; with these times every strategy is replayed over virtual
networks. With `live` every strategy also decodes over real sockets and emulated links, in real time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from outrider.core.files.terminal import make_console, tracked
from outrider.core.model_options import Precision
from outrider.core.ports import LanguageModel
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.decoding.fakes.replay import ReplayModel
from outrider.decoding.simulation.decoder import ComputeProfile
from outrider.evaluation.weights.figures import PairFigures, measure_pair
from outrider.evaluation.weights.journal import Journal
from outrider.evaluation.weights.live import SILENCE_S, decode_missing, key_of
from outrider.evaluation.weights.networks import COLOCATED, ONE_WAY_MS, networks
from outrider.evaluation.weights.published_pair import Size, load_draft, load_published_pair, target_service
from outrider.evaluation.weights.speeds import SpeedRow, speed_of, speed_row
from outrider.evaluation.weights.virtual import Colocated, colocated, measure_network
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.process_memory import peak_bytes
from outrider.runtime.datasets.held_out import Pair
from outrider.runtime.datasets.real_prompts import real_prompts
from outrider.runtime.wiring.verifier_process import verifier_process

NUM_DRAFT_TOKENS = 4
DEADLINE_S = 1e6
HEADINGS = (
    *("network", "strategy", "tok/s", "over ar", "95 %", "over co-located", "tok/round", "passes/tok"),
    *("B up", "B down", "different"),
)


def configs_of(temperature: float, seed: int) -> list[DecodingConfig]:
    """Every strategy, `ar` first."""
    return [
        DecodingConfig(name, NUM_DRAFT_TOKENS, temperature=temperature, seed=seed, silence_s=SILENCE_S)
        for name in STRATEGIES
    ]


def bench_weights(
    prompts: int = 8,
    tokens: int = 24,
    target: Size = "1.5b",
    target_precision: Precision = "bf16",
    draft_precision: Precision = "bf16",
    temperature: float = 0.0,
    seed: int = 0,
    live: bool = False,
    run: Path | None = None,
    json_file: Path | None = None,
    pair: Pair | None = None,
) -> dict[str, Any]:
    """Measure, print tables, write JSON. Raises ModelError without weights, and ConfigError."""
    asked, configs = real_prompts(prompts), configs_of(temperature, seed)
    models = {"target": f"{target} {target_precision}", "draft": f"0.5b {draft_precision}"}
    journal = Journal(run, {**models, "tokens": tokens})
    own_pair = pair or load_published_pair(target, target_precision, draft_precision)
    settings = {"prompts": prompts, "tokens": tokens, "temperature": temperature, "seed": seed}
    figures = {**settings, "models": models, **_in_one_process(own_pair, asked, tokens, configs)}
    del own_pair  # or the verifier's target would lie beside it
    if live:
        with verifier_process(target_service, target, target_precision) as endpoint:
            found = live_rows(endpoint, load_draft(draft_precision), asked, tokens, configs, journal)
        figures["live_rows"] = [asdict(row) for row in found]
        make_console().print(_table("over sockets and emulated links, in real time", found))
    write_figures(json_file, figures)
    return figures


def _in_one_process(
    pair: Pair, asked: Sequence[Prompt], tokens: int, configs: Sequence[DecodingConfig]
) -> dict[str, Any]:
    """Shares, times and the rows over virtual networks, which are printed too."""
    memory_bytes = peak_bytes()
    measured = measure_pair(pair, asked, tokens, NUM_DRAFT_TOKENS)
    rows, beside = replay_all(pair, asked, tokens, measured.compute, configs)
    figures = {
        "peak_memory_bytes": memory_bytes,
        **asdict(measured),
        "colocated": asdict(beside),
        "bounds_vs_ar": {f"{ms} ms": measured.bound(ms / 1e3) for ms in ONE_WAY_MS},
        "rows": [asdict(row) for row in rows],
    }
    _print_pair(measured, figures)
    make_console().print(_table("measured processor times, virtual networks", rows))
    return figures


def replay_all(
    pair: Pair,
    asked: Sequence[Prompt],
    tokens: int,
    compute: ComputeProfile,
    configs: Sequence[DecodingConfig],
) -> tuple[list[SpeedRow], Colocated]:
    """Every strategy over every network; each model runs a text once, whatever the strategies are."""
    remembered = Pair(ReplayModel(pair.target), ReplayModel(pair.draft))
    requests = [DecodeRequest(prompt, tokens, DEADLINE_S) for prompt in asked]
    known = networks()
    texts = {
        name: measure_network(remembered, requests, known[name], compute, configs)
        for name in tracked(known, "networks", total=len(known))
    }
    own = list(zip(asked, texts[COLOCATED]["ar"], strict=True))
    beside = colocated(remembered, own, compute, configs[0])
    rows = [
        speed_row(name, strategy, some, by_strategy["ar"], beside.tokens_per_s)
        for name, by_strategy in texts.items()
        for strategy, some in by_strategy.items()
    ]
    return rows, beside


def live_rows(
    endpoint: str,
    draft: LanguageModel,
    asked: Sequence[Prompt],
    tokens: int,
    configs: Sequence[DecodingConfig],
    journal: Journal,
) -> list[SpeedRow]:
    """Every strategy over every network in real time; what the journal has is not decoded again."""
    for name, network in networks().items():
        missing = decode_missing(endpoint, network, draft, configs, dict(enumerate(asked)), tokens, journal)
        for _ in tracked(missing, f"prompts, {name}", total=len(asked)):
            pass
    texts = {
        name: {
            config.strategy: [journal[key_of(name, config, index)] for index in range(len(asked))]
            for config in configs
        }
        for name in networks()
    }
    beside = speed_of(texts[COLOCATED]["sd"])
    return [
        speed_row(name, strategy, some, by_strategy["ar"], beside)
        for name, by_strategy in texts.items()
        for strategy, some in by_strategy.items()
    ]


def _print_pair(measured: PairFigures, figures: dict[str, Any]) -> None:
    acceptance, compute = measured.acceptance, measured.compute
    shares = ", ".join(f"{share:.2f}" for share in acceptance.by_position)
    lines = [
        f"{acceptance.tokens_per_verification:.2f} tokens a verification of {NUM_DRAFT_TOKENS} drafted; "
        f"accepted by position, where those before are: {shares}; "
        f"second choice right where the first is not: {acceptance.second_choice:.2f}",
        *(
            f"exit after layer {one.layer}: the target's choice {one.agreement:.2f}, the whole verdict "
            f"{one.hint_agreement:.2f}"
            for one in measured.exits
        ),
        f"processor time: a draft token {1e3 * compute.draft_token_s:.0f} ms, "
        f"a step {1e3 * (compute.step_s or 0.0):.0f} ms, "
        f"each further token of a verification {1e3 * compute.verify_token_s:.1f} ms, "
        f"an exit {1e3 * compute.verify_exit_s:.1f} ms, prompts {compute.draft_prefill_s:.2f} s and "
        f"{compute.target_prefill_s:.2f} s; peak memory {figures['peak_memory_bytes'] / 2**30:.1f} GB",
        f"co-located, chunks of {figures['colocated']['num_draft_tokens']}: "
        f"{figures['colocated']['tokens_per_s']:.2f} tokens/s; most that a schedule can reach over ar: "
        + ", ".join(f"{bound:.2f} at {name} one way" for name, bound in figures["bounds_vs_ar"].items()),
    ]
    for line in lines:
        make_console().print(line, highlight=False)


def _table(title: str, rows: Sequence[SpeedRow]) -> Table:
    table = Table(title=title)
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    for row in rows:
        low, high = row.speedup_interval
        table.add_row(
            row.network,
            row.strategy,
            f"{row.tokens_per_s:.2f}",
            f"{row.speedup_vs_ar:.2f}",
            f"{low:.2f} to {high:.2f}",
            *(f"{one:.2f}" for one in (row.over_colocated, row.tokens_per_round, row.passes_per_token)),
            *(f"{one:.0f}" for one in (row.bytes_up_per_token, row.bytes_down_per_token)),
            f"{row.different} of {row.texts}",
        )
    return table
