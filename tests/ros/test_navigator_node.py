"""The navigator node: its parameters, its configuration, its first goals and its sign of life."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Client, wait_until
from fakes import ScriptedDecoder
from outrider_interfaces.action import Navigate
from outrider_interfaces.msg import VerifiedText
from rclpy.action import GoalResponse
from rclpy.lifecycle import TransitionCallbackReturn
from support_ros import EdgeNavigator, Goals, PatientAction, Run

from outrider.core.errors import MemoryStoreError
from outrider.nodes.common import qos
from outrider.nodes.navigator import navigator_node
from outrider.nodes.navigator.navigator_node import NavigatorNode
from outrider.nodes.navigator.verifier_node import VerifierNode
from outrider.nodes.simulation.simulation_node import SimulationNode
from outrider.runtime.common.ports import free_port
from outrider.runtime.mission.robot_side import StepState, StepUpdate
from outrider.runtime.wiring.robot_pair import Edge, EdgeSettings

pytestmark = pytest.mark.ros


def test_of_two_goals_at_once_one_is_rejected(run_node: Run) -> None:
    """The second is judged before the first executes: if accepted, it would move the robot later."""
    navigator = run_node(lambda: EdgeNavigator({"use_memory": False}), threads=4).node
    answers = [navigator._on_goal(Navigate.Goal(instruction="find the red chair")) for _ in range(2)]
    assert answers == [GoalResponse.ACCEPT, GoalResponse.REJECT]


def test_texts_are_drawn_as_the_parameters_say(run_node: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[EdgeSettings] = []

    def open_scripted(settings: EdgeSettings) -> Edge:
        opened.append(settings)
        return Edge(ScriptedDecoder([]), None)

    monkeypatch.setattr(navigator_node, "open_edge", open_scripted)
    given = {"temperature": 0.7, "top_p": 0.9, "top_k": 40, "seed": (1 << 63) - 1}
    for parameters in ({}, given):
        run_node(lambda given=parameters: NavigatorNode({"use_memory": False, **given}))
    greedy, sampled = (settings.config for settings in opened)
    assert (greedy.temperature, greedy.top_p, greedy.top_k, greedy.seed) == (0.0, 1.0, 0, 0)
    assert {name: getattr(sampled, name) for name in given} == given


def test_what_a_failed_configuration_has_opened_is_closed(run_node: Run) -> None:
    """Otherwise each retry of a lifecycle manager would leak a link and a draft model."""
    opened: list[ScriptedDecoder] = []

    class ForgetfulNavigator(NavigatorNode):
        def open_edge(self) -> Edge:
            opened.append(ScriptedDecoder(["open"]))
            return Edge(opened[-1], None)

        def open_recollection(self) -> None:
            raise MemoryStoreError("the memory cannot be opened")

    navigator = run_node(lambda: ForgetfulNavigator({"autostart": False})).node
    for _ in range(2):
        assert navigator.trigger_configure() is TransitionCallbackReturn.FAILURE
    assert len(opened) == 2 and not any(decoder.script for decoder in opened)


def test_a_verifier_that_is_down_at_the_start_is_waited_for(
    run_node: Run, client: Client, tiny_model_folder: Path
) -> None:
    """Uses the real edge and tiny random models, whose texts are no actions: the first one ends the goal."""
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    texts = client.listen(VerifiedText, "verified_text", qos.EVENTS)
    draft = str(tiny_model_folder / "draft")
    options = {"endpoint": endpoint, "draft_model": draft, "answer_deadline_s": 1.0, "max_new_tokens": 16}
    run_node(lambda: SimulationNode({"seed": 3, "odometry_noise": 0.0}))
    run_node(PatientAction)
    run_node(lambda: NavigatorNode(options), threads=4)
    goals = Goals(client)
    handle = goals.send("find the silver bottle")
    withdrawn = wait_until(
        lambda: [text for text in texts if text.state == VerifiedText.WITHDRAWN], "the message", 30.0
    )
    assert endpoint in withdrawn[0].text
    verifier = run_node(
        lambda: VerifierNode({"endpoint": endpoint, "model": str(tiny_model_folder / "target")})
    )
    result = goals.result(handle)
    assert "no action" in result.message and any(text.verified_tokens for text in texts)
    assert verifier.node.health()[0] == ""


def test_a_slow_simulated_clock_does_not_hold_up_the_sign_of_life(run_node: Run, client: Client) -> None:
    texts = client.listen(VerifiedText, "verified_text", qos.EVENTS)
    navigator = run_node(lambda: EdgeNavigator({"use_memory": False, "use_sim_time": True}), threads=4)
    wait_until(lambda: navigator.node._robot.texts.get_subscription_count(), "the client's subscription")
    navigator.node._robot.publish_step(StepUpdate("s", 1, StepState.DECODING))
    wait_until(lambda: len(texts) > 3, "the text again and again, while the clock stands still", 5.0)
