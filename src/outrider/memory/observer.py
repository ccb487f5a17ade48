# SPDX-License-Identifier: Apache-2.0
"""Automatic memories: what verified texts say was seen, placed by odometry. Holds no clock and no socket."""

from __future__ import annotations

from outrider.core.values import Pose2D, Record
from outrider.memory.language.scene import place_of, things_seen
from outrider.memory.store.store import MemoryStore

StepName = tuple[str, int]


class Observer:
    """Turns finished texts into sightings of one home.

    A text speaks of the picture that it was decoded from: the pose that counts is the one of its moment.
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
        """Take a text as far as it is known; the records it has made or renewed, once finished.

        `pose` is that of the text's picture, None as long as it is unknown; the first known one counts.
        `alone`: no verifier has read it so far; a text of which that was ever so is not remembered.
        Raises MemoryStoreError.
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
