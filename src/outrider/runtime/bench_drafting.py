"""`outrider bench drafting`: what retrieved drafts are worth, alone and joined with the draft model's.

Texts and verifications are those of real models; the figures are counts, but for the times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from outrider.core.errors import ConfigError
from outrider.core.prompt import render_prompt
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.replay import ReplayModel
from outrider.navigation.navigator import Navigator, NavigatorSettings
from outrider.runtime.decoders import local_decoder
from outrider.runtime.drafting import Drafting, Yield
from outrider.runtime.episode import run_episode
from outrider.runtime.evaluation import ODOMETRY_NOISE, PLACEMENT_CYCLE
from outrider.runtime.figures import write_figures
from outrider.runtime.held_out import Pair, first_home_seed, held_out_prompts, load_pair
from outrider.simulation.contexts import phrase
from outrider.simulation.homes import generate_home
from outrider.simulation.simulator import Simulator

MAX_NEW_TOKENS = 96
MAX_STEPS = 40
ALONE = (
    ("lookup",),
    ("suffix",),
    ("suffix", "calibration"),
    ("suffix", "reuse"),
    ("suffix", "calibration", "reuse"),
)
SOURCE_SETS = (*ALONE, ("model",), *(("model", *sources) for sources in ALONE))


@dataclass(frozen=True)
class TextSet:
    """Prompts of one kind, in order. Without history each is drafted as if it were the first."""

    name: str
    prompts: tuple[Prompt, ...]
    keep_history: bool
    pair: Pair


@dataclass(frozen=True)
class DraftingFigures:
    """`acceptance_length`: tokens a verification, the target's own included. `drafted`: tokens drafted for
    one. `model_share`: forwards of the draft model a token. `step_ms`: processor time of retrieving for one
    verification.
    """

    acceptance_length: float
    drafted: float
    model_share: float
    step_ms: float


def bench_drafting(
    episodes: int = 8,
    frames: int = 60,
    num_draft_tokens: int = 8,
    seed: int = 0,
    models: Path | None = None,
    json_file: Path | None = None,
) -> dict[str, Any]:
    """Measure, print a table for each kind of text, write JSON. Raises ConfigError for sizes below 1."""
    if min(episodes, frames, num_draft_tokens) < 1:
        raise ConfigError("episodes, frames and num_draft_tokens must be at least 1")
    pair = load_pair(models)
    replayed = Pair(ReplayModel(pair.target), ReplayModel(pair.draft))
    console, result = Console(), {}
    for texts in text_sets(replayed, episodes, frames, seed):
        figures = measure(texts, num_draft_tokens)
        console.print(_table(texts, figures))
        result[texts.name] = {"+".join(sources): asdict(row) for sources, row in figures.items()}
    content = {"num_draft_tokens": num_draft_tokens, "seed": seed, "texts": result}
    write_figures(json_file, content)
    return content


def text_sets(pair: Pair, episodes: int, frames: int, seed: int) -> Iterator[TextSet]:
    """Whole searches one after the other, and frames that have nothing to do with each other."""
    driven = tuple(driven_prompts(pair, episodes, seed))
    yield TextSet(f"{episodes} searches, {len(driven)} steps, one after the other", driven, True, pair)
    yield TextSet(f"{frames} frames, each alone", tuple(held_out_prompts(frames, seed)), False, pair)


def driven_prompts(pair: Pair, episodes: int, seed: int) -> Iterator[Prompt]:
    """The prompts of every step of searches that the target drives, in order."""
    decoder = local_decoder(pair.target, None, DecodingConfig(strategy="ar"))
    seen: list[Prompt] = []

    def ask(simulator: Simulator, navigator: Navigator) -> str:
        context = navigator.context(simulator.odometry())
        seen.append(Prompt(render_prompt(context), simulator.frame_jpeg()))
        return decoder.decode(DecodeRequest(seen[-1], MAX_NEW_TOKENS)).text

    for index in track(range(episodes), "searches", console=Console(stderr=True)):
        home_seed = first_home_seed(seed) + index
        home = generate_home(home_seed, placement=PLACEMENT_CYCLE[index % len(PLACEMENT_CYCLE)])
        instruction = phrase(np.random.default_rng([home_seed, 3]), home.target.spec)
        settings = NavigatorSettings(max_steps=MAX_STEPS)
        run_episode(home, instruction, lambda _: ask, settings, ODOMETRY_NOISE)
    yield from seen


def measure(texts: TextSet, num_draft_tokens: int) -> dict[tuple[str, ...], DraftingFigures]:
    """Every set of sources on the same texts."""
    figures = {}
    for sources in track(SOURCE_SETS, texts.name, console=Console(stderr=True)):
        drafting = Drafting(texts.pair.target, texts.pair.draft, sources, num_draft_tokens, MAX_NEW_TOKENS)
        figures[sources] = figures_of(drafting.run(texts.prompts, texts.keep_history))
    return figures


def figures_of(total: Yield) -> DraftingFigures:
    return DraftingFigures(
        total.acceptance_length,
        total.drafted / total.verifications,
        total.model_tokens / total.emitted,
        1e3 * total.retrieval_s / total.verifications,
    )


_COLUMNS: tuple[tuple[str, Callable[[DraftingFigures], str]], ...] = (
    ("tokens a verification", lambda row: f"{row.acceptance_length:.2f}"),
    ("drafted", lambda row: f"{row.drafted:.1f}"),
    ("draft model a token", lambda row: f"{row.model_share:.2f}"),
    ("ms a step", lambda row: f"{row.step_ms:.2f}"),
)


def _table(texts: TextSet, figures: dict[tuple[str, ...], DraftingFigures]) -> Table:
    table = Table("drafts from", title=texts.name, title_justify="left", box=None)
    for heading, _ in _COLUMNS:
        table.add_column(heading, justify="right")
    for sources, row in figures.items():
        table.add_row(" + ".join(sources), *(text(row) for _, text in _COLUMNS))
    return table
