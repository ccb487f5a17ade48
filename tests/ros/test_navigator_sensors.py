"""Cameras and clocks that a navigator cannot use end the goal with the reason."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import Client, wait_until
from fakes import SLOW_CAMERA, ScriptedDecoder
from outrider_interfaces.action import Navigate
from outrider_interfaces.msg import VerifiedText
from sensor_msgs.msg import Image
from support_ros import EdgeNavigator, FakeBase, Goals, PatientAction, Run, StillCamera

from outrider.navigation.clocks import NO_CLOCK
from outrider.navigation.motion.step_motions import Ending
from outrider.nodes.common import qos
from outrider.nodes.simulation.simulation_node import SimulationNode
from outrider.runtime.wiring.robot_pair import Edge
from outrider.simulation.simulator import Simulator

pytestmark = pytest.mark.ros


@pytest.mark.parametrize("way", ["frozen", "dead"])
def test_a_motion_ends_when_the_camera_repeats_itself_and_the_search_goes_on_with_it(
    run_node: Run, client: Client, way: str
) -> None:
    """As with a driver that has lost its camera: it repeats the stamp too, or gives new ones."""
    decoder = ScriptedDecoder(["move forward large\nlook: x"])
    camera = StillCamera(client)
    base = FakeBase(client)
    run_node(PatientAction)
    run_node(lambda: EdgeNavigator({"camera_silence_s": 0.4}, Edge(decoder, None)), threads=4)
    goals = Goals(client)
    wait_until(lambda: client.node.count_subscribers("verified_text"), "the action node")
    handle = goals.send("find the red chair")
    wait_until(base.is_moving, "motion")
    setattr(camera, way, True)
    report = wait_until(lambda: base.reports, "a motion report")[0]
    assert report.outcome == Ending.STOPPED.value and "no new picture" in report.message
    setattr(camera, way, False)
    assert goals.result(handle).success


def test_with_a_mirrored_camera_no_goal_is_gone_for(run_node: Run, client: Client) -> None:
    """The robot's own turns reveal it; then no text moves the robot, and the goal ends with the reason."""
    decoder = ScriptedDecoder(["turn left large\nlook: x"] * 16)

    class MirroredSimulator(Simulator):
        def render_camera(self) -> np.ndarray:
            return np.ascontiguousarray(super().render_camera()[:, ::-1])

    class MirroredSimulation(SimulationNode):
        def configure(self) -> None:
            super().configure()
            self.simulator.__class__ = MirroredSimulator

    simulation = run_node(lambda: MirroredSimulation({"seed": 3, "placement": "hidden"})).node
    run_node(PatientAction)
    navigator = run_node(
        lambda: EdgeNavigator({"use_memory": False, **SLOW_CAMERA}, Edge(decoder, None)), threads=4
    ).node
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
    run_node: Run, client: Client
) -> None:
    decoder = ScriptedDecoder(["turn left large\nlook: x"] * 40)

    class CoveredSimulator(Simulator):
        def render_camera(self) -> np.ndarray:
            return np.zeros_like(super().render_camera())

    texts = client.listen(VerifiedText, "verified_text", qos.EVENTS)
    simulation = run_node(lambda: SimulationNode({"seed": 3, "placement": "hidden"})).node
    run_node(PatientAction)
    navigator = run_node(
        lambda: EdgeNavigator(
            {"use_memory": False, **SLOW_CAMERA}, Edge(decoder, None), sensor_patience_s=2.0
        ),
        threads=4,
    ).node
    goals = Goals(client)
    wait_until(lambda: client.node.count_subscribers("verified_text"), "the action node")
    goal = goals.send("find the red chair")
    wait_until(lambda: any(text.action_complete for text in texts), "a motion")
    simulation.simulator.__class__ = CoveredSimulator
    result = goals.result(goal)
    assert result.error_code == Navigate.Result.NO_SENSOR and "lens covered" in result.message
    assert "lens covered" in navigator.health()[0]


def test_a_camera_on_another_topic_is_named_with_the_remedy(run_node: Run, client: Client) -> None:
    FakeBase(client)
    run_node(PatientAction)
    navigator = run_node(lambda: EdgeNavigator({"use_memory": False}, sensor_patience_s=0.5), threads=4).node
    goals = Goals(client)
    assert "nobody publishes /camera/image_raw: start its source" in navigator.health()[0]
    client.node.create_publisher(Image, "front/image", qos.SENSOR)
    wait_until(lambda: "-r camera/image_raw:=/front/image" in navigator.health()[0], "the remedy")
    result = goals.result(goals.send("find the red chair"))
    assert result.error_code == Navigate.Result.NO_SENSOR
    assert "no camera frame" in result.message and "-r camera/image_raw:=/front/image" in result.message
    client.node.create_publisher(Image, "camera/image_raw", qos.SENSOR)
    wait_until(lambda: "outrider doctor" in navigator.health()[0], "another reason")


def test_a_simulated_clock_that_nobody_publishes_is_why_a_goal_ends(run_node: Run, client: Client) -> None:
    FakeBase(client)
    StillCamera(client)
    run_node(
        lambda: EdgeNavigator({"use_memory": False, "use_sim_time": True}, sensor_patience_s=0.5), threads=4
    )
    goals = Goals(client)
    for sentence in ("find the red chair", "turn left 45 degrees"):
        result = goals.result(goals.send(sentence))
        assert result.error_code == Navigate.Result.NO_SENSOR and NO_CLOCK in result.message


def test_a_4k_camera_is_navigated_by(run_node: Run, client: Client) -> None:
    decoder = ScriptedDecoder(["turn left small\nlook: x"])
    StillCamera(client, width=3840, height=2160)
    FakeBase(client)
    run_node(PatientAction)
    run_node(
        lambda: EdgeNavigator({"use_memory": False, **SLOW_CAMERA}, Edge(decoder, None)),
        threads=4,
    )
    goals = Goals(client)
    wait_until(lambda: client.node.count_subscribers("verified_text"), "the action node")
    result = goals.result(goals.send("find the red chair"))
    assert result.success and result.steps == 2, result.message
