# SPDX-License-Identifier: Apache-2.0
"""`outrider bench models`: the cost of a draft step, a verification and weights of fewer bits, as ratios.

Times are of this thread's processor, which other programs do not lengthen. What is compared is timed
alternately, and a figure is the median of paired ratios.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

from outrider.core.files.terminal import tracked
from outrider.core.model_options import PRECISIONS
from outrider.core.ports import Chunk, LanguageModel
from outrider.core.values import Prompt
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.plots import draw_ratios
from outrider.evaluation.common.ratios import Ratio, cpu_seconds, forward_seconds, median_ms
from outrider.evaluation.common.tables import print_results, results_table
from outrider.evaluation.models.onnx_ratios import graph_agreement, graph_ratios, graph_trial
from outrider.evaluation.models.step_trial import (
    STEP_LAYERS,
    packed_ratios,
    packed_verifies,
    step_ratios,
    step_trial,
)
from outrider.evaluation.pair.speculation import verifications
from outrider.evaluation.serving.host_overhead import PROMPT_DRAFT_S, TARDY_DRAFT_S, HostTime, measure_host
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.paths import models_folder
from outrider.runtime.datasets.held_out import Pair, check_frames, held_out_prompts, load_pair

NUM_DRAFT_TOKENS = 4
NUM_BRANCHES = 4
REFERENCE_TOKENS = 32
REPEATS = 60
REFERENCE_REPEATS = 7
GRAPH_LAYERS = 12


@dataclass(frozen=True)
class Drafting:
    """A draft of some precision: tokens accepted of those drafted, and the time of its step."""

    precision: str
    rounds: int
    accepted: float
    step_ms: float


def bench_models(
    frames: int,
    seed: int,
    models: Path | None = None,
    json_file: Path | None = None,
    plots: Path | None = None,
    graph_layers: int = GRAPH_LAYERS,
    device: str = "cpu",
    step_layers: int | None = None,
) -> dict[str, Any]:
    """Measure, print, write JSON and plots.

    Raises ModelError without models, ConfigError for a device that is not there.
    """
    check_frames(frames, seed)
    check_device(device)
    prompts = list(held_out_prompts(frames, seed))
    ratios, draftings, details = _measured(models, prompts, graph_layers, device, step_layers)
    figures = {
        "frames": frames,
        "seed": seed,
        "ratios": [asdict(ratio) | {"kept": ratio.is_within_bound} for ratio in ratios],
        "drafts": [asdict(drafting) for drafting in draftings],
        **details,
    }
    print_results(table_of(ratios, draftings))
    write_figures(json_file, figures)
    if plots is not None:
        bars = {ratio.what: (ratio.value, ratio.bound) for ratio in ratios}
        draw_ratios(plots / "models.png", "outrider bench models", bars)
    return figures


def _measured(
    models: Path | None, prompts: Sequence[Prompt], graph_layers: int, device: str, step_layers: int | None
) -> tuple[list[Ratio], list[Drafting], dict[str, Any]]:
    """Return the ratios, each precision's drafts, and by name in the file the data behind the ratios."""
    folder, pair = models_folder(models), load_pair(models)
    draftings = [
        measure_drafting(Pair(pair.target, _draft(folder, precision)), precision, prompts)
        for precision in tracked(PRECISIONS, "precisions")
    ]
    trial = graph_trial(graph_layers)
    num_layers = step_layers or STEP_LAYERS[device]
    step, packed_s = step_trial(device, num_layers), packed_verifies(device, num_layers)
    overhead = host_overhead(folder / "target", prompts, device)
    ratios = [
        draft_over_generate(folder / "draft", prompts[0]),
        verify_over_step(pair, prompts[0]),
        branches_at_once(pair.draft, prompts[0], "branches"),
        *precision_ratios(draftings),
        *graph_agreement(folder / "draft", prompts),
        branches_at_once(_graphs(folder), prompts[0], "branches on static graphs"),
        *graph_ratios(trial),
        *step_ratios(step),
        *packed_ratios(packed_s, step),
        *overhead_ratios(overhead, device),
    ]
    return (
        ratios,
        draftings,
        {
            "static_graphs": asdict(trial),
            "target_step": asdict(step),
            "packed_verify_s": packed_s,
            "host_overhead": {what: asdict(host) for what, host in overhead.items()},
        },
    )


def draft_over_generate(folder: Path, prompt: Prompt) -> Ratio:
    """Measure a token by transformers' `generate` over a step of ours, with the same model and prompt."""
    from outrider.models import ReferenceGenerator, load_model  # takes seconds to import

    reference, session = ReferenceGenerator(folder), load_model(folder, role="draft").open_session()
    session.prefill(prompt)
    theirs, ours = [], []
    for _ in range(REFERENCE_REPEATS):
        longer_s, shorter_s = (
            cpu_seconds(partial(reference.generate, prompt, count)) for count in (1 + REFERENCE_TOKENS, 1)
        )
        theirs.append((longer_s - shorter_s) / REFERENCE_TOKENS)
        ours.append(statistics.median(forward_seconds(session, 1) for _ in range(REFERENCE_TOKENS)))
    value = statistics.median(their / our for their, our in zip(theirs, ours, strict=True))
    detail = f"{median_ms(theirs)} against {median_ms(ours)} ms a token"
    return Ratio("generate of transformers over a draft step", value, 1.5, False, detail)


def verify_over_step(pair: Pair, prompt: Prompt) -> Ratio:
    """Measure a verification with all exits over a forward of one token."""
    session = pair.target.open_session()
    session.prefill(prompt)
    steps, verifies = [], []
    for _ in range(REPEATS):
        steps.append(forward_seconds(session, 1))
        verifies.append(forward_seconds(session, NUM_DRAFT_TOKENS + 1, exits=True))
    value = statistics.median(verify / step for verify, step in zip(verifies, steps, strict=True))
    detail = f"{median_ms(verifies)} against {median_ms(steps)} ms"
    return Ratio("verify of 5 tokens with exits over a step", value, 1.35, True, detail)


def branches_at_once(draft: LanguageModel, prompt: Prompt, what: str) -> Ratio:
    """Measure steps of NUM_BRANCHES branches one after the other over one forward of all."""
    sessions = [draft.open_session() for _ in range(NUM_BRANCHES)]
    for session in sessions:
        session.prefill(prompt)
    in_turn, together = [], []
    for _ in range(REPEATS):
        in_turn.append(sum(forward_seconds(session, 1) for session in sessions))
        chunks = [Chunk(session, [10 + index]) for index, session in enumerate(sessions)]
        together.append(cpu_seconds(partial(draft.forward_together, chunks)))
        for session in sessions:
            session.truncate(session.length - 1)
    value = statistics.median(turn / at_once for turn, at_once in zip(in_turn, together, strict=True))
    detail = f"{median_ms(in_turn)} against {median_ms(together)} ms"
    return Ratio(f"{NUM_BRANCHES} {what} in turn over at once", value, 2.0, False, detail)


def measure_drafting(pair: Pair, precision: str, prompts: Sequence[Prompt]) -> Drafting:
    """Measure greedy drafts of NUM_DRAFT_TOKENS, verified by the target, over whole texts."""
    rounds = [
        verification
        for prompt in prompts
        for verification in verifications(pair, pair.target.exits, prompt, NUM_DRAFT_TOKENS)
    ]
    accepted = [
        sum(
            token == drafted for token, drafted in zip(verification.emitted, verification.draft, strict=False)
        )
        for verification in rounds
    ]
    session = pair.draft.open_session()
    session.prefill(prompts[0])
    step_s = statistics.median(forward_seconds(session, 1) for _ in range(REPEATS))
    return Drafting(precision, len(rounds), statistics.mean(accepted), 1e3 * step_s)


def precision_ratios(draftings: Sequence[Drafting]) -> list[Ratio]:
    """Return the accepted tokens of int8 over those of fp32, with the bound 0.95."""
    whole = next(drafting for drafting in draftings if drafting.precision == "fp32")
    int8 = next(drafting for drafting in draftings if drafting.precision == "int8")
    detail = f"{int8.accepted:.2f} against {whole.accepted:.2f} of {NUM_DRAFT_TOKENS} drafted"
    value = int8.accepted / whole.accepted if whole.accepted else 1.0
    return [Ratio("accepted of an int8 draft over fp32", value, 0.95, False, detail)]


def check_device(device: str) -> None:
    """Raise ConfigError for a device that is not there, before minutes are spent on the CPU."""
    from outrider.models.loading import find_device

    find_device(device)


def host_overhead(folder: Path, prompts: Sequence[Prompt], device: str) -> dict[str, HostTime]:
    """Measure the host's time of a step that verifies a draft, and of one without a draft."""
    from outrider.models import load_model

    pair = Pair(load_model(folder, device=device), load_model(folder.parent / "draft", role="draft"))
    cases = {"verification": PROMPT_DRAFT_S, "bare step": TARDY_DRAFT_S}
    return {what: measure_host(pair, prompts, draft_token_s=draft_s) for what, draft_s in cases.items()}


def overhead_ratios(overhead: Mapping[str, HostTime], device: str) -> list[Ratio]:
    """Return the times that a GPU waits for its host; hints are handled while it computes."""
    return [
        Ratio(
            f"host's time from forward to forward, ms a {what}",
            host.between_ms,
            0.5,
            True,
            f"shipped target on {device}: frames, judging; hints amid a forward {host.amid_ms:.2f} ms",
        )
        for what, host in overhead.items()
    ]


def table_of(ratios: Sequence[Ratio], draftings: Sequence[Drafting]) -> Table:
    """Return a table of the ratios with their bounds, and of each precision's drafts."""
    rows = [(one.what, f"{one.value:.2f}", one.bound_text, one.detail) for one in ratios]
    rows += [
        (
            f"drafts of {NUM_DRAFT_TOKENS} tokens, {one.precision}",
            f"{one.accepted:.3f}",
            "",
            f"accepted; a step {one.step_ms:.2f} ms",
        )
        for one in draftings
    ]
    return results_table("models, as ratios", *LEGENDS["bench models"], rows=rows)


def _draft(folder: Path, precision: Any) -> Any:
    from outrider.models import load_model

    return load_model(folder / "draft", role="draft", precision=precision)


def _graphs(folder: Path) -> LanguageModel:
    from outrider.models import load_graph_model

    return load_graph_model(folder / "draft")
