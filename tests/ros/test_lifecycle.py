"""Every transition in every state of every node is answered, and disturbs nothing that runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Client, NodeThread, wait_until
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetAvailableTransitions, GetState
from outrider_interfaces.msg import VerifiedText
from rcl_interfaces.msg import Parameter, ParameterValue
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.parameter import Parameter as RosParameter
from support_ros import FakeBase, PatientAction, result_of

from outrider.core.errors import OutriderError
from outrider.nodes.camera.camera_node import CameraNode
from outrider.nodes.common import qos
from outrider.nodes.common.node import OutriderNode
from outrider.nodes.go2.go2_state_node import Go2StateNode
from outrider.nodes.navigator.memory_node import MemoryNode
from outrider.nodes.navigator.navigator_node import NavigatorNode
from outrider.nodes.navigator.verifier_node import VerifierNode
from outrider.nodes.observers.console_node import ConsoleNode
from outrider.nodes.observers.markers_node import MarkersNode
from outrider.nodes.observers.record_node import RecordNode
from outrider.nodes.simulation.gazebo_node import GazeboNode
from outrider.nodes.simulation.gazebo_watchdog_node import GazeboWatchdogNode
from outrider.nodes.simulation.simulation_node import SimulationNode
from outrider.runtime.common.ports import free_port

pytestmark = pytest.mark.ros
Run = Callable[..., NodeThread]
CONFIGURE, CLEANUP = Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_CLEANUP
ACTIVATE, DEACTIVATE = Transition.TRANSITION_ACTIVATE, Transition.TRANSITION_DEACTIVATE
# The transitions of each state, and the state that each leads to.
WAYS = {
    "unconfigured": {CONFIGURE: "inactive"},
    "inactive": {CLEANUP: "unconfigured", ACTIVATE: "active"},
    "active": {DEACTIVATE: "inactive"},
}
REQUESTED = (*range(9), 10, 30, 60, 62, 99, 255)
SHUTDOWNS = range(5, 8)
UNKNOWN_TYPES = (len(RosParameter.Type), 255)
RECORDING = "run.mcap"
SLOW_MPS = 0.1
"""Forward speed: so low that a motion outlasts the requests during it."""


class Manager:
    """A lifecycle manager for one node."""

    def __init__(self, client: Client, name: str) -> None:
        make = client.node.create_client
        self._change = make(ChangeState, f"{name}/change_state")
        self._state = make(GetState, f"{name}/get_state")
        self._set = make(SetParameters, f"{name}/set_parameters")
        self._set_together = make(SetParametersAtomically, f"{name}/set_parameters_atomically")
        self._transitions = make(GetAvailableTransitions, f"{name}/get_available_transitions")

    def _ask(self, service: Any, request: Any) -> Any:
        wait_until(service.service_is_ready, "the node's services")
        return result_of(service.call_async(request))

    def change(self, number: int = 0, label: str = "") -> bool:
        request = ChangeState.Request(transition=Transition(id=number, label=label))
        return bool(self._ask(self._change, request).success)

    def set(self, parameter: Parameter) -> list[bool]:
        """Sets a parameter by each of the two services. Returns whether each accepted it."""
        parameters = [parameter]
        one = self._ask(self._set, SetParameters.Request(parameters=parameters)).results
        together = self._ask(
            self._set_together, SetParametersAtomically.Request(parameters=[parameter])
        ).result
        return [result.successful for result in (*one, together)]

    @property
    def state(self) -> str:
        return str(self._ask(self._state, GetState.Request()).current_state.label)

    @property
    def possible(self) -> set[int]:
        request = GetAvailableTransitions.Request()
        return {found.transition.id for found in self._ask(self._transitions, request).available_transitions}


def make_nodes(folder: Path, models: Path) -> dict[str, Callable[[], OutriderNode]]:
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    memory = {"memory_store": str(folder / "memory.db")}
    picture = folder / "picture.png"
    picture.write_bytes(b"")
    navigator = {"endpoint": endpoint, "draft_model": str(models / "draft"), **memory}
    return {
        "action": PatientAction,
        "camera": lambda: CameraNode({"source": "topic"}),
        "console": lambda: ConsoleNode({"port": 0, "token_file": str(folder / "token")}),
        "gazebo": GazeboNode,
        "gazebo_watchdog": GazeboWatchdogNode,
        "go2_state": Go2StateNode,
        "markers": MarkersNode,
        "memory": lambda: MemoryNode(memory),
        "navigator": lambda: NavigatorNode(navigator),
        "record": lambda: RecordNode({"file": str(folder / RECORDING)}),
        "simulation": SimulationNode,
        "verifier": lambda: VerifierNode({"endpoint": endpoint, "model": str(models / "target")}),
    }


NAMES = tuple(make_nodes(Path("/dev/shm"), Path()))


@pytest.mark.parametrize("name", NAMES)
def test_every_request_in_every_state_is_answered(
    name: str, run_node: Run, client: Client, tmp_path: Path, tiny_model_folder: Path
) -> None:
    run_node(make_nodes(tmp_path, tiny_model_folder)[name], start=False)
    manager = Manager(client, name)
    state = "unconfigured"
    for step in (CONFIGURE, ACTIVATE, DEACTIVATE, ACTIVATE, DEACTIVATE, CLEANUP, CONFIGURE, ACTIVATE):
        ways = WAYS[state]
        misfits = [number for number in REQUESTED if number not in ways and number not in SHUTDOWNS]
        assert not any(manager.change(number) for number in misfits)
        assert not manager.change(label="fly") and manager.state == state
        assert manager.possible - set(SHUTDOWNS) == set(ways)
        (tmp_path / RECORDING).unlink(missing_ok=True)  # a recorder overwrites no file
        assert manager.change(step), f"{step} from {state}"
        state = ways[step]
    assert manager.state == "active"
    for number in UNKNOWN_TYPES:
        for parameter in ("autostart", "none_of_ours"):
            assert manager.set(Parameter(name=parameter, value=ParameterValue(type=number))) == [False, False]
    assert manager.change(label="shutdown") and manager.state == "finalized"
    assert not any(manager.change(number) for number in REQUESTED) and manager.possible == set()


@pytest.mark.parametrize(
    ("error", "state"), [(OutriderError("no way"), "inactive"), (RuntimeError("a defect"), "unconfigured")]
)
def test_an_activation_that_fails_leaves_nothing_running(
    error: Exception, state: str, run_node: Run, client: Client
) -> None:
    class Failing(OutriderNode):
        spec_name = "markers"
        stopped = 0

        def activate(self) -> None:
            self.active_timer(0.01, lambda: None)
            raise error

        def deactivate(self) -> None:
            self.stopped += 1

    node = run_node(Failing, start=False).node
    manager = Manager(client, "markers")
    assert manager.change(CONFIGURE) and not manager.change(ACTIVATE)
    assert manager.state == state and node.stopped and not node._active_timers


def test_a_refused_request_does_not_disturb_the_motion_and_a_deactivation_ends_it(
    run_node: Run, client: Client
) -> None:
    base = FakeBase(client)
    run_node(lambda: PatientAction({"max_forward_mps": SLOW_MPS}))
    manager = Manager(client, "action")
    text = VerifiedText(session_id="s", step=1, action="move forward large", action_complete=True)
    text.link_state = "connected"

    def moving() -> bool:
        text.header.stamp = client.node.get_clock().now().to_msg()
        client.publish(text, "verified_text", qos.EVENTS)
        return bool(base.commands) and base.commands[-1][1].vx > 0.5 * SLOW_MPS

    wait_until(moving, "motion")
    assert not any(manager.change(number) for number in (CONFIGURE, ACTIVATE, CLEANUP, 5, 6, 99))
    assert moving() and not base.reports
    assert manager.change(DEACTIVATE)
    wait_until(lambda: base.commands[-1][1].vx == 0.0 and base.reports, "the stop and its report")
    assert base.reports[-1].message == "the action node was deactivated"
