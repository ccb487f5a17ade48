"""`Navigate` end to end: simulation, action node and navigator over DDS, with a scripted decoder."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from conftest import Client, NodeThread, wait_until
from fakes import SLOW_CAMERA, ScriptedDecoder, link_error
from outrider_interfaces.action import Navigate
from outrider_interfaces.msg import PlanProgress, SimulationState, VerifiedText
from rcl_interfaces.msg import Log
from rclpy.action import GoalResponse
from rclpy.lifecycle import TransitionCallbackReturn
from sensor_msgs.msg import Image
from std_msgs.msg import Bool
from std_srvs.srv import SetBool
from support_ros import FakeBase, Goals, PatientAction, StillCamera, result_of

from outrider.core.errors import Cancelled, MemoryStoreError
from outrider.core.language.grammar import Vocabulary
from outrider.core.values import Decoded, DecodeRequest, Pose2D, Verified, wrap_angle
from outrider.navigation.clocks import NO_CLOCK
from outrider.navigation.motion.step_motions import Ending
from outrider.nodes.common import convert, qos
from outrider.nodes.navigator import navigator_node
from outrider.nodes.navigator.client_watch import LOOKS, NO_CLIENT
from outrider.nodes.navigator.goal_slot import GoalSlot
from outrider.nodes.navigator.navigator_node import E_STOPPED, STOP_REQUESTED, NavigatorNode
from outrider.nodes.navigator.verifier_node import VerifierNode
from outrider.nodes.simulation.simulation_node import SimulationNode
from outrider.runtime.common.ports import free_port
from outrider.runtime.mission.goal_run import GoalSettings
from outrider.runtime.mission.robot_side import StepState, StepUpdate
from outrider.runtime.mission.sender_heartbeats import POLL_PERIOD_S
from outrider.runtime.plans.errand import STANDS
from outrider.runtime.wiring.robot_pair import Edge, EdgeSettings
from outrider.simulation.simulator import Simulator

pytestmark = pytest.mark.ros
WORDS = Vocabulary({"colour": ("red",), "kind": ("chair",)})


@dataclass
class Robot:
    """The running graph and its messages."""

    decoder: ScriptedDecoder
    goals: Goals
    texts: list[VerifiedText]
    states: list[SimulationState]

    def pose(self) -> Pose2D:
        return convert.pose_of(wait_until(lambda: self.states, "the simulation")[-1].pose)

    def stands(self) -> bool:
        """Returns whether the pose has not changed over the last four states."""
        recent = [convert.pose_of(state.pose) for state in self.states[-4:]]
        return len(recent) == 4 and all(p.distance_to(recent[0].x, recent[0].y) < 0.01 for p in recent)


@pytest.fixture
def robot(run_node: Callable[..., NodeThread], client: Client) -> Iterator[Robot]:
    decoder = ScriptedDecoder([])

    class ScriptedNavigator(NavigatorNode):
        def open_edge(self) -> Edge:
            return Edge(decoder, WORDS)

    texts = client.listen(VerifiedText, "verified_text", qos.EVENTS)
    states = client.listen(SimulationState, "simulation_state", qos.EVENTS)
    run_node(lambda: SimulationNode({"seed": 3, "placement": "in_view", "odometry_noise": 0.0}))
    run_node(PatientAction)
    run_node(lambda: ScriptedNavigator({"link_patience_s": 20.0, **SLOW_CAMERA}), threads=4)
    goals = Goals(client)
    wait_until(lambda: client.node.count_subscribers("verified_text") >= 2, "the action node's subscription")
    wait_until(lambda: states, "the simulation")
    yield Robot(decoder, goals, texts, states)


def test_a_goal_moves_step_by_step_and_succeeds_at_the_stop(robot: Robot) -> None:
    robot.decoder.script += ["turn left small\nlook: nothing", "turn right small\nlook: nothing"]
    before = robot.pose()
    result = robot.goals.result(robot.goals.send("find the red chair"))
    assert result.success and result.error_code == Navigate.Result.NONE, result.message
    assert result.steps == 3
    assert robot.pose().distance_to(before.x, before.y) < 0.1
    actions = [f.action for f in robot.goals.feedback if f.action]
    assert set(actions) == {"turn left small", "turn right small", "stop"}
    assert "turn left small" in robot.decoder.prompts[1] and "turned: 15" in robot.decoder.prompts[1]
    latencies = [f.latency_s for f in robot.goals.feedback if f.action]
    assert min(latencies) > 0.0 and max(latencies) < 5.0


def test_the_robot_moves_while_the_reason_is_still_being_verified(robot: Robot) -> None:
    robot.decoder.script += ["turn left large\nlook: a long reason"]
    robot.decoder.between_s = 60.0
    before = robot.pose()
    handle = robot.goals.send("find the red chair")
    wait_until(lambda: abs(robot.pose().yaw - before.yaw) > 0.2, "the turn")
    assert not any(text.state == VerifiedText.FINISHED for text in robot.texts)
    robot.decoder.between_s = 0.0
    assert robot.goals.result(handle).success


def test_cancelling_stops_the_robot_and_the_next_goal_runs(robot: Robot) -> None:
    robot.decoder.script += ["turn left large\nlook: x"] * 30
    handle = robot.goals.send("find the red chair")
    before = robot.pose()
    wait_until(lambda: abs(robot.pose().yaw - before.yaw) > 0.05, "motion")
    robot.goals.cancel(handle)
    assert robot.goals.result(handle).error_code == Navigate.Result.CANCELLED
    assert robot.goals.outcome(handle).status == GoalStatus.STATUS_CANCELED
    yaw = robot.pose().yaw
    wait_until(robot.stands, "a standing robot")
    assert abs(robot.pose().yaw - yaw) < 0.35
    robot.decoder.script.clear()
    assert robot.goals.result(robot.goals.send("find the red chair")).success


def test_a_plan_is_reported_step_by_step_and_a_turn_needs_no_model(robot: Robot, client: Client) -> None:
    told = client.listen(PlanProgress, "plan", qos.ALL_LATCHED)
    before = robot.pose()
    result = robot.goals.result(robot.goals.send("find the red chair, then turn left 45 degrees"))
    assert result.success, result.message
    assert "turned" in result.message and len(robot.decoder.prompts) == 1
    wait_until(robot.stands, "a standing robot")
    assert wrap_angle(robot.pose().yaw - before.yaw) == pytest.approx(math.radians(45.0), abs=0.2)
    wait_until(lambda: told and not told[-1].running, "the plan's end")
    assert list(told[-1].steps) == ["find the red chair", "turn left 45 degrees"]
    assert [plan.current for plan in told][-1] == 2 and {0, 1} <= {plan.current for plan in told}
    steps = [(one.plan_step, one.plan_steps, one.plan_words) for one in robot.goals.feedback]
    assert (1, 2, "step 1 of 2: find the red chair") in steps and steps[-1][:2] == (2, 2)
    assert [text.step for text in robot.texts if text.state == VerifiedText.FINISHED][-1] == result.steps


@pytest.mark.parametrize("sentence", ["stop", "halt sofort!", "please stop, then find the red chair"])
def test_a_stop_is_always_accepted_and_ends_the_goal_that_runs(robot: Robot, sentence: str) -> None:
    robot.decoder.script += ["turn left large\nlook: x"] * 30
    running = robot.goals.send("find the red chair")
    before = robot.pose()
    wait_until(lambda: abs(robot.pose().yaw - before.yaw) > 0.05, "motion")
    stopped = robot.goals.result(robot.goals.send(sentence))
    assert stopped.success and stopped.message.partition("; ")[0] == STANDS
    assert ("say the rest anew" in stopped.message) == ("chair" in sentence)
    result = robot.goals.result(running)
    assert result.error_code == Navigate.Result.CANCELLED and result.message == STOP_REQUESTED
    wait_until(robot.stands, "a standing robot")
    robot.decoder.script.clear()
    assert robot.goals.result(robot.goals.send("find the red chair")).success, "the next goal runs"


@pytest.mark.parametrize("sentence", ["stop at the baby", "wait!"])
def test_what_begins_with_a_stop_ends_the_goal_that_runs_though_it_is_another_goal(
    robot: Robot, sentence: str
) -> None:
    robot.decoder.script += ["turn left large\nlook: x"] * 30
    running = robot.goals.send("find the red chair")
    before = robot.pose()
    wait_until(lambda: abs(robot.pose().yaw - before.yaw) > 0.05, "motion")
    assert not robot.goals.send(sentence).accepted
    result = robot.goals.result(running)
    assert result.error_code == Navigate.Result.CANCELLED and result.message == STOP_REQUESTED
    wait_until(robot.stands, "a standing robot")


@pytest.mark.parametrize("way", ["topic", "service"])
@pytest.mark.parametrize("first", ["wait 60 seconds", "describe what you see"])
def test_an_emergency_stop_ends_a_plan_that_does_not_move_yet(
    robot: Robot, client: Client, way: str, first: str
) -> None:
    e_stop = client.node.create_publisher(Bool, "e_stop", qos.LATCHED)
    service = client.node.create_client(SetBool, "set_e_stop")
    wait_until(lambda: e_stop.get_subscription_count() >= 2, "action node and navigator")
    wait_until(service.service_is_ready, "the service")
    wait_until(lambda: client.node.count_subscribers("e_stopped"), "the navigator")
    before, robot.decoder.between_s = robot.pose(), 60.0
    running = robot.goals.send(f"{first}, then turn left 90 degrees")
    wait_until(lambda: robot.decoder.prompts or ("wait" in first and robot.goals.feedback), "the first step")
    if way == "topic":
        e_stop.publish(Bool(data=True))
    else:
        assert result_of(service.call_async(SetBool.Request(data=True))).success
    result = robot.goals.result(running)
    assert result.error_code == Navigate.Result.EMERGENCY_STOP and result.message == E_STOPPED
    assert robot.goals.feedback[-1].plan_step == 1
    e_stop.publish(Bool(data=False))
    assert wrap_angle(robot.pose().yaw - before.yaw) == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize(
    ("instruction", "words"), [("", "empty"), ("   ", "empty"), ("find the red unicorn", "unicorn")]
)
def test_a_bad_instruction_is_aborted_with_the_reason_and_nothing_moves(
    robot: Robot, instruction: str, words: str
) -> None:
    before = robot.pose()
    result = robot.goals.result(robot.goals.send(instruction))
    assert not result.success and result.error_code == Navigate.Result.BAD_INSTRUCTION
    assert words in result.message
    assert robot.decoder.prompts == [] and robot.pose().distance_to(before.x, before.y) < 0.01


def test_a_lost_link_stands_still_and_the_run_goes_on_when_it_is_back(robot: Robot) -> None:
    robot.decoder.script += [link_error(), link_error(), "turn left small\nlook: x"]
    result = robot.goals.result(robot.goals.send("find the red chair"))
    assert result.success, result.message
    withdrawn = [text.text for text in robot.texts if text.state == VerifiedText.WITHDRAWN]
    assert withdrawn[0] == "the verifier does not answer"


def test_texts_that_are_no_actions_never_move_the_robot(robot: Robot) -> None:
    robot.decoder.script += ["rm -rf\nx: y", "move backward\nx: y", "move forward\nx: y"]
    before = robot.pose()
    result = robot.goals.result(robot.goals.send("find the red chair"))
    assert not result.success and "no action" in result.message
    assert robot.pose().distance_to(before.x, before.y) < 0.01


def test_a_second_goal_is_rejected_while_one_runs(robot: Robot) -> None:
    robot.decoder.script += ["turn left large\nlook: x"] * 10
    first = robot.goals.send("find the red chair")
    wait_until(lambda: robot.decoder.prompts, "the first prompt")
    assert not robot.goals.send("find the red chair").accepted
    robot.goals.cancel(first)
    robot.goals.result(first)


def test_of_two_goals_at_once_one_is_rejected(run_node: Callable[..., NodeThread]) -> None:
    """The second is judged before the first executes: if accepted, it would move the robot later."""

    class ScriptedNavigator(NavigatorNode):
        def open_edge(self) -> Edge:
            return Edge(ScriptedDecoder([]), None)

    navigator = run_node(lambda: ScriptedNavigator({"use_memory": False}), threads=4).node
    answers = [navigator._on_goal(Navigate.Goal(instruction="find the red chair")) for _ in range(2)]
    assert answers == [GoalResponse.ACCEPT, GoalResponse.REJECT]


def test_texts_are_drawn_as_the_parameters_say(
    run_node: Callable[..., NodeThread], monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_what_a_failed_configuration_has_opened_is_closed(run_node: Callable[..., NodeThread]) -> None:
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
    run_node: Callable[..., NodeThread], client: Client, tiny_model_folder: Path
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


def test_a_dead_action_node_ends_the_goal_with_a_reason(
    run_node: Callable[..., NodeThread], client: Client
) -> None:
    decoder = ScriptedDecoder(["turn left small\nlook: x"])

    class ScriptedNavigator(NavigatorNode):
        def open_edge(self) -> Edge:
            return Edge(decoder, None)

        def _goal_settings(self) -> object:  # type: ignore[override]
            return replace(super()._goal_settings(), motion_patience_s=0.5)

    run_node(lambda: SimulationNode({"seed": 3, "odometry_noise": 0.0}))
    run_node(ScriptedNavigator, threads=4)
    goals, started_s = Goals(client), time.monotonic()
    result = goals.result(goals.send("find the red chair"))
    assert result.error_code == Navigate.Result.MOTION_FAILED and "action node" in result.message
    assert time.monotonic() - started_s < 20.0


@pytest.mark.parametrize("way", ["frozen", "dead"])
def test_a_motion_ends_when_the_camera_repeats_itself_and_the_search_goes_on_with_it(
    run_node: Callable[..., NodeThread], client: Client, way: str
) -> None:
    """As with a driver that has lost its camera: it repeats the stamp too, or gives new ones."""
    decoder = ScriptedDecoder(["move forward large\nlook: x"])

    class ScriptedNavigator(NavigatorNode):
        def open_edge(self) -> Edge:
            return Edge(decoder, None)

    camera = StillCamera(client)
    base = FakeBase(client)
    run_node(PatientAction)
    run_node(lambda: ScriptedNavigator({"camera_silence_s": 0.4}), threads=4)
    goals = Goals(client)
    wait_until(lambda: client.node.count_subscribers("verified_text"), "the action node")
    handle = goals.send("find the red chair")
    wait_until(base.is_moving, "motion")
    setattr(camera, way, True)
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == Ending.STOPPED.value and "no new picture" in report.message
    setattr(camera, way, False)
    assert goals.result(handle).success


def test_a_goal_ends_with_the_activation_it_was_given_in(
    run_node: Callable[..., NodeThread], client: Client
) -> None:
    """A lifecycle manager may be faster than the goal's worker, which polls."""
    decoder = ScriptedDecoder(["turn left large\nlook: x"] * 10, between_s=0.2)

    class ScriptedNavigator(NavigatorNode):
        def open_edge(self) -> Edge:
            return Edge(decoder, None)

    StillCamera(client)
    base = FakeBase(client)
    run_node(PatientAction)
    navigator = run_node(lambda: ScriptedNavigator({"use_memory": False, **SLOW_CAMERA}), threads=4).node
    goals = Goals(client)
    wait_until(lambda: client.node.count_subscribers("verified_text"), "the action node")
    handle = goals.send("find the red chair")
    wait_until(base.is_moving, "motion")
    navigator.trigger_deactivate()
    navigator.trigger_activate()
    result = goals.result(handle)
    assert result.error_code == Navigate.Result.CANCELLED, result.message
    assert len(decoder.prompts) == 1


@pytest.fixture
def scripted(
    run_node: Callable[..., NodeThread], client: Client
) -> Iterator[tuple[NavigatorNode, ScriptedDecoder, FakeBase]]:
    """Yields an active navigator, its decoder, and the base that it moves."""
    decoder = ScriptedDecoder(["turn left large\nlook: x"])

    class ScriptedNavigator(NavigatorNode):
        def open_edge(self) -> Edge:
            return Edge(decoder, None)

    StillCamera(client)
    base = FakeBase(client)
    run_node(PatientAction)
    navigator = run_node(lambda: ScriptedNavigator({"use_memory": False, **SLOW_CAMERA}), threads=4).node
    wait_until(lambda: client.node.count_subscribers("verified_text"), "the action node")
    yield navigator, decoder, base


def test_a_goal_that_waits_for_its_start_ends_with_the_activation_too(scripted: Any, client: Client) -> None:
    navigator, decoder, base = scripted
    goals = Goals(client)
    with navigator._decoding:
        handle = goals.send("find the red chair")
        navigator.trigger_deactivate()
        navigator.trigger_activate()
    result = goals.result(handle)
    assert result.error_code == Navigate.Result.CANCELLED and "deactivated" in result.message
    assert not decoder.prompts and not base.is_moving()


def test_a_stop_that_comes_just_as_a_goal_is_accepted_ends_it(scripted: Any, client: Client) -> None:
    """Requests are answered by several threads. Here the stop comes once the goal has taken the slot."""
    navigator, decoder, base = scripted

    class Interrupted(GoalSlot):
        def take(self) -> bool:
            is_taken = super().take()
            assert navigator._on_goal(Navigate.Goal(instruction="stop")) is GoalResponse.ACCEPT
            return is_taken

    navigator._slot = Interrupted()
    goals = Goals(client)
    result = goals.result(goals.send("find the red chair"))
    assert (result.error_code, result.message) == (Navigate.Result.CANCELLED, STOP_REQUESTED)
    assert not decoder.prompts and not base.is_moving()


def test_a_cancellation_stops_the_robot_though_the_goal_s_worker_is_busy(
    scripted: Any, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, decoder, base = scripted
    is_busy = threading.Event()

    def decode_on(request: DecodeRequest, on_verified: Callable[[Verified], None], _: object) -> Decoded:
        on_verified(Verified((1, 2), "turn left large\n", 0.01))
        assert is_busy.wait(60.0)
        raise Cancelled("cancelled")

    monkeypatch.setattr(decoder, "decode", decode_on)
    goals = Goals(client)
    handle = goals.send("find the red chair")
    wait_until(base.is_moving, "motion")
    goals.cancel(handle)
    wait_until(lambda: not base.is_moving(), "a robot that stands")
    stood_after_deg = math.degrees(base.pose.yaw)
    is_busy.set()
    assert goals.result(handle).error_code == Navigate.Result.CANCELLED
    assert stood_after_deg < 40.0, "the motion was not carried out to its end"


def test_a_slow_simulated_clock_does_not_hold_up_the_sign_of_life(
    run_node: Callable[..., NodeThread], client: Client
) -> None:
    class ScriptedNavigator(NavigatorNode):
        def open_edge(self) -> Edge:
            return Edge(ScriptedDecoder([]), None)

    texts = client.listen(VerifiedText, "verified_text", qos.EVENTS)
    navigator = run_node(lambda: ScriptedNavigator({"use_memory": False, "use_sim_time": True}), threads=4)
    wait_until(lambda: navigator.node._robot.texts.get_subscription_count(), "the client's subscription")
    navigator.node._robot.publish_step(StepUpdate("s", 1, StepState.DECODING))
    wait_until(lambda: len(texts) > 3, "the text again and again, while the clock stands still", 5.0)


def test_with_a_mirrored_camera_no_goal_is_gone_for(
    run_node: Callable[..., NodeThread], client: Client
) -> None:
    """The robot's own turns reveal it; then no text moves the robot, and the goal ends with the reason."""
    decoder = ScriptedDecoder(["turn left large\nlook: x"] * 16)

    class MirroredSimulator(Simulator):
        def render_camera(self) -> np.ndarray:
            return np.ascontiguousarray(super().render_camera()[:, ::-1])

    class MirroredSimulation(SimulationNode):
        def configure(self) -> None:
            super().configure()
            self.simulator.__class__ = MirroredSimulator

    class ScriptedNavigator(NavigatorNode):
        def open_edge(self) -> Edge:
            return Edge(decoder, None)

    simulation = run_node(lambda: MirroredSimulation({"seed": 3, "placement": "hidden"})).node
    run_node(PatientAction)
    navigator = run_node(lambda: ScriptedNavigator({"use_memory": False, **SLOW_CAMERA}), threads=4).node
    goals = Goals(client)
    wait_until(lambda: client.node.count_subscribers("verified_text"), "the action node")
    result = goals.result(goals.send("find the red chair"))
    assert result.error_code == Navigate.Result.NO_SENSOR and "mirrored" in result.message
    assert "mirrored" in navigator.health()[0]
    simulation.simulator.__class__ = Simulator  # no longer mirrored
    goals.send("find the red chair")
    wait_until(lambda: "mirrored" not in navigator.health()[0], "a new goal, which judges anew")
    wait_until(lambda: navigator._robot._mirror.votes[0] >= 2, "votes for the camera")
    assert navigator._robot._mirror.votes[1] == 0


def test_a_lens_that_is_covered_under_way_stops_the_robot_and_ends_the_goal(
    run_node: Callable[..., NodeThread], client: Client
) -> None:
    decoder = ScriptedDecoder(["turn left large\nlook: x"] * 40)

    class CoveredSimulator(Simulator):
        def render_camera(self) -> np.ndarray:
            return np.zeros_like(super().render_camera())

    class ScriptedNavigator(NavigatorNode):
        def open_edge(self) -> Edge:
            return Edge(decoder, None)

        def _goal_settings(self) -> GoalSettings:
            return replace(super()._goal_settings(), sensor_patience_s=2.0)

    texts = client.listen(VerifiedText, "verified_text", qos.EVENTS)
    simulation = run_node(lambda: SimulationNode({"seed": 3, "placement": "hidden"})).node
    run_node(PatientAction)
    navigator = run_node(lambda: ScriptedNavigator({"use_memory": False, **SLOW_CAMERA}), threads=4).node
    goals = Goals(client)
    wait_until(lambda: client.node.count_subscribers("verified_text"), "the action node")
    goal = goals.send("find the red chair")
    wait_until(lambda: any(text.action_complete for text in texts), "a motion")
    simulation.simulator.__class__ = CoveredSimulator
    result = goals.result(goal)
    assert result.error_code == Navigate.Result.NO_SENSOR and "lens covered" in result.message
    assert "lens covered" in navigator.health()[0]


class SilentNavigator(NavigatorNode):
    """A navigator without scripted texts that waits for its sensors for half a second."""

    def open_edge(self) -> Edge:
        return Edge(ScriptedDecoder([]), None)

    def _goal_settings(self) -> GoalSettings:
        return replace(super()._goal_settings(), sensor_patience_s=0.5)


def test_a_camera_on_another_topic_is_named_with_the_remedy(
    run_node: Callable[..., NodeThread], client: Client
) -> None:
    FakeBase(client)
    run_node(PatientAction)
    navigator = run_node(lambda: SilentNavigator({"use_memory": False}), threads=4).node
    goals = Goals(client)
    assert "nobody publishes /camera/image_raw: start its source" in navigator.health()[0]
    client.node.create_publisher(Image, "front/image", qos.SENSOR)
    wait_until(lambda: "-r camera/image_raw:=/front/image" in navigator.health()[0], "the remedy")
    result = goals.result(goals.send("find the red chair"))
    assert result.error_code == Navigate.Result.NO_SENSOR
    assert "no camera frame" in result.message and "-r camera/image_raw:=/front/image" in result.message
    client.node.create_publisher(Image, "camera/image_raw", qos.SENSOR)
    wait_until(lambda: "outrider doctor" in navigator.health()[0], "another reason")


def test_a_simulated_clock_that_nobody_publishes_is_why_a_goal_ends(
    run_node: Callable[..., NodeThread], client: Client
) -> None:
    FakeBase(client)
    StillCamera(client)
    run_node(lambda: SilentNavigator({"use_memory": False, "use_sim_time": True}), threads=4)
    goals = Goals(client)
    for sentence in ("find the red chair", "turn left 45 degrees"):
        result = goals.result(goals.send(sentence))
        assert result.error_code == Navigate.Result.NO_SENSOR and NO_CLOCK in result.message


def test_a_4k_camera_is_navigated_by(run_node: Callable[..., NodeThread], client: Client) -> None:
    class ScriptedNavigator(NavigatorNode):
        def open_edge(self) -> Edge:
            return Edge(ScriptedDecoder(["turn left small\nlook: x"]), None)

    StillCamera(client, width=3840, height=2160)
    FakeBase(client)
    run_node(PatientAction)
    run_node(lambda: ScriptedNavigator({"use_memory": False, **SLOW_CAMERA}), threads=4)
    goals = Goals(client)
    wait_until(lambda: client.node.count_subscribers("verified_text"), "the action node")
    result = goals.result(goals.send("find the red chair"))
    assert result.success and result.steps == 2, result.message


def test_a_goal_without_any_client_left_stops_the_robot(robot: Robot, client: Client) -> None:
    robot.decoder.script += ["turn left large\nlook: x"] * 100
    before, another = robot.pose(), Goals(client)
    log = client.listen(Log, "/rosout", qos.EVENTS)
    assert robot.goals.send("find the red chair").accepted
    wait_until(lambda: abs(robot.pose().yaw - before.yaw) > 0.05, "motion")
    client.do(robot.goals._goals.destroy)
    time.sleep(LOOKS * POLL_PERIOD_S + 1.0)
    yaw = robot.pose().yaw
    wait_until(lambda: abs(robot.pose().yaw - yaw) > 0.05, "motion, that another client can cancel")
    client.do(another._goals.destroy)
    wait_until(lambda: NO_CLIENT in [line.msg for line in log], "the goal's end")
    wait_until(robot.stands, "a standing robot")
    assert Goals(client).send("find the red chair").accepted


def test_a_goal_that_no_client_was_seen_for_goes_on(robot: Robot, client: Client) -> None:
    client.do(robot.goals._goals.destroy)
    service = client.node.create_client(Navigate.Impl.SendGoalService, "navigate/_action/send_goal")
    wait_until(service.service_is_ready, "the service")
    goal = Navigate.Impl.SendGoalService.Request(goal=Navigate.Goal(instruction="find the red chair"))
    robot.decoder.script += ["turn left small\nlook: x"] * 6
    log = client.listen(Log, "/rosout", qos.EVENTS)
    assert result_of(service.call_async(goal)).accepted
    wait_until(lambda: any(text.action == "stop" for text in robot.texts), "the end", timeout_s=60.0)
    assert NO_CLIENT not in [line.msg for line in log]
