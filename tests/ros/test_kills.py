"""`outrider eval kills` with a few kills: the shipped pair in processes of its own."""

from __future__ import annotations

import contextlib
import json
import math
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import wait_until
from outrider_interfaces.msg import VerifiedText

from outrider.core.errors import OutriderError
from outrider.core.values import Velocity
from outrider.evaluation.kills.end_stages import is_alive
from outrider.evaluation.kills.end_trials import samples_from
from outrider.evaluation.kills.ends import chosen_ends
from outrider.evaluation.kills.hedged_kills import evaluate_hedged_kills
from outrider.evaluation.kills.hedged_trials import longest_stand_s
from outrider.evaluation.kills.kill_scene import Sample, Scene, longest_gap_s, wait_for
from outrider.evaluation.kills.kill_trials import kill_in, last_action, motion_since, to_zero_s
from outrider.evaluation.kills.process_ends import evaluate_ends
from outrider.evaluation.kills.process_kills import evaluate_kills
from outrider.runtime.common.paths import models_folder
from outrider.runtime.mission.simulated_base import MAX_LAG_S
from outrider.runtime.processes.ros_env import ros_environment

pytestmark = [pytest.mark.ros, pytest.mark.xdist_group("graph")]
NEAR_SEED = 23
"""A home whose bottle is six steps away: enough time for kills."""
SHORT_SEED = 31
"""A home whose goal takes half a minute, and does not end before a verifier can be killed."""
SOON_M = 0.3


@pytest.mark.timeout(900)  # a model is loaded several times: a minute, or minutes on a starved machine
def test_a_killed_verifier_costs_no_token_and_a_killed_camera_stops_the_robot(tmp_path: Path) -> None:
    figures = evaluate_kills(2, 1, NEAR_SEED, None, tmp_path / "kills.json")
    verifier, texts = figures["verifier_kills"], figures["texts"]
    assert verifier["kills"] == 2 and verifier["unbounded"] == 0
    assert figures["reached"] == figures["goals"] >= 1
    assert texts["steps"] >= 2 and texts["agree"] == texts["steps"]
    camera = figures["node_kills"]["camera"]
    # The bounds are wide, because the load of this machine delays the stop.
    assert camera["kills"] == camera["moving"] == 1 and camera["most_metres"] < SOON_M
    assert camera["worst_to_zero_s"] < 1.0
    assert json.loads((tmp_path / "kills.json").read_text())["runs"]


@pytest.mark.timeout(900)
def test_a_kill_of_one_of_two_verifiers_costs_no_token(tmp_path: Path) -> None:
    figures = evaluate_hedged_kills(1, SHORT_SEED, None, tmp_path, None)
    assert figures["kills"] == 1 and figures["texts"] >= 2
    # How long the robot stands depends on the load of this machine, so it is not checked.
    assert figures["tokens_lost"] == 0


def test_a_stand_is_the_longest_time_without_motion_that_the_base_lived_through() -> None:
    ahead, still = Velocity(vx=0.5), Velocity()
    times_s = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    samples = [Sample(at_s, still if at_s in (0.1, 0.2, 0.4) else ahead) for at_s in times_s]
    assert longest_stand_s(samples, 0.0, 1.0) == pytest.approx(0.2)
    assert longest_stand_s(samples, 0.25, 1.0) == pytest.approx(0.1)
    assert longest_stand_s(samples, 0.0, 0.15) == pytest.approx(0.05)
    assert longest_stand_s([Sample(0.0, still), Sample(5.0, ahead)], 0.0, 9.0) == pytest.approx(MAX_LAG_S)


@pytest.mark.timeout(600)
def test_without_the_console_the_robot_stands_and_without_a_recorder_it_gets_there(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    with Scene(tmp_path, NEAR_SEED, "hidden", models_folder(None), ["console", "record"]) as scene:
        scene.await_ready()
        # Run the goal first: after the manual drive it would start wherever that ended.
        recorder, console = (kill_in(scene, name, rng) for name in ("record", "console"))
    assert console.moving and console.reached is None
    assert console.to_zero_s < 1.0 and console.metres < SOON_M
    assert recorder.moving and recorder.reached


def test_the_time_to_zero_ends_with_the_last_moving_command() -> None:
    ahead, still = Velocity(vx=0.5), Velocity()
    samples = [Sample(0.0, ahead), Sample(0.1, ahead), Sample(0.3, still), Sample(0.4, still)]
    assert to_zero_s(samples, 0.05, 0.5) == pytest.approx(0.25)
    assert to_zero_s(samples, 0.2, 0.5) == 0.0
    assert to_zero_s([*samples, Sample(0.5, ahead)], 0.05, 0.45) == pytest.approx(0.25)
    assert motion_since(samples, -1.0) == pytest.approx((0.15, 0.0))


def test_a_base_that_is_held_up_neither_drives_nor_grows_late() -> None:
    ahead, still = Velocity(vx=0.5), Velocity()
    held_up = [Sample(0.1, ahead), Sample(2.1, still)]
    assert to_zero_s(held_up, 0.05, 2.2) == pytest.approx(0.05 + MAX_LAG_S)
    assert to_zero_s(held_up, 0.05, 2.2, steady=False) == pytest.approx(2.05)
    assert motion_since([Sample(0.0, ahead), Sample(2.0, still)], -1.0) == pytest.approx(
        (0.5 * MAX_LAG_S, 0.0)
    )


def test_without_velocities_to_the_end_nothing_is_known_to_stand() -> None:
    ahead, still = Velocity(vx=0.5), Velocity()
    samples = [Sample(0.1, ahead), Sample(0.2, still)]
    assert to_zero_s([], 0.05, 0.5) == math.inf
    assert to_zero_s(samples, 0.3, 0.5) == math.inf
    assert to_zero_s([*samples, Sample(0.4, ahead)], 0.05, 0.5) == math.inf
    assert to_zero_s(samples, 0.05, 9.0) == math.inf
    assert to_zero_s(samples, 0.05, 9.0, steady=False) == pytest.approx(0.15)


def test_a_watcher_that_did_not_listen_knows_for_how_long() -> None:
    assert longest_gap_s([1.0, 1.1, 3.1, 3.2], 1.0) == pytest.approx(2.0)
    # Only the part of a gap after the end counts.
    assert longest_gap_s([1.0, 3.0, 3.1], 2.9) == pytest.approx(0.1)
    assert longest_gap_s([1.0, 3.0], 3.0) == longest_gap_s([], 3.0) == 0.0


def test_what_may_move_the_robot_is_the_newest_text_s_action() -> None:
    text = VerifiedText(action="turn left small", action_complete=True)
    assert last_action([text]) == "turn left small"
    assert last_action([text, VerifiedText(step=2)]) == last_action([]) == ""
    taken_back = VerifiedText(action="turn left small", action_complete=True, state=VerifiedText.WITHDRAWN)
    assert last_action([taken_back]) == ""


def test_a_wait_ends_with_the_goal_and_with_its_limit() -> None:
    assert wait_for(lambda: True, 0.0, "it", lambda: True) is True
    assert wait_for(lambda: False, 9.0, "it", lambda: True) is False
    with pytest.raises(OutriderError, match="it: not within"):
        wait_for(lambda: False, 0.0, "it")


@pytest.mark.timeout(300)
def test_an_end_of_gazebos_deadman_is_watched_until_the_base_stands(tmp_path: Path) -> None:
    file = tmp_path / "ends.json"
    figures = evaluate_ends(chosen_ends("sigkill-gazebo,misfits-gazebo"), 1, 5, None, file)
    rows = figures["ends"]
    # The bound is wide, because the load of this machine delays the stop.
    assert rows["sigkill-gazebo"]["trials"] == 1 and 0.05 < rows["sigkill-gazebo"]["worst_to_zero_s"] < 1.0
    assert rows["sigkill-gazebo"]["outlived"] == 0 and rows["sigkill-gazebo"]["reason"]
    assert rows["misfits-gazebo"] | {"failed": 0} == rows["misfits-gazebo"]
    assert json.loads(file.read_text())["trials"]


KILLS = """
import sys
from outrider.cli import main
sys.argv = ["outrider", "eval", "kills", "--kinds", "sigstop-gazebo", "--trials", "9"]
main()
"""


def of_scratch(scratch: Path) -> list[int]:
    """Returns the processes whose temporary folder is `scratch`."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            environment = (entry / "environ").read_bytes() if entry.name.isdigit() else b""
            if f"TMPDIR={scratch}".encode() in environment.split(b"\0") and is_alive(int(entry.name)):
                found.append(int(entry.name))
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGINT, "frozen"),
        (signal.SIGTERM, "starting"),
        (signal.SIGKILL, "starting"),
        (signal.SIGKILL, "frozen"),
    ],
)
def test_trials_that_are_broken_off_leave_no_process(
    number: signal.Signals, moment: str, tmp_path: Path
) -> None:
    env = {**ros_environment(), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", KILLS]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as cli:
        assert cli.stderr is not None
        if moment == "starting":
            wait_until(lambda: len(of_scratch(tmp_path)) > 2, "its first node", timeout_s=60.0)
        else:
            wait_until(lambda: any(map(is_stopped, of_scratch(tmp_path))), "a frozen one", timeout_s=120.0)
        cli.send_signal(number)
        cli.wait(60.0)
        wait_until(lambda: not of_scratch(tmp_path), "the end of every process", timeout_s=60.0)
        assert "Traceback" not in cli.stderr.read()


def is_stopped(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False


def test_what_held_when_a_process_ended_counts_from_then() -> None:
    ahead, still = Velocity(vx=0.5), Velocity()
    samples = samples_from([Sample(0.1, still), Sample(0.2, ahead), Sample(0.5, still)], 0.3)
    assert to_zero_s(samples, 0.3, 0.6, steady=False) == pytest.approx(0.2)
    assert motion_since(samples, 0.3)[0] == pytest.approx(0.1, abs=1e-4)
