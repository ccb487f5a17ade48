# SPDX-License-Identifier: Apache-2.0
"""The process of an engine: `python -m outrider.voice.worker`, which `engine_process` starts."""

from __future__ import annotations

import json
import os
import sys
from typing import IO

import msgspec

from outrider.core.errors import LinkError, OutriderError
from outrider.core.hearing import AsrEngine, Utterance
from outrider.core.language.grammar import Vocabulary
from outrider.voice import framing as f
from outrider.voice.engines import make_engine

NOT_HEARD = "the speech engine failed at what was said: say it again"


def serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """Make the engine that the first frame names, and recognise utterances until the other side ends."""
    wanted = json.loads(f.read_frame(source)[1])
    words = wanted["vocabulary"]
    vocabulary = msgspec.convert(words, Vocabulary) if words else None
    try:
        engine = make_engine(wanted["engine"], vocabulary)
    except OutriderError as error:
        f.write_frame(sink, f.FAILED, str(error).encode())
        return
    f.write_frame(sink, f.READY)
    hear(engine, source, sink)


def hear(engine: AsrEngine, source: IO[bytes], sink: IO[bytes]) -> None:
    """Answer each frame. A failure of the engine loses the utterance, and is answered too."""
    utterance: Utterance | None = None
    while True:
        try:
            kind, content = f.read_frame(source)
        except LinkError:
            return
        try:
            if kind == f.LISTEN or utterance is None:
                utterance = engine.listen()
            answer = _answer(utterance, kind, content)
        except Exception as error:  # whatever the engine's libraries raise
            utterance, answer = None, (f.FAILED, NOT_HEARD.encode())
            print(f"{NOT_HEARD} ({type(error).__name__}: {error})", file=sys.stderr, flush=True)
        f.write_frame(sink, *answer)


def _answer(utterance: Utterance, kind: bytes, content: bytes) -> tuple[bytes, bytes]:
    """Answer sound with whether it completes a stop, and the end with the sentence."""
    if kind == f.SAMPLES:
        return f.SAMPLES, b"1" if utterance.feed(content) else b""
    return (f.HEARD, utterance.end().encode()) if kind == f.END else (f.READY, b"")


def main() -> None:
    """Serve on the standard streams; the output of libraries goes to standard error."""
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, sink)


if __name__ == "__main__":
    main()
