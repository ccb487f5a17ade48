# SPDX-License-Identifier: Apache-2.0
"""An engine in a process of its own, so that no stop in this one waits for recognition."""

from __future__ import annotations

import subprocess
import sys
from typing import IO

import msgspec

from outrider.core.errors import ConfigError, LinkError
from outrider.core.language.grammar import Vocabulary
from outrider.voice import framing as f

WAIT_S = 5.0


class EngineProcess:
    """Implements `AsrEngine` by a process that starts at once, and is started anew after it has ended.

    `listen` waits until it is ready, and raises ConfigError with what it says where it cannot be made.
    """

    def __init__(self, name: str, vocabulary: Vocabulary | None) -> None:
        self.name = name
        self._wanted = msgspec.json.encode({"engine": name, "vocabulary": vocabulary})
        self._process = self._started()
        self._is_ready, self._failure = False, ""

    def listen(self) -> _RemoteUtterance:
        """Begin an utterance."""
        if self._failure:
            raise ConfigError(self._failure)
        if self._process.poll() is not None:
            self._process, self._is_ready = self._started(), False
        source, sink = self._streams()
        if not self._is_ready:
            kind, said = f.read_frame(source)
            if kind != f.READY:
                self._failure = said.decode(errors="replace")
                raise ConfigError(self._failure)
            self._is_ready = True
        f.write_frame(sink, f.LISTEN)
        return _RemoteUtterance(source, sink)

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait(WAIT_S)
        for stream in self._streams():
            stream.close()

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "outrider.voice.worker"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        f.write_frame(process.stdin, f.READY, self._wanted)
        return process

    def _streams(self) -> tuple[IO[bytes], IO[bytes]]:
        source, sink = self._process.stdout, self._process.stdin
        if source is None or sink is None:
            raise LinkError("the speech engine has ended")
        return source, sink


class _RemoteUtterance:
    def __init__(self, source: IO[bytes], sink: IO[bytes]) -> None:
        self._source, self._sink = source, sink

    def feed(self, samples: bytes) -> bool:
        """Take the next samples; whether one more order to stop has been heard with them."""
        f.write_frame(self._sink, f.SAMPLES, samples)
        return bool(f.read_frame(self._source)[1])

    def end(self) -> str:
        """Return the sentence; empty where no words were heard."""
        f.write_frame(self._sink, f.END)
        return f.read_frame(self._source)[1].decode(errors="replace")
