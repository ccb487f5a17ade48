# SPDX-License-Identifier: Apache-2.0
"""What `outrider eval kills` kills and watches: a graph's processes, and their messages over DDS."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import rclpy
from geometry_msgs.msg import Twist, TwistStamped
from outrider_interfaces.action import Navigate
from outrider_interfaces.msg import MotionReport, SimulationState, VerifiedText
from rclpy.action import ActionClient
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import Image

from outrider.core.errors import OutriderError
from outrider.core.values import Velocity
from outrider.evaluation.kills.process_kills import RECORDING_FILE
from outrider.nodes.common import convert, qos
from outrider.nodes.common.process_exit import BROKEN, Ending
from outrider.nodes.common.running import leave_ros, spin_once
from outrider.runtime.common.ports import free_port
from outrider.runtime.mission.episode import has_reached, wanted_in
from outrider.runtime.node_graph.node_graphs import SIM_GRAPH
from outrider.runtime.node_graph.node_specs import MOTIONS, NODES
from outrider.runtime.node_graph.parameter_values import graph_parameters, write_parameter_file
from outrider.runtime.processes.ros_env import free_domain, ros_environment
from outrider.runtime.processes.supervisor import Supervisor
from outrider.simulation.homes.home import generate_home
from outrider.simulation.homes.vocabulary import target_of

TASK = "find the silver bottle"
START_S = 180.0
# Reliable and deep: a lost message would look like a base that stood still.
RELIABLE_DEEP = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE)
# Turns of a spinner that are kept: about ten seconds of them.
KEPT_TURNS = 10_000
SceneType = TypeVar("SceneType", bound="Scene")
RELAYED = ("-r", "camera/image_raw:=image_in", "-r", "camera/camera_info:=camera_info_in")


def start_node(supervisor: Supervisor, name: str, parameter_file: Path, wrapper: Sequence[str] = ()) -> None:
    """Start a node of a scene; the simulation's pictures go to the camera node."""
    arguments = RELAYED if name == "simulation" else ()
    supervisor.start(name, parameter_file, arguments=arguments, wrapper=wrapper)


@dataclass
class Sample:
    """A velocity and the time from which it holds, in seconds of the system's clock."""

    time_s: float
    velocity: Velocity

    @property
    def moves(self) -> bool:
        """Whether the velocity is not zero."""
        return self.velocity != Velocity()


def longest_gap_s(times_s: Sequence[float], since_s: float) -> float:
    """Return the longest time between two moments of which the later is after `since_s`; 0 without one."""
    gaps_s = [later - max(earlier, since_s) for earlier, later in pairwise(times_s) if later > since_s]
    return max(gaps_s, default=0.0)


class NodeSpinner:
    """Spins a plain node in a thread until it is closed."""

    def __init__(self, node: Any) -> None:
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(node)
        self._stopping = threading.Event()
        self._spun_at_s: deque[float] = deque(maxlen=KEPT_TURNS)
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops spinning and waits for the thread."""
        self._stopping.set()
        self._thread.join()

    def longest_stall_s(self, since_s: float) -> float:
        """Return the longest time since `since_s` (system clock) in which nothing was received."""
        return longest_gap_s([*self._spun_at_s, time.time()], since_s)

    def _spin(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            while not self._stopping.is_set():
                self._spun_at_s.append(time.time())
                spin_once(self.executor, 0.02)


@dataclass
class Observer:
    """The graph's messages as they come, and a client of its action. Times are the system clock's.

    `reasons` holds the reasons given for standing.
    """

    texts: list[VerifiedText] = field(default_factory=list)
    base_velocities: list[Sample] = field(default_factory=list)
    commanded: list[Sample] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    state: SimulationState | None = None
    pictures: int = 0

    def __post_init__(self) -> None:
        self.node = rclpy.create_node("kill_trials")
        subscribe = self.node.create_subscription
        subscribe(VerifiedText, "verified_text", self._on_text, qos.EVENTS)
        subscribe(MotionReport, "motion_report", self._on_report, qos.EVENTS)
        subscribe(TwistStamped, "base_velocity", self._on_base_velocity, RELIABLE_DEEP)
        subscribe(Twist, "cmd_vel", self._on_commanded, qos.COMMAND)
        subscribe(SimulationState, "simulation_state", self._on_state, qos.EVENTS)
        subscribe(Image, "camera/image_raw", self._on_picture, qos.LATEST_SENSOR)
        self.goals = ActionClient(self.node, Navigate, "navigate")
        self.spinner = NodeSpinner(self.node)
        self.executor = self.spinner.executor

    def close(self) -> None:
        """Stops spinning and frees the node."""
        self.spinner.close()
        self.node.destroy_node()

    def _on_text(self, message: VerifiedText) -> None:
        self.texts.append(message)
        if message.state == VerifiedText.WITHDRAWN:
            self.reasons.append(message.text)

    def _on_report(self, message: MotionReport) -> None:
        if message.outcome != MotionReport.DONE:
            self.reasons.append(message.message)

    def _on_base_velocity(self, message: TwistStamped) -> None:
        time_s = convert.seconds_of(message.header.stamp)
        self.base_velocities.append(Sample(time_s, convert.velocity_of(message.twist)))

    def _on_commanded(self, message: Twist) -> None:
        self.commanded.append(Sample(time.time(), convert.velocity_of(message)))

    def _on_state(self, message: SimulationState) -> None:
        self.state = message

    def _on_picture(self, message: Image) -> None:
        self.pictures += 1

    @property
    def moves(self) -> bool:
        """Whether the base's last command is not zero."""
        return bool(self.base_velocities) and self.base_velocities[-1].moves

    @property
    def decodes(self) -> bool:
        """Whether a text is being decoded right now."""
        last = self.texts[-1] if self.texts else None
        return last is not None and last.state == VerifiedText.DECODING and last.verified_tokens > 0


class Scene:
    """All processes of one run, in one home.

    `extra_nodes`: nodes that a goal does not need. `motion`: the navigator's parameter. `folder` is used
    for this run alone; a recorder's file in it is RECORDING_FILE.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        placement: str,
        models: Path,
        extra_nodes: Sequence[str] = (),
        motion: str = MOTIONS[0],
    ) -> None:
        self.seed, self.placement = seed, placement
        self.console_port = free_port()
        self._folder, self._extra_nodes = folder, extra_nodes
        self._parameters = _parameters(seed, placement, models, folder, motion)
        self._parameters["console"]["port"] = self.console_port
        self._parameters["navigator"]["use_memory"] = "memory" in extra_nodes
        self.nodes = ("verifier", "simulation", "camera", "action", "navigator", *extra_nodes)

    def __enter__(self: SceneType) -> SceneType:
        # A new domain: what was killed in the last one still seems to be there for a while.
        domain = free_domain()
        rclpy.init(domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
        self.observer = Observer()
        self.supervisor = Supervisor(self._folder / "logs", ros_environment(domain)).__enter__()
        file = self._folder / "parameters.yaml"
        write_parameter_file(file, self._parameters)
        try:
            self.start_nodes(file)
        except BaseException:
            self.__exit__()
            raise
        return self

    def start_nodes(self, parameter_file: Path) -> None:
        """Starts the nodes of the scene."""
        for name in self.nodes:
            start_node(self.supervisor, name, parameter_file)

    def __exit__(self, *_: object) -> None:
        self.supervisor.stop_all()
        self.observer.close()
        rclpy.try_shutdown()

    def await_ready(self) -> None:
        """Wait until the navigator accepts goals, and everything that it needs is there."""
        observer = self.observer
        wait_for(observer.goals.server_is_ready, START_S, "the navigator")
        wait_for(lambda: observer.state is not None, START_S, "the simulation")
        num_seen = observer.pictures
        wait_for(lambda: observer.pictures > num_seen + 2, START_S, "pictures")
        # The reports' publisher comes with the action node, the recorder's subscriptions within its period.
        wait_for(lambda: observer.node.count_publishers("motion_report"), START_S, "the action node")
        if "record" in self._extra_nodes:
            wait_for(lambda: observer.node.count_subscribers("step_prompt"), START_S, "the recorder")
        if "memory" in self._extra_nodes:
            wait_for(lambda: observer.node.count_services("recall"), START_S, "the memory")
        if "markers" in self._extra_nodes:
            wait_for(lambda: observer.node.count_publishers("markers"), START_S, "the markers")
        if "console" in self._extra_nodes:
            wait_for(lambda: _listens(self.console_port), START_S, "the console")

    def begin_goal(self) -> Goal:
        """Sends the goal of the scene."""
        return Goal(self.observer)

    def kill(self, name: str) -> float:
        """Kill a process, as by kill -9; return the time."""
        at_s = time.time()
        self.supervisor.kill(name)
        return at_s

    def start_again(self, name: str) -> None:
        """Starts an ended node again."""
        self.supervisor.start_again(name)

    def at_target(self) -> bool:
        """Whether the robot stands at its target, by the simulation."""
        state = self.observer.state
        home = generate_home(self.seed, target_of(TASK), self.placement)
        return state is not None and has_reached(home, wanted_in(TASK, home), convert.pose_of(state.pose))


class Goal:
    """A goal that was sent; `result` is None until it has ended."""

    def __init__(self, observer: Observer) -> None:
        self.result: Any = None
        self._handle: Any = None
        self._client, self._reasons = observer.goals, observer.reasons
        # Not from this thread: an answer might come before the callback is registered.
        observer.executor.create_task(self._send)

    def has_ended(self) -> bool:
        """Whether the goal has a result."""
        return self.result is not None

    def _send(self) -> None:
        future = self._client.send_goal_async(Navigate.Goal(instruction=TASK))
        future.add_done_callback(self._on_answer)

    def _on_answer(self, future: Any) -> None:
        self._handle = future.result()
        self._handle.get_result_async().add_done_callback(self._on_result)

    def _on_result(self, future: Any) -> None:
        self.result = future.result().result
        if not self.result.success:
            self._reasons.append(self.result.message)


def _parameters(
    seed: int, placement: str, models: Path, folder: Path, motion: str
) -> dict[str, dict[str, Any]]:
    arguments = {
        "motion": motion,
        "instruction": TASK,
        "seed": seed,
        "placement": placement,
        "endpoint": f"tcp://127.0.0.1:{free_port()}",
        "draft_model": str(models / "draft"),
        "model": str(models / "target"),
        "memory_store": str(folder / "memory"),
        "record": str(folder / RECORDING_FILE),
    }
    base = {"navigator": {"link_patience_s": START_S, "answer_deadline_s": START_S}}
    parameters: dict[str, dict[str, Any]] = dict(graph_parameters(SIM_GRAPH, base, arguments))
    parameters["camera"] = dict(NODES["camera"].checked({"source": "topic", "topic": "image_in"}))
    return parameters


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


def run_to_the_end(trials: Callable[[], None]) -> int:
    """Return the exit status of trials. If asked to end, they end their processes before ROS is left."""
    ending, status = Ending(), BROKEN
    try:
        with ending.interrupting():  # leaving a scene ends its processes
            trials()
        status = 0
    except (OutriderError, KeyboardInterrupt) as error:
        print(f"error: {str(error) or 'interrupted'}", file=sys.stderr)
    finally:
        leave_ros(status)
    return status


def wait_for(
    condition: Callable[[], Any], limit_s: float, what: str, ended: Callable[[], Any] = lambda: False
) -> bool:
    """Wait for a condition; return False once `ended` is true. Raises OutriderError after `limit_s`."""
    deadline_s = time.monotonic() + limit_s
    while not condition():
        if ended():
            return False
        if time.monotonic() > deadline_s:
            raise OutriderError(f"{what}: not within {limit_s:.0f} s")
        time.sleep(0.002)
    return True
