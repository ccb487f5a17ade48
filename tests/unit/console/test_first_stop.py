"""The first stop after a start does not wait for anything that could be loaded before."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys, time
from outrider.console.sentences.reading import SentenceReader
from outrider.core.language.sentences.stops import says_to_stop

def seconds(action):
    started = time.process_time()
    action()
    return time.process_time() - started

made = seconds(lambda: SentenceReader(2.0).close())
first = seconds(lambda: says_to_stop(sys.argv[1]))
print(first / made)
"""


@pytest.mark.lengthy
def test_a_stop_in_words_is_read_as_fast_the_first_time_as_ever() -> None:
    for said in ("please make it stop", "bleib stehen", "go to the chair stop", "stpo", "don't even move"):
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM, said], capture_output=True, text=True, check=True
        )
        assert float(run.stdout) < 0.2, said
