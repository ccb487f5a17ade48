# SPDX-License-Identifier: Apache-2.0
"""Runs an engine in a separate process, so that no stop in this process waits for recognition."""

from __future__ import annotations

import contextlib
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO

import msgspec

from outrider.core.errors import ConfigError, LinkError
from outrider.core.language.grammar import Vocabulary
from outrider.voice import framing as f

WORKER = (sys.executable, "-m", "outrider.voice.worker")
WAIT_S = 5.0
ANSWER_S = 20.0
"""An engine that has not answered for this many seconds is killed: others wait for their turn."""
READY_S, LOAD_S = 10.0, 60.0
"""How long to wait until an engine is ready, and after how long it hangs and is restarted, in seconds."""
TOO_SLOW = "the speech engine was ended, as it took more than {:g} s: say less"
LOADING = "the speech engine is still being loaded: try again in a moment"
HANGS = "the speech engine was not ready in {:g} s, and is started anew: try again in a moment"


class _NotReadyError(LinkError):
    """The process runs, but is not ready yet."""


class EngineProcess:
    """Implements `AsrEngine` by a process, which starts at once and is restarted after it has ended.

    `listen` waits up to `ready_s` seconds until the process is ready, and raises LinkError if it is not. It
    raises ConfigError, with the message of the process, if the engine cannot be made. A process that is not
    ready `load_s` seconds after its start is restarted. `answer_s` seconds may pass to send a question and
    receive its answer. `worker` is the command that runs the process.
    """

    def __init__(
        self,
        name: str,
        vocabulary: Vocabulary | None,
        *,
        worker: Sequence[str] = WORKER,
        answer_s: float = ANSWER_S,
        ready_s: float = READY_S,
        load_s: float = LOAD_S,
    ) -> None:
        self.name = name
        self._worker, self._answer_s, self._ready_s, self._load_s = worker, answer_s, ready_s, load_s
        self._wanted = msgspec.json.encode({"engine": name, "vocabulary": vocabulary})
        self._failure = ""
        self._is_ready, self._started_s = False, 0.0
        self._start()

    def listen(self) -> _RemoteUtterance:
        """Begin an utterance."""
        if self._failure:
            raise ConfigError(self._failure)
        try:
            return self._begun()
        except _NotReadyError:
            if time.monotonic() - self._started_s <= self._load_s:
                raise
            self._start_anew()
            raise LinkError(HANGS.format(self._load_s)) from None
        except LinkError:  # it ended during the last utterance, or since
            self._start_anew()
            return self._begun()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait(WAIT_S)
        for stream in self._streams():
            with contextlib.suppress(OSError):  # unsent data cannot be flushed
                stream.close()

    def ask(self, kind: bytes, content: bytes = b"") -> bytes:
        """Returns the answer to a frame. Raises LinkError if there is none, or none in time."""
        source, sink = self._streams()
        # A frozen process does not read the question either: killing it also ends the blocked write.
        limit = threading.Timer(self._answer_s, self._process.kill)
        asked_s = time.monotonic()
        limit.start()
        try:
            f.write_frame(sink, kind, content)
            answer, content = f.read_frame(source)
        except LinkError:
            if time.monotonic() - asked_s < self._answer_s:
                raise
            raise LinkError(TOO_SLOW.format(self._answer_s)) from None
        finally:
            limit.cancel()
        if answer == f.FAILED:
            raise LinkError(content.decode(errors="replace"))
        return content

    def _begun(self) -> _RemoteUtterance:
        if not self._is_ready:
            source = self._streams()[0]
            if not _has_come(source, self._ready_s):
                raise _NotReadyError(LOADING)
            kind, content = f.read_frame(source)
            if kind != f.READY:
                self._failure = content.decode(errors="replace")
                raise ConfigError(self._failure)
            self._is_ready = True
        self.ask(f.LISTEN)
        return _RemoteUtterance(self)

    def _start_anew(self) -> None:
        self.close()
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(self._worker, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._is_ready, self._started_s = False, time.monotonic()
        f.write_frame(self._streams()[1], f.READY, self._wanted)

    def _streams(self) -> tuple[IO[bytes], IO[bytes]]:
        source, sink = self._process.stdout, self._process.stdin
        assert source is not None and sink is not None
        return source, sink


def _has_come(source: IO[bytes], wait_s: float) -> bool:
    """Whether there is data to read, or the end of the stream, within `wait_s` seconds."""
    if source.closed:
        return True
    waiting = select.poll()
    waiting.register(source, select.POLLIN)
    return bool(waiting.poll(1000 * wait_s))


class _RemoteUtterance:
    def __init__(self, engine: EngineProcess) -> None:
        self._engine = engine

    def feed(self, samples: bytes) -> bool:
        """Take the next samples; return whether they complete another order to stop."""
        return bool(self._engine.ask(f.SAMPLES, samples))

    def end(self) -> str:
        """Return the sentence; empty if no words were recognised."""
        return self._engine.ask(f.END).decode(errors="replace")
