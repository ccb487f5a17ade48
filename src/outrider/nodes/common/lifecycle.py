# SPDX-License-Identifier: Apache-2.0
"""A lifecycle node that answers every request, whatever its state."""

from __future__ import annotations

from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn


class AnsweringNode(LifecycleNode):
    """Refuses a transition that its state does not have, where rclpy's own node ends its process.

    rclpy (issue 1209, from Humble on) raises from the service's callback. All transitions, of services and
    of this process, go through the one private method that is replaced here.
    """

    def stop_acting(self) -> None:
        """Leave the robot standing; safe to call in any state."""

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
