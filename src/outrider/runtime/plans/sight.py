# SPDX-License-Identifier: Apache-2.0
"""Describes the newest picture in the models' words. The text moves nothing: it is not published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from outrider.core.errors import FrameError
from outrider.core.language.actions import split_answer
from outrider.core.language.grammar import Vocabulary, example
from outrider.core.language.prompt import PromptContext, direction_words, metres_words, render_prompt
from outrider.core.language.words.things import Thing, may_be
from outrider.core.ports import TextDecoder
from outrider.core.values import DecodeRequest, Prompt
from outrider.memory.language.scene import Seen, things_seen
from outrider.runtime.mission.goal_run import GoalSettings
from outrider.runtime.mission.robot_side import RobotSide

NEWEST_S, LOOK_S = 1.0, 5.0
LOOK_AROUND = "say what you see"


@dataclass
class Sight:
    """Decodes one text, in which the models describe the newest picture as in a search."""

    robot: RobotSide
    decoder: TextDecoder
    vocabulary: Vocabulary | None
    settings: GoalSettings

    def see(self, wanted: str, cancelled: Callable[[], bool]) -> str:
        """Returns what is in sight, with the `wanted` thing first if it is there.

        Raises FrameError without a picture, LinkError without a verifier, and Cancelled.
        """
        text = self._look(self._instruction(wanted), cancelled)
        seen = things_seen(text)
        if seen:
            return f"i see {', '.join(map(_words, seen))}"
        return "i see nothing that i know" if self.vocabulary else f"i see: {split_answer(text).reason}"

    def where(self, thing: str, cancelled: Callable[[], bool]) -> str:
        """Returns directions and distances of the things in sight that may be `thing`; empty for none.

        Raises as `see` does.
        """
        seen = things_seen(self._look(f"find the {thing}", cancelled))
        found = _on_side(Thing.of(thing).side, [entry for entry in seen if may_be(entry.what, thing)])
        return f"i see {', '.join(map(_words, found))}" if found else ""

    def _instruction(self, wanted: str) -> str:
        if self.vocabulary is None:
            return LOOK_AROUND
        return example(wanted, self.vocabulary)

    def _look(self, instruction: str, cancelled: Callable[[], bool]) -> str:
        frame = self.robot.frame_after(self.robot.now_s() - NEWEST_S, LOOK_S)
        if frame is None:
            raise FrameError(f"no camera frame for {LOOK_S:.0f} s: check the camera node and its topic")
        prompt = render_prompt(PromptContext(instruction), self.settings.instructed)
        request = DecodeRequest(
            Prompt(prompt, frame.jpeg), self.settings.max_new_tokens, self.settings.answer_deadline_s
        )
        return self.decoder.decode(request, cancelled=cancelled).text


def _on_side(side: str, seen: list[Seen]) -> list[Seen]:
    """Returns the thing that is farthest to a side; all of them for no side."""
    by_bearing = sorted(seen, key=lambda entry: entry.bearing_rad)
    return {"left": by_bearing[-1:], "right": by_bearing[:1]}.get(side, seen)


def _words(seen: Seen) -> str:
    way = direction_words(seen.bearing_rad)
    side = way if way in ("ahead", "behind") else f"to the {way}"
    return f"the {seen.what} {metres_words(seen.distance_m)} {side}"
