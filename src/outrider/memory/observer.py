# SPDX-License-Identifier: Apache-2.0
"""Automatic memories: what verified texts report as seen, located by odometry. No clock, no socket."""

from __future__ import annotations

from outrider.core.values import Pose2D, Record
from outrider.memory.language.scene import place_of, things_seen
from outrider.memory.store.store import MemoryStore

StepName = tuple[str, int]


class Observer:
    """Turns finished texts into sightings in one home.

    A text describes its picture, so the pose at the picture's time counts.
    """

    def __init__(self, memory: MemoryStore, home: str) -> None:
        self._memory = memory
        self._home = home
        self._step: StepName | None = None
        self._pose: Pose2D | None = None
        self._alone = False
        self._noted: StepName | None = None

    def on_text(
        self,
        step: StepName,
        text: str,
        finished: bool,
        pose: Pose2D | None,
        time_s: float,
        thumbnail: bytes = b"",
        alone: bool = False,
    ) -> list[Record]:
        """Take a growing text. Once it is finished, returns the records that it made or renewed.

        `pose` is that of the text's picture, None while it is unknown; the first known one counts. `alone`:
        no verifier has read it so far. A text for which that was ever true is not remembered. Raises
        MemoryStoreError.
        """
        if step != self._step:
            self._step, self._pose, self._alone = step, None, False
        if self._pose is None:
            self._pose = pose
        self._alone |= alone
        if not finished or step == self._noted or self._pose is None or self._alone:
            return []
        self._noted = step
        return [
            self._memory.see(
                thing.what, place_of(thing, self._pose, self._home), time_s=time_s, thumbnail=thumbnail
            )
            for thing in things_seen(text)
        ]
