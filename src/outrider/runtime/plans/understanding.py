# SPDX-License-Identifier: Apache-2.0
"""Turns a person's sentence into a plan for this robot and its memory, or refuses it before any motion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from outrider.core.errors import InstructionError, MemoryStoreError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.plan import (
    Ask,
    Correct,
    Find,
    Forget,
    Go,
    Home,
    Plan,
    Remember,
    Return,
    Step,
    Where,
)
from outrider.core.language.sentences.planner import plan_of
from outrider.core.values import Pose2D
from outrider.navigation.sensing.floor_map import Point
from outrider.runtime.mission.memory_queries import Recollection
from outrider.runtime.plans.corrections import Corrections
from outrider.runtime.plans.run_log import RunLog

NO_MEMORY = "this robot remembers nothing: start it with use_memory=true"
NO_MAP = "this robot keeps no map of its ways, and cannot go by itself: lead it"
UNSEEN = "the robot has not seen the floor there: choose a point that it has looked at"
TAKEN = "something stands there: choose a point beside it"


class Refusal(InstructionError):
    """The reason for refusing a sentence. It may quote private statements, so only its speaker may see it."""


@dataclass
class Understanding:
    """Understands a person's sentences with the models' vocabulary, the memory and the map.

    `evidence` gives the map's evidence at a point; None for a robot without a map. With a map the robot
    goes to remembered places by itself.
    """

    vocabulary: Vocabulary | None
    recollection: Recollection | None
    evidence: Callable[[Point], int] | None
    log: RunLog

    def plan(self, sentence: str, pose: Pose2D | None = None) -> Plan:
        """Returns the plan for a robot at `pose`.

        Raises Refusal, and MemoryStoreError if the robot lacks a memory that it needs.
        """
        places = _Places(self.recollection if self.evidence is not None else None)
        try:
            plan = plan_of(sentence, self.vocabulary, places.knows)
            plan = self._corrected(plan, places, pose)
            self._check_means(plan)
        except InstructionError as error:
            hint = places.hint
            message = f"{hint}; {error}" if hint else str(error)
            raise Refusal(message, error.meant) from None
        return plan

    def _corrected(self, plan: Plan, places: _Places, pose: Pose2D | None) -> Plan:
        """Returns the plan with corrections replaced by their meaning."""
        steps: list[Step] = []
        wanted = self.log.wanted
        corrections = Corrections(self.vocabulary, self.recollection, pose)
        for step in plan.steps:
            if isinstance(step, Correct):
                sentence = corrections.meant(step, wanted)
                (step,) = plan_of(sentence, self.vocabulary, places.knows).steps
            wanted = step if isinstance(step, Find) else wanted
            steps.append(step)
        return replace(plan, steps=tuple(steps))

    def _check_means(self, plan: Plan) -> None:
        for step in plan.steps:
            if self.recollection is None and self._is_for_memory(step):
                raise MemoryStoreError(NO_MEMORY)
            if self.evidence is None and isinstance(step, (Return, Home, Go)):
                raise InstructionError(NO_MAP)
            if self.evidence is not None and isinstance(step, Go):
                _check_point(self.evidence((step.x, step.y)))

    def _is_for_memory(self, step: Step) -> bool:
        """Whether a step needs a memory. "Where is" does not for a thing that the models can look for."""
        if isinstance(step, Where):
            return self.vocabulary is None or not self.vocabulary.names(step.what)
        return isinstance(step, (Remember, Forget, Ask))


def _check_point(evidence: int) -> None:
    """Raise InstructionError for a point that is not known to be free."""
    if evidence >= 0:
        raise InstructionError(TAKEN if evidence > 0 else UNSEEN)


@dataclass
class _Places:
    """Looks up which things memory can lead to. `hint` says why it cannot for a thing that was described."""

    recollection: Recollection | None
    hint: str = ""
    _known: dict[str, bool] = field(default_factory=dict)

    def knows(self, thing: str) -> bool:
        if self.recollection is None:
            return False
        if thing not in self._known:
            self._known[thing] = self.recollection.destination(thing) is not None
            if not self._known[thing]:
                self.hint = self.hint or self.recollection.hint(thing)
        return self._known[thing]
