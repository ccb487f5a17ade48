"""Faults during motion with the real commands of a base: some of each kind, for each command interface."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from std_msgs.msg import Bool

from outrider.evaluation.safety.faults import FAULTS, GO2_FAULTS, Fault
from outrider.evaluation.safety.injection import TARGET, Trial, run_safety, run_trial
from outrider.evaluation.safety.trials import WIRES, VirtualDomain
from outrider.nodes.common import qos
from outrider.nodes.go2.go2_command import Go2Command
from outrider.simulation.homes.home import generate_home

pytestmark = pytest.mark.ros
HOME = generate_home(0, TARGET, "in_view")
WORDS = {
    "Go2 damped": "damped",
    "Go2 lies down": "lying",
    "Go2's joints locked": "locked",
    "Go2's Move answered -1": "code -1",
    "Go2's battery low": "5 percent",
    "another program commands the Go2": "another program commands",
    "Go2's avoidance taken by another": "another program commands",
}
NAMES = ("navigator killed", "action node killed", "base's DDS peer killed", "scan silent", "two drivers")


@pytest.mark.parametrize("base", WIRES)
@pytest.mark.parametrize("name", NAMES)
def test_every_base_stands_in_time_and_the_goal_has_a_clear_end(base: str, name: str) -> None:
    fault = next(fault for fault in FAULTS if fault.name == name)
    trial = run_trial(HOME, fault, np.random.default_rng(3), 600, base, WIRES[base])
    assert 0.0 <= trial.to_zero_s <= 0.3 and not trial.missed, trial
    assert not trial.unclear and trial.base == base
    assert trial.reached or name == "scan silent", trial


@pytest.mark.parametrize(
    ("fault", "base"),
    [
        (fault, base)
        for fault in GO2_FAULTS
        if fault.name in WORDS
        for base in WIRES
        if base.startswith(fault.bases)
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_go2_that_cannot_be_moved_is_named_or_goes_on_once_it_can(fault: Fault, base: str) -> None:
    lasting = replace(fault, lasts_s=(40.0, 40.0))
    for one in (fault, lasting):
        trial = run_trial(HOME, one, np.random.default_rng(3), 600, base, WIRES[base])
        assert 0.0 <= trial.to_zero_s <= 0.3 and not trial.missed and not trial.unclear, trial
        if one is fault:
            assert trial.reached, trial
        else:
            assert trial.error == "MOTION_FAILED" and WORDS[fault.name] in trial.message, trial


def test_a_go2_that_stands_up_while_it_is_held_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = next(fault for fault in GO2_FAULTS if "replaced" in fault.name)

    def replaced() -> Trial:
        return run_trial(HOME, fault, np.random.default_rng(3), 600, "sport", WIRES["sport"])

    held = replaced()
    assert not held.missed and not held.unclear, held
    tick = Go2Command.tick
    monkeypatch.setattr(Go2Command, "tick", lambda self, held=False: tick(self))
    late = replaced()
    assert math.isfinite(late.to_zero_s) and late.missed, late


def test_the_command_runs_them_in_a_process_of_their_own(tmp_path) -> None:
    assert run_safety(1, 1, tmp_path / "safety.json") == 0
    figures = json.loads((tmp_path / "safety.json").read_text())
    assert figures["injections"] == 1 and figures["bases"]["twist"]["missed"] == 0


def test_messages_of_a_virtual_domain_are_heard_once_in_order_and_the_newest_are_kept() -> None:
    domain, received = VirtualDomain(), []
    listener, speaker = domain.join(), domain.join()
    listener.subscription(Bool, "one", received.append, qos.COMMAND)
    listener.subscription(Bool, "many", received.append, qos.EVENTS)
    one, many = speaker.publisher(Bool, "one", qos.COMMAND), speaker.publisher(Bool, "many", qos.EVENTS)
    for number in range(3):
        one.publish(("one", number))
        many.publish(("many", number))
    assert received == []
    domain.deliver()
    assert received == [("one", 2), ("many", 0), ("many", 1), ("many", 2)]
    domain.deliver()
    one.publish("to nobody")
    domain.deliver(dead=(listener,))
    domain.deliver()
    assert len(received) == 4
    assert one.get_subscription_count() == 1 and listener.count_publishers("one") == 1
    domain.leave(listener)
    assert one.get_subscription_count() == 0
