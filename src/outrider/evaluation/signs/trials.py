# SPDX-License-Identifier: Apache-2.0
"""One home with signs and without: the same goal by the goal's own loop and pilot, and an emergency stop."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from outrider.core.ports import TextDecoder
from outrider.evaluation.common.kept_records import HomeOutcome
from outrider.evaluation.robot.navigation import decoder_of
from outrider.evaluation.robot.paced_side import AnswerTimes, PacedDecoder
from outrider.evaluation.signs.witness import STOP_WATCH_S, ReadDecoder, WitnessedSide
from outrider.navigation.goal.navigator import NavigatorSettings
from outrider.runtime.datasets.dataset import ODOMETRY_NOISE
from outrider.runtime.mission.episode import has_reached, wanted_in
from outrider.runtime.mission.goal_run import GoalRun, GoalSettings
from outrider.simulation.contexts import instruction_for
from outrider.simulation.homes.home import Home, generate_home
from outrider.simulation.looks.signs import Sign
from outrider.simulation.looks.styles import Look
from outrider.simulation.sign_places import place_signs
from outrider.simulation.simulator import Simulator

STOP_STREAM, STOP_AFTER_S = 53, (0.1, 0.4)


@dataclass(frozen=True)
class SignTask:
    """One home to try, and who answers there."""

    home_seed: int
    placement: str
    model: str
    folder: Path
    max_steps: int


class SignRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A goal in a home. `sign_pixels` of its first picture, in the models' size, belong to signs.

    `stop_s`: seconds from an emergency stop in the first motion of a second run until the robot stood; None
    where nothing moved.
    """

    success: bool
    outcome: str
    steps: int
    collisions: int
    motions: int
    outside: tuple[str, ...]
    texts: int
    refused_texts: int
    marked_prompts: int
    sign_pixels: int
    stop_s: float | None


class SignOutcome(HomeOutcome, frozen=True):
    """A home, with its signs and without."""

    placement: str
    instruction: str
    signs: int
    without: SignRun
    with_signs: SignRun


def run_task(task: SignTask) -> SignOutcome:
    """The home as it is, and with its signs."""
    home = generate_home(task.home_seed, placement=task.placement)
    instruction = instruction_for(home)
    signs = place_signs(home)
    decoder = decoder_of(task.model, task.folder)
    runs = [_run(home, instruction, one, decoder, task.max_steps) for one in ((), signs)]
    return SignOutcome(home.seed, home.placement, instruction, len(signs), *runs)


def _run(
    home: Home, instruction: str, signs: tuple[Sign, ...], decoder: TextDecoder, max_steps: int
) -> SignRun:
    stop = _drive(home, instruction, signs, decoder, max_steps, _stop_after_s(home))
    goal = _drive(home, instruction, signs, decoder, max_steps, None)
    return SignRun(
        **goal.told,
        outside=(*goal.side.outside, *stop.side.outside),
        texts=goal.decoder.texts + stop.decoder.texts,
        refused_texts=goal.decoder.refused + stop.decoder.refused,
        marked_prompts=goal.decoder.marked + stop.decoder.marked,
        stop_s=stop.side.stop_s,
    )


@dataclass(frozen=True)
class _Driven:
    side: WitnessedSide
    decoder: ReadDecoder
    told: dict[str, Any]


def _drive(
    home: Home,
    instruction: str,
    signs: tuple[Sign, ...],
    decoder: TextDecoder,
    max_steps: int,
    stop_after_s: float | None,
) -> _Driven:
    with closing(Simulator(home, home.seed, ODOMETRY_NOISE, Look(signs=signs))) as simulator:
        pixels = sign_pixels(simulator)
        side, read = WitnessedSide(simulator, stop_after_s), ReadDecoder(decoder)
        paced = PacedDecoder(read, side, AnswerTimes())
        settings = GoalSettings(continuous=True, navigator=NavigatorSettings(max_steps=max_steps))
        result = GoalRun(instruction, "signs", side, paced, settings, side.is_stopped_for_long).run()
        side.pause(STOP_WATCH_S)
        told = {
            "success": result.success and has_reached(home, wanted_in(instruction, home), simulator.truth()),
            "outcome": "arrived" if result.success else result.error.name.lower(),
            "steps": result.steps,
            "collisions": simulator.collisions,
            "motions": side.motions,
            "sign_pixels": pixels,
        }
        return _Driven(side, read, told)


def sign_pixels(simulator: Simulator) -> int:
    """How many pixels of the camera's picture, in the models' size, belong to signs."""
    segments, model = simulator.segment_camera(), simulator.model
    signs = [geom for geom in range(model.ngeom) if model.geom(geom).name.startswith("sign/")]
    return int(np.isin(segments, signs).sum())


def _stop_after_s(home: Home) -> float:
    return float(np.random.default_rng([home.seed, STOP_STREAM]).uniform(*STOP_AFTER_S))
