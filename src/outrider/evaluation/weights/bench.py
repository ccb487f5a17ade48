# SPDX-License-Identifier: Apache-2.0
"""`outrider bench weights`: published language models as draft and target.

By default shares and times are measured in one process. With these times every strategy is replayed over
virtual networks. Alternatively every strategy decodes in real time, over real sockets and emulated links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from outrider.core.files.terminal import tracked
from outrider.core.link_profile import Network
from outrider.core.model_options import Precision
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.tables import interval_text, print_results, results_table
from outrider.evaluation.decoding.comparison import replayed
from outrider.evaluation.decoding.regimes import Exits, Layers, Models, Regime
from outrider.evaluation.pair.latency import measure_compute
from outrider.evaluation.weights.figures import PairFigures, measure_pair, target_texts
from outrider.evaluation.weights.live import SILENCE_S, decode_missing, key_of
from outrider.evaluation.weights.networks import COLOCATED, ONE_WAY_MS, chosen_networks
from outrider.evaluation.weights.published_pair import load_draft, load_published_pair, target_service
from outrider.evaluation.weights.speeds import Journal, KeptText, SpeedRow, speed_of, speed_row
from outrider.evaluation.weights.virtual import Colocated, colocated, virtual_texts
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.process_memory import peak_bytes
from outrider.runtime.datasets.held_out import Pair
from outrider.runtime.datasets.published_weights import Size
from outrider.runtime.datasets.real_prompts import real_prompts
from outrider.runtime.wiring.verifier_process import verifier_process

NUM_DRAFT_TOKENS = 4
TIMED_PROMPTS = 3
REPLAYED_PROMPTS = 12
"""The maximum number of texts that are replayed with every strategy. Shares are measured over all texts."""
DEADLINE_S = 1e6
REGIME_ONE_WAY_MS, REGIME_LAYERS, REGIME_DIGITS = 20, Layers(draft=24, target=28), 4
REGIME_VOCABULARY = 151_665
"""The number of tokens that the models' tokenizer has."""
Figures = dict[str, Any]


@dataclass(frozen=True)
class WeightsBench:
    """What is measured: `prompts` texts of `tokens` tokens each, over the named networks (all by default)."""

    prompts: int = 8
    tokens: int = 24
    target: Size = "1.5b"
    target_precision: Precision = "bf16"
    draft_precision: Precision = "bf16"
    temperature: float = 0.0
    seed: int = 0
    network_names: tuple[str, ...] = ()

    @property
    def test_prompts(self) -> list[Prompt]:
        """The prompts. Raises ConfigError where there are fewer than `prompts`."""
        return real_prompts(self.prompts)

    @property
    def networks(self) -> dict[str, Network]:
        """The networks by name. Raises ConfigError for an unknown name."""
        return chosen_networks(self.network_names)

    @property
    def configs(self) -> list[DecodingConfig]:
        """Every strategy, `ar` first."""
        return [
            DecodingConfig(
                name,
                NUM_DRAFT_TOKENS,
                temperature=self.temperature,
                seed=self.seed,
                silence_s=SILENCE_S,
            )
            for name in STRATEGIES
        ]

    @property
    def models(self) -> dict[str, str | int]:
        """Names and precisions of both models."""
        return {"target": f"{self.target} {self.target_precision}", "draft": f"0.5b {self.draft_precision}"}

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as they are written to the file of figures."""
        sizes = {"prompts": self.prompts, "tokens": self.tokens, "temperature": self.temperature}
        return {**sizes, "seed": self.seed, "models": self.models, "workers": self.configs[0].workers}


def bench_weights(bench: WeightsBench, json_file: Path | None = None, pair: Pair | None = None) -> Figures:
    """Measure in this process and on the virtual clock, print tables, write JSON.

    Raises ModelError without weights, and ConfigError.
    """
    test_prompts, networks = bench.test_prompts, bench.networks
    pair = pair or load_published_pair(bench.target, bench.target_precision, bench.draft_precision)
    memory_bytes = peak_bytes()
    compute = measure_compute(pair, test_prompts[:TIMED_PROMPTS], NUM_DRAFT_TOKENS)
    texts = target_texts(pair.target, test_prompts, bench.configs[0], bench.tokens)
    replayed_pair = replayed(pair)
    measured = measure_pair(
        replayed_pair, list(zip(test_prompts, texts, strict=True)), bench.configs[0], compute
    )
    rows, colocated_speed = replay_all(replayed_pair, bench, compute)
    figures = {
        **bench.settings,
        "peak_memory_bytes": memory_bytes,
        **asdict(measured),
        "colocated": asdict(colocated_speed),
        "bounds_vs_ar": {f"{ms} ms": measured.bound(ms / 1e3) for ms in ONE_WAY_MS},
        "rows": [asdict(row) for row in rows],
    }
    if bench.target == "1.5b":
        figures["regime"] = msgspec.to_builtins(regime_of(figures))
    title = f"measured processor times, {len(networks)} virtual networks"
    _print(title, rows, *_pair_lines(measured, figures))
    write_figures(json_file, figures)
    return figures


def bench_live(bench: WeightsBench, run: Path | None = None, json_file: Path | None = None) -> Figures:
    """Decode over sockets in real time, print a table, write JSON. Texts kept in `run` are not decoded again.

    Raises ModelError without weights, and ConfigError.
    """
    test_prompts, networks = bench.test_prompts, bench.networks
    journal = Journal(run, {**bench.models, "tokens": bench.tokens})
    draft = load_draft(bench.draft_precision)
    with verifier_process(target_service, bench.target, bench.target_precision) as endpoint:
        for name, network in networks.items():
            missing = decode_missing(
                endpoint, network, draft, bench.configs, dict(enumerate(test_prompts)), bench.tokens, journal
            )
            for _ in tracked(missing, f"prompts, {name}", total=len(test_prompts)):
                pass
    rows = live_rows(bench, journal)
    figures = {**bench.settings, "rows": [asdict(row) for row in rows]}
    _print("over sockets and emulated links, in real time", rows)
    write_figures(json_file, figures)
    return figures


def live_rows(bench: WeightsBench, journal: Journal) -> list[SpeedRow]:
    """Returns a row for each network and strategy. The journal must hold all texts."""
    texts = {
        name: {
            config.strategy: [journal[key_of(name, config, index)] for index in range(bench.prompts)]
            for config in bench.configs
        }
        for name in bench.networks
    }
    return _rows(texts, speed_of(texts[COLOCATED]["sd"]))


def replay_all(
    replayed_pair: Pair, bench: WeightsBench, compute: ComputeProfile
) -> tuple[list[SpeedRow], Colocated]:
    """Decode with every strategy over every network. Each model runs a text once for all strategies."""
    prompts = bench.test_prompts[:REPLAYED_PROMPTS]
    requests = [DecodeRequest(prompt, bench.tokens, DEADLINE_S) for prompt in prompts]
    networks, configs = bench.networks, bench.configs
    texts = {
        name: {
            config.strategy: virtual_texts(replayed_pair, requests, networks[name], compute, config)
            for config in configs
        }
        for name in tracked(networks, "networks", total=len(networks))
    }
    ar_texts = list(zip(prompts, texts[COLOCATED]["ar"], strict=True))
    colocated_speed = colocated(replayed_pair, ar_texts, compute, configs[0])
    return _rows(texts, colocated_speed.tokens_per_s), colocated_speed


def _rows(texts: Mapping[str, Mapping[str, list[KeptText]]], colocated_speed: float) -> list[SpeedRow]:
    return [
        speed_row(name, strategy, method_texts, by_strategy["ar"], colocated_speed)
        for name, by_strategy in texts.items()
        for strategy, method_texts in by_strategy.items()
    ]


def regime_of(figures: Mapping[str, Any]) -> Regime:
    """Returns the entry of benchmarks/regimes.yaml with these figures, for a link of REGIME_ONE_WAY_MS."""
    compute, acceptance = figures["compute"], figures["acceptance"]
    drafts, step_ms = figures["num_draft_tokens"], 1e3 * compute["step_s"]
    bits = [figures["models"][role].split()[1] for role in ("draft", "target")]
    share = REGIME_LAYERS.target * 1e3 * compute["verify_exit_s"] / step_ms
    return Regime(
        source=f"outrider bench weights: Qwen2.5-Coder 0.5B in {bits[0]}, 1.5B in {bits[1]}, a core each",
        draft_token_ms=_rounded(1e3 * compute["draft_token_s"]),
        branch_cost=_rounded(compute["draft_branch_s"] / compute["draft_token_s"]),
        step_ms=_rounded(step_ms),
        verify_ms=_rounded(1e3 * (compute["verify_s"] + drafts * compute["verify_token_s"])),
        verify_token_ms=_rounded(1e3 * compute["verify_token_s"]),
        one_way_up_ms=REGIME_ONE_WAY_MS,
        one_way_down_ms=REGIME_ONE_WAY_MS,
        num_draft_tokens=drafts,
        temperature=figures["temperature"],
        tokens_per_round=_rounded(acceptance["tokens_per_verification"]),
        second_choice=_rounded(acceptance["second_choice"]),
        exits=_exits(figures),
        exit_layer_share=_rounded(share),
        layers=REGIME_LAYERS,
        models=Models("qwen2.5-0.5b", "qwen2.5-1.5b"),
        vocab_size=REGIME_VOCABULARY,
        measured={},
    )


def _exits(figures: Mapping[str, Any]) -> Exits:
    prediction = figures["exit_prediction"]
    return Exits(
        number=len(figures["exits"]),
        miss_rate=_rounded(prediction["miss_rate"]),
        average=_rounded(prediction["average"] or 1.0),
        workers=figures["workers"],
    )


def _rounded(value: float) -> float:
    return round(value, REGIME_DIGITS)


def _pair_lines(measured: PairFigures, figures: dict[str, Any]) -> list[str]:
    acceptance, compute = measured.acceptance, measured.compute
    shares = ", ".join(f"{share:.2f}" for share in acceptance.by_position)
    return [
        f"{acceptance.tokens_per_verification:.2f} tokens a verification of {NUM_DRAFT_TOKENS} drafted; "
        f"accepted by position, where those before are: {shares}; "
        f"second choice right where the first is not: {acceptance.second_choice:.2f}",
        *(
            f"exit after layer {shares_of_exit.layer}: the target's choice {shares_of_exit.agreement:.2f}, "
            f"the whole verdict {shares_of_exit.hint_agreement:.2f}"
            for shares_of_exit in measured.exits
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


def _print(title: str, rows: Sequence[SpeedRow], *notes: str) -> None:
    print_results(results_table(title, *LEGENDS["bench weights"], rows=map(_cells, rows)), *notes)


def _cells(row: SpeedRow) -> tuple[str, ...]:
    return (
        row.network,
        row.strategy,
        f"{row.tokens_per_s:.2f}",
        f"{row.speedup_vs_ar:.2f}",
        interval_text(row.speedup_interval),
        *(f"{value:.2f}" for value in (row.over_colocated, row.tokens_per_round, row.passes_per_token)),
        *(f"{value:.0f}" for value in (row.bytes_up_per_token, row.bytes_down_per_token)),
        f"{row.different} of {row.texts}",
    )
