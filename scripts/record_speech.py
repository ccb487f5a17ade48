# SPDX-License-Identifier: Apache-2.0
"""Let a synthesizer say sentences with and without words that stop, as recordings of a voice.

    python scripts/record_speech.py out/recordings/training/flite-slt 'flite -voice slt -t {text} -o {file}'

`outrider train stops` and `outrider eval voice` take the folder that the voice's folder is in. A voice whose
stops are to be counted says what `outrider eval voice` says: give `--held-out`.
"""

from __future__ import annotations

import argparse
import random
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

from outrider.core.language.words.phrasebook import phrasebook
from outrider.evaluation.voice.spoken_commands import STOPS, command_sentence
from outrider.runtime.datasets.stop_sentences import other_text, stop_sentence
from outrider.simulation.homes.vocabulary import vocabulary


def texts(stops: int, others: int, is_held_out: bool, rng: random.Random) -> Iterator[str]:
    """Yields texts with a stop word, then texts without one.

    Training texts end with their stop word. Held-out texts are those of `outrider eval voice`.
    """
    known, words = vocabulary(), phrasebook("en").spoken("spotted_stops")
    for number in range(stops):
        word = words[number % len(words)]
        text, position = stop_sentence(rng, word, known)
        yield STOPS[number % len(STOPS)] if is_held_out else text[: position + len(word)]
    for _ in range(others):
        yield command_sentence(rng, known) if is_held_out else other_text(rng, known)


def record(voice: Path, command: str, sentences: Iterator[str]) -> None:
    """Writes a recording of each text. `command` is the synthesizer's, with {text} and {file}."""
    voice.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(sentences):
        name = text.replace("/", " ").replace(".", "")
        file = voice / f"{name}.{number}.wav"
        line = [part.format(text=text, file=file) for part in shlex.split(command)]
        subprocess.run(line, check=True, stdin=subprocess.DEVNULL)


def main() -> None:
    """Reads the command line and records."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("voice", type=Path, help="folder of the voice")
    parser.add_argument("command", help="command line of a synthesizer, with {text} and {file}")
    parser.add_argument("--stops", type=int, default=120, help="texts with a word that stops")
    parser.add_argument("--others", type=int, default=160, help="texts without")
    parser.add_argument("--held-out", action="store_true", help="texts of `outrider eval voice`")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = random.Random(f"{given.voice.name} {given.seed}")
    record(given.voice, given.command, texts(given.stops, given.others, given.held_out, rng))


if __name__ == "__main__":
    main()
