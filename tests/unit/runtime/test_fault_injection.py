"""Faults during motion, one of each kind: the robot stands in time, and the goal reports how it ended."""

import functools
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from outrider.core.errors import OutriderError
from outrider.evaluation.safety import injection
from outrider.evaluation.safety.base_wires import DirectWire
from outrider.evaluation.safety.faults import FAULTS, Fault
from outrider.evaluation.safety.guide import Guide
from outrider.evaluation.safety.injection import TARGET, Trial, evaluate_safety, figures_of, run_trial
from outrider.evaluation.safety.sensor_faults import SCAN_FAULTS, follows
from outrider.evaluation.safety.world import SafetyWorld
from outrider.navigation.motion import controller, motion_bounds, pilot
from outrider.navigation.motion.pilot import Pilot
from outrider.navigation.sensing.scan_check import ScanSample
from outrider.simulation.homes.home import generate_home

HOME = generate_home(0, TARGET, "in_view")
MOVING_STEPS = 600


def named(name: str) -> Fault:
    return next(fault for fault in FAULTS if fault.name == name)


def run(name: str, motion: str = "continuous") -> Trial:
    return run_with(named(name), motion)


def run_with(fault: Fault, motion: str = "continuous") -> Trial:
    return run_trial(HOME, fault, np.random.default_rng(3), MOVING_STEPS, motion=motion)


trial_of = functools.cache(run)


@pytest.mark.lengthy
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_robot_stands_in_time_and_the_goal_has_a_clear_end(fault: Fault) -> None:
    trial = trial_of(fault.name)
    assert 0.0 <= trial.to_zero_s <= 0.3 and not trial.missed
    assert not trial.unclear, trial
    assert trial.reached or trial.message


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "name",
    [
        "late verdict",
        "verifier killed",
        "camera frozen",
        "scan frozen",
        "something steps in",
        "emergency stop let go at once",
        "joystick let go before a verdict",
    ],
)
def test_stepwise_motion_stands_in_time_too(name: str) -> None:
    trial = run(name, "stepwise")
    assert 0.0 <= trial.to_zero_s <= 0.3 and not trial.missed and not trial.unclear


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "name",
    [
        "navigator killed",
        "action node killed",
        "network blackout, once missed",
        "camera frozen",
        "odometry quaternion never filled in",
        "odometry jumps back",
        "odometry two sources",
        "clock goes back",
        "late verdict",
    ],
)
def test_the_search_goes_on_once_the_cause_is_gone(name: str) -> None:
    assert trial_of(name).reached


@pytest.mark.lengthy
@pytest.mark.parametrize("seed", range(6))
def test_an_action_node_that_takes_a_report_with_it_costs_no_goal(seed: int) -> None:
    trial = run_trial(HOME, named("action node killed"), np.random.default_rng(seed), MOVING_STEPS)
    assert trial.reached and not trial.missed, trial


@pytest.mark.lengthy
def test_a_goal_that_the_models_or_a_person_ended_names_the_cause() -> None:
    assert "degrees of turning" in trial_of("turns without end").message
    assert trial_of("emergency stop").error == "EMERGENCY_STOP"


@pytest.mark.lengthy
def test_a_robot_that_stops_too_late_is_counted() -> None:
    silent = named("camera silent")

    def begin(world: SafetyWorld, guide: Guide) -> None:
        world.camera_silence_s = 2.0
        silent.begin(world, guide)

    late = run_with(replace(silent, begin=begin))
    assert late.missed
    figures = figures_of([late, trial_of("emergency stop")])
    assert figures["missed"] == 1 and figures["worst_to_zero_s"] == round(late.to_zero_s, 3)
    assert figures["faults"]["emergency stop"]["missed"] == 0


@pytest.mark.lengthy
def test_a_robot_that_goes_far_beyond_a_command_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert trial_of("odometry stands still").overrun_m < 0.3
    monkeypatch.setattr(motion_bounds.MotionBounds, "is_behind", lambda *_: False)

    def begin(world: SafetyWorld, guide: Guide) -> None:
        """Sets odometry to a tenth of the motion, which is enough to count as progress."""
        world.switches.odometry = lambda first, now: (follows(first, now, 0.1),)

    far = run_with(replace(named("odometry stands still"), begin=begin), "stepwise")
    assert far.missed and far.overrun_m > 0.3 and far.to_zero_s == 0.0
    assert figures_of([far])["worst_overrun_m"] == round(far.overrun_m, 3)


NO_HOLD = Pilot, "emergency", property(lambda self: False, lambda self, engaged: None)
ANY_FRAME = Pilot, "_is_from_before", lambda *_: False
ANY_CLOCK = pilot, "clock_off", lambda age_s: ""
BLIND = controller, "scan_points", lambda *_: controller.NOTHING_SEEN


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("emergency stop", NO_HOLD),
        ("emergency stop, joystick held", NO_HOLD),
        ("emergency stop let go at once", ANY_FRAME),
        ("joystick let go before a verdict", ANY_FRAME),
        ("pictures stamped 5 s ahead", ANY_CLOCK),
        ("something steps in", BLIND),
    ],
    ids=lambda value: value if isinstance(value, str) else value[1],
)
def test_a_broken_rule_is_counted(
    name: str, broken: tuple[object, str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*broken, raising=False)
    trial = run(name)
    assert math.isfinite(trial.to_zero_s) and trial.missed, trial
    assert (trial.touches > 0) == (broken is BLIND)
    assert figures_of([trial])["touches"] == trial.touches


def test_a_robot_that_reaches_nothing_without_a_fault_ends_the_trials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(injection, "undisturbed", lambda home, seed, motion: 0)
    with pytest.raises(OutriderError, match="without a fault the goal is reached in 0 of"):
        injection.usable_homes(0, "continuous")


def test_an_end_without_a_reason_is_unclear() -> None:
    assert Trial("x", 0.1, False, "NONE", "why").unclear and Trial("x", 0.1, False, "NO_SENSOR", "").unclear
    assert not Trial("x", 0.1, False, "NO_SENSOR", "no odometry").unclear


@pytest.mark.lengthy
def test_the_command_writes_its_figures(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(injection, "usable_homes", lambda seed, motion: [(HOME, MOVING_STEPS)])
    evaluate_safety(2, 1, tmp_path / "safety.json", {"direct": DirectWire})
    figures = json.loads((tmp_path / "safety.json").read_text())
    assert figures["injections"] == len(figures["trials"]) == 2 and figures["missed"] == 0
    assert figures["bases"]["direct"]["injections"] == 2


def test_scans_that_come_late_are_of_their_own_trial() -> None:
    def scan(stamp_s: float) -> ScanSample:
        return ScanSample(np.ones(4), -1.0, 1.0, 0.5, 0.1, 10.0, "lidar", stamp_s)

    late = SCAN_FAULTS["late by 1.3 s"]
    first, second = scan(8.0), scan(9.0)
    sent = [scan(8.0 + 0.125 * number) for number in range(1, 17)]
    arrived = [one.stamp_s for now in sent for one in late(first, now)]
    assert arrived == [one.stamp_s for one in sent[:5]]
    assert late(second, scan(10.125)) == (), "nothing of the trial before"
