# SPDX-License-Identifier: Apache-2.0
"""`outrider bench drafting`: the value of retrieved drafts, alone and joined with the draft model's.

Texts and verifications are those of real models; the figures are counts, except for the times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from outrider.core.errors import ConfigError
from outrider.core.files.terminal import tracked
from outrider.core.language.prompt import render_prompt
from outrider.core.ports import LanguageModel
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.fakes.replay import ReplayModel
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.plots import draw_ablation
from outrider.evaluation.common.tables import print_results, results_table
from outrider.evaluation.decoding.comparison import replayed
from outrider.evaluation.pair.retrieval_yield import MODEL, Drafting, TreeDrafting, Yield
from outrider.evaluation.robot.navigation import ODOMETRY_NOISE, placed_homes
from outrider.navigation.goal.navigator import Navigator, NavigatorSettings
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.datasets.held_out import (
    Pair,
    held_out_prompts,
    load_pair,
    load_reader_model,
)
from outrider.runtime.datasets.household_questions import household_questions
from outrider.runtime.mission.episode import run_episode
from outrider.runtime.wiring.decoders import local_decoder
from outrider.simulation.contexts import instruction_for
from outrider.simulation.homes.home import generate_home
from outrider.simulation.simulator import Simulator

MAX_NEW_TOKENS = 160
MAX_STEPS = 40
DRAFT_LENGTHS = (2, 4, 8, 16)
LONG, TREE = "long", "tree"
TABLE_4 = "1.06 to 1.24"
TREE_TOKENS = 32
"""The size of a tree: what sd.npu's processors verify at the price of one token."""
ALONE = (
    ("lookup",),
    ("suffix",),
    ("suffix", "calibration"),
    ("suffix", "reuse"),
    ("suffix", "calibration", "reuse"),
)
SUFFIX, ALL = ALONE[1], ALONE[-1]
BY_TREE = ALONE[1:]
SOURCE_SETS = (*ALONE, (MODEL,), *((MODEL, *sources) for sources in ALONE))


@dataclass(frozen=True)
class TextSet:
    """Prompts of one kind, in order. Without history each is drafted as if it were the first.

    `answers`: the right answers, if there are any. `tokens`: the most tokens of a text.
    """

    kind: str
    name: str
    prompts: tuple[Prompt, ...]
    keep_history: bool
    target: LanguageModel
    draft: LanguageModel | None = None
    answers: tuple[str, ...] = ()
    tokens: int = MAX_NEW_TOKENS


@dataclass(frozen=True)
class DraftingFigures:
    """The figures of one set of draft sources.

    `acceptance_length`: tokens per verification, the target's own included. `drafted`: drafted tokens per
    verification. `model_share`: forwards of the draft model per token. Processor time in milliseconds:
    `draft_ms`, the median of retrieving one draft; `learning_ms`, per verification, of storing prompts and
    verified tokens; `calibration_ms`, of calibrating by one token of a prompt.
    """

    acceptance_length: float
    drafted: float
    model_share: float
    draft_ms: float
    learning_ms: float
    calibration_ms: float


def bench_drafting(
    episodes: int = 8,
    frames: int = 60,
    questions: int = 40,
    num_draft_tokens: int = 8,
    seed: int = 0,
    models: Path | None = None,
    json_file: Path | None = None,
    plots: Path | None = None,
) -> dict[str, Any]:
    """Measure, print a table, write JSON and plots.

    Raises ConfigError for sizes below 1 or for plots without matplotlib, ModelError without models.
    """
    if min(episodes, frames, questions, num_draft_tokens) < 1:
        raise ConfigError("episodes, frames, questions and num_draft_tokens must be at least 1")
    pair, reader = load_pair(models), ReplayModel(load_reader_model(models))
    pair = replayed(pair)
    table, notes = results_table("drafts from earlier text", *LEGENDS["bench drafting"]), list[str]()
    result: dict[str, Any] = {}
    for texts in (*text_sets(pair, episodes, frames, seed), *question_sets(reader, questions, seed)):
        figures = measure(texts, num_draft_tokens) | measure_trees(texts)
        _add_rows(table, texts, figures)
        result[texts.name] = {"+".join(sources): asdict(row) for sources, row in figures.items()}
        notes.append(_gain_text(texts.name, figures))
        if texts.answers:
            notes.append(f"{texts.name}: answers that are right, word for word: {share_right(texts):.2f}")
        if plots is not None:
            draw_lengths(plots / f"drafting_{texts.kind}.png", texts)
    print_results(table, *notes)
    content = {"num_draft_tokens": num_draft_tokens, "seed": seed, "texts": result}
    write_figures(json_file, content)
    return content


def text_sets(pair: Pair, episodes: int, frames: int, seed: int) -> Iterator[TextSet]:
    """Yield whole searches one after the other, and frames that are independent of each other."""
    driven = tuple(driven_prompts(pair, episodes, seed))
    name = f"{episodes} searches, {len(driven)} steps in order"
    yield TextSet("searches", name, driven, True, pair.target, pair.draft)
    frame_prompts = tuple(held_out_prompts(frames, seed))
    yield TextSet("frames", f"{frames} frames, each alone", frame_prompts, False, pair.target, pair.draft)


def question_sets(reader: LanguageModel, questions: int, seed: int) -> Iterator[TextSet]:
    """Yield questions to the memories of households, one after the other and as if each were the first."""
    household = tuple(islice(household_questions(seed), questions))
    prompts, answers = tuple(item.prompt for item in household), tuple(item.answer for item in household)
    yield TextSet("questions", f"{questions} questions in order", prompts, True, reader, answers=answers)
    alone = f"{questions} questions, each alone"
    yield TextSet("questions_alone", alone, prompts, False, reader, answers=answers)


def gain(
    figures: Mapping[tuple[str, ...], DraftingFigures],
    form: str = "",
    alone_form: str = "",
    with_model: str = "",
) -> float:
    """Return the gain of calibration and reuse over the suffix automaton alone, as a ratio.

    `form`: how both draft, in a chain (empty) or TREE. `alone_form`: how the automaton alone drafts: the
    same for the gain of the techniques alone, LONG for all that a tree gains. `with_model`: MODEL to join
    both with the draft model.
    """
    with_all, with_suffix = (
        tuple(filter(None, (with_model, *names, drafting_form)))
        for names, drafting_form in ((ALL, form), (SUFFIX, alone_form))
    )
    return figures[with_all].acceptance_length / figures[with_suffix].acceptance_length


def share_right(texts: TextSet) -> float:
    """Return the share of the target's own answers that are right, word for word."""
    drafting = Drafting(texts.target, None, SUFFIX, DRAFT_LENGTHS[-1], texts.tokens)
    written = drafting.run(texts.prompts, texts.keep_history).texts
    decode = texts.target.tokenizer.decode
    pairs = zip(written, texts.answers, strict=True)
    return sum(decode(text).strip() == answer for text, answer in pairs) / len(texts.answers)


def draw_lengths(path: Path, texts: TextSet) -> None:
    """Draw tokens per verification over the length of a draft."""
    curves: dict[str, list[float]] = {}
    for num_draft_tokens in DRAFT_LENGTHS:
        for sources, row in measure(texts, num_draft_tokens).items():
            curves.setdefault(" + ".join(sources), []).append(row.acceptance_length)
    draw_ablation(path, f"{texts.name}: tokens a verification", "tokens drafted", DRAFT_LENGTHS, curves)


def driven_prompts(pair: Pair, episodes: int, seed: int) -> Iterator[Prompt]:
    """Yield the prompts of every step of searches that the target drives, in order."""
    decoder = local_decoder(pair.target, None, DecodingConfig(strategy="ar"))
    prompts: list[Prompt] = []

    def ask(simulator: Simulator, navigator: Navigator) -> str:
        context = navigator.context(simulator.odometry())
        prompts.append(Prompt(render_prompt(context), simulator.frame_jpeg()))
        return decoder.decode(DecodeRequest(prompts[-1], MAX_NEW_TOKENS)).text

    for home_seed, placement in tracked(placed_homes(episodes, seed), "searches"):
        home = generate_home(home_seed, placement=placement)
        instruction = instruction_for(home)
        settings = NavigatorSettings(max_steps=MAX_STEPS)
        run_episode(home, instruction, lambda _: ask, settings, ODOMETRY_NOISE)
    yield from prompts


def measure(texts: TextSet, num_draft_tokens: int) -> dict[tuple[str, ...], DraftingFigures]:
    """Measure every set of sources on the same texts."""
    figures = {}
    source_sets = ALONE if texts.draft is None else SOURCE_SETS
    for sources in tracked(source_sets, texts.name):
        drafting = Drafting(texts.target, texts.draft, sources, num_draft_tokens, texts.tokens)
        figures[sources] = figures_of(drafting.run(texts.prompts, texts.keep_history))
    return figures


def measure_trees(texts: TextSet) -> dict[tuple[str, ...], DraftingFigures]:
    """Measure retrieved drafts in trees of TREE_TOKENS, and for comparison in an equally long chain."""
    figures = {}
    for make, form in ((Drafting, LONG), (TreeDrafting, TREE)):
        for sources in BY_TREE[:1] if form == LONG else BY_TREE:
            drafting = make(texts.target, None, sources, TREE_TOKENS, texts.tokens)
            name = (*sources, form)
            figures[name] = figures_of(drafting.run(texts.prompts, texts.keep_history))
    return figures


def figures_of(total: Yield) -> DraftingFigures:
    """Return the means of what was drafted and verified."""
    return DraftingFigures(
        total.acceptance_length,
        total.drafted / total.verifications,
        total.model_tokens / total.emitted,
        1e3 * median(total.draft_s),
        1e3 * total.learning_s / total.verifications,
        1e3 * total.calibration_s / max(1, total.calibrated_tokens),
    )


def _cells(row: DraftingFigures) -> tuple[str, ...]:
    return (
        f"{row.acceptance_length:.2f}",
        f"{row.drafted:.1f}",
        f"{row.model_share:.2f}",
        f"{row.draft_ms:.2f}",
        f"{row.learning_ms:.2f}",
        f"{row.calibration_ms:.3f}",
    )


def _gain_text(name: str, figures: Mapping[tuple[str, ...], DraftingFigures]) -> str:
    """Say what calibration and reuse add, as sd.npu compares (its table 4: TABLE_4), and in one form."""
    text = (
        f"{name}: calibration and reuse over the suffix automaton alone, tokens a verification: "
        f"{gain(figures, TREE, LONG):.2f} as a tree over a chain of {TREE_TOKENS} (sd.npu: {TABLE_4}), "
        f"{gain(figures, TREE, TREE):.2f} in trees, {gain(figures):.2f} in chains"
    )
    if (MODEL,) in figures:
        text += f", {gain(figures, with_model=MODEL):.2f} in chains with the draft model"
    return text


def _add_rows(table: Table, texts: TextSet, figures: dict[tuple[str, ...], DraftingFigures]) -> None:
    table.add_section()
    for sources, row in figures.items():
        table.add_row(texts.name, " + ".join(sources), *_cells(row))
