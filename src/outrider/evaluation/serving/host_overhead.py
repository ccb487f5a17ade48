# SPDX-License-Identifier: Apache-2.0
"""Measures a verifier's work per step outside its model: frames in and out, hints, decisions, bookkeeping."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from outrider.core.link_profile import LinkProfile
from outrider.core.ports import (
    Array,
    Chunk,
    ExitInfo,
    ExitReader,
    LanguageModel,
    ModelSession,
    Pause,
    Reading,
    Tokenizer,
)
from outrider.core.values import Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.fleet import Fleet
from outrider.decoding.simulation.fleet_world import FleetText, FleetWorld
from outrider.evaluation.decoding.regimes import BRANCH_COST
from outrider.evaluation.serving.fleets import unpacking
from outrider.runtime.datasets.held_out import Pair
from outrider.wire.codec import frame_bytes

STRATEGY = "outrider"
PROMPT_DRAFT_S, TARDY_DRAFT_S = 0.0005, 1.0


@dataclass(frozen=True)
class HostTime:
    """Mean milliseconds of host work per step: between two forwards, and during one, while a GPU computes."""

    between_ms: float
    amid_ms: float


class TimedModel:
    """A LanguageModel that measures this thread's seconds in its batches, and in their exit readers."""

    def __init__(self, model: LanguageModel) -> None:
        self.name, self.vocab_size, self.end_ids = model.name, model.vocab_size, model.end_ids
        self.max_length, self.shares_prompts = model.max_length, model.shares_prompts
        self.seconds: list[float] = []
        """Seconds of each batch, without its exit readers."""
        self.reading_s: list[float] = []
        self._model = model
        self._reading_s = 0.0

    @property
    def exits(self) -> ExitInfo | None:
        """Returns the early exits of the timed model."""
        return self._model.exits

    @property
    def tokenizer(self) -> Tokenizer:
        """Returns the tokenizer of the timed model."""
        return self._model.tokenizer

    def open_session(self) -> ModelSession:
        """Returns a new session of the timed model."""
        return self._model.open_session()

    def forward_together(
        self, chunks: Sequence[Chunk], read: ExitReader | None = None, pause: Pause | None = None
    ) -> list[Array]:
        """Run a batch until the device has finished, which reading a number of the last row ensures."""
        began_s, self._reading_s = time.thread_time(), 0.0
        try:
            logits = self._model.forward_together(chunks, None if read is None else self._timed(read), pause)
            float(logits[-1][-1, 0])
        finally:  # an aborted forward counts up to its abort
            self.seconds.append(time.thread_time() - began_s - self._reading_s)
            self.reading_s.append(self._reading_s)
        return logits

    def _timed(self, read: ExitReader) -> ExitReader:
        def timed(index: int, rows: Sequence[tuple[int, Array]]) -> Reading | None:
            with self._host_timed():
                reading = read(index, rows)
            return None if reading is None else Reading(reading.chosen, partial(self._observe, reading))

        return timed

    def _observe(self, reading: Reading, chosen: Array) -> None:
        with self._host_timed():
            reading.observe(chosen)

    @contextmanager
    def _host_timed(self) -> Iterator[None]:
        began_s = time.thread_time()
        try:
            yield
        finally:
            self._reading_s += time.thread_time() - began_s


def measure_host(
    pair: Pair,
    prompts: Sequence[Prompt],
    strategy: str = STRATEGY,
    draft_token_s: float = PROMPT_DRAFT_S,
) -> HostTime:
    """Returns the host work per step of a verifier with one robot that writes a text after each prompt.

    The first text is not counted. With PROMPT_DRAFT_S per draft token most steps have a draft; with
    TARDY_DRAFT_S the verifier decodes alone.
    """
    timed = TimedModel(pair.target)
    compute = ComputeProfile(draft_token_s=draft_token_s, draft_branch_s=BRANCH_COST * draft_token_s)
    link = LinkProfile(delay_s=0.001)
    fleet = Fleet(timed, FleetWorld(frame_bytes, compute, link, unpacking=unpacking))
    texts = (FleetText(prompt) for prompt in (prompts[0], *prompts))
    robot = fleet.add(texts, pair.draft, DecodingConfig(strategy=strategy))
    cloud = fleet.cloud.record
    fleet.agenda.run(math.inf, lambda: bool(robot.texts or robot.failure))
    num_batches, forwards, others_s = len(cloud.batch_s), len(timed.seconds), cloud.others_s
    fleet.run()
    amid_s = sum(timed.reading_s[forwards:]) - (cloud.others_s - others_s)
    between_s = sum(cloud.batch_s[num_batches:]) - sum(timed.seconds[forwards:]) - amid_s
    steps = len(cloud.batch_s) - num_batches
    return HostTime(1e3 * between_s / steps, 1e3 * amid_s / steps)
