"""The console over DDS, from a page to the simulated robot."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Client, NodeThread, wait_until
from fakes import SLOW_CAMERA, ScriptedDecoder
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from outrider_interfaces.action import Navigate
from outrider_interfaces.msg import MotionReport, SimulationState, VerifiedText
from outrider_interfaces.srv import Remember
from rclpy.lifecycle import TransitionCallbackReturn
from std_msgs.msg import Bool
from support.consoles import Page
from support.relays import Relays, make_relays
from support_ros import PatientAction

from outrider.console import messages as m
from outrider.console.robot import GoalEnd
from outrider.core.errors import OutriderError
from outrider.core.language.grammar import Vocabulary
from outrider.core.sensors.camera import SIM_CAMERA, CameraModel
from outrider.core.values import LinkState, Pose2D, Velocity
from outrider.nodes.common import convert, qos
from outrider.nodes.navigator.goal_sender import SentGoal
from outrider.nodes.navigator.memory_node import MemoryNode
from outrider.nodes.navigator.navigator_node import NavigatorNode
from outrider.nodes.navigator.server_watch import ServerWatch
from outrider.nodes.observers.console_camera import ConsoleCamera
from outrider.nodes.observers.console_messages import picture_of, sights_of
from outrider.nodes.observers.console_node import INACTIVE, ConsoleNode
from outrider.nodes.simulation.simulation_node import SimulationNode
from outrider.runtime.plans.understanding import UNSEEN
from outrider.runtime.wiring.robot_pair import Edge

pytestmark = pytest.mark.ros
WORDS = Vocabulary({"colour": ("red",), "kind": ("chair",)})


@dataclass
class Teleop:
    """The running graph and the messages in it."""

    console: ConsoleNode
    decoder: ScriptedDecoder
    commands: list[Twist]
    states: list[SimulationState]
    e_stops: list[Bool]

    def open_page(self) -> Page:
        return Page(self.console._console)

    def pose(self) -> Pose2D:
        return convert.pose_of(wait_until(lambda: self.states, "the simulation")[-1].pose)

    def stands(self) -> bool:
        return bool(self.commands) and convert.velocity_of(self.commands[-1]) == Velocity()

    def is_stopped(self) -> bool:
        """Returns whether the robot stands and the newest message engages the emergency stop."""
        return self.stands() and bool(self.e_stops) and self.e_stops[-1].data


@pytest.fixture
def relays(tmp_path: Path) -> Relays:
    """Returns keys and addresses of a relay for the console to dial. It runs only if a test serves it."""
    return make_relays(tmp_path)


@pytest.fixture
def teleop(run_node: Callable[..., NodeThread], client: Client, relays: Relays) -> Iterator[Teleop]:
    decoder = ScriptedDecoder([])

    class ScriptedNavigator(NavigatorNode):
        def open_edge(self) -> Edge:
            return Edge(decoder, WORDS)

    commands = client.listen(Twist, "cmd_vel", qos.COMMAND)
    states = client.listen(SimulationState, "simulation_state", qos.EVENTS)
    e_stops = client.listen(Bool, "e_stop", qos.COMMAND)
    run_node(lambda: SimulationNode({"seed": 3, "placement": "in_view", "odometry_noise": 0.0}))
    run_node(PatientAction)
    # Stepwise, so that the end of each motion is reported.
    settled = {"link_patience_s": 20.0, "motion": "stepwise", **SLOW_CAMERA}
    run_node(lambda: ScriptedNavigator(settled), threads=4)
    relay = {"relay": relays.endpoint, "relay_key_file": str(relays.keys / "go2.key")}
    console = run_node(lambda: ConsoleNode({"port": 0, **relay})).node
    wait_until(lambda: client.node.count_subscribers("cmd_vel_console") >= 1, "the action node")
    wait_until(lambda: client.node.count_subscribers("decoded_tokens") >= 1, "the console")
    wait_until(lambda: states, "the simulation")
    yield Teleop(console, decoder, commands, states, e_stops)


def hold(page: Page, teleop: Teleop, turn: float) -> None:
    """Holds a key until the robot has turned by 0.15 rad in that direction."""
    page.seated()
    before = teleop.pose()
    for _ in range(100):
        page.drive(turn=turn)
        if (teleop.pose().yaw - before.yaw) * turn > 0.15:
            return
    raise AssertionError("the robot did not turn")


def test_a_simulated_clock_that_is_set_back_blinds_no_viewer(run_node: Callable[..., NodeThread]) -> None:
    console = run_node(lambda: ConsoleNode({"port": 0})).node
    console.now_s = lambda: 1000.0
    while console._is_due("picture", 0.1):
        pass
    console.now_s = lambda: 1.0
    wait_until(lambda: console._is_due("picture", 0.1), "another picture", 2.0)


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


def test_a_point_of_the_map_is_gone_to_and_one_that_was_not_seen_is_refused(teleop: Teleop) -> None:
    page, here = teleop.open_page().seated(), teleop.pose()
    page.wait_s = 60.0  # a way around something takes several motions
    page.read("walls")
    ends = []
    for bearing in (math.pi / 2, -math.pi / 2, math.pi, 0.0):
        there = here.compose(Pose2D(0.8 * math.cos(bearing), 0.8 * math.sin(bearing), 0.0))
        page.send(do="go_to", x=there.x, y=there.y)
        page.read("goal", state="running")
        ends.append(page.read("goal") and teleop.pose().distance_to(there.x, there.y))
        if ends[-1] < 0.5:
            break
    assert min(ends) < 0.5 and teleop.states[-1].collisions == 0
    page.send(do="go_to", x=here.x + 15.0, y=here.y)
    assert page.read("goal", state="failed")["message"] == UNSEEN
    assert teleop.decoder.script == [], "no model was asked"


def test_a_command_the_navigator_does_not_know_comes_back_with_the_reason(teleop: Teleop) -> None:
    page = teleop.open_page().seated()
    page.send(do="say", text="find the zebra")
    assert "zebra" in page.read("goal", state="failed")["message"]


def test_a_command_is_sent_by_the_node_s_own_thread(teleop: Teleop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A send from the server's thread would race with the answer."""
    threads: list[int] = []
    goals = teleop.console._goals._goals
    send = goals.send_goal_async

    def noting(goal: Navigate.Goal, **more: Any) -> Any:
        threads.append(threading.get_ident())
        return send(goal, **more)

    monkeypatch.setattr(goals, "send_goal_async", noting)
    page = teleop.open_page().seated()
    page.send(do="say", text="find the zebra")
    page.read("goal", state="failed")
    own = teleop.console.executor.create_task(threading.get_ident)
    wait_until(own.done, "the node's thread")
    assert threads == [own.result()]


def test_a_running_command_is_cancelled_by_any_page(teleop: Teleop) -> None:
    page, watcher = teleop.open_page().seated(), teleop.open_page()
    teleop.decoder.script += ["turn left small\nsearch: nothing."]
    teleop.decoder.between_s = 20.0
    page.send(do="say", text="find the red chair")
    watcher.read("text", action="turn left small")
    watcher.send(do="cancel")
    assert "cancelled" in page.read("goal", state="failed")["message"]


def test_a_cancel_that_overtakes_its_command_still_counts(teleop: Teleop) -> None:
    page = teleop.open_page().seated()
    teleop.decoder.script += ["turn left small\nsearch: nothing."] * 3
    teleop.decoder.between_s = 20.0
    page.send(do="say", text="find the red chair")
    page.read("goal", state="running")  # it has been read and sent; the navigator has yet to accept it
    page.send(do="cancel")
    assert "cancelled" in page.read("goal", state="failed")["message"]


def test_the_camera_is_listened_to_while_somebody_looks(teleop: Teleop, client: Client) -> None:
    count = client.node.count_subscribers("camera/image_raw")
    page = teleop.open_page().seated()
    wait_until(lambda: client.node.count_subscribers("camera/image_raw") == count + 1, "a look")
    page.socket.close()
    wait_until(lambda: client.node.count_subscribers("camera/image_raw") == count, "nobody looking")


def test_shareable_memories_alone_are_on_the_map(
    run_node: Callable[..., NodeThread], client: Client, teleop: Teleop, tmp_path: Path
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


def test_a_console_beside_no_other_node_says_what_it_knows(
    run_node: Callable[..., NodeThread], client: Client
) -> None:
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


class Lenses:
    """Records the camera models and counts the pictures that a console gets."""

    def __init__(self) -> None:
        self.seen_by: list[CameraModel | None] = []
        self.pictures = 0

    def set_camera_model(self, lens: CameraModel | None) -> None:
        self.seen_by.append(lens)

    def show_picture(self, _: bytes) -> None:
        self.pictures += 1


@pytest.mark.parametrize(
    ("other", "takes"),
    [
        (CameraModel(640, 480, 500.0), False),
        (CameraModel(720, 1280, 864.4), False),
        (CameraModel(0, 0, 0.0), False),
        (CameraModel(252, 140, 300.0), True),
        (CameraModel(1921, 1080, 900.0), True),
    ],
)
def test_a_lens_measures_pictures_of_its_shape_alone(
    run_node: Callable[..., NodeThread], client: Client, other: CameraModel, takes: bool
) -> None:
    console, lenses = run_node(lambda: ConsoleNode({"port": 0})).node, Lenses()
    camera = ConsoleCamera(console, lenses, lambda: True)  # type: ignore[arg-type]
    camera.watch(True)
    stamp = convert.time_of(1.0)

    def look_by(lens: CameraModel, size: tuple[int, int]) -> None:
        before, picture = lenses.pictures, np.full((*size, 3), 99, np.uint8)
        for message, name in (
            (convert.camera_info_message(lens, stamp, "lens"), "camera_info"),
            (convert.image_message(picture, stamp, "camera"), "image_raw"),
        ):
            client.publish(message, f"camera/{name}", qos.SENSOR)
        wait_until(lambda: lenses.pictures > before, "a picture")

    look_by(SIM_CAMERA, (280, 504))
    wait_until(lambda: lenses.seen_by == [SIM_CAMERA], "a lens")
    look_by(other, (280, 504))
    look_by(other, (280, 504))
    assert lenses.seen_by == [SIM_CAMERA, other][: 1 + takes]
    look_by(SIM_CAMERA, (480, 640))
    assert lenses.seen_by[-1] is None
    camera.watch(False)


def test_a_port_in_use_is_a_reason_not_to_start(run_node: Callable[..., NodeThread], teleop: Teleop) -> None:
    port = teleop.console._console.port
    with pytest.raises(OutriderError, match=f"port {port}"):
        run_node(lambda: ConsoleNode({"port": port}))


def test_large_pictures_are_scaled_down() -> None:
    import cv2
    import numpy as np

    jpeg = picture_of(np.full((2160, 3840, 3), (200, 10, 10), np.uint8), 640, 75)
    picture = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    assert picture is not None and picture.shape == (360, 640, 3)
    assert picture[0, 0, 2] > 150 > picture[0, 0, 0], "red is red"


def test_sights_are_where_the_text_says() -> None:
    text = "turn left small\nsearch: red chair left 90 at 2.0 m."
    sights = sights_of(text, Pose2D(1.0, 1.0, 0.0))
    assert [(t.what, t.x, t.y) for t in sights.things] == [("red chair", 1.0, 3.0)] and sights.goal is None
    assert sights_of(text.replace("search", "approach"), Pose2D(0.0, 0.0, 0.0)).goal is not None


def test_an_agent_has_real_nodes_carry_out_its_words_and_stops_them(teleop: Teleop) -> None:
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    from support.agents import call, over_a_pipe

    async def turn_and_look(session: Any) -> None:
        before = teleop.pose()
        taken, said = await call(session, "goal", sentence="turn left 45 degrees", wait_s=60.0)
        assert taken and "turned" in said
        assert (teleop.pose().yaw - before.yaw) == pytest.approx(math.radians(45.0), abs=0.2)
        picture = (await session.call_tool("picture", {})).content[0]
        assert base64.b64decode(picture.data).startswith(b"\xff\xd8")

    async def last_goal(session: Any) -> str:
        return json.loads((await call(session, "status"))[1])["last_goal"]

    async def told_the_end(session: Any, before: str) -> None:
        """Returns once the agent sees its goal's end, which comes after the robot has stopped."""
        while await last_goal(session) == before:
            await asyncio.sleep(0.2)

    async def stop_under_way(session: Any) -> None:
        teleop.decoder.script += ["turn left large\nlook: nothing"] * 30
        ended = await last_goal(session)
        assert (await call(session, "goal", sentence="find the red chair"))[0]
        before = teleop.pose()
        await asyncio.to_thread(wait_until, lambda: abs(teleop.pose().yaw - before.yaw) > 0.1, "motion")
        assert (await call(session, "stop"))[0]
        await asyncio.to_thread(wait_until, teleop.stands, "the robot stands")
        await asyncio.wait_for(told_the_end(session, ended), 30.0)
        await call(session, "goal", sentence="release the emergency stop")
        said = (await call(session, "goal", sentence="turn left", wait_s=60.0))[1]
        assert "emergency stop is engaged" in said, "an agent releases nothing"
        assert json.loads((await call(session, "status"))[1])["e_stop"]

    async def run() -> None:
        async with over_a_pipe("--console", teleop.console._console.url) as session:
            await turn_and_look(session)
            await stop_under_way(session)

    asyncio.run(run())
    page = teleop.open_page().seated()
    page.release_e_stop()
    page.read("state", e_stop=False)
    teleop.decoder.script.clear()
    assert teleop.stands(), "nothing goes on after the release"


def test_a_page_at_a_relay_drives_and_stops_real_nodes(teleop: Teleop, relays: Relays) -> None:
    with relays.serving():
        end = teleop.console._relay
        wait_until(lambda: end is not None and end.state is LinkState.CONNECTED, "the console dials")
        page = relays.page()
        hold(page, teleop, 1.0)
        page.send(do="e_stop", engaged=True)
        page.read("state", e_stop=True, unheard=False, moving=False)
        wait_until(teleop.is_stopped, "a robot that stands")
