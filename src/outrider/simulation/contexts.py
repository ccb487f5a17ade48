# SPDX-License-Identifier: Apache-2.0
"""Made-up but consistent prompt contexts for a view: they cover states that a closed loop rarely reaches.

The expert's answer depends only on the view and the prompt, so any consistent context is a lesson.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from outrider.core.language.actions import SIZES
from outrider.core.language.grammar import COMMANDS
from outrider.core.language.prompt import (
    HISTORY_STEPS,
    MEMORY_SLOTS,
    PromptContext,
    Step,
    searched_place_memory,
    seen_memory,
)
from outrider.core.language.words.things import SIDES, Thing
from outrider.core.values import Pose2D, Sighting
from outrider.simulation.expert import FULL_TURN_DEG, OTHER_SIDE_ACTION, SCAN_ACTION, SearchedPlace
from outrider.simulation.homes.home import Home, meant, sees_in_camera
from outrider.simulation.homes.vocabulary import (
    COLOURS,
    DOOR_KIND,
    FURNITURE_KINDS,
    KINDS,
    ObjectSpec,
    Wanted,
    vocabulary,
)
from outrider.simulation.perception import View

COMMAND_SHARE = 0.05
HERE_M = 1.2
MODES = ("start", "search", "leave", "door", "enter", "entered", "approach", "roam")
MODE_WEIGHTS = (0.08, 0.31, 0.22, 0.16, 0.06, 0.07, 0.07, 0.03)
RECALL_SHARE = 0.4
RECALL_MODES = ("start", "recall", "look", "leave", "door", "enter", "entered")
RECALL_MODE_WEIGHTS = (0.2, 0.32, 0.16, 0.08, 0.12, 0.04, 0.08)
PLACE_NOISE_M = 0.25
FALSE_SHARE, OTHERS_SHARE = 0.15, 0.25
MAX_SEARCHED = 3
_OTHER_SIZE = {"small": "large", "large": "small"}
BARE_SHARE, SIZE_SHARE, SIDE_SHARE = 0.25, 0.6, 0.15
ROOM_SHARE, FURNITURE_ROOM_SHARE, DOOR_SHARE = 0.03, 0.3, 0.02
"""Shares of targets: without a colour; by size or side, if unambiguous; by their room; doors."""
VOCABULARY = vocabulary()


@dataclass(frozen=True)
class Lesson:
    """The input of the expert's answer: the prompt's context and the exact places behind its memories."""

    context: PromptContext
    searched: tuple[SearchedPlace, ...]


def make_lesson(rng: np.random.Generator, home: Home, pose: Pose2D, view: View) -> Lesson:
    """Returns a made-up task with a made-up past, at a real pose."""
    if rng.random() < COMMAND_SHARE:
        return _command_lesson(rng)
    recalls = rng.random() < RECALL_SHARE
    target = _pick_known_target(rng, home) if recalls else _pick_target(rng, view)
    seen = sighting_lines(make_sightings(rng, home, target), pose) if recalls else ()
    modes, weights = (RECALL_MODES, RECALL_MODE_WEIGHTS) if recalls else (MODES, MODE_WEIGHTS)
    mode = str(rng.choice(modes, p=weights))
    steps, turned = _past(rng, mode)
    searched = _searched_places(rng, home, pose, mode)[: MEMORY_SLOTS - len(seen)]
    lines = (*(searched_place_memory(p.bearing_rad, p.distance_m) for p in searched), *seen)
    return Lesson(PromptContext(phrase(rng, target), steps[-HISTORY_STEPS:], turned, lines), searched)


def make_sightings(rng: np.random.Generator, home: Home, target: Wanted) -> tuple[Sighting, ...]:
    """Returns sightings for a task: mostly the target's place, else a stale one, at times another thing's."""
    spec = _some_spec(rng, home, target)
    lines = [_place_of(rng, home, spec) if rng.random() > FALSE_SHARE else _stale(rng, home, spec)]
    if rng.random() < OTHERS_SHARE:
        other = home.objects[int(rng.integers(len(home.objects)))].spec
        lines.insert(int(rng.integers(2)), _place_of(rng, home, other))
        if rng.random() < 0.5:
            lines = [line for line in lines if line.what != spec.phrase]
    return tuple(lines)


def _some_spec(rng: np.random.Generator, home: Home, target: Wanted) -> ObjectSpec:
    """Returns a thing that memory may give for a target: a fitting one of the home, else any fitting one."""
    fitting = [thing.spec for thing in home.objects if target.fits(thing.spec)]
    if fitting:
        return fitting[int(rng.integers(len(fitting)))]
    return ObjectSpec(target.thing.kind, target.thing.colour)


def sighting_lines(sightings: tuple[Sighting, ...], pose: Pose2D) -> tuple[str, ...]:
    """Returns the memory lines for a robot at `pose`, without things near it, as in the history's prompt."""
    away = [s for s in sightings if pose.distance_to(s.x, s.y) > HERE_M]
    return tuple(seen_memory(s.what, pose.bearing_to(s.x, s.y), pose.distance_to(s.x, s.y)) for s in away)


def true_sighting(rng: np.random.Generator, home: Home, spec: ObjectSpec) -> Sighting | None:
    """Returns a thing's place with noise, as from an earlier visit; None if the home has no such thing."""
    thing = next((thing for thing in home.objects if thing.spec == spec), None)
    if thing is None:
        return None
    dx, dy = rng.normal(0.0, PLACE_NOISE_M, 2)
    return Sighting(spec.phrase, thing.x + float(dx), thing.y + float(dy))


def _place_of(rng: np.random.Generator, home: Home, spec: ObjectSpec) -> Sighting:
    return true_sighting(rng, home, spec) or _stale(rng, home, spec)


def _stale(rng: np.random.Generator, home: Home, spec: ObjectSpec) -> Sighting:
    """Returns a random place, where the thing most likely is not."""
    room = home.rooms[int(rng.integers(len(home.rooms)))]
    x, y = rng.uniform(room.x0 + 0.6, room.x1 - 0.6), rng.uniform(room.y0 + 0.6, room.y1 - 0.6)
    return Sighting(spec.phrase, float(x), float(y))


def _pick_known_target(rng: np.random.Generator, home: Home) -> Wanted:
    if rng.random() < 0.1:
        return _named(rng, _any_spec(rng))
    return _named(rng, home.objects[int(rng.integers(len(home.objects)))].spec)


def target_of_home(rng: np.random.Generator, home: Home) -> Wanted:
    """Returns one way to ask for the home's target, such as by its side if there are two of a kind."""
    spec = home.target.spec
    if rng.random() < SIDE_SHARE:
        for side in SIDES:
            goal = Wanted(Thing(spec.kind, str(rng.choice(["", spec.colour])), side=side))
            rivals = [o for o in home.objects if goal.fits(o.spec) and sees_in_camera(home, home.start, o)]
            if len(rivals) > 1 and home.target in meant(home, goal):
                return goal
    return _named(rng, spec)


def instruction_for(home: Home) -> str:
    """Returns the instruction of an evaluation in a home: always the same one."""
    rng = np.random.default_rng([home.seed, 3])
    return phrase(rng, target_of_home(rng, home))


def _named(rng: np.random.Generator, spec: ObjectSpec) -> Wanted:
    """Returns a thing by kind and mostly colour, by size if it is one of two, or by the room it is in."""
    size = spec.size if rng.random() < SIZE_SHARE else ""
    bare = not spec.colour or (not size and rng.random() < BARE_SHARE)
    furniture = spec.kind in FURNITURE_KINDS
    room = not size and rng.random() < (FURNITURE_ROOM_SHARE if furniture else ROOM_SHARE)
    return Wanted(Thing(spec.kind, "" if bare else spec.colour, size), room)


def phrase(rng: np.random.Generator, target: Wanted) -> str:
    """Returns an instruction for a target, in one of many phrasings."""
    if not target.room and rng.random() < 0.25:
        return f"find the {target.phrase}"
    return str(rng.choice(VOCABULARY.phrasings(target.thing.shape, target.room))).format(target.phrase)


def _pick_target(rng: np.random.Generator, view: View) -> Wanted:
    draw = rng.random()
    if draw < DOOR_SHARE:
        return Wanted(Thing(DOOR_KIND))
    if view.objects and draw < 0.5:
        return _side_or_name(rng, view)
    if view.objects and draw < 0.85:
        near = view.objects[int(rng.integers(len(view.objects)))].spec
        if near.size and rng.random() < 0.5:
            return Wanted(Thing(near.kind, near.colour, _OTHER_SIZE[near.size]))
        if rng.random() < 0.5:
            return _named(rng, ObjectSpec(near.kind, str(rng.choice(COLOURS))))
        return _named(rng, ObjectSpec(_any_spec(rng).kind, near.colour))
    return _named(rng, _any_spec(rng))


def _side_or_name(rng: np.random.Generator, view: View) -> Wanted:
    """Returns a thing in view, by its side if there are two of its kind."""
    spec = view.objects[int(rng.integers(len(view.objects)))].spec
    alike = [thing for thing in view.objects if thing.spec.kind == spec.kind]
    if len(alike) > 1 and rng.random() < 0.6:
        colour = spec.colour if all(thing.spec.colour == spec.colour for thing in alike) else ""
        return Wanted(Thing(spec.kind, colour, side=str(rng.choice(SIDES))))
    return _named(rng, spec)


def _any_spec(rng: np.random.Generator) -> ObjectSpec:
    """Returns a thing that need not be in the home."""
    kind = str(rng.choice(KINDS[: KINDS.index(DOOR_KIND)]))
    return ObjectSpec(kind, str(rng.choice(COLOURS)))


def _command_lesson(rng: np.random.Generator) -> Lesson:
    steps: tuple[Step, ...] = ()
    command = str(rng.choice(COMMANDS))
    if rng.random() < 0.4:
        side = "left" if "left" in command else "right"
        steps = (Step("obey", f"turn {side} medium" if "turn" in command else "move forward medium"),)
    return Lesson(PromptContext(command, steps), ())


def _past(rng: np.random.Generator, mode: str) -> tuple[tuple[Step, ...], int]:
    """Returns steps (newest last) and degrees turned in place that fit a mode of the expert."""
    scan = Step("search", SCAN_ACTION)
    odd = int(rng.choice([0, 0, 0, 15, 30]))
    older = tuple(_any_step(rng) for _ in range(int(rng.integers(0, HISTORY_STEPS + 1))))
    if mode == "start":
        return (), 0
    if mode == "search":
        count = int(rng.integers(0, 8))
        return (*older, *(scan,) * count), min(45 * count + odd, FULL_TURN_DEG - 15)
    if mode == "recall":
        return _recalled_past(rng, older)
    if mode == "look":
        count, before = int(rng.integers(0, 6)), 45 * int(rng.integers(0, 4))
        look = (Step("door", OTHER_SIDE_ACTION), *(Step("door", SCAN_ACTION),) * count)
        return (*older, *look), before + 45 + (45 * count - 22 if count else 0)
    if mode == "leave":
        count = int(rng.integers(0, 10)) if rng.random() < 0.75 else int(rng.integers(8, 20))
        steps = (*(scan,) * HISTORY_STEPS, *(Step("door", SCAN_ACTION),) * count)
        return steps, FULL_TURN_DEG + 45 * count + odd
    if mode == "door":
        return (*older, *_door_steps(rng)), int(rng.choice([0, 0, 0, 15, 30, 45, 90, 135]))
    if mode == "roam":
        return (*older, Step("roam", _any_move(rng))), 0
    enter = Step("enter", "move forward large")
    if mode == "enter":
        return (*older, *_door_steps(rng), enter), 0
    if mode == "entered":
        return (*older, *_door_steps(rng)[:1], enter, enter), 0
    if rng.random() < 0.5:
        turn = int(rng.integers(3))
        side = rng.choice(["left", "right"])
        return (*older, Step("approach", f"turn {side} {SIZES[turn]}")), 15 * (turn + 1)
    return (*older, Step("approach", _any_move(rng))), 0


def _recalled_past(rng: np.random.Generator, older: tuple[Step, ...]) -> tuple[tuple[Step, ...], int]:
    """Returns some turns towards a remembered place, or moves ahead to it."""
    count = int(rng.integers(1, HISTORY_STEPS + 1))
    if rng.random() < 0.5:
        turn = f"turn {rng.choice(['left', 'right'])} large"
        return (*older, *(Step("recall", turn),) * count), 45 * count
    return (*older, *(Step("recall", _any_move(rng)) for _ in range(count))), 0


def _any_move(rng: np.random.Generator) -> str:
    return f"move forward {rng.choice(['small', 'medium', 'large'])}"


def _any_step(rng: np.random.Generator) -> Step:
    turn = f"turn {rng.choice(['left', 'right'])} {rng.choice(['small', 'medium', 'large'])}"
    phase = str(rng.choice(["search", "approach", "door"]))
    return Step(phase, turn if rng.random() < 0.6 else _any_move(rng))


def _door_steps(rng: np.random.Generator) -> tuple[Step, ...]:
    count = int(rng.integers(1, HISTORY_STEPS + 1))
    turns = [f"turn {side} small" for side in ("left", "right")]
    return tuple(
        Step("door", str(rng.choice(turns)) if rng.random() < 0.25 else _any_move(rng)) for _ in range(count)
    )


def _searched_places(
    rng: np.random.Generator, home: Home, pose: Pose2D, mode: str
) -> tuple[SearchedPlace, ...]:
    """Returns places in the home, without those near enough to be 'here', as in the prompt."""
    least = 1 if mode in ("door", "enter", "entered") else 0
    places = []
    for _ in range(int(rng.integers(least, MAX_SEARCHED + 1))):
        room = home.rooms[int(rng.integers(len(home.rooms)))]
        x, y = rng.uniform(room.x0 + 0.8, room.x1 - 0.8), rng.uniform(room.y0 + 0.8, room.y1 - 0.8)
        if pose.distance_to(x, y) > HERE_M:
            places.append(SearchedPlace(pose.bearing_to(x, y), pose.distance_to(x, y)))
    return tuple(places)


def random_pose(rng: np.random.Generator, home: Home) -> Pose2D:
    """Returns a free pose anywhere; most of them face an object or a door not far away."""
    for _ in range(200):
        room = home.rooms[int(rng.integers(len(home.rooms)))]
        x, y = (
            float(rng.uniform(room.x0 + 0.5, room.x1 - 0.5)),
            float(rng.uniform(room.y0 + 0.5, room.y1 - 0.5)),
        )
        if any(piece.is_within(0.4, x, y) for piece in home.objects):
            continue
        if any(math.hypot(o.x - x, o.y - y) < o.radius + 0.45 for o in home.standing):
            continue
        yaw = float(rng.uniform(-math.pi, math.pi))
        landmarks = [*((o.x, o.y) for o in home.objects), *((d.x, d.y) for d in home.doors)]
        places = [(px, py) for px, py in landmarks if 0.7 < math.hypot(px - x, py - y) < 4.5]
        if places and rng.random() < 0.6:
            px, py = places[int(rng.integers(len(places)))]
            yaw = math.atan2(py - y, px - x) + float(rng.normal(0.0, math.radians(18)))
        return Pose2D(x, y, yaw)
    return home.start
