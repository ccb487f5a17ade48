"""The check for changes that should not alter behaviour: schedules and frames are as recorded.

A test that fails here names the schedules that changed. If the change is intended, record them again
with the command in the message and commit them with the change.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from golden import frames, schedules

from outrider.core.frames import Addressed, CloudFrame, EdgeFrame, PeerFrame
from outrider.wire.codec import encode

SCHEDULES, FRAMES = schedules.read(), frames.read()
CONDITIONS = schedules.conditions()
ADVICE = f"Where that is meant: {schedules.COMMAND}, and commit the files with the change."


@pytest.mark.lengthy
@pytest.mark.parametrize("name", CONDITIONS)
def test_schedules_are_as_recorded(name: str) -> None:
    changed = schedules.differences(SCHEDULES.get(name, {}), CONDITIONS[name]())
    assert not changed, f"other schedules under {name}:\n  " + "\n  ".join(changed) + f"\n{ADVICE}"


def test_no_condition_is_left_out() -> None:
    assert set(SCHEDULES) == set(CONDITIONS), f"conditions differ from the recorded ones. {ADVICE}"


def test_sessions_send_the_frames_recorded() -> None:
    now = frames.record_all()
    changed = [name for name in {**FRAMES, **now} if FRAMES.get(name) != now.get(name)]
    assert not changed, f"other frames in: {', '.join(changed)}. {ADVICE}"


@pytest.mark.parametrize("name", FRAMES)
def test_recorded_frames_are_read_and_written_again_byte_for_byte(name: str) -> None:
    for recorded in FRAMES[name]:
        assert type(recorded.decoded()).__name__ == recorded.kind
        assert encode(recorded.decoded()) == recorded.data


def kinds_under(kind: type) -> set[type]:
    """Return the frame classes below a class that have no subclass of their own."""
    below = kind.__subclasses__()
    return set().union(*(kinds_under(subclass) for subclass in below)) if below else {kind}


def test_every_kind_of_frame_is_recorded() -> None:
    assert {recorded.kind for recorded in FRAMES[frames.BY_HAND]} == {
        kind.__name__ for kind in kinds_under(Addressed)
    }


def test_every_kind_of_frame_is_sent_by_one_of_the_sides() -> None:
    """The encoder accepts a kind that is in no union, but every receiver refuses it."""
    assert {*get_args(EdgeFrame), *get_args(CloudFrame), *get_args(PeerFrame)} == kinds_under(Addressed)


def test_a_changed_schedule_is_named_with_what_changed() -> None:
    [name, *_] = SCHEDULES
    before = SCHEDULES[name]
    slower = {**before, "outrider": {**before["outrider"], "schedule": "other", "tokens_per_s": 1.0}}
    [line] = schedules.differences(before, slower)
    assert line == f"outrider: tokens_per_s {before['outrider']['tokens_per_s']} -> 1.0"
    assert schedules.differences({}, before)[0] == "ar: new"
    assert schedules.differences(before, {})[0] == "ar: removed"


@pytest.mark.slow
@pytest.mark.parametrize("capability", ["default", "avx2"])
def test_another_process_on_a_lesser_processor_gives_the_same_schedules(capability: str) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "7", "ATEN_CPU_CAPABILITY": capability}
    command = [sys.executable, "-m", "tests.golden.regenerate", "--check"]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
