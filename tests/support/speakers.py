"""A fake speech engine that records its samples and returns the sentence that the test sets."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

STOP_SOUND = b"st"


@dataclass
class FakeUtterance:
    """Implements `core.hearing.Utterance`. Samples that contain `STOP_SOUND` are a stop."""

    engine: FakeEngine
    heard: bytes = b""

    def feed(self, samples: bytes) -> bool:
        if self.engine.failure is not None:
            raise self.engine.failure
        self.heard += samples
        return STOP_SOUND in samples

    def end(self) -> str:
        assert self.engine.may_end.wait(10.0)
        return self.engine.sentence


@dataclass
class FakeEngine:
    """Implements `core.hearing.AsrEngine`."""

    sentence: str = "find the red chair"
    name: str = "fake"
    failure: Exception | None = None
    may_end: threading.Event = field(default_factory=threading.Event)
    utterances: list[FakeUtterance] = field(default_factory=list)

    def listen(self) -> FakeUtterance:
        self.utterances.append(FakeUtterance(self))
        return self.utterances[-1]
