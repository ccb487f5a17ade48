# SPDX-License-Identifier: Apache-2.0
"""Runs one closed-loop episode in one process: simulated home, answerer, navigator and controller."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from outrider.core.errors import Cancelled
from outrider.core.language.actions import Motion, split_answer
from outrider.core.language.prompt import render_prompt
from outrider.core.ports import TextDecoder
from outrider.core.values import DecodeRequest, Odometry, Pose2D, Prompt, Sighting, Verified
from outrider.navigation.goal.exploring import ExploringDecoder
from outrider.navigation.goal.guide import LedDecoder
from outrider.navigation.goal.history import SearchHistory
from outrider.navigation.goal.navigator import Navigator, NavigatorSettings, Outcome
from outrider.navigation.motion.driving import carry_out
from outrider.navigation.sensing.floor_map import FloorMap
from outrider.simulation.expert import SearchedPlace, answer
from outrider.simulation.homes.floor_plans import Door
from outrider.simulation.homes.furnishing import HomeObject
from outrider.simulation.homes.home import Home, meant
from outrider.simulation.homes.vocabulary import DOOR_KIND, Wanted, wanted
from outrider.simulation.looks.styles import draw_look
from outrider.simulation.perception import Eyes
from outrider.simulation.simulator import Simulator, open_simulator

REACH_M = 1.2
FACING_RAD = math.radians(45)


class Answerer(Protocol):
    """Gives the text of a step: at least its action and phase lines."""

    def __call__(self, simulator: Simulator, navigator: Navigator) -> str: ...


@dataclass(frozen=True)
class EpisodeResult:
    """The result of an episode. `path_m` is the true path, `success` the evaluation's verdict.

    `standing_s` is the part of `duration_s` in which the robot stood still; None if the simulated clock
    stops while an answer is computed.
    """

    seed: int
    placement: str
    instruction: str
    outcome: str
    success: bool
    steps: int
    path_m: float
    collisions: int
    target_distance_m: float
    duration_s: float
    actions: tuple[str, ...] = field(default_factory=tuple)
    standing_s: float | None = None


def expert_answerer(simulator: Simulator) -> Answerer:
    """Returns the exploring expert, which sees what the camera sees."""
    eyes = Eyes(simulator)

    def ask(simulator: Simulator, navigator: Navigator) -> str:
        odometry = simulator.odometry()
        searched = searched_places(navigator.history, odometry.pose)
        return answer(eyes.look(simulator.segment_camera()), navigator.context(odometry), searched)

    return ask


def model_answerer(decoder: TextDecoder) -> Answerer:
    """Returns a model that gets the same prompt as on the robot. Decoding stops after action and phase."""

    def ask(simulator: Simulator, navigator: Navigator) -> str:
        context = navigator.context(simulator.odometry())
        return decode_action(decoder, Prompt(render_prompt(context), simulator.frame_jpeg()))

    return ask


def led_answerer(decoder: TextDecoder, simulator: Simulator, sightings: Sequence[Sighting]) -> Answerer:
    """Returns a model whose robot uses its own map where the model finds no way out.

    The map also leads around obstacles to the last of the `sightings`.
    """
    floor = FloorMap()
    odometry = mapped(simulator, floor)
    led: TextDecoder = ExploringDecoder(decoder, floor, odometry)
    return model_answerer(LedDecoder(led, floor, sightings[-1], odometry) if sightings else led)


def mapped(simulator: Simulator, floor: FloorMap) -> Callable[[], Odometry]:
    """Returns a function that gives the robot's odometry and adds the current scan to `floor`."""

    def see() -> Odometry:
        odometry = simulator.odometry()
        floor.see(odometry.pose, simulator.scan())
        return odometry

    return see


def decode_action(decoder: TextDecoder, prompt: Prompt, max_new_tokens: int = 96) -> str:
    """Returns the text for a prompt; decoding stops once action and phase are verified."""
    seen: list[str] = [""]

    def on_verified(verified: Verified) -> None:
        seen[0] = verified.text

    try:
        request = DecodeRequest(prompt, max_new_tokens)
        return decoder.decode(request, on_verified, lambda: bool(split_answer(seen[0]).phase)).text
    except Cancelled:
        return seen[0]


def run_episode(
    home: Home,
    instruction: str,
    make_answerer: Callable[[Simulator], Answerer],
    settings: NavigatorSettings,
    odometry_noise: float,
    sightings: Sequence[Sighting] = (),
    legs: bool = False,
    look: str = "plain",
) -> EpisodeResult:
    """Run one goal to its end. The simulated clock stands still while an answer is computed.

    `sightings` come from memory for this goal. With `legs` the robot walks. `look` is one of `LOOKS`.
    """
    simulator = open_simulator(home, home.seed, odometry_noise, legs, draw_look(look, home.seed))
    try:
        return _run(simulator, home, instruction, make_answerer(simulator), settings, sightings)
    finally:
        simulator.close()


def _run(
    simulator: Simulator,
    home: Home,
    instruction: str,
    ask: Answerer,
    settings: NavigatorSettings,
    sightings: Sequence[Sighting],
) -> EpisodeResult:
    navigator = Navigator(instruction, settings, simulator.odometry())
    navigator.history.recall(sightings)
    path = TruePath(simulator)
    actions: list[str] = []
    while navigator.outcome is None:
        key = navigator.begin_step(simulator.time_s)
        text = ask(simulator, navigator)
        motion = navigator.on_verified(key, text, simulator.time_s)
        motion = motion or navigator.on_finished(key, text, simulator.time_s) or Motion()
        carry_out(simulator, motion, on_tick=path.extend)
        navigator.on_finished(key, text, simulator.time_s)
        navigator.on_moved(key, simulator.odometry())
        navigator.check_time(simulator.time_s)
        actions.append(text.partition("\n")[0])
    pose = simulator.truth()
    return EpisodeResult(
        seed=home.seed,
        placement=home.placement,
        instruction=instruction,
        outcome=navigator.outcome.value,
        success=navigator.outcome is Outcome.ARRIVED
        and has_reached(home, wanted_in(instruction, home), pose),
        steps=navigator.steps_taken,
        path_m=path.length_m,
        collisions=simulator.collisions,
        target_distance_m=home.target.distance_m(pose.x, pose.y),
        duration_s=simulator.time_s,
        actions=tuple(actions),
    )


def has_reached(home: Home, goal: Wanted, pose: Pose2D) -> bool:
    """Whether the robot has reached the goal: it stands at the wanted door or thing, or in the wanted room.

    For a thing see `stands_at`.
    """
    if goal.thing.kind == DOOR_KIND:
        return any(_stands_before(door, pose) for door in home.doors)
    things = meant(home, goal)
    if goal.room:
        return any(home.rooms[thing.room].holds(pose.x, pose.y) for thing in things)
    return any(stands_at(home, pose, thing) for thing in things)


def _stands_before(door: Door, pose: Pose2D) -> bool:
    return pose.distance_to(door.x, door.y) <= REACH_M and abs(pose.bearing_to(door.x, door.y)) <= FACING_RAD


def stands_at(home: Home, pose: Pose2D, target: HomeObject) -> bool:
    """Whether the robot is within reach of a thing, faces it, and faces nothing nearer.

    Reach is REACH_M by `HomeObject.distance_m`, with a clear line of sight. Things at the side or behind do
    not count.
    """
    faced = [thing for thing in home.objects if abs(pose.bearing_to(thing.x, thing.y)) <= FACING_RAD]
    nearest = min(faced, key=lambda thing: thing.distance_m(pose.x, pose.y), default=None)
    in_reach = target.distance_m(pose.x, pose.y) <= REACH_M
    return nearest is target and in_reach and home.sees_thing(pose.x, pose.y, target)


def wanted_in(instruction: str, home: Home) -> Wanted:
    """Returns what an instruction asks for; the home's target if it names no thing."""
    return wanted(instruction) or Wanted(home.target.spec.thing)


class TruePath:
    """Measures the length of the true path."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._last = simulator.truth()
        self.length_m = 0.0

    def extend(self) -> None:
        """Add the distance to the robot's current pose."""
        pose = self._simulator.truth()
        self.length_m += math.hypot(pose.x - self._last.x, pose.y - self._last.y)
        self._last = pose


def searched_places(history: SearchHistory, pose: Pose2D) -> tuple[SearchedPlace, ...]:
    """Returns the exact positions of the searched places in the history's prompt."""
    return tuple(
        SearchedPlace(pose.bearing_to(x, y), pose.distance_to(x, y)) for x, y in history.remembered(pose)
    )
