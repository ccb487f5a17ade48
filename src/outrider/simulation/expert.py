"""The exploring expert that is imitated: an action and a reason from the view and the prompt.

It never sees through walls. Its phases: search (turn on the spot), door (head for a way out of a searched
place), enter (pass through it), approach, arrived; obey and done for plain motion commands. Whatever it knows
beyond the view stands in the prompt too, so a model can imitate it exactly.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from outrider.core.actions import STOP
from outrider.core.prompt import PromptContext, direction_words, metres_words, shown_turn
from outrider.core.values import wrap_angle
from outrider.simulation.perception import SeenDoor, SeenObject, View
from outrider.simulation.vocabulary import ObjectSpec, target_of

STOP_DISTANCE_M = 1.0
FULL_TURN_DEG = 360
ENTER_STEPS = 2
ENTER_DISTANCE_M = 0.95
SCAN_ACTION = "turn left large"


@dataclass(frozen=True)
class SearchedPlace:
    """A place already searched, relative to the robot."""

    bearing_rad: float
    distance_m: float


def answer(view: View, context: PromptContext, searched: tuple[SearchedPlace, ...]) -> str:
    """The expert's whole text for one step."""
    target = target_of(context.instruction)
    if target is None:
        return _obey(view, context)
    seen = view.find(target)
    if seen is not None:
        return _approach(view, target, seen)
    return _explore(view, target, context, searched)


def _approach(view: View, target: ObjectSpec, seen: SeenObject) -> str:
    turn = turn_action(seen.bearing_rad)
    if seen.distance_m <= STOP_DISTANCE_M and abs(seen.bearing_rad) <= math.radians(26):
        reason = f"the {target.phrase} is within reach, {_where(seen)}. {_ruled_out(view, target)}"
        return f"{STOP}\narrived: {reason.strip()}"
    action = turn or forward_action(seen.distance_m - STOP_DISTANCE_M + 0.12)
    reason = f"the {target.phrase} is {_where(seen)}. {_ruled_out(view, target)}"
    return f"{action}\napproach: {reason.strip()}"


def _explore(
    view: View, target: ObjectSpec, context: PromptContext, searched: tuple[SearchedPlace, ...]
) -> str:
    if (
        context.steps
        and context.steps[-1].phase == "approach"
        and context.steps[-1].action.startswith("turn")
    ):
        return f"move forward medium\napproach: lost sight of the {target.phrase}, moving closer."
    entered = _trailing(context, "enter")
    if 0 < entered < ENTER_STEPS:
        return f"move forward large\nenter: passing the door to look for the {target.phrase}."
    turned = shown_turn(context.turned_deg)
    leaving = _last_phase(context) == "door" or turned >= FULL_TURN_DEG
    if not leaving:
        done = f"turned {turned} of {FULL_TURN_DEG}"
        return f"{SCAN_ACTION}\nsearch: no {target.phrase} here. {_scene(view, target)} {done}."
    doors = view.doors if turned >= 2 * FULL_TURN_DEG else _fresh(view.doors, searched)
    if not doors:
        return f"{SCAN_ACTION}\ndoor: this place is searched. {_scene(view, target)} looking for a way out."
    return _to_door(min(doors, key=_door_cost), target)


def _to_door(door: SeenDoor, target: ObjectSpec) -> str:
    where = f"{direction_words(door.bearing_rad)} at {metres_words(door.distance_m)}"
    if door.distance_m <= ENTER_DISTANCE_M and abs(door.bearing_rad) <= math.radians(24):
        turn = f"turn {_side(door.bearing_rad)} small" if abs(door.bearing_rad) > math.radians(13) else None
        if turn is None:
            return f"move forward large\nenter: passing the door to look for the {target.phrase}."
        return f"{turn}\ndoor: the way out is {where}, no {target.phrase} in this place."
    action = turn_action(door.bearing_rad) or forward_action(door.distance_m - ENTER_DISTANCE_M + 0.25)
    return f"{action}\ndoor: the way out is {where}, no {target.phrase} in this place."


def _fresh(doors: tuple[SeenDoor, ...], searched: tuple[SearchedPlace, ...]) -> tuple[SeenDoor, ...]:
    """The doors that no searched place lies behind."""
    return tuple(d for d in doors if not any(_leads_to(d, place) for place in searched))


def _leads_to(door: SeenDoor, place: SearchedPlace) -> bool:
    apart = abs(wrap_angle(door.bearing_rad - place.bearing_rad))
    return apart < math.radians(40) and place.distance_m > door.distance_m - 0.2


def _door_cost(door: SeenDoor) -> float:
    return door.distance_m + abs(door.bearing_rad) + (1.0 if abs(door.slant_rad) > math.radians(60) else 0.0)


def turn_action(bearing_rad: float) -> str | None:
    """The turn that best faces a bearing, or None where it is ahead already."""
    degrees = abs(math.degrees(bearing_rad))
    if degrees <= 10:
        return None
    size = "small" if degrees <= 22.5 else "medium" if degrees <= 37.5 else "large"
    return f"turn {_side(bearing_rad)} {size}"


def forward_action(distance_m: float) -> str:
    """The longest move ahead that does not pass the distance, small at least."""
    size = "large" if distance_m >= 0.75 else "medium" if distance_m >= 0.5 else "small"
    return f"move forward {size}"


def _side(bearing_rad: float) -> str:
    return "left" if bearing_rad > 0 else "right"


def _where(seen: SeenObject) -> str:
    return f"{direction_words(seen.bearing_rad)} at {metres_words(seen.distance_m)}"


def _ruled_out(view: View, target: ObjectSpec) -> str:
    """Names the look-alike in view, or else the nearest other thing."""
    others = [o for o in view.objects if o.spec != target]
    if not others:
        return "nothing else in view."
    alike = [o for o in others if target.kind == o.spec.kind or target.colour == o.spec.colour]
    chosen = (alike or others)[0]
    why = "is another thing"
    if chosen.spec.kind == target.kind:
        why = f"is {chosen.spec.colour}, not {target.colour}"
    elif chosen.spec.colour == target.colour:
        why = f"is no {target.kind}"
    return f"the {chosen.spec.phrase} {_where(chosen)} {why}."


def _scene(view: View, target: ObjectSpec) -> str:
    """What is in view instead: at most two things and a door."""
    things = [f"{_a(o.spec.phrase)} {_where(o)}" for o in view.objects[:2] if o.spec != target]
    if view.doors:
        things.append(f"a door {direction_words(view.doors[0].bearing_rad)}")
    return f"i see {', '.join(things)}." if things else "i see nothing but walls."


def _a(phrase: str) -> str:
    return f"an {phrase}" if phrase[0] in "aeiou" else f"a {phrase}"


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
    """The action a plain motion command stands for, or None where it is no such command."""
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
    if action is None or action == STOP:
        return f"{STOP}\ndone: standing still as told."
    if _last_phase(context) == "obey":
        return f"{STOP}\ndone: {context.steps[-1].action} is done as told."
    if "door" in context.instruction and not _beside_door(view, context):
        door = min(view.doors, key=lambda d: d.distance_m) if view.doors else None
        if door is None:
            return f"{SCAN_ACTION}\ndoor: no door in view, looking for it."
        move = turn_action(door.bearing_rad) or forward_action(door.distance_m - 0.9)
        where = f"{direction_words(door.bearing_rad)} at {metres_words(door.distance_m)}"
        return f"{move}\ndoor: the door is {where}."
    return f"{action}\nobey: {action} as told."


def _beside_door(view: View, context: PromptContext) -> bool:
    return any(d.distance_m <= 1.15 for d in view.doors)
