"""`outrider bench models`: what a draft step, a verification and weights of fewer bits cost, as ratios.

Times are of this thread's processor, which other programs do not lengthen; what is compared is timed in turn,
and a figure is the median of paired ratios.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from outrider.core.model_options import PRECISIONS, Precision
from outrider.core.ports import Chunk, ModelSession
from outrider.core.values import Prompt
from outrider.runtime.bench_plots import draw_ratios
from outrider.runtime.figures import write_figures
from outrider.runtime.held_out import Pair, check_frames, held_out_prompts, load_pair
from outrider.runtime.paths import models_folder
from outrider.runtime.speculation import verifications

if TYPE_CHECKING:
    from outrider.models.graphs.trial import GraphTrial
    from outrider.models.step_trial import StepTrial

NUM_DRAFT_TOKENS = 4
NUM_BRANCHES = 4
REFERENCE_TOKENS = 32
REPEATS = 60
REFERENCE_REPEATS = 7
GRAPH_LAYERS = 12
STEP_LAYERS = {"cpu": 3, "cuda": 28}
STEP_REPEATS = 9
GRAPH_PROMPT = 1000
COMPARED_TOKENS = 32
PACKED_PRECISIONS: tuple[Precision, ...] = ("int8", "int4")


@dataclass(frozen=True)
class Ratio:
    """A measured ratio and the bound it is to keep: at least `bound`, or at most where `is_limit`."""

    what: str
    value: float
    bound: float
    is_limit: bool
    detail: str

    @property
    def kept(self) -> bool:
        return self.value <= self.bound if self.is_limit else self.value >= self.bound


@dataclass(frozen=True)
class Drafting:
    """What a draft of some precision is worth: tokens accepted of those drafted, and its step."""

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
    """Measure, print, write JSON and pictures.

    Raises ModelError without models, ConfigError for a device that is not there.
    """
    check_frames(frames, seed)
    check_device(device)
    folder, pair = models_folder(models), load_pair(models)
    prompts = list(held_out_prompts(frames, seed))
    draftings = [
        measure_drafting(Pair(pair.target, _draft(folder, precision)), precision, prompts)
        for precision in track(PRECISIONS, "precisions", console=Console(stderr=True))
    ]
    trial = graph_trial(graph_layers)
    num_layers = step_layers or STEP_LAYERS[device]
    step, packed_s = step_trial(device, num_layers), packed_verifies(device, num_layers)
    beside = host_overhead(folder / "target", prompts, device)
    ratios = [
        draft_over_generate(folder / "draft", prompts[0]),
        verify_over_step(pair, prompts[0]),
        branches_at_once(pair, prompts[0]),
        *precision_ratios(draftings),
        *graph_agreement(folder / "draft", prompts),
        *graph_ratios(trial),
        *step_ratios(step),
        *packed_ratios(packed_s, step),
        *overhead_ratios(beside, device),
    ]
    figures = {
        "frames": frames,
        "seed": seed,
        "ratios": [asdict(one) | {"kept": one.kept} for one in ratios],
        "drafts": [asdict(one) for one in draftings],
        "static_graphs": asdict(trial),
        "target_step": asdict(step),
        "packed_verify_s": packed_s,
        "host_overhead_ms": beside,
    }
    print_figures(Console(), ratios, draftings)
    write_figures(json_file, figures)
    if plots is not None:
        bars = {one.what: (one.value, one.bound) for one in ratios}
        draw_ratios(plots / "models.png", "outrider bench models", bars)
    return figures


def draft_over_generate(folder: Path, prompt: Prompt) -> Ratio:
    """A token by transformers' `generate` over a step of ours, the same model and prompt."""
    from outrider.models import ReferenceGenerator, load_model  # seconds to import

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
    detail = f"{_ms(theirs)} against {_ms(ours)} ms a token"
    return Ratio("generate of transformers over a draft step", value, 1.5, False, detail)


def verify_over_step(pair: Pair, prompt: Prompt) -> Ratio:
    """A verification with all exits over a forward of one token."""
    session = pair.target.open_session()
    session.prefill(prompt)
    steps, verifies = [], []
    for _ in range(REPEATS):
        steps.append(forward_seconds(session, 1))
        verifies.append(forward_seconds(session, NUM_DRAFT_TOKENS + 1, exits=True))
    value = statistics.median(verify / step for verify, step in zip(verifies, steps, strict=True))
    detail = f"{_ms(verifies)} against {_ms(steps)} ms"
    return Ratio("verify of 5 tokens with exits over a step", value, 1.35, True, detail)


def branches_at_once(pair: Pair, prompt: Prompt) -> Ratio:
    """Steps of NUM_BRANCHES branches one after the other over one forward of them all."""
    sessions = [pair.draft.open_session() for _ in range(NUM_BRANCHES)]
    for session in sessions:
        session.prefill(prompt)
    in_turn, together = [], []
    for _ in range(REPEATS):
        in_turn.append(sum(forward_seconds(session, 1) for session in sessions))
        chunks = [Chunk(session, [10]) for session in sessions]
        together.append(cpu_seconds(partial(pair.draft.forward_together, chunks)))
        for session in sessions:
            session.truncate(session.length - 1)
    value = statistics.median(turn / one for turn, one in zip(in_turn, together, strict=True))
    detail = f"{_ms(in_turn)} against {_ms(together)} ms"
    return Ratio(f"{NUM_BRANCHES} branches in turn over at once", value, 2.0, False, detail)


def measure_drafting(pair: Pair, precision: str, prompts: Sequence[Prompt]) -> Drafting:
    """Greedy drafts of NUM_DRAFT_TOKENS judged by the target, over whole texts."""
    rounds = [
        one for prompt in prompts for one in verifications(pair, pair.target.exits, prompt, NUM_DRAFT_TOKENS)
    ]
    accepted = [
        sum(token == drafted for token, drafted in zip(one.emitted, one.draft, strict=False))
        for one in rounds
    ]
    session = pair.draft.open_session()
    session.prefill(prompts[0])
    step_s = statistics.median(forward_seconds(session, 1) for _ in range(REPEATS))
    return Drafting(precision, len(rounds), statistics.mean(accepted), 1e3 * step_s)


def precision_ratios(draftings: Sequence[Drafting]) -> list[Ratio]:
    """Accepted tokens of each precision over those of fp32; int8 is held to 0.95."""
    whole = next(one for one in draftings if one.precision == "fp32")
    int8 = next(one for one in draftings if one.precision == "int8")
    detail = f"{int8.accepted:.2f} against {whole.accepted:.2f} of {NUM_DRAFT_TOKENS} drafted"
    value = int8.accepted / whole.accepted if whole.accepted else 1.0
    return [Ratio("accepted of an int8 draft over fp32", value, 0.95, False, detail)]


@dataclass(frozen=True)
class Choice:
    """A token as static graphs, the same integers in float32, and the eager int4 draft choose it.

    ties: the eager draft has another token exactly as likely as its own. gap: by how much float32 sets its
    own choice above the eager one. difference: the most that any logit is off between these two.
    """

    graphs: int
    in_float32: int
    eager: int
    ties: bool
    gap: float
    difference: float


def graph_agreement(folder: Path, prompts: Sequence[Prompt]) -> list[Ratio]:
    """Tokens on which an int4 draft as static graphs chooses as the same integers do eagerly.

    Once multiplied in float32, as graphs multiply them, and once in bfloat16, as the eager draft runs: its
    logits are products rounded to 8 bits of mantissa, so that two close ones come out equal. The last ratio
    is of those tokens that it tells apart itself.
    """
    choices = compare_choices(folder, prompts)
    apart = [one for one in choices if not one.ties]
    strays = [one for one in choices if one.graphs != one.eager]
    noise = statistics.median(one.difference for one in choices)
    why = f"{sum(one.ties for one in strays)} of {len(strays)} others tie eagerly, "
    why += f"gaps to {max((one.gap for one in strays), default=0.0):.3f} where logits differ by {noise:.3f}"
    eager = "static graphs choose as the eager int4 draft"
    return [
        _alike("static graphs choose as their integers do in float32", choices, "in_float32"),
        _alike(eager, choices, "eager", why),
        _alike(f"{eager}, where its best do not tie", apart, "eager"),
    ]


def _alike(what: str, choices: Sequence[Choice], other: str, why: str = "") -> Ratio:
    alike = [one.graphs == getattr(one, other) for one in choices]
    detail = f"{sum(alike)} of {len(alike)} tokens"
    share = statistics.mean(alike) if alike else 1.0
    return Ratio(what, share, 1.0, False, f"{detail}; {why}" if why else detail)


def compare_choices(folder: Path, prompts: Sequence[Prompt]) -> list[Choice]:
    """COMPARED_TOKENS of each prompt; what float32 chooses is what all three go on from."""
    from outrider.models import load_exact_model, load_graph_model, load_model

    models = load_graph_model(folder), load_exact_model(folder, "int4"), load_model(folder, precision="int4")
    sessions: list[ModelSession] = [model.open_session() for model in models]
    choices = []
    for prompt in prompts:
        rows = [session.prefill(prompt) for session in sessions]
        for _ in range(COMPARED_TOKENS):
            choices.append(_choice(*rows))
            rows = [session.forward([choices[-1].in_float32])[0] for session in sessions]
    return choices


def _choice(graphs: Any, in_float32: Any, eager: Any) -> Choice:
    """Of three rows of logits (V,)."""
    best, second = eager.topk(2).values.tolist()
    mine, own = int(eager.argmax()), int(in_float32.argmax())
    gap, difference = float(in_float32[own] - in_float32[mine]), float((in_float32 - eager).abs().max())
    return Choice(int(graphs.argmax()), own, mine, best == second, gap, difference)


def graph_trial(num_layers: int) -> GraphTrial:
    from outrider.models.graphs.trial import run_trial

    return run_trial(num_layers, GRAPH_PROMPT, repeats=1)


def graph_ratios(trial: GraphTrial) -> list[Ratio]:
    """What of the loading is hidden, what the switch computes more, and its peak memory."""
    hidden = f"{1e3 * trial.waited_s:.1f} of {1e3 * trial.loaded_s:.0f} ms waited for"
    computed = f"{trial.switching_s:.2f} against {trial.plain_s:.2f} s"
    memory = f"{trial.switching_mb:.0f} against {trial.plain_mb:.0f} MB"
    where = f"{trial.num_tokens} tokens, {trial.num_layers} layers of 2B"
    return [
        Ratio(f"graph loading hidden, {where}", trial.hidden_share, 0.95, False, hidden),
        Ratio("computing while switching over not", trial.switching_s / trial.plain_s, 1.1, True, computed),
        Ratio("peak memory while switching over one graph", trial.memory_ratio, 1.1, True, memory),
    ]


def check_device(device: str) -> None:
    """Raises ConfigError for a device that is not there, before minutes are spent on the CPU."""
    from outrider.models.loading import find_device

    find_device(device)


def step_trial(device: str, num_layers: int) -> StepTrial:
    from outrider.models.step_trial import run_step_trial

    return run_step_trial(device, num_layers, GRAPH_PROMPT, STEP_REPEATS)


def step_ratios(trial: StepTrial) -> list[Ratio]:
    """What exits add to a verification by a 7B's layers; on a GPU also over reading its weights once."""
    where = f"{trial.num_layers} layers of 7B on {trial.device}"
    added = f"{1e3 * trial.exits_s:.2f} against {1e3 * trial.plain_s:.2f} ms, {trial.num_exits} exits"
    read = f"{1e3 * trial.exits_s:.2f} against {1e3 * trial.weights_s:.2f} ms: "
    read += f"{trial.weights_gb:.1f} GB at {trial.copy_gb_s:.0f} GB/s of a copy"
    ratios = [
        Ratio(f"verify with exits over without, {where}", trial.exits_ratio, 1.1, True, added),
        Ratio(
            "its bits: as one token, in a chunk, in a crowd",
            float(trial.same_bits),
            1.0,
            False,
            "equal or not",
        ),
    ]
    if trial.device == "cpu":
        return ratios
    crowd = f"{1e3 * trial.crowd_s:.2f} against {1e3 * trial.exits_s:.2f} ms, {trial.crowd} robots"
    return [
        *ratios,
        Ratio("verify of 5 over reading the weights", trial.exits_s / trial.weights_s, 1.35, True, read),
        Ratio("verify of a crowd over one robot's", trial.crowd_s / trial.exits_s, 2.0, True, crowd),
        Ratio("host's part of a verify, ms", 1e3 * trial.host_s, 0.5, True, "until the queue is filled"),
    ]


def packed_verifies(device: str, num_layers: int) -> dict[Precision, float]:
    """Seconds of a verification by weights of fewer bits, on a GPU."""
    from outrider.models.step_trial import packed_verify_seconds

    if device == "cpu":
        return {}
    return {
        precision: packed_verify_seconds(device, precision, num_layers, GRAPH_PROMPT, STEP_REPEATS)
        for precision in PACKED_PRECISIONS
    }


def packed_ratios(packed_s: Mapping[Precision, float], trial: StepTrial) -> list[Ratio]:
    """A verification by weights of fewer bits over one in bfloat16, both without exits."""
    where = f"{trial.num_layers} layers of 7B on {trial.device}"
    return [
        Ratio(
            f"verify in {precision} over bf16, {where}",
            took_s / trial.plain_s,
            1.0,
            True,
            f"{1e3 * took_s:.2f} against {1e3 * trial.plain_s:.2f} ms",
        )
        for precision, took_s in packed_s.items()
    ]


def host_overhead(folder: Path, prompts: Sequence[Prompt], device: str) -> dict[str, float]:
    """Milliseconds of a step that verifies a draft, and of one that has none."""
    from outrider.models import load_model
    from outrider.runtime.host_overhead import PROMPT_DRAFT_S, TARDY_DRAFT_S, measure_overhead_ms

    pair = Pair(load_model(folder, device=device), load_model(folder.parent / "draft", role="draft"))
    cases = {"verification": PROMPT_DRAFT_S, "bare step": TARDY_DRAFT_S}
    return {
        what: measure_overhead_ms(pair, prompts, draft_token_s=draft_s) for what, draft_s in cases.items()
    }


def overhead_ratios(overhead_ms: Mapping[str, float], device: str) -> list[Ratio]:
    detail = f"shipped target on {device}: frames, hints, judging"
    return [
        Ratio(f"host's time beside the model, ms a {what}", value, 0.5, True, detail)
        for what, value in overhead_ms.items()
    ]


def forward_seconds(session: ModelSession, num_tokens: int, exits: bool = False) -> float:
    """Of one forward after the session's content, which stays."""
    length, token_ids = session.length, list(range(10, 10 + num_tokens))
    took_s = cpu_seconds(lambda: session.forward(token_ids, (lambda index, rows: None) if exits else None))
    session.truncate(length)
    return took_s


def cpu_seconds(work: Callable[[], object]) -> float:
    began_s = time.thread_time()
    work()
    return time.thread_time() - began_s


def print_figures(console: Console, ratios: Sequence[Ratio], draftings: Sequence[Drafting]) -> None:
    table = Table(title="models, as ratios")
    for heading in ("what", "ratio", "is to be", "measured"):
        table.add_column(heading)
    for one in ratios:
        bound = f"{'at most' if one.is_limit else 'at least'} {one.bound:g}"
        table.add_row(one.what, f"{one.value:.2f}", bound + ("" if one.kept else ": missed"), one.detail)
    console.print(table)
    drafts = Table(title=f"drafts of {NUM_DRAFT_TOKENS} tokens")
    for heading in ("precision", "accepted", "step, ms"):
        drafts.add_column(heading, justify="right")
    for drafting in draftings:
        drafts.add_row(drafting.precision, f"{drafting.accepted:.3f}", f"{drafting.step_ms:.2f}")
    console.print(drafts)


def _draft(folder: Path, precision: Any) -> Any:
    from outrider.models import load_model

    return load_model(folder / "draft", role="draft", precision=precision)


def _ms(seconds: Sequence[float]) -> str:
    return f"{1e3 * statistics.median(seconds):.2f}"
