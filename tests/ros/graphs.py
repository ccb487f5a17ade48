"""Graphs of nodes around the simulation, with a scripted decoder, and the messages in them."""

from __future__ import annotations

from dataclasses import dataclass

from conftest import Client, wait_until
from fakes import SLOW_CAMERA, WORDS, ScriptedDecoder
from geometry_msgs.msg import Twist
from outrider_interfaces.msg import SimulationState, VerifiedText
from std_msgs.msg import Bool
from support.consoles import Page
from support.relays import Relays
from support_ros import EdgeNavigator, Goals, PatientAction, Run

from outrider.core.values import Pose2D, Velocity
from outrider.nodes.common import convert, qos
from outrider.nodes.observers.console_node import ConsoleNode
from outrider.nodes.simulation.simulation_node import SimulationNode
from outrider.runtime.wiring.robot_pair import Edge


@dataclass
class Simulated:
    """A simulated robot's decoder and states."""

    decoder: ScriptedDecoder
    states: list[SimulationState]

    def pose(self) -> Pose2D:
        return convert.pose_of(wait_until(lambda: self.states, "the simulation")[-1].pose)


def simulated(run_node: Run, client: Client, **parameters: object) -> Simulated:
    """Starts simulation, action node and navigator, which has these parameters besides the patient ones."""
    made = Simulated(ScriptedDecoder([]), client.listen(SimulationState, "simulation_state", qos.EVENTS))
    given = {"link_patience_s": 20.0, **SLOW_CAMERA, **parameters}
    run_node(lambda: SimulationNode({"seed": 3, "placement": "in_view", "odometry_noise": 0.0}))
    run_node(PatientAction)
    run_node(lambda: EdgeNavigator(given, Edge(made.decoder, WORDS)), threads=4)  # type: ignore[arg-type]
    return made


@dataclass
class Robot(Simulated):
    """A simulated robot that is sent goals."""

    goals: Goals
    texts: list[VerifiedText]

    def stands(self) -> bool:
        """Returns whether the pose has not changed over the last four states."""
        recent = [convert.pose_of(state.pose) for state in self.states[-4:]]
        return len(recent) == 4 and all(p.distance_to(recent[0].x, recent[0].y) < 0.01 for p in recent)


def start_robot(run_node: Run, client: Client) -> Robot:
    texts = client.listen(VerifiedText, "verified_text", qos.EVENTS)
    graph = simulated(run_node, client)
    goals = Goals(client)
    wait_until(lambda: client.node.count_subscribers("verified_text") >= 2, "the action node's subscription")
    wait_until(lambda: graph.states, "the simulation")
    return Robot(graph.decoder, graph.states, goals, texts)


@dataclass
class Teleop(Simulated):
    """A simulated robot with a console."""

    console: ConsoleNode
    commands: list[Twist]
    e_stops: list[Bool]

    def open_page(self) -> Page:
        return Page(self.console._console)

    def stands(self) -> bool:
        return bool(self.commands) and convert.velocity_of(self.commands[-1]) == Velocity()

    def is_stopped(self) -> bool:
        """Returns whether the robot stands and the newest message engages the emergency stop."""
        return self.stands() and bool(self.e_stops) and self.e_stops[-1].data


def start_teleop(run_node: Run, client: Client, relays: Relays) -> Teleop:
    """Starts a robot with a console that dials a relay."""
    commands = client.listen(Twist, "cmd_vel", qos.COMMAND)
    e_stops = client.listen(Bool, "e_stop", qos.COMMAND)
    # Stepwise, so that the end of each motion is reported.
    graph = simulated(run_node, client, motion="stepwise")
    relay = {"relay": relays.endpoint, "relay_key_file": str(relays.keys / "go2.key")}
    console = run_node(lambda: ConsoleNode({"port": 0, **relay})).node
    wait_until(lambda: client.node.count_subscribers("cmd_vel_console") >= 1, "the action node")
    wait_until(lambda: client.node.count_subscribers("decoded_tokens") >= 1, "the console")
    wait_until(lambda: graph.states, "the simulation")
    return Teleop(graph.decoder, graph.states, console, commands, e_stops)
