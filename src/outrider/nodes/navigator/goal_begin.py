# SPDX-License-Identifier: Apache-2.0
"""How an accepted goal begins, also one that is cancelled at that moment."""

from __future__ import annotations

from typing import Any

from rclpy.impl.implementation_singleton import rclpy_implementation


def begin(goal: Any) -> None:
    """Have it carried out. A cancelled one is begun too: whoever carries it out ends it as cancelled.

    rclpy looks whether a goal is cancelled before it lets it begin, and fails where the cancel comes between.
    """
    try:
        goal.execute()
    except rclpy_implementation.RCLError:
        if not goal.is_cancel_requested:
            raise
        goal.execute()
