# SPDX-License-Identifier: Apache-2.0
"""`outrider bench decoding --changes`: checks that `outrider` is no slower than `ar` after a change.

Link, server, drafts or exits change. One session writes a text under each condition, in an order drawn by
the seed, with the usual condition between any two. It keeps what it has learnt from text to text.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from outrider.core.errors import ConfigError
from outrider.core.files.terminal import tracked
from outrider.core.link_profile import LinkProfile
from outrider.core.ports import ExitInfo
from outrider.core.values import DecodeRequest, Prompt, Verified
from outrider.decoding.config import DecodingConfig
from outrider.decoding.fakes.synthetic import (
    FIRST_ID,
    VOCAB_SIZE,
    SyntheticModel,
    TextEnd,
    certain_rows,
)
from outrider.decoding.fakes.synthetic_fit import NUM_CHOICES
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning
from outrider.evaluation.common.choices import chosen_mechanisms
from outrider.evaluation.common.rounding import rounded
from outrider.evaluation.common.tables import cells_of, print_results, results_table
from outrider.runtime.common.json_figures import write_figures
from outrider.wire.codec import frame_bytes

STEP_S = 0.1
EXITS = 4
TEXT_TOKENS = 300
DEADLINE_S = 1e6
SETTLED, WINDOW = 60, 40
"""Steps after a change that do not count, and steps of a window in which the speed is measured."""
BOUND = 0.97
"""The least speed over `ar` that is required of a settled window."""
FULL = "full"
"""The name of the engine with all its mechanisms, among engines with one switched off."""
MAX_SESSIONS = 1000

Commits = list[tuple[float, int]]
"""For one text, pairs of seconds since it began and the number of tokens verified then."""


@dataclass(frozen=True)
class Conditions:
    """The conditions of a text. Times are in steps of the usual server.

    `cloud_draft` and `exit` are in steps of the current server.
    """

    round_trip: float = 0.3
    agreement: float = 0.8
    draft: float = 0.3
    cloud_draft: float = 0.08
    server: float = 1.0
    exit: float = 0.02
    exits_right: float = 0.6

    @property
    def step_s(self) -> float:
        """Return the seconds of a step of the target."""
        return self.server * STEP_S

    @property
    def world(self) -> VirtualWorld:
        """Return the link and the times of the models."""
        compute = ComputeProfile(
            draft_prefill_s=0.0,
            draft_token_s=self.draft * STEP_S,
            target_prefill_s=0.0,
            verify_s=self.step_s,
            verify_token_s=0.01 * self.step_s,
            step_s=self.step_s,
            verify_exit_s=self.exit * self.step_s,
            step_exit_s=self.exit * self.step_s,
            cloud_draft_token_s=self.cloud_draft * self.step_s,
        )
        link = LinkProfile(self.round_trip * STEP_S / 2.0)
        return VirtualWorld(frame_bytes, compute, link, link)


USUAL = Conditions()
CHANGES: dict[str, Conditions] = {
    "round trip 3 ms": replace(USUAL, round_trip=0.03),
    "round trip 300 ms": replace(USUAL, round_trip=3.0),
    "server 3 times slower": replace(USUAL, server=3.0),
    "server 3 times faster": replace(USUAL, server=1.0 / 3.0),
    "exits 10 times dearer": replace(USUAL, exit=0.2),
    "exits sure and wrong": replace(USUAL, exits_right=0.0),
    "drafts 5 % right": replace(USUAL, agreement=0.05),
    "drafts 5 times slower": replace(USUAL, draft=1.5, cloud_draft=0.4),
    "drafts slow and 5 % right": replace(USUAL, agreement=0.05, draft=1.5, cloud_draft=0.4),
    "all, server slower": Conditions(3.0, 0.05, 1.5, 0.4, 3.0, 0.2, 0.0),
    "all, server faster": Conditions(3.0, 0.05, 1.5, 0.4, 1.0 / 3.0, 0.2, 0.0),
}
BACK = "back to the usual"


class ChangingPair:
    """A target and a draft that are right as often as the conditions `now` say."""

    def __init__(self) -> None:
        self.now = USUAL
        exits = ExitInfo(tuple(range(1, EXITS + 1)), EXITS + 1, torch.arange(FIRST_ID, VOCAB_SIZE))
        self.target = SyntheticModel(
            "target",
            certain_rows(),
            _right,
            exits,
            lambda place: [_choice(place, 1, self.now.exits_right)] * EXITS,
        )
        self.draft = SyntheticModel(
            "draft", certain_rows(), lambda place: _choice(place, 2, self.now.agreement)
        )


def _right(place: TextEnd) -> int:
    return place.digest % NUM_CHOICES


def _choice(place: TextEnd, salt: int, probability: float) -> int:
    """Return the target's choice with probability `probability`, else another token."""
    is_right = (place.digest // (NUM_CHOICES * 7**salt)) % 1000 < 1000 * probability
    return _right(place) if is_right else (_right(place) + 1) % NUM_CHOICES


def write_session(
    conditions: Iterable[Conditions],
    strategy: str,
    name: str = "text",
    cloud_drafts: bool = True,
    tuning: AdaptiveTuning = DEFAULT_TUNING,
) -> list[Commits]:
    """Return the commits of a session's texts, one under each of the conditions in turn.

    `name` selects other texts. `cloud_drafts`: whether the draft runs in the cloud, too.
    """
    pair = ChangingPair()
    config = DecodingConfig(strategy, silence_s=1e4, tuning=tuning)
    edge = None if strategy == "ar" else pair.draft
    cloud = pair.draft if cloud_drafts else None
    decoder = VirtualDecoder(pair.target, edge, config, USUAL.world, cloud_draft=cloud)
    texts = []
    for number, pair.now in enumerate(conditions):
        decoder.move_to(pair.now.world)
        request = DecodeRequest(Prompt(f"{name} {number}", b"\xff\xd8"), TEXT_TOKENS, DEADLINE_S)
        texts.append(_write(decoder, request))
    return texts


def _write(decoder: VirtualDecoder, request: DecodeRequest) -> Commits:
    commits: Commits = []
    start_s = decoder.now_s

    def on_verified(verified: Verified) -> None:
        commits.append((decoder.now_s - start_s, len(verified.token_ids)))

    decoder.decode(request, on_verified)
    return commits


def window_speeds(commits: Commits, step_s: float, after: int) -> list[float]:
    """Return the tokens per step of windows that begin with a commit, from `after` steps after the first on.

    `ar` writes one token per step.
    """
    begin_s, end_s = commits[0][0] + after * step_s, commits[-1][0]
    starts = [at_s for at_s, _ in commits if begin_s <= at_s <= end_s - WINDOW * step_s]
    return [
        sum(count for at_s, count in commits if start_s < at_s <= start_s + (WINDOW + 1e-6) * step_s) / WINDOW
        for start_s in starts
    ]


@dataclass(frozen=True)
class AfterChange:
    """Speeds over `ar` under one condition.

    `slowest`: the slowest settled window of all sessions. `median`: the median of each session's slowest.
    `share_below`: the share of settled windows below BOUND. `at_change`: the slowest of all windows,
    settled or not.
    """

    slowest: float
    median: float
    share_below: float
    at_change: float


def figures_after(texts: Sequence[Commits], step_s: float) -> AfterChange:
    """Return the figures of texts under one condition, from different sessions."""
    settled = [speeds for text in texts if (speeds := window_speeds(text, step_s, SETTLED))]
    every = [speed for speeds in settled for speed in speeds]
    return AfterChange(
        min(every, default=1.0),
        statistics.median(map(min, settled)) if settled else 1.0,
        sum(speed < BOUND for speed in every) / max(1, len(every)),
        min((speed for text in texts for speed in window_speeds(text, step_s, 0)), default=1.0),
    )


def measure_changes(
    sessions: int,
    seed: int,
    cloud_drafts: bool,
    tuning: AdaptiveTuning = DEFAULT_TUNING,
    changes: Mapping[str, Conditions] = CHANGES,
) -> dict[str, AfterChange]:
    """Return the figures of `outrider` after each change, and back under the usual conditions."""
    texts: dict[str, list[Commits]] = {name: [] for name in (*changes, BACK)}
    for number in range(sessions):
        order = list(changes)
        random.Random(f"changes/{seed}/{number}").shuffle(order)
        names = [BACK, *(name for change in order for name in (change, BACK))]
        conditions = [changes.get(name, USUAL) for name in names]
        written = write_session(conditions, "outrider", f"{seed}/{number}", cloud_drafts, tuning)
        for name, text in list(zip(names, written, strict=True))[1:]:
            texts[name].append(text)
    return {
        name: figures_after(session_texts, changes.get(name, USUAL).step_s)
        for name, session_texts in texts.items()
    }


def bench_changes(
    sessions: int,
    seed: int,
    ablate: Sequence[str] = (),
    json_file: Path | None = None,
    changes: Mapping[str, Conditions] = CHANGES,
) -> dict[str, Any]:
    """Measure with drafts at both ends and of the robot alone; print a table, write JSON as it goes.

    `ablate`: mechanisms to switch off in turn. `changes`: conditions by name. Raises ConfigError for
    numbers out of range or an unknown mechanism.
    """
    if not 1 <= sessions <= MAX_SESSIONS or seed < 0:
        raise ConfigError(f"changes={sessions} must be a number from 1 to {MAX_SESSIONS}, seed at least 0")
    tunings = {FULL: DEFAULT_TUNING}
    tunings |= {f"without {name}": DEFAULT_TUNING.without(name) for name in chosen_mechanisms(ablate)}
    result: dict[str, Any] = {"sessions": sessions, "seed": seed, "windows": {}}
    figures_by_run: dict[tuple[str, str], dict[str, AfterChange]] = {}
    runs = [(engine, drafts) for engine in tunings for drafts in DRAFTS]
    for engine, drafts in tracked(runs, "sessions"):
        after_change = measure_changes(sessions, seed, DRAFTS[drafts], tunings[engine], changes)
        figures_by_run[engine, drafts] = after_change
        as_json = {name: asdict(figures) for name, figures in after_change.items()}
        result["windows"].setdefault(engine, {})[drafts] = as_json
        write_figures(json_file, rounded(result))
    print_results(changes_table(figures_by_run))
    return result


DRAFTS = {"both ends": True, "robot": False}
"""Where drafts are made, and whether the cloud makes some."""
CHANGES_COLUMNS: Mapping[str, Callable[[AfterChange], str]] = {
    "slowest window": lambda one: f"{one.slowest:.2f}",
    "its median": lambda one: f"{one.median:.2f}",
    f"below {BOUND}": lambda one: f"{one.share_below:.1%}",
    "at the change": lambda one: f"{one.at_change:.2f}",
}


def changes_table(figures_by_run: Mapping[tuple[str, str], Mapping[str, AfterChange]]) -> Table:
    """Return a row for each condition, by engine and by where drafts are made."""
    table = results_table("windows after a change, over ar", "after", "engine", "drafts", *CHANGES_COLUMNS)
    for (engine, drafts), by_condition in figures_by_run.items():
        table.add_section()
        for name, figures in by_condition.items():
            table.add_row(name, engine, drafts, *cells_of(CHANGES_COLUMNS, figures))
    return table
