"""Messages that arrive while a node is busy count from their arrival, in every node that judges or stamps
them by it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Client, NodeThread, wait_until
from mcap.reader import make_reader
from nav_msgs.msg import Odometry as OdometryMsg
from support_ros import SCAN, EdgeNavigator

from outrider.core.values import LinkState, Odometry, Pose2D, Velocity
from outrider.nodes.base.action_node import ActionNode
from outrider.nodes.common import convert, qos
from outrider.nodes.common.scan_input import ScanInput
from outrider.nodes.go2.go2_condition import STATE_TOPIC
from outrider.nodes.go2.go2_state_node import Go2StateNode
from outrider.nodes.navigator.memory_node import MemoryNode
from outrider.nodes.navigator.ros_robot_side import RosRobotSide
from outrider.nodes.observers.console_node import ConsoleNode
from outrider.nodes.observers.markers_node import MarkersNode
from outrider.nodes.observers.record_node import RecordNode

pytestmark = pytest.mark.ros
Run = Callable[..., NodeThread]
# Time and way between two poses of a fast robot. No robot covers this way in half the time.
APART_S, APART_M = 0.2, 0.3
UNSTAMPED = convert.time_of(0.0)


def odometry_at(x: float) -> OdometryMsg:
    return convert.odometry_message(Odometry(Pose2D(x, 0.0, 0.0), Velocity(), 0.0), UNSTAMPED)


def say_while_busy(client: Client, node: Any, gate: Any, topic: str, messages: list[Any]) -> list[float]:
    """Publishes messages APART_S apart while a node's executor is busy. Returns their times by `time.time`.

    The gate is open afterwards, so that the executor itself handles the first one.
    """
    heard: list[Any] = client.listen(type(messages[0]), topic, qos.EVENTS)
    client.publisher(type(messages[0]), topic, qos.EVENTS)
    said_s: list[float] = []
    busy, free, done = threading.Event(), threading.Event(), threading.Event()

    def be_busy() -> None:
        busy.set()
        free.wait(20.0)
        gate.is_open = True
        done.set()

    guard = node.create_guard_condition(be_busy)
    guard.trigger()
    assert busy.wait(20.0)
    for number, message in enumerate(messages, start=1):
        said_s.append(time.time())
        client.publish(message, topic, qos.EVENTS)
        wait_until(lambda: len(heard) == number, "the message")  # noqa: B023
        time.sleep(APART_S)
    free.set()
    assert done.wait(20.0)
    node.destroy_guard_condition(guard)
    return said_s


@pytest.mark.parametrize(
    ("make_node", "gate", "pose"),
    [
        (lambda folder: ActionNode(), "_sensors", lambda node: node._odometry and node._odometry.pose),
        (
            lambda folder: EdgeNavigator({"use_memory": False}),
            "_sensors",
            lambda node: node._robot.odometry() and node._robot.odometry().pose,
        ),
        (
            lambda folder: MemoryNode({"memory_store": str(folder / "memory.db")}),
            "_odometry",
            lambda node: node._pose,
        ),
        (lambda folder: ConsoleNode({"port": 0}), "_sensors", lambda node: node._pose),
        (lambda folder: MarkersNode({"draw": True}), "_sensors", lambda node: node._pose),
    ],
    ids=["action", "navigator", "memory", "console", "markers"],
)
def test_odometry_that_waits_is_no_jump(
    run_node: Run, client: Client, tmp_path: Path, make_node: Any, gate: str, pose: Any
) -> None:
    node = run_node(lambda: make_node(tmp_path)).node
    say_while_busy(
        client, node, getattr(node, gate), "odom", [odometry_at(number * APART_M) for number in range(3)]
    )
    last = wait_until(lambda: (now := pose(node)) and now.x == 2 * APART_M and now, "the last odometry", 5.0)
    assert last == Pose2D(2 * APART_M, 0.0, 0.0) and "jump" not in node.health()[0]


def test_a_go2_that_does_not_stamp_counts_by_when_its_states_come(run_node: Run, client: Client) -> None:
    unitree_go = pytest.importorskip("unitree_go.msg")
    from outrider.nodes.go2.simulated_go2 import state_message

    odometries: list[OdometryMsg] = client.listen(OdometryMsg, "odom", qos.EVENTS)
    node = run_node(lambda: Go2StateNode({"odometry_source": "sportmodestate"})).node
    wait_until(lambda: node.count_subscribers("odom"), "the subscription")
    said_s: list[float] = []
    for number in range(2):
        odometry = Odometry(Pose2D(number * APART_M, 0.0, 0.0), Velocity(), 0.0)
        state = state_message(unitree_go.SportModeState, odometry)
        said_s += say_while_busy(client, node, node._states, STATE_TOPIC, [state])
    wait_until(lambda: len(odometries) == 2, "odometry", 5.0)
    for message, moment_s in zip(odometries, said_s, strict=True):
        assert moment_s - 0.01 <= convert.seconds_of(message.header.stamp) < moment_s + 0.5 * APART_S
    speed_mps = APART_M / (said_s[1] - said_s[0])
    assert odometries[1].twist.twist.linear.x == pytest.approx(speed_mps, rel=0.3)
    assert "jump" not in node.health()[0]


def test_a_recording_has_messages_at_the_times_of_their_coming(
    run_node: Run, client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "run.mcap"
    recorder = run_node(lambda: RecordNode({"file": str(path)}))
    client.publish(odometry_at(0.0), "odom", qos.EVENTS, wait=False)
    wait_until(lambda: "/odom" in recorder.node._channels, "the recorder's subscription")
    messages = [odometry_at(number * APART_M) for number in range(3)]
    said_s = say_while_busy(client, recorder.node, recorder.node._topics, "odom", messages)
    wait_until(lambda: recorder.node._messages >= 3, "recorded messages")
    recorder.stop()
    with path.open("rb") as stream:
        times_s = [1e-9 * found.log_time for _, _, found in make_reader(stream).iter_messages(["/odom"])]
    assert times_s == sorted(times_s)
    for recorded_s, moment_s in zip(times_s[-3:], said_s, strict=True):
        assert moment_s - 0.01 <= recorded_s < moment_s + 0.5 * APART_S


def test_scans_and_pictures_without_a_stamp_count_from_when_they_came(run_node: Run) -> None:
    node = run_node(lambda: MarkersNode({"draw": True})).node
    came_s = node.now_s() - 1.0
    scan = ScanInput(node).take(convert.scan_message(SCAN, UNSTAMPED, 8.0), came_s)
    assert scan is not None and scan.stamp_s == came_s
    side = RosRobotSide(node, lambda: LinkState.CONNECTED, camera_silence_s=0.25)
    side.on_image(convert.image_message(np.full((28, 56, 3), 100, np.uint8), UNSTAMPED, "camera"), came_s)
    frame = side.frame_after(came_s - 0.01, 0.0)
    assert frame is not None and frame.stamp_s == pytest.approx(came_s, abs=1e-3)
    stamp_s = convert.seconds_of(frame.token.stamp)
    assert time.time() - stamp_s == pytest.approx(node.now_s() - came_s, abs=0.05)
