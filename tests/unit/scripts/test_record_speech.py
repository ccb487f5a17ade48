"""Recordings that a synthesizer makes: their texts, and their file names."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from outrider.core.language.sentences.stops import says_to_stop
from outrider.core.language.words.phrasebook import phrasebook

sys.path.insert(0, str(Path(__file__).parents[3] / "scripts"))

from record_speech import record, texts

WORDS = phrasebook("en").spoken("spotted_stops")


def test_texts_to_train_on_end_with_a_word_that_stops_or_hold_none() -> None:
    said = list(texts(12, 20, False, random.Random(1)))
    assert all(one.endswith(WORDS) for one in said[:12])
    assert not any(says_to_stop(one) for one in said[12:])


def test_held_out_texts_are_those_of_the_evaluation() -> None:
    said = list(texts(6, 20, True, random.Random(1)))
    assert all(map(says_to_stop, said[:6])) and not any(map(says_to_stop, said[6:]))


def test_a_command_gets_each_text_and_its_file(tmp_path: Path) -> None:
    voice = tmp_path / "anna"
    program = tmp_path / "speak.py"
    program.write_text("import sys; open(sys.argv[1], 'w').write(sys.argv[2])")
    command = f"{sys.executable} {program} {{file}} {{text}}"
    record(voice, command, iter(["please stop", "go to the chair, now"]))
    written = {file.name.partition(".")[0]: file.read_text() for file in voice.glob("*.wav")}
    assert written == {"please stop": "please stop", "go to the chair, now": "go to the chair, now"}
