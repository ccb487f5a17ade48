# SPDX-License-Identifier: Apache-2.0
"""Follows a Go2's condition on its topics: state, battery, and the requests of other programs."""

from __future__ import annotations

from typing import Any

from outrider.nodes.common import qos
from outrider.nodes.common.node import OutriderNode
from outrider.nodes.go2 import go2_api
from outrider.nodes.go2.go2_client import ServiceClient
from outrider.nodes.go2.go2_condition import LOW_STATE_TOPIC, SLOW_STATE_TOPIC, STATE_TOPIC, Go2Condition


def watch_go2(node: OutriderNode, condition: Go2Condition, moved_through: ServiceClient) -> None:
    """Keep a condition up to date. `moved_through` is the service that takes this program's velocities.

    The obstacle avoidance itself commands the sport service, so only one of the two can be watched.
    """
    _watch_state(node, condition)
    for service in (moved_through.service, go2_api.MOTION_SWITCHER):

        def on_request(message: Any, service: str = service) -> None:
            api_id = message.header.identity.api_id
            is_own = service == moved_through.service and moved_through.is_own(message)
            if not is_own and not go2_api.is_question(service, api_id):
                condition.on_other_program(go2_api.name_of(service, api_id))

        topic = node.go2_topic(go2_api.request_topic(service))
        node.subscription(go2_api.Request, topic, on_request, qos.SENSOR)


def _watch_state(node: OutriderNode, condition: Go2Condition) -> None:
    try:
        from unitree_go.msg import LowState, SportModeState
    except ImportError:
        node.get_logger().info("unitree_go is not installed: the robot's posture and battery are unknown")
        return
    fast: list[Any] = []

    def on_state(message: Any) -> None:
        condition.on_state(int(message.mode), int(message.error_code))

    def on_slow_state(message: Any) -> None:
        """Drop the fast topic: if the robot sends a few states a second, its 500 Hz only cost time."""
        while fast:
            node.drop(fast.pop())
        on_state(message)

    state, slow_state = node.go2_topic(STATE_TOPIC), node.go2_topic(SLOW_STATE_TOPIC)
    fast.append(node.subscription(SportModeState, state, on_state, qos.LATEST_SENSOR))
    node.subscription(SportModeState, slow_state, on_slow_state, qos.LATEST_SENSOR)
    node.subscription(
        LowState,
        node.go2_topic(LOW_STATE_TOPIC),
        lambda message: condition.on_battery(int(message.bms_state.soc)),
        qos.LATEST_SENSOR,
    )
