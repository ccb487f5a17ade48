# SPDX-License-Identifier: Apache-2.0
"""A lifecycle node that answers every request, whatever its state."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn
from rclpy.parameter import Parameter


class AnsweringNode(LifecycleNode):
    """Refuses requests for which rclpy's node would end its process.

    These are transitions that the state does not have, and parameters of an unknown type. rclpy (issue
    1209, from Humble on) raises from the service's callback. All transitions, of services and of this
    process, go through the one private method that is replaced here.
    """

    def create_service(self, srv_type: Any, srv_name: str, callback: Any, **more: Any) -> Any:
        """Create a service as rclpy does. Its services that set parameters accept any type here."""
        if srv_type in (SetParameters, SetParametersAtomically):
            callback = partial(_with_known_types, callback)
        return super().create_service(srv_type, srv_name, callback, **more)

    def stop_acting(self) -> None:
        """Stop the robot; safe to call in any state."""

    def _LifecycleNodeMixin__change_state(self, transition_id: int) -> TransitionCallbackReturn:
        state = self._state_machine.current_state[1]
        possible = {number: label for number, label, *_ in self._state_machine.available_transitions}
        if transition_id not in possible:
            choice = ", ".join(f"{label} ({number})" for number, label in possible.items()) or "nothing"
            self.get_logger().warning(
                f"transition {transition_id} refused: from the state {state} there is {choice}"
            )
            return TransitionCallbackReturn.FAILURE
        try:
            return super()._LifecycleNodeMixin__change_state(transition_id)
        except rclpy_implementation.RCLError as error:
            self.stop_acting()
            self.get_logger().error(f"transition {possible[transition_id]} failed: {error}")
            return TransitionCallbackReturn.FAILURE


_KNOWN_TYPES = frozenset(kind.value for kind in Parameter.Type)


def _with_known_types(callback: Callable[[Any, Any], Any], request: Any, response: Any) -> Any:
    """Treat a value of an unknown type as not set, which rclpy refuses."""
    for parameter in request.parameters:
        if parameter.value.type not in _KNOWN_TYPES:
            parameter.value.type = ParameterType.PARAMETER_NOT_SET
    return callback(request, response)
