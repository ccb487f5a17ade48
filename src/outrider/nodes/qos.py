"""The quality of service of every topic, in one place."""

from __future__ import annotations

from typing import Any

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

LATEST_SENSOR = QoSProfile(
    depth=1, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT
)
SENSOR = QoSProfile(depth=5, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT)
COMMAND = QoSProfile(depth=1, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.RELIABLE)
EVENTS = QoSProfile(depth=20, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.RELIABLE)
# Takes from every publisher, whatever its QoS; what is lost on the way does not come again.
FROM_ANY = QoSProfile(depth=20, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT)
LATCHED = QoSProfile(
    depth=1,
    history=HistoryPolicy.KEEP_LAST,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
# Of several latched publishers, not of the last alone.
ALL_LATCHED = QoSProfile(
    depth=20,
    history=HistoryPolicy.KEEP_LAST,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)


def without_events() -> Any:
    """Event callbacks of a subscription that does not log publishers whose QoS does not fit."""
    try:
        from rclpy.event_handler import SubscriptionEventCallbacks
    except ImportError:  # ROS 2 Humble
        from rclpy.qos_event import SubscriptionEventCallbacks
    return SubscriptionEventCallbacks(use_default_callbacks=False)
