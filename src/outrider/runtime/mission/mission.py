# SPDX-License-Identifier: Apache-2.0
"""From a person's sentence to its result: remembered, answered, or gone for, with what memory knows of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from outrider.core.errors import Cancelled, InstructionError, MemoryStoreError
from outrider.core.language.grammar import Vocabulary
from outrider.core.ports import TextDecoder
from outrider.core.values import Sighting
from outrider.memory.language.utterances import Ask, AskSeen, Find, Remember, understand
from outrider.navigation.goal.guide import Destination, Guide, LedDecoder
from outrider.navigation.goal.instructions import check_instruction
from outrider.navigation.sensing.floor_map import FloorMap
from outrider.runtime.mission.answers import Answers, PeerAnswers
from outrider.runtime.mission.goal_run import GoalRun, GoalSettings
from outrider.runtime.mission.memory_queries import Recollection
from outrider.runtime.mission.robot_side import GoalError, GoalResult, RobotSide


@dataclass
class Errand:
    """What errands are run with. Without a `recollection` nothing is remembered, nor answered; with `peers`
    questions are answered together with the cloud.

    `leading` is true while the robot goes to a remembered place by itself, which needs no link: the whole way
    to where somebody said, and around walls to where it has seen the thing.
    """

    robot: RobotSide
    decoder: TextDecoder
    vocabulary: Vocabulary | None
    settings: GoalSettings
    recollection: Recollection | None = None
    floor: FloorMap | None = None
    peers: PeerAnswers | None = None
    _by_map: bool = field(default=False, init=False)
    _led: LedDecoder | None = field(default=None, init=False)

    @property
    def leading(self) -> bool:
        """Whether the robot is led to a known place, without the models."""
        led = self._led
        return self._by_map or (led is not None and led.leading)

    def run(self, sentence: str, cancelled: Callable[[], bool]) -> GoalResult:
        """Blocks until the errand has ended."""
        try:
            return self._run(sentence, cancelled)
        except MemoryStoreError as error:
            return GoalResult(False, GoalError.MEMORY_FAILED, str(error), 0)
        except Cancelled as cancellation:
            return GoalResult(False, GoalError.CANCELLED, str(cancellation), 0)

    def _run(self, sentence: str, cancelled: Callable[[], bool]) -> GoalResult:
        meaning = understand(sentence)
        if isinstance(meaning, (Remember, AskSeen, Ask)):
            return self._reply(meaning, cancelled)
        wish = meaning if isinstance(meaning, Find) else None
        try:
            instruction = check_instruction(sentence, self.vocabulary)
        except InstructionError as error:
            return self._by_memory_alone(wish, str(error), cancelled)
        return self._by_models(instruction, wish, cancelled)

    def _reply(self, meaning: Remember | AskSeen | Ask, cancelled: Callable[[], bool]) -> GoalResult:
        """Without motion. Not for the models, with or without a memory."""
        if self.recollection is None:
            message = "this robot remembers nothing: start it with use_memory=true"
            return GoalResult(False, GoalError.MEMORY_FAILED, message, 0)
        odometry = self.robot.odometry()
        pose = odometry.pose if odometry else None
        if isinstance(meaning, Remember):
            reply = self.recollection.reply(meaning, pose)
        else:
            reply = Answers(self.recollection, self.peers).reply(meaning, pose, cancelled)
        return GoalResult(True, GoalError.NONE, reply, 0, private=True)

    def _by_memory_alone(self, wish: Find | None, reason: str, cancelled: Callable[[], bool]) -> GoalResult:
        """For what the models do not know: the remembered place is as near as the robot can come."""
        destination = self._destination(wish)
        if destination is None:
            hint = self.recollection.hint(wish) if self.recollection and wish else ""
            message = f"{hint}; {reason}" if hint else reason
            return GoalResult(False, GoalError.BAD_INSTRUCTION, message, 0, private=bool(hint))
        return self._lead(destination, cancelled)

    def _by_models(self, instruction: str, wish: Find | None, cancelled: Callable[[], bool]) -> GoalResult:
        """First to where somebody said that it is, if anybody did, then by the camera."""
        steps = 0
        destination = self._destination(wish)
        if destination is not None:
            led = self._lead(destination, cancelled)
            steps = led.steps
            if led.error in (GoalError.CANCELLED, GoalError.EMERGENCY_STOP, GoalError.NO_SENSOR):
                return led
        sightings = self.recollection.sightings(wish) if self.recollection and wish else []
        self._led = self._led_to(sightings)
        decoder = self._led or self.decoder
        run = GoalRun(
            instruction,
            uuid.uuid4().hex,
            self.robot,
            decoder,
            self.settings,
            cancelled,
            sightings,
            self._watch_for_forgetting(),
        )
        result = run.run()
        self._led = None
        return GoalResult(result.success, result.error, result.message, steps + result.steps)

    def _watch_for_forgetting(self) -> Callable[[], bool]:
        """Whether any memory has gone since: then the goal goes on without what it has recalled."""
        if self.recollection is None:
            return lambda: False
        memory = self.recollection.memory
        at_start = memory.num_forgotten()

        def forgotten() -> bool:
            gone = memory.num_forgotten() != at_start
            if gone and self._led is not None:
                self._led.forget()
            return gone

        return forgotten

    def _led_to(self, sightings: Sequence[Sighting]) -> LedDecoder | None:
        """The models, led by the robot's map to where the thing was seen last."""
        if self.floor is None or not sightings:
            return None
        table = self.settings.navigator.table
        return LedDecoder(self.decoder, self.floor, sightings[-1], self.robot.odometry, table)

    def _destination(self, wish: Find | None) -> Destination | None:
        if self.recollection is None or self.floor is None or wish is None:
            return None
        return self.recollection.destination(wish)

    def _lead(self, destination: Destination, cancelled: Callable[[], bool]) -> GoalResult:
        """To a remembered place, by the robot's own map. Nothing of it goes to the decoder."""
        assert self.floor is not None
        guide = Guide(self.floor, destination, self.robot.odometry, self.settings.navigator.table)
        run = GoalRun(
            "go to a remembered place", uuid.uuid4().hex, self.robot, guide, self.settings, cancelled
        )
        self._by_map = True
        try:
            result = run.run()
        finally:
            self._by_map = False
        message = "stands at the remembered place" if result.success else result.message
        return GoalResult(result.success, result.error, message, result.steps)
