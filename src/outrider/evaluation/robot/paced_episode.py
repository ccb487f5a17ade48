# SPDX-License-Identifier: Apache-2.0
"""One closed-loop episode by the goal's own loop and pilot, with answers that take their time."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from outrider.core.ports import TextDecoder
from outrider.evaluation.robot.paced_side import AnswerTimes, PacedDecoder, PacedSide
from outrider.navigation.goal.exploring import ExploringDecoder
from outrider.navigation.goal.navigator import NavigatorSettings
from outrider.navigation.sensing.floor_map import FloorMap
from outrider.runtime.mission.episode import EpisodeResult, TruePath, has_reached, mapped, wanted_in
from outrider.runtime.mission.goal_run import GoalRun, GoalSettings
from outrider.simulation.homes.home import Home
from outrider.simulation.looks.styles import draw_look
from outrider.simulation.simulator import open_simulator


@dataclass(frozen=True)
class Pace:
    """How the robot moves, and how long answers take. `continuous` as in `GoalSettings`."""

    continuous: bool
    times: AnswerTimes


def run_paced_episode(
    home: Home,
    instruction: str,
    decoder: TextDecoder,
    settings: NavigatorSettings,
    odometry_noise: float,
    pace: Pace,
    legs: bool = False,
    look: str = "plain",
) -> EpisodeResult:
    """Run one goal to its end; the simulated clock goes on while a text is decoded."""
    seen = draw_look(look, home.seed)
    with closing(open_simulator(home, home.seed, odometry_noise, legs, seen)) as simulator:
        path = TruePath(simulator)
        side = PacedSide(simulator, path.extend)
        floor = FloorMap()
        exploring = ExploringDecoder(decoder, floor, mapped(simulator, floor))
        paced = PacedDecoder(exploring, side, pace.times)
        goal = GoalSettings(continuous=pace.continuous, navigator=settings)
        began_s = side.now_s()
        result = GoalRun(instruction, "episode", side, paced, goal, lambda: False).run()
        pose = simulator.truth()
        return EpisodeResult(
            seed=home.seed,
            placement=home.placement,
            instruction=instruction,
            outcome="arrived" if result.success else result.error.name.lower(),
            success=result.success and has_reached(home, wanted_in(instruction, home), pose),
            steps=result.steps,
            path_m=path.length_m,
            collisions=simulator.collisions,
            target_distance_m=home.target.distance_m(pose.x, pose.y),
            duration_s=side.now_s() - began_s,
            actions=paced.actions,
            standing_s=side.standing_s,
        )
