# SPDX-License-Identifier: Apache-2.0
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
# What has come since the queue was last read, where that is done at least once a second.
RECENT_SENSOR = QoSProfile(
    depth=60, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT
)
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


def without_events(of_publisher: bool = False) -> Any:
    """Event callbacks of a subscription, or publisher, that does not log others whose QoS does not fit.

    Each event makes every wait of the executor dearer; who does not fit, `TopicWatch` finds.
    """
    try:
        from rclpy import event_handler as events
    except ImportError:  # ROS 2 Humble
        from rclpy import qos_event as events
    kind = events.PublisherEventCallbacks if of_publisher else events.SubscriptionEventCallbacks
    return kind(use_default_callbacks=False)
