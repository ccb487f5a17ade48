# SPDX-License-Identifier: Apache-2.0
"""The prompt of both models in each step: system, frame, instruction, memory, last steps, turning.

Its form is defined only here: training data and the running robot render it with the same function.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from outrider.core.language.actions import ACTION_TEXTS

HISTORY_STEPS = 4
MEMORY_SLOTS = 4
SYSTEM_TEXT = "You guide a robot dog. Give one action, then the reason."
INSTRUCTED_SYSTEM_TEXT = (
    "You guide a robot dog by its camera towards a task. Answer with two lines and nothing else.\n"
    f"Line 1, one of: {', '.join(ACTION_TEXTS)}. Small, medium and large are 0.25, 0.5 and 0.75 m, or 15, 30 "
    "and 45 degrees. Stop only when the task is done and what was asked for is right in front of you.\n"
    "Line 2, `phase: reason`, the phase one of search, approach, door, stop; the reason names what is seen, "
    "its side in degrees and its distance in metres.\n"
    "If it is not in sight, turn; after a full turn, go to where you have not looked."
)
"""For models that follow instructions and were not trained on this task."""
IMAGE_PLACEHOLDER = "<|vision_start|><|image_pad|><|vision_end|>"
PROMPT_PREFIX = f"<|im_start|>system\n{SYSTEM_TEXT}<|im_end|>\n<|im_start|>user\n{IMAGE_PLACEHOLDER}"
INSTRUCTED_PREFIX = PROMPT_PREFIX.replace(SYSTEM_TEXT, INSTRUCTED_SYSTEM_TEXT)
TEXT_PREFIX = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
"""For language models without vision."""
PROMPT_SUFFIX = "<|im_end|>\n<|im_start|>assistant\n"
END_OF_TEXT = "<|im_end|>"
MARKUP_OF_TURNS = ("<|im_start|>", END_OF_TEXT)
MARKUP = (*MARKUP_OF_TURNS, "<|vision_start|>", "<|image_pad|>", "<|vision_end|>")
"""The control tokens of a prompt; any other control token of a tokenizer counts as words in it."""
_MARKUP = re.compile(r"<(?=\||/?\w+>)")
"""The beginning of a control token's name: `<|im_end|>`, `<tool_call>`, `</think>`."""


@dataclass(frozen=True)
class Step:
    """A past step in the prompt: the phase that its text named, and its action."""

    phase: str
    action: str


@dataclass(frozen=True)
class PromptContext:
    """The parts of a prompt, newest last. `turned_deg`: turning in place since the last move ahead."""

    instruction: str
    steps: tuple[Step, ...] = field(default_factory=tuple)
    turned_deg: int = 0
    memories: tuple[str, ...] = field(default_factory=tuple)


def as_words(text: str) -> str:
    """Return a text whose control tokens are words: text from people, documents and signs is not markup."""
    return _MARKUP.sub("< ", text)


def direction_words(bearing_rad: float) -> str:
    """Return a bearing (left positive) in words that cover the whole circle."""
    degrees = math.degrees(bearing_rad)
    side = "left" if degrees > 0 else "right"
    size = abs(degrees)
    if size <= 8:
        return "ahead"
    if size <= 22:
        return f"slightly {side}"
    if size <= 60:
        return side
    if size <= 120:
        return f"far {side}"
    if size <= 160:
        return f"behind {side}"
    return "behind"


def metres_words(distance_m: float) -> str:
    """Return a distance rounded to half metres."""
    return f"{round(distance_m * 2) / 2:.1f} m"


def searched_place_memory(bearing_rad: float, distance_m: float) -> str:
    """Return the memory of a place already searched, relative to the robot's pose."""
    return f"searched {direction_words(bearing_rad)} {metres_words(distance_m)}"


def seen_memory(what: str, bearing_rad: float, distance_m: float) -> str:
    """Return the memory of a thing seen earlier, relative to the robot's pose."""
    return f"saw {what} {direction_words(bearing_rad)} {metres_words(distance_m)}"


@dataclass(frozen=True)
class SeenMemory:
    """The content of a `seen_memory` line: the middle of its direction, its rounded distance."""

    what: str
    bearing_rad: float
    distance_m: float


_MIDDLES_DEG = {direction_words(math.radians(d)): d for d in (0, 15, 41, 90, 140, 180, -15, -41, -90, -140)}
_SEEN = re.compile(rf"saw (.+?) ({'|'.join(_MIDDLES_DEG)}) (\d+\.\d) m")


def read_seen_memory(line: str) -> SeenMemory | None:
    """Parse a `seen_memory` line; None for a memory of another kind."""
    match = _SEEN.fullmatch(line)
    if match is None:
        return None
    what, direction, metres = match.groups()
    return SeenMemory(what, math.radians(_MIDDLES_DEG[direction]), float(metres))


def shown_turn(turned_deg: float) -> int:
    """Return the degrees turned as the prompt shows them: in steps of 15, at most three full turns."""
    return min(round(turned_deg / 15.0) * 15, 1080)


def render_user_text(context: PromptContext) -> str:
    """Return the part of the prompt that follows the image."""
    steps = context.steps[-HISTORY_STEPS:]
    last = "; ".join(f"{s.phase}: {s.action}" for s in steps) or "none"
    memory = "; ".join(context.memories[-MEMORY_SLOTS:]) or "none"
    turned = shown_turn(context.turned_deg)
    return as_words(f"task: {context.instruction}\nmemory: {memory}\nlast: {last}\nturned: {turned}")


def render_prompt(context: PromptContext, instructed: bool = False) -> str:
    """Return the whole chat text, image placeholder included, up to the beginning of the answer.

    `instructed`: explain to a general model what the trained ones know, the actions and the form of an
    answer.
    """
    prefix = INSTRUCTED_PREFIX if instructed else PROMPT_PREFIX
    return prefix + render_user_text(context) + PROMPT_SUFFIX


def normalise_instruction(words: str | Sequence[str]) -> str:
    """Return lower case, single spaces, no closing full stop: the form that the models are trained on."""
    text = words if isinstance(words, str) else " ".join(words)
    return " ".join(text.lower().split()).rstrip(".!")
