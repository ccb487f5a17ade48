# SPDX-License-Identifier: Apache-2.0
"""The quality of service of all topics."""

from __future__ import annotations

from typing import Any

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

LATEST_SENSOR = QoSProfile(
    depth=1, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT
)
SENSOR = QoSProfile(depth=5, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT)
COMMAND = QoSProfile(depth=1, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.RELIABLE)
EVENTS = QoSProfile(depth=20, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.RELIABLE)
# Keeps what comes between two reads of the queue, which happen at least once a second.
RECENT_SENSOR = QoSProfile(
    depth=60, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT
)
# Fits every publisher's QoS. Lost messages are not sent again.
FROM_ANY = QoSProfile(depth=20, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT)
LATCHED = QoSProfile(
    depth=1,
    history=HistoryPolicy.KEEP_LAST,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
# Keeps the messages of several latched publishers, not only the last one's.
ALL_LATCHED = QoSProfile(
    depth=20,
    history=HistoryPolicy.KEEP_LAST,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)


def without_events(of_publisher: bool = False) -> Any:
    """Returns event callbacks for a subscription or publisher that do not log incompatible QoS.

    Each event makes every wait of the executor slower. `TopicWatch` finds incompatible QoS instead.
    """
    try:
        from rclpy import event_handler as events
    except ImportError:  # ROS 2 Humble
        from rclpy import qos_event as events
    kind = events.PublisherEventCallbacks if of_publisher else events.SubscriptionEventCallbacks
    return kind(use_default_callbacks=False)
