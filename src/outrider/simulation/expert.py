# SPDX-License-Identifier: Apache-2.0
"""The exploring expert that models imitate: an action and a reason from the view and the prompt.

It never sees through walls. Its phases: search (turn on the spot), recall (face and approach the place
where the target was seen before), door (head for a way out of a searched place, or towards a remembered one
behind a wall), enter (pass through it), roam (move where it is free, once no way out is seen), approach,
arrived; obey and done for plain motion commands. Everything it uses besides the view is in the prompt too,
so a model can imitate it exactly.

The reason names the things in view with their places ("left 20 at 2.3 m": degrees to the nearest five,
decimetres), and the look-alikes that it rules out, with the cause.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from outrider.core.language.actions import STOP
from outrider.core.language.prompt import (
    PromptContext,
    SeenMemory,
    direction_words,
    metres_words,
    read_seen_memory,
    shown_turn,
)
from outrider.core.language.words.things import may_be
from outrider.core.values import wrap_angle
from outrider.simulation.homes.vocabulary import DOOR_KIND, ObjectSpec, Wanted, wanted
from outrider.simulation.perception import SeenDoor, SeenObject, View

STOP_DISTANCE_M = 1.0
ROOM_DISTANCE_M = 2.6
"""The distance from a thing whose room is asked for."""
FULL_TURN_DEG = 360
ENTER_STEPS = 2
ENTER_DISTANCE_M = 0.95
SCAN_ACTION, OTHER_SIDE_ACTION = "turn left large", "turn right large"
FAR_M, ROAM_M, ROAM_ON_M, ROOM_AHEAD_M = 4.5, 1.5, 1.3, 0.6
BEHIND_M, BESIDE_M = 0.5, 1.15
DETOUR_M = 2.5
BEARING_STEP_DEG = 5
MAX_THINGS = 3
FEW_THINGS = 2


@dataclass(frozen=True)
class SearchedPlace:
    """A place that was already searched, relative to the robot."""

    bearing_rad: float
    distance_m: float


def answer(view: View, context: PromptContext, searched: tuple[SearchedPlace, ...]) -> str:
    """Returns the expert's whole text for one step."""
    target = wanted(context.instruction)
    if target is None:
        return _obey(view, context)
    seen = _nearest_door(view) if target.thing.kind == DOOR_KIND else view.find(target)
    if seen is not None:
        return _approach(view, target, seen)
    return _explore(view, target, context, searched)


def _nearest_door(view: View) -> SeenObject | None:
    """Returns the nearest door in view, as a thing to find."""
    if not view.doors:
        return None
    door = view.doors[0]
    return SeenObject(ObjectSpec(DOOR_KIND), door.bearing_rad, door.distance_m, 0)


def _approach(view: View, target: Wanted, seen: SeenObject) -> str:
    found = f"{seen.spec.phrase} {_spot(seen)}"
    listed = _listed(view, _things(view, target, MAX_THINGS - 1, seen))
    if target.room and seen.same_room and seen.distance_m <= ROOM_DISTANCE_M:
        return f"{STOP}\narrived: {found}, in this room{listed}."
    if seen.distance_m <= STOP_DISTANCE_M and abs(seen.bearing_rad) <= math.radians(26):
        return f"{STOP}\narrived: {found}, within reach{listed}."
    action = turn_action(seen.bearing_rad) or forward_action(seen.distance_m - STOP_DISTANCE_M + 0.12)
    return f"{action}\napproach: {found}{listed}."


def _explore(view: View, target: Wanted, context: PromptContext, searched: tuple[SearchedPlace, ...]) -> str:
    if (
        context.steps
        and context.steps[-1].phase == "approach"
        and context.steps[-1].action.startswith("turn")
    ):
        scene = _listed(view, _things(view, target) + _doors(view, searched)[:1])
        return f"move forward medium\napproach: lost sight of {target.phrase}, moving closer{scene}."
    entered = _trailing(context, "enter")
    if 0 < entered < ENTER_STEPS:
        return _enter(view, target)
    turned = shown_turn(context.turned_deg)
    place = _remembered(target, context)
    leaving = _last_phase(context) in ("door", "roam") or turned >= FULL_TURN_DEG
    if not leaving and place is None:
        seen = _listed(view, _things(view, target) + _doors(view, searched)[:1])
        return f"{SCAN_ACTION}\nsearch: no {target.phrase}{seen}."
    if not leaving and place is not None and not _behind_wall(view, place):
        return _recall(view, target, place, searched)
    doors = _ways(view, context, searched, place)
    if not doors:
        seen = _listed(view, _doors(view, searched)[:1] + _things(view, target))
        if view.free_m[1] >= _least_free_m(context):
            return f"{forward_action(view.free_m[1] - ROOM_AHEAD_M)}\nroam: no way out, but free ahead{seen}."
        scan = SCAN_ACTION if leaving else OTHER_SIDE_ACTION
        return f"{scan}\ndoor: no way out{seen}."
    return _to_door(min(doors, key=lambda d: _door_cost(d, place)), view, target, searched)


def _least_free_m(context: PromptContext) -> float:
    """Returns the free distance ahead that allows roaming without a door in view.

    It is finite if the robot already roams, or has turned all around two or three times.
    """
    if _walks(context, "roam"):
        return ROAM_ON_M
    turns = shown_turn(context.turned_deg) // FULL_TURN_DEG
    return {2: FAR_M, 3: ROAM_M}.get(turns, math.inf)


def _remembered(target: Wanted, context: PromptContext) -> SeenMemory | None:
    """Returns the newest memory of the target's place."""
    seen = [read_seen_memory(line) for line in reversed(context.memories)]
    return next((place for place in seen if place is not None and may_be(place.what, target.phrase)), None)


def _faces(place: SeenMemory) -> bool:
    return place.bearing_rad == 0.0


def _behind_wall(view: View, place: SeenMemory) -> bool:
    """Whether the free distance ahead ends well short of the place."""
    return _faces(place) and view.free_m[1] < place.distance_m - BEHIND_M


def _recall(view: View, target: Wanted, place: SeenMemory, searched: tuple[SearchedPlace, ...]) -> str:
    """Returns the step to a remembered place: face it, then approach it.

    If nothing is found there, the search goes on.
    """
    size = "small" if abs(place.bearing_rad) < math.radians(22) else "large"
    turn = f"turn {_side(place.bearing_rad)} {size}"
    action = forward_action(place.distance_m - STOP_DISTANCE_M + 0.12) if _faces(place) else turn
    where = f"{direction_words(place.bearing_rad)} {metres_words(place.distance_m)}"
    seen = _listed(view, _things(view, target, FEW_THINGS) + _doors(view, searched)[:1])
    return f"{action}\nrecall: {place.what} was {where}{seen}."


def _ways(
    view: View, context: PromptContext, searched: tuple[SearchedPlace, ...], place: SeenMemory | None
) -> tuple[SeenDoor, ...]:
    """Returns the doors to leave by.

    With a remembered place only those towards it, until all around is seen.
    """
    turned = shown_turn(context.turned_deg)
    if turned >= 2 * FULL_TURN_DEG:
        return view.doors
    fresh = _fresh(view.doors, searched)
    if place is None or _walks(context, "door") or turned >= FULL_TURN_DEG:
        return fresh
    return tuple(d for d in fresh if d.distance_m + _onward(d, place) <= place.distance_m + DETOUR_M)


def _walks(context: PromptContext, phase: str) -> bool:
    """Whether the last step moved in a phase, such as towards a chosen door, and was not a look around."""
    return _last_phase(context) == phase and context.steps[-1].action not in (SCAN_ACTION, OTHER_SIDE_ACTION)


def _onward(door: SeenDoor, place: SeenMemory) -> float:
    """Returns metres from a door to a remembered place."""
    apart = math.cos(door.bearing_rad - place.bearing_rad)
    square = door.distance_m**2 + place.distance_m**2 - 2 * door.distance_m * place.distance_m * apart
    return math.sqrt(max(0.0, square))


def _to_door(door: SeenDoor, view: View, target: Wanted, searched: tuple[SearchedPlace, ...]) -> str:
    at_door = door.distance_m <= ENTER_DISTANCE_M and abs(door.bearing_rad) <= math.radians(24)
    if at_door and abs(door.bearing_rad) <= math.radians(13):
        return _enter(view, target)
    if at_door:
        action = f"turn {_side(door.bearing_rad)} small"
    else:
        ahead = forward_action(door.distance_m - ENTER_DISTANCE_M + 0.25)
        action = turn_action(door.bearing_rad) or ahead
    listed = _doors(view, searched, chosen=door)[:1] + _things(view, target, MAX_THINGS - 1)
    return f"{action}\ndoor: way out {_spot(door)}{_listed(view, listed)}."


def _enter(view: View, target: Wanted) -> str:
    seen = _listed(view, _things(view, target))
    return f"move forward large\nenter: passing to look for {target.phrase}{seen}."


def _fresh(doors: tuple[SeenDoor, ...], searched: tuple[SearchedPlace, ...]) -> tuple[SeenDoor, ...]:
    """Returns the doors that do not lead to a searched place."""
    return tuple(d for d in doors if not any(_leads_to(d, place) for place in searched))


def _leads_to(door: SeenDoor, place: SearchedPlace) -> bool:
    apart = abs(wrap_angle(door.bearing_rad - place.bearing_rad))
    return apart < math.radians(40) and place.distance_m > door.distance_m - 0.2


def _door_cost(door: SeenDoor, place: SeenMemory | None) -> float:
    onward = _onward(door, place) if place is not None else 0.0
    slanted = 1.0 if abs(door.slant_rad) > math.radians(60) else 0.0
    return door.distance_m + abs(door.bearing_rad) + slanted + onward


def turn_action(bearing_rad: float) -> str | None:
    """Returns the turn that best faces a bearing; None if it is ahead already."""
    degrees = abs(math.degrees(bearing_rad))
    if degrees <= 10:
        return None
    size = "small" if degrees <= 22.5 else "medium" if degrees <= 37.5 else "large"
    return f"turn {_side(bearing_rad)} {size}"


def forward_action(distance_m: float) -> str:
    """Returns the longest move ahead within the distance, at least a small one."""
    size = "large" if distance_m >= 0.75 else "medium" if distance_m >= 0.5 else "small"
    return f"move forward {size}"


def _side(bearing_rad: float) -> str:
    return "left" if bearing_rad > 0 else "right"


def _spot(seen: SeenObject | SeenDoor) -> str:
    """Returns where something is: side and degrees, metres."""
    degrees = round(math.degrees(seen.bearing_rad) / BEARING_STEP_DEG) * BEARING_STEP_DEG
    side = f"{_side(degrees)} {abs(degrees)}" if degrees else "ahead"
    return f"{side} at {seen.distance_m:.1f} m"


def _things(
    view: View, target: Wanted | None, most: int = MAX_THINGS, found: SeenObject | None = None
) -> list[str]:
    """Returns what else is in view, nearest first: look-alikes of the target (and why not), then others."""
    others = [
        o for o in view.objects if o != found and not (target and found is None and target.fits(o.spec))
    ]
    alike = sorted(others, key=lambda o: not _why_not(o.spec, target))[:most]
    return [f"{o.spec.phrase} {_spot(o)}{_why_not(o.spec, target)}" for o in others if o in alike]


def _why_not(spec: ObjectSpec, target: Wanted | None) -> str:
    """Returns why a thing is not the wanted one; empty if it shares nothing with it, or everything."""
    if target is None or target.fits(spec):
        return ""
    thing = target.thing
    if spec.kind == thing.kind:
        return f", not {thing.colour if thing.colour not in ('', spec.colour) else thing.size}"
    return f", no {thing.kind}" if thing.colour and spec.colour == thing.colour else ""


def _doors(view: View, searched: tuple[SearchedPlace, ...], chosen: SeenDoor | None = None) -> list[str]:
    """Returns the doors in view but the chosen one, nearest first; marks those to searched places."""
    fresh = _fresh(view.doors, searched)
    return [f"door {_spot(d)}{'' if d in fresh else ', searched'}" for d in view.doors if d != chosen]


def _listed(view: View, things: list[str]) -> str:
    """Returns things as a list after the main clause; if they are few, with the free distances."""
    left, ahead, right = view.free_m
    free = [f"free left {left:.1f}, ahead {ahead:.1f}, right {right:.1f} m"]
    return "".join(f"; {thing}" for thing in (things if len(things) >= FEW_THINGS else things + free))


def _last_phase(context: PromptContext) -> str:
    return context.steps[-1].phase if context.steps else ""


def _trailing(context: PromptContext, phase: str) -> int:
    count = 0
    for step in reversed(context.steps):
        if step.phase != phase:
            break
        count += 1
    return count


_SIZES = {"a little": "small", "slightly": "small", "a bit": "small", "a lot": "large", "far": "large"}


def command_action(instruction: str) -> str | None:
    """Returns the action of a plain motion command; None if it is none."""
    text = instruction.strip("?. ")
    if re.search(r"\b(stop|halt|stay|wait here|stand still|freeze)\b", text):
        return STOP
    size = next((s for words, s in _SIZES.items() if words in text), "medium")
    if re.search(r"\b(around)\b", text):
        size = "large"
    for side in ("left", "right"):
        if re.search(rf"\b(turn|rotate|look)\b.*\b{side}\b", text):
            return f"turn {side} {size}"
    if re.search(r"\b(forward|ahead|straight)\b", text):
        return f"move forward {size}"
    return None


def _obey(view: View, context: PromptContext) -> str:
    action = command_action(context.instruction)
    seen = _listed(view, _things(view, None, MAX_THINGS - 1))
    if action is None or action == STOP:
        return f"{STOP}\ndone: standing still as told{seen}."
    if _last_phase(context) == "obey":
        return f"{STOP}\ndone: {context.steps[-1].action} as told{seen}."
    if "door" in context.instruction and not any(d.distance_m <= BESIDE_M for d in view.doors):
        door = min(view.doors, key=lambda d: d.distance_m) if view.doors else None
        if door is None:
            return f"{SCAN_ACTION}\ndoor: looking for a door{seen}."
        move = turn_action(door.bearing_rad) or forward_action(door.distance_m - 0.9)
        return f"{move}\ndoor: door {_spot(door)}{seen}."
    return f"{action}\nobey: {action} as told{seen}."
