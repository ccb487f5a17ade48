"""How the ends of processes are judged, chosen and reported."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.core.errors import ConfigError
from outrider.evaluation.kills.ends import ENDS, ROBOT_NODES, chosen_ends
from outrider.evaluation.kills.process_ends import (
    Trial,
    ends_figures,
    failures,
    faults_of,
    read_trials,
    reasons,
    trial_line,
    write_trials,
)

STOOD = Trial("sigterm-action", 0.1, went_on=True, reason="the action node was deactivated")
FROZEN = Trial("sigstop-navigator", 0.28, there=True, went_on=True)
MISFIT = Trial("misfits-camera", math.inf, there=True, went_on=True)
VERIFIER = Trial("sigkill-verifier", 1.2, 0.4, 1.0, "move forward medium", went_on=True)


def test_every_signal_and_defect_is_tried_on_every_node_that_matters() -> None:
    for node in (*ROBOT_NODES, "gazebo"):
        for way in ("sighup", "sigquit", "sigint", "sigterm", "sigkill", "thread", "callback"):
            assert ENDS[f"{way}-{node}"].stands and not ENDS[f"{way}-{node}"].survives
    assert len(ENDS) == len({end.kind for end in ENDS.values()}) > 50
    assert ENDS["sigstop-action"].survives and ENDS["sigkill-supervisor"].stands


def test_ends_are_chosen_by_kind_way_and_process() -> None:
    assert chosen_ends("") == chosen_ends(" ") == list(ENDS.values())
    assert [end.kind for end in chosen_ends("sigkill-supervisor, SIGSTOP-Action")] == [
        "sigstop-action",
        "sigkill-supervisor",
    ]
    assert {end.process for end in chosen_ends("sigterm")} == {*ROBOT_NODES, "gazebo"}
    assert {end.process for end in chosen_ends("camera")} == {"camera"}
    with pytest.raises(ConfigError, match=r"'sigterm-actoin'; did you mean sigterm-action\?"):
        chosen_ends("sigterm-actoin")
    with pytest.raises(ConfigError, match=r"'xyzzy'; known: action"):
        chosen_ends("xyzzy")


@pytest.mark.parametrize("trial", [STOOD, FROZEN, MISFIT, VERIFIER], ids=lambda trial: trial.kind)
def test_what_is_as_it_must_be_has_no_fault(trial: Trial) -> None:
    assert faults_of(trial) == []


@pytest.mark.parametrize(
    ("trial", "fault"),
    [
        (replace(STOOD, to_zero_s=0.31), "stood after 0.31 s, 0.3 s are allowed"),
        (replace(STOOD, to_zero_s=math.inf), "the robot never stood"),
        (replace(STOOD, outlived=("action",)), "action outlived it"),
        (replace(STOOD, error="no motion"), "no trial: no motion"),
        (replace(FROZEN, there=False), "navigator ended"),
        (replace(MISFIT, there=False), "camera ended"),
        (replace(MISFIT, went_on=False), "the robot did not go on"),
        (replace(VERIFIER, metres=0.9), "0.90 m and 1 degrees after 'move forward medium'"),
        (replace(VERIFIER, action="", metres=0.2), "0.20 m and 1 degrees after 'nothing'"),
    ],
)
def test_what_is_not_as_it_must_be_is_named(trial: Trial, fault: str) -> None:
    assert faults_of(trial) == [fault]
    assert "FAILED" in trial_line(trial) and fault in trial_line(trial)


def test_a_row_has_median_worst_bound_outliving_and_reason_of_its_kind() -> None:
    late = replace(STOOD, to_zero_s=0.5, outlived=("action",))
    rows = ends_figures([STOOD, late, replace(STOOD, to_zero_s=0.2), MISFIT, replace(FROZEN, error="no")])
    assert rows["sigterm-action"] == {
        "trials": 3,
        "median_to_zero_s": 0.2,
        "worst_to_zero_s": 0.5,
        "bound": "0.3 s",
        "outlived": 1,
        "reason": "the action node was deactivated",
        "failed": 1,
    }
    assert rows["misfits-camera"]["bound"] == "goes on" and rows["misfits-camera"]["worst_to_zero_s"] is None
    assert rows["sigstop-navigator"]["trials"] == 0 and rows["sigstop-navigator"]["failed"] == 1
    assert reasons(rows) == [
        "sigterm-action: the action node was deactivated",
        "sigstop-navigator: nothing",
    ]
    assert list(rows) == [kind for kind in ENDS if kind in rows]


def test_a_failure_is_told_with_what_was_seen() -> None:
    lines = failures([STOOD, replace(STOOD, to_zero_s=0.4, seen="0.38 s: it moved\nsaid: nothing")])
    assert lines[0].startswith("sigterm-action: stood after") and lines[1:] == [
        "    0.38 s: it moved",
        "    said: nothing",
    ]


def test_trials_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    trials = [STOOD, replace(MISFIT, outlived=("a", "b")), VERIFIER]
    write_trials(tmp_path / "t.json", trials)
    assert read_trials(tmp_path / "t.json") == trials


PARENT = """
import sys
from outrider.evaluation.common.trials import run_trials
sys.exit(run_trials(*sys.argv[1:]))
"""
TRIALS = """
import os, signal, sys, time
from outrider.runtime.common.ending_signals import when_parent_ends
when_parent_ends(lambda: os._exit(9))
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.2), print("in order", flush=True), os._exit(5)))
print(os.getpid(), flush=True)
if len(sys.argv) > 1:
    sys.exit(int(sys.argv[1]))
time.sleep(60)
"""


@pytest.fixture
def parent(tmp_path: Path) -> subprocess.Popen[str]:
    """Starts a process that runs trials in another one, which first prints its process id."""
    (tmp_path / "some_trials.py").write_text(TRIALS)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", PARENT, "some_trials"]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_a_signal_ends_the_trials_in_order_and_once(
    number: signal.Signals, parent: subprocess.Popen[str]
) -> None:
    assert parent.stdout is not None
    trials = int(parent.stdout.readline())
    parent.send_signal(number)
    parent.send_signal(number)
    output, _ = parent.communicate(timeout=20.0)
    assert output == "in order\n" and parent.returncode not in (0, None)
    with pytest.raises(ProcessLookupError):
        os.kill(trials, 0)


def test_trials_do_not_outlive_a_parent_that_is_killed(parent: subprocess.Popen[str]) -> None:
    assert parent.stdout is not None and parent.stdout.readline()
    parent.kill()
    # The pipe closes once no process holds it.
    assert parent.communicate(timeout=20.0)[0] == ""
