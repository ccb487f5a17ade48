# SPDX-License-Identifier: Apache-2.0
"""The process of an engine: `python -m outrider.voice.worker`, spoken to by `engine_process`."""

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


def serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """Make the engine that the first frame names, and hear utterances until the other side has ended."""
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
    """Answer each piece of sound by whether a stop was heard with it, and each end by the sentence."""
    utterance: Utterance | None = None
    while True:
        try:
            kind, content = f.read_frame(source)
        except LinkError:
            return
        if kind == f.LISTEN or utterance is None:
            utterance = engine.listen()
        if kind == f.SAMPLES:
            f.write_frame(sink, f.SAMPLES, b"1" if utterance.feed(content) else b"")
        elif kind == f.END:
            f.write_frame(sink, f.HEARD, utterance.end().encode())


def main() -> None:
    """Serve on the standard streams; what libraries print goes to standard error."""
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, sink)


if __name__ == "__main__":
    main()
