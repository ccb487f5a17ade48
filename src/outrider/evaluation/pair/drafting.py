# SPDX-License-Identifier: Apache-2.0
"""`outrider bench drafting`: what retrieved drafts are worth, alone and joined with the draft model's.

Texts and verifications are those of real models; the figures are counts, but for the times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from outrider.core.errors import ConfigError
from outrider.core.files.terminal import make_console, tracked
from outrider.core.language.prompt import render_prompt
from outrider.core.ports import LanguageModel
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.fakes.replay import ReplayModel
from outrider.evaluation.common.plots import draw_ablation
from outrider.evaluation.pair.retrieval_yield import MODEL, Drafting, TreeDrafting, Yield
from outrider.evaluation.robot.navigation import ODOMETRY_NOISE, PLACEMENT_CYCLE
from outrider.navigation.goal.navigator import Navigator, NavigatorSettings
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.datasets.held_out import (
    Pair,
    first_home_seed,
    held_out_prompts,
    load_pair,
    load_reader_model,
)
from outrider.runtime.datasets.household_questions import household_questions
from outrider.runtime.mission.episode import run_episode
from outrider.runtime.wiring.decoders import local_decoder
from outrider.simulation.contexts import phrase
from outrider.simulation.homes import generate_home
from outrider.simulation.simulator import Simulator

MAX_NEW_TOKENS = 160
MAX_STEPS = 40
DRAFT_LENGTHS = (2, 4, 8, 16)
LONG, TREE = "long", "tree"
TABLE_4 = "1.06 to 1.24"
TREE_TOKENS = 32
"""Of a tree: what sd.npu's processors verify at the price of one token."""
LEGEND = """tokens: of a verification, the target's own included; drafted: for one; model:
forwards of the draft model a token; processor time: draft ms of retrieving one
draft, the median, learn ms of taking in prompts and verified tokens, for one
verification, prompt ms of calibrating by a token of the prompt. tree: 32 tokens
in branches, as if verified in one pass; long: as many in a chain."""
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

    `answers`: the right ones, where there are such.
    """

    kind: str
    name: str
    prompts: tuple[Prompt, ...]
    keep_history: bool
    target: LanguageModel
    draft: LanguageModel | None = None
    answers: tuple[str, ...] = ()


@dataclass(frozen=True)
class DraftingFigures:
    """`acceptance_length`: tokens a verification, the target's own included. `drafted`: tokens drafted for
    one. `model_share`: forwards of the draft model a token. Processor time in milliseconds: `draft_ms` of
    retrieving one draft, the median; `learning_ms` of taking in prompts and verified tokens, for one
    verification; `calibration_ms` of calibrating by one token of a prompt.
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
    """Measure, print a table for each kind of text, write JSON and pictures.

    Raises ConfigError for sizes below 1 or for pictures without matplotlib, ModelError without models.
    """
    if min(episodes, frames, questions, num_draft_tokens) < 1:
        raise ConfigError("episodes, frames, questions and num_draft_tokens must be at least 1")
    pair, reader = load_pair(models), ReplayModel(load_reader_model(models))
    pair = Pair(ReplayModel(pair.target), ReplayModel(pair.draft))
    console, result = make_console(), dict[str, Any]()
    console.print(LEGEND, highlight=False)
    for texts in (*text_sets(pair, episodes, frames, seed), *question_sets(reader, questions, seed)):
        figures = measure(texts, num_draft_tokens) | measure_trees(texts)
        console.print(_table(texts, figures))
        result[texts.name] = {"+".join(sources): asdict(row) for sources, row in figures.items()}
        _print_gain(console, figures)
        if texts.answers:
            _print_right(console, texts)
        if plots is not None:
            draw_lengths(plots / f"drafting_{texts.kind}.png", texts)
    content = {"num_draft_tokens": num_draft_tokens, "seed": seed, "texts": result}
    write_figures(json_file, content)
    return content


def text_sets(pair: Pair, episodes: int, frames: int, seed: int) -> Iterator[TextSet]:
    """Whole searches one after the other, and frames that have nothing to do with each other."""
    driven = tuple(driven_prompts(pair, episodes, seed))
    name = f"{episodes} searches, {len(driven)} steps in order"
    yield TextSet("searches", name, driven, True, pair.target, pair.draft)
    alone = tuple(held_out_prompts(frames, seed))
    yield TextSet("frames", f"{frames} frames, each alone", alone, False, pair.target, pair.draft)


def question_sets(reader: LanguageModel, questions: int, seed: int) -> Iterator[TextSet]:
    """Questions to the memories of households, one after the other and as if each were the first."""
    asked = tuple(islice(household_questions(seed), questions))
    prompts, answers = tuple(one.prompt for one in asked), tuple(one.answer for one in asked)
    yield TextSet("questions", f"{questions} questions in order", prompts, True, reader, answers=answers)
    alone = f"{questions} questions, each alone"
    yield TextSet("questions_alone", alone, prompts, False, reader, answers=answers)


def gain(
    figures: Mapping[tuple[str, ...], DraftingFigures],
    form: str = "",
    alone_form: str = "",
    with_model: str = "",
) -> float:
    """What calibration and reuse bring over the suffix automaton alone, in a form: a chain, or TREE.

    `alone_form`: what the automaton's own drafts are, the same for the techniques alone, LONG for all that
    makes a tree of them. `with_model`: MODEL for both joined with the draft model.
    """
    every, alone = (
        tuple(filter(None, (with_model, *names, of))) for names, of in ((ALL, form), (SUFFIX, alone_form))
    )
    return figures[every].acceptance_length / figures[alone].acceptance_length


def share_right(texts: TextSet) -> float:
    """The share of the target's own answers that are right, word for word."""
    drafting = Drafting(texts.target, None, SUFFIX, DRAFT_LENGTHS[-1], MAX_NEW_TOKENS)
    written = drafting.run(texts.prompts, texts.keep_history).texts
    decode = texts.target.tokenizer.decode
    pairs = zip(written, texts.answers, strict=True)
    return sum(decode(text).strip() == answer for text, answer in pairs) / len(texts.answers)


def draw_lengths(path: Path, texts: TextSet) -> None:
    """Tokens a verification over the length of a draft."""
    curves: dict[str, list[float]] = {}
    for num_draft_tokens in DRAFT_LENGTHS:
        for sources, row in measure(texts, num_draft_tokens).items():
            curves.setdefault(" + ".join(sources), []).append(row.acceptance_length)
    draw_ablation(path, f"{texts.name}: tokens a verification", "tokens drafted", DRAFT_LENGTHS, curves)


def driven_prompts(pair: Pair, episodes: int, seed: int) -> Iterator[Prompt]:
    """The prompts of every step of searches that the target drives, in order."""
    decoder = local_decoder(pair.target, None, DecodingConfig(strategy="ar"))
    seen: list[Prompt] = []

    def ask(simulator: Simulator, navigator: Navigator) -> str:
        context = navigator.context(simulator.odometry())
        seen.append(Prompt(render_prompt(context), simulator.frame_jpeg()))
        return decoder.decode(DecodeRequest(seen[-1], MAX_NEW_TOKENS)).text

    for index in tracked(range(episodes), "searches"):
        home_seed = first_home_seed(seed) + index
        home = generate_home(home_seed, placement=PLACEMENT_CYCLE[index % len(PLACEMENT_CYCLE)])
        instruction = phrase(np.random.default_rng([home_seed, 3]), home.target.spec)
        settings = NavigatorSettings(max_steps=MAX_STEPS)
        run_episode(home, instruction, lambda _: ask, settings, ODOMETRY_NOISE)
    yield from seen


def measure(texts: TextSet, num_draft_tokens: int) -> dict[tuple[str, ...], DraftingFigures]:
    """Every set of sources on the same texts."""
    figures = {}
    source_sets = ALONE if texts.draft is None else SOURCE_SETS
    for sources in tracked(source_sets, texts.name):
        drafting = Drafting(texts.target, texts.draft, sources, num_draft_tokens, MAX_NEW_TOKENS)
        figures[sources] = figures_of(drafting.run(texts.prompts, texts.keep_history))
    return figures


def measure_trees(texts: TextSet) -> dict[tuple[str, ...], DraftingFigures]:
    """Retrieved drafts in trees of TREE_TOKENS, and for comparison in a chain as long."""
    figures = {}
    for make, form in ((Drafting, LONG), (TreeDrafting, TREE)):
        for sources in BY_TREE[:1] if form == LONG else BY_TREE:
            drafting = make(texts.target, None, sources, TREE_TOKENS, MAX_NEW_TOKENS)
            name = (*sources, form)
            figures[name] = figures_of(drafting.run(texts.prompts, texts.keep_history))
    return figures


def figures_of(total: Yield) -> DraftingFigures:
    """Returns the means of what was drafted and verified."""
    return DraftingFigures(
        total.acceptance_length,
        total.drafted / total.verifications,
        total.model_tokens / total.emitted,
        1e3 * median(total.draft_s),
        1e3 * total.learning_s / total.verifications,
        1e3 * total.calibration_s / max(1, total.calibrated_tokens),
    )


_COLUMNS: tuple[tuple[str, Callable[[DraftingFigures], str]], ...] = (
    ("tokens", lambda row: f"{row.acceptance_length:.2f}"),
    ("drafted", lambda row: f"{row.drafted:.1f}"),
    ("model", lambda row: f"{row.model_share:.2f}"),
    ("draft ms", lambda row: f"{row.draft_ms:.2f}"),
    ("learn ms", lambda row: f"{row.learning_ms:.2f}"),
    ("prompt ms", lambda row: f"{row.calibration_ms:.3f}"),
)


def _print_gain(console: Console, figures: Mapping[tuple[str, ...], DraftingFigures]) -> None:
    lines = [
        "calibration and reuse over the suffix automaton alone:",
        f"  as sd.npu compares (its table 4: {TABLE_4}), the tree that they make of the automaton's draft",
        f"  over that draft, a chain, {TREE_TOKENS} tokens each: {gain(figures, TREE, LONG):.2f}",
        "  in one form, the automaton with all it holds likely for branches too: "
        f"{gain(figures, TREE, TREE):.2f} in trees, {gain(figures):.2f} in chains",
    ]
    if (MODEL,) in figures:
        lines.append(
            f"  joined with the draft model on both sides, in chains: {gain(figures, with_model=MODEL):.2f}"
        )
    console.print("\n".join(lines), highlight=False)


def _print_right(console: Console, texts: TextSet) -> None:
    console.print(f"answers that are right, word for word: {share_right(texts):.2f}", highlight=False)


def _table(texts: TextSet, figures: dict[tuple[str, ...], DraftingFigures]) -> Table:
    table = Table(title=texts.name, title_justify="left", box=None)
    table.add_column("drafts from", no_wrap=True)
    for heading, _ in _COLUMNS:
        table.add_column(heading, justify="right")
    for sources, row in figures.items():
        table.add_row(" + ".join(sources), *(text(row) for _, text in _COLUMNS))
    return table
