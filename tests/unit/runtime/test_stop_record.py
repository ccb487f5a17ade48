"""An emergency stop that outlasts the process that took it."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from outrider.core.errors import ConfigError
from outrider.runtime.common.ending_signals import PARENT_VARIABLE
from outrider.runtime.node_graph.stop_record import StopRecord


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(PARENT_VARIABLE, str(os.getpid()))
    return tmp_path


def test_an_engaged_stop_outlives_the_process_of_its_node_until_its_release(home: Path) -> None:
    StopRecord("/go2/action").keep(True)
    assert StopRecord("/go2/action").engaged and not StopRecord("/action").engaged
    StopRecord("/go2/action").keep(False)
    StopRecord("/go2/action").keep(False)
    assert not StopRecord("/go2/action").engaged


def test_a_node_that_a_person_starts_keeps_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for unset in ("", "no number", "999999999"):
        monkeypatch.setenv(PARENT_VARIABLE, unset)
        StopRecord("/action").keep(True)
        assert not StopRecord("/action").engaged
    assert not (home / ".outrider").exists()


def test_the_record_of_a_process_that_ended_is_removed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "60"]) as launch:
        monkeypatch.setenv(PARENT_VARIABLE, str(launch.pid))
        StopRecord("/action").keep(True)
        launch.kill()
    monkeypatch.setenv(PARENT_VARIABLE, str(os.getpid()))
    StopRecord("/action")
    assert list((home / ".outrider" / "emergency_stops").iterdir()) == []


def test_the_record_is_private_and_a_folder_that_cannot_be_written_is_named(home: Path) -> None:
    StopRecord("/action").keep(True)
    (file,) = (home / ".outrider" / "emergency_stops").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    StopRecord("/action").keep(False)
    file.parent.rmdir()
    file.parent.write_text("in the way")
    with pytest.raises(ConfigError, match="emergency_stops"):
        StopRecord("/action").keep(True)
