"""The console over DDS, from a page to the simulated robot: driving, stops, and what a page sees."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from conftest import Client, wait_until
from graphs import Teleop
from nav_msgs.msg import Odometry
from outrider_interfaces.msg import MotionReport, VerifiedText
from outrider_interfaces.srv import Remember
from rclpy.lifecycle import TransitionCallbackReturn
from std_msgs.msg import Bool
from support.consoles import Page
from support.relays import Relays
from support_ros import Run

from outrider.console import messages as m
from outrider.console.robot import GoalEnd
from outrider.core.errors import OutriderError
from outrider.core.values import LinkState, Pose2D
from outrider.nodes.common import qos
from outrider.nodes.navigator.goal_sender import SentGoal
from outrider.nodes.navigator.memory_node import MemoryNode
from outrider.nodes.navigator.server_watch import ServerWatch
from outrider.nodes.observers.console_messages import sights_of
from outrider.nodes.observers.console_node import INACTIVE, ConsoleNode

pytestmark = pytest.mark.ros


def hold(page: Page, teleop: Teleop, turn: float) -> None:
    """Holds a key until the robot has turned by 0.15 rad in that direction."""
    page.seated()
    before = teleop.pose()
    for _ in range(100):
        page.drive(turn=turn)
        if (teleop.pose().yaw - before.yaw) * turn > 0.15:
            return
    raise AssertionError("the robot did not turn")


def test_left_is_left_and_a_page_that_vanishes_stops_the_robot(teleop: Teleop) -> None:
    page, watcher = teleop.open_page(), teleop.open_page()
    hold(page, teleop, turn=1.0)
    watcher.read("state", moving=True)
    page.vanish()
    watcher.read("state", moving=False)
    wait_until(teleop.stands, "a robot that stands")


def test_the_emergency_stop_of_a_page_holds_the_robot(teleop: Teleop) -> None:
    page, watcher = teleop.open_page(), teleop.open_page()
    hold(page, teleop, turn=-1.0)
    watcher.send(do="e_stop", engaged=True)
    watcher.read("state", e_stop=True, unheard=False, moving=False)
    wait_until(teleop.is_stopped, "a robot that stands")
    page.seated().release_e_stop()
    watcher.read("state", e_stop=False)
    hold(page, teleop, turn=1.0)


def test_the_emergency_stop_of_another_is_shown(teleop: Teleop, client: Client) -> None:
    page = teleop.open_page()
    client.publish(Bool(data=True), "e_stop", qos.COMMAND)
    page.read("state", e_stop=True)


def test_a_page_at_a_relay_drives_and_stops_real_nodes(teleop: Teleop, relays: Relays) -> None:
    with relays.serving():
        end = teleop.console._relay
        wait_until(lambda: end is not None and end.state is LinkState.CONNECTED, "the console dials")
        page = relays.page()
        hold(page, teleop, 1.0)
        page.send(do="e_stop", engaged=True)
        page.read("state", e_stop=True, unheard=False, moving=False)
        wait_until(teleop.is_stopped, "a robot that stands")


def test_a_page_sees_the_camera_the_floor_and_the_text(teleop: Teleop) -> None:
    page = teleop.open_page().seated()
    teleop.decoder.script += ["turn left small\napproach: red chair left 20 at 2.0 m."]
    teleop.decoder.script += ["stop\nthere: red chair left 5 at 2.0 m."]
    assert page.read_picture()[1].startswith(b"\xff\xd8")
    page.send(do="say", text="find the red chair")
    seen = page.read_all("goal", state="done")
    first = {
        kind: next(m for m in seen if m["is"] == kind) for kind in ("tokens", "round", "sights", "motion")
    }
    tokens = first["tokens"]
    assert (tokens["first"], tokens["origins"]) == (0, "arwd") and tokens["pieces"][1] == " right"
    assert first["round"]["drafted"] == 4 and first["motion"]["outcome"] == "done"
    assert first["sights"]["goal"]["what"] == "red chair"
    finished = [message for message in seen if message["is"] == "text" and message["state"] == "finished"]
    assert finished[0]["action"] == "turn left small"
    assert page.read("state", link="local", goal="")["pose"]
    welcome = teleop.open_page().welcome
    assert welcome["trail"]["points"] and welcome["walls"]["cells"]
    assert {box["what"] for box in page.read("boxes")["boxes"]} == {"red chair"}


def test_shareable_memories_alone_are_on_the_map(
    run_node: Run, client: Client, teleop: Teleop, tmp_path: Path
) -> None:
    run_node(lambda: MemoryNode({"memory_store": str(tmp_path / "m.db")}))
    service = client.node.create_client(Remember, "remember")
    wait_until(service.service_is_ready, "the memory node")
    for text, shareable in (("red chair", True), ("my keys", False)):
        request = Remember.Request(text=text, shareable=shareable, has_place=True, x=1.0, y=0.5)
        future = service.call_async(request)
        wait_until(future.done, "the memory")
    things = teleop.open_page().read("memories")["things"]
    assert things == [{"what": "red chair", "x": 1.0, "y": 0.5}]


def test_an_inactive_console_stops_and_moves_nothing(teleop: Teleop) -> None:
    page = teleop.open_page().seated()
    hold(page, teleop, turn=1.0)
    assert teleop.console.trigger_deactivate() is TransitionCallbackReturn.SUCCESS
    page.read("state", warning=INACTIVE)
    wait_until(teleop.stands, "a robot that stands")
    page.send(do="say", text="find the red chair")
    assert page.read("goal", state="failed")["message"] == INACTIVE
    page.send(do="e_stop", engaged=True)
    page.read("state", e_stop=True)
    wait_until(lambda: teleop.e_stops and teleop.e_stops[-1].data, "the stop")


def test_values_of_another_version_and_poses_from_nowhere_are_ignored(teleop: Teleop) -> None:
    page, console = teleop.open_page(), teleop.console
    console._on_text(VerifiedText(session_id="odd", state=99))
    console._on_motion(MotionReport(session_id="odd", outcome=99))
    wait_until(lambda: console._pose is not None, "odometry")
    lost = Odometry()
    lost.pose.pose.position.x = math.nan

    def lose() -> object:
        console._on_odometry(lost, console.now_s())
        return console._pose

    # Runs in the node's own thread, so that no odometry arrives in between.
    lost_pose = console.executor.create_task(lose)
    wait_until(lost_pose.done, "the node's thread")
    assert lost_pose.result() is None
    console._console.show(m.Notice("info", "the end"))
    seen = page.read_all("notice", level="info")
    assert not [message for message in seen if message.get("session") == "odd"]


def test_a_console_beside_no_other_node_says_what_it_knows(run_node: Run, client: Client) -> None:
    console = run_node(lambda: ConsoleNode({"port": 0})).node
    page = Page(console._console)
    moving = Odometry()
    moving.twist.twist.linear.x = 0.3
    console._on_odometry(moving, console.now_s())
    page.read("state", moving=True)
    page.read("state", moving=False)
    heard = client.listen(Bool, "e_stop", qos.COMMAND)
    wait_until(lambda: console._e_stop.get_subscription_count() > 1, "a listener that stops nothing")
    page.send(do="e_stop", engaged=True)
    page.read("state", e_stop=True, unheard=True)
    wait_until(lambda: heard, "the stop")
    ends: list[GoalEnd] = []
    console._goals._sent = SentGoal(ends.append, -math.inf, ServerWatch(console, "navigate"))
    wait_until(lambda: ends, "the end of a command whose navigator has gone")
    assert not ends[0].success and "gone" in ends[0].message


def test_a_port_in_use_is_a_reason_not_to_start(run_node: Run, teleop: Teleop) -> None:
    port = teleop.console._console.port
    with pytest.raises(OutriderError, match=f"port {port}"):
        run_node(lambda: ConsoleNode({"port": port}))


def test_sights_are_where_the_text_says() -> None:
    text = "turn left small\nsearch: red chair left 90 at 2.0 m."
    sights = sights_of(text, Pose2D(1.0, 1.0, 0.0))
    assert [(t.what, t.x, t.y) for t in sights.things] == [("red chair", 1.0, 3.0)] and sights.goal is None
    assert sights_of(text.replace("search", "approach"), Pose2D(0.0, 0.0, 0.0)).goal is not None
