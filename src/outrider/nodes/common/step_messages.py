# SPDX-License-Identifier: Apache-2.0
"""Converts a step's text, motion and decoding rounds to messages and back."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from outrider_interfaces.msg import (
    DecodedTokens,
    MotionReport,
    PlanProgress,
    SpeculationStats,
    StepPrompt,
    VerifiedText,
)
from std_msgs.msg import Header

from outrider.core.values import DecodeRequest, LinkState, RoundStats, TokenFate
from outrider.navigation.motion.step_motions import Ending, MotionEnd
from outrider.runtime.mission.robot_side import StepState, StepUpdate
from outrider.runtime.plans.progress import Progress

_TEXT_FIELDS = (
    "session_id",
    "step",
    "text",
    "action",
    "action_complete",
    "verified_tokens",
    "target_passes",
    "latency_s",
    "tokens_per_s",
    "tokens_per_round",
)
_END_FIELDS = ("session_id", "step", "action", "message", "distance_m", "turned_rad", "duration_s")
_STATES, _OUTCOMES = {state.value for state in StepState}, {ending.value for ending in Ending}
_ROUND_FIELDS = tuple(
    name for name in SpeculationStats.get_fields_and_field_types() if name in RoundStats.__dataclass_fields__
)


def text_message(update: StepUpdate, link: LinkState, header: Header) -> VerifiedText:
    """Returns an update as a message. The header's stamp is the frame's."""
    fields = {name: getattr(update, name) for name in _TEXT_FIELDS}
    return VerifiedText(header=header, state=update.state.value, link_state=link.value, **fields)


def prompt_message(update: StepUpdate, request: DecodeRequest, header: Header) -> StepPrompt:
    """Returns a step's prompt as a message. The header's stamp is the frame's."""
    return StepPrompt(
        header=header,
        session_id=update.session_id,
        step=update.step,
        prompt=request.prompt.text,
        jpeg=array("B", request.prompt.jpeg),
        max_new_tokens=request.max_new_tokens,
    )


def update_of(message: VerifiedText) -> StepUpdate | None:
    """Returns the update of a message, without its frame, which only the navigator has.

    None if this version does not define its state.
    """
    if message.state not in _STATES:
        return None
    fields = {name: getattr(message, name) for name in _TEXT_FIELDS}
    return StepUpdate(state=StepState(message.state), **fields)


@dataclass
class Trace:
    """The fates of one step's tokens since the last message about it."""

    first: int
    tokens: list[tuple[str, TokenFate]] = field(default_factory=list)

    def add(self, newer: tuple[tuple[str, TokenFate], ...]) -> None:
        """Add newer tokens. They include the tokens that were ahead before, with a verdict or ahead again."""
        self.tokens = [token for token in self.tokens if token[1] is not TokenFate.AHEAD]
        self.tokens.extend(newer)


class Traces:
    """Collects the fates of tokens between two messages, since verdicts come faster than people can read."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, int], tuple[StepUpdate, Trace]] = {}

    def add(self, update: StepUpdate) -> None:
        """Add the trace of an update, if it has one."""
        if not update.trace:
            return
        key = update.session_id, update.step
        confirmed = sum(fate in (TokenFate.ACCEPTED, TokenFate.WRITTEN) for _, fate in update.trace)
        _, trace = self._waiting.get(key, (update, Trace(update.verified_tokens - confirmed)))
        trace.add(update.trace)
        self._waiting[key] = (update, trace)

    def take(self) -> Iterator[tuple[StepUpdate, Trace]]:
        """Yields and removes all that was collected."""
        while self._waiting:
            yield self._waiting.pop(next(iter(self._waiting)))


def tokens_message(update: StepUpdate, trace: Trace, header: Header) -> DecodedTokens:
    """Returns the tokens of a step with the fate of each as a message."""
    return DecodedTokens(
        header=header,
        session_id=update.session_id,
        step=update.step,
        first=trace.first,
        pieces=[piece for piece, _ in trace.tokens],
        fates=[fate.value for _, fate in trace.tokens],
    )


def tokens_of(message: DecodedTokens) -> list[tuple[str, TokenFate]]:
    """Returns the words and fates of a message, without fates that this version does not define."""
    known = {fate.value for fate in TokenFate}
    pairs = zip(message.pieces, message.fates, strict=False)
    return [(piece, TokenFate(fate)) for piece, fate in pairs if fate in known]


def progress_message(progress: Progress, running: bool) -> PlanProgress:
    """Returns how far a plan is as a message."""
    return PlanProgress(
        steps=list(progress.steps),
        targets=list(progress.targets),
        current=progress.current,
        running=running,
    )


def progress_of(message: PlanProgress) -> Progress:
    """Returns how far a plan is from its message."""
    return Progress(tuple(message.steps), tuple(message.targets), message.current)


def report_message(end: MotionEnd, header: Header) -> MotionReport:
    """Returns the end of a motion as a message."""
    fields = {name: getattr(end, name) for name in _END_FIELDS}
    return MotionReport(header=header, outcome=end.ending.value, **fields)


def end_of(message: MotionReport) -> MotionEnd | None:
    """Returns the end of a motion from its message; None if this version does not define its outcome."""
    if message.outcome not in _OUTCOMES:
        return None
    fields = {name: getattr(message, name) for name in _END_FIELDS}
    return MotionEnd(ending=Ending(message.outcome), **fields)


def round_message(
    update: StepUpdate, strategy: str, link: LinkState, stats: RoundStats, header: Header
) -> SpeculationStats:
    """Returns one round of a finished text as a message."""
    fields = {name: getattr(stats, name) for name in _ROUND_FIELDS}
    return SpeculationStats(
        header=header,
        session_id=update.session_id,
        step=update.step,
        strategy=strategy,
        link_state=link.value,
        **fields,
    )


def round_of(message: SpeculationStats) -> RoundStats:
    """Returns the figures of a decoding round from their message."""
    return RoundStats(**{name: getattr(message, name) for name in _ROUND_FIELDS})
