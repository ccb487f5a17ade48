"""A simulated robot without ROS remembers what it saw on the way to one thing, and finds the next by it."""

from __future__ import annotations

import queue
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from support.errands import Listener

from outrider.console.robot import GoalEnd
from outrider.decoding.config import DecodingConfig
from outrider.evaluation.pair import plans
from outrider.runtime.common.paths import models_folder
from outrider.runtime.datasets import held_out
from outrider.runtime.mission.words import vocabulary_of
from outrider.runtime.no_ros.one_process import run_in_one_process
from outrider.runtime.no_ros.simulated_robot import SimulatedRobot
from outrider.runtime.node_graph.simulation_specs import SIMULATION
from outrider.runtime.wiring import decoders
from outrider.simulation.homes.home import generate_home

FIRST, SECOND = "silver bottle", "red ball"
SENTENCE = f"find the {FIRST}, then find the {SECOND}"


def demo(tmp_path: Path) -> str:
    run_in_one_process(SENTENCE, DecodingConfig(), out=tmp_path, video=False)
    return SECOND


def console(tmp_path: Path) -> str:
    folder, ends = models_folder(), queue.Queue[GoalEnd]()
    world = SIMULATION.checked({"holds": FIRST})
    with closing(SimulatedRobot(world, folder, vocabulary_of(str(folder / "draft")))) as robot:
        robot.send_goal(SENTENCE, ends.put)
        assert ends.get(timeout=60.0).success
    return SECOND


def evaluation(tmp_path: Path) -> str:
    plans.evaluate_plans(1, 0, finds=2, run=tmp_path)
    (task,) = plans.plan_tasks(1, 0, 2, "pair", tmp_path, 1)
    home = generate_home(task.home_seed, placement=task.placement)
    return plans.distinguishable_objects(home)[1].spec.phrase


@pytest.mark.parametrize("run", [demo, console, evaluation])
def test_a_find_begins_with_what_the_one_before_it_saw(
    run: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = "; ".join(f"{thing} left 20 at 2.0 m" for thing in (SECOND, "blue bench", "silver plant"))
    listener = Listener([f"turn left small\nsearch: {scene}", "stop\narrived: there"])
    monkeypatch.setattr(held_out, "load_pair", lambda folder: held_out.Pair(None, None))  # type: ignore[arg-type]
    monkeypatch.setattr(decoders, "local_decoder", lambda *_: listener)
    monkeypatch.setattr(plans, "decoder_of", lambda *_: listener)
    second = run(tmp_path)
    prompts = listener.prompts[:3]
    assert [f"memory: saw {second} " in prompt for prompt in prompts] == [False, False, True]
    assert f"task: find the {second}\n" in prompts[2]
