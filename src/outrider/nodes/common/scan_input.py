# SPDX-License-Identifier: Apache-2.0
"""A lidar's scans for all nodes that use them: checked, and with the lidar's pose from tf."""

from __future__ import annotations

from functools import partial
from typing import Any

from sensor_msgs.msg import LaserScan
from tf2_msgs.msg import TFMessage

from outrider.core.errors import TransformError
from outrider.core.values import RangeScan
from outrider.navigation.sensing.scan_check import ScanCheck
from outrider.navigation.sensing.transforms import TransformTree
from outrider.nodes.common import convert, qos
from outrider.nodes.common.node import OutriderNode

TF, TF_STATIC = "/tf", "/tf_static"


class ScanInput:
    """Checks scans for a node; make it in `configure`. `fault` says why there is none now.

    /tf is busy on many robots, so it is subscribed to only while scans need more than /tf_static.
    """

    def __init__(self, node: OutriderNode) -> None:
        self._node = node
        self._transforms = TransformTree()
        self._base_frame = node.frame("base_link")
        self._check = ScanCheck(self._transforms, self._base_frame, node.is_simulated)
        self._moving: Any = None
        node.subscription(TFMessage, TF_STATIC, partial(self._on_transforms, True), qos.ALL_LATCHED)

    @property
    def fault(self) -> str:
        """Returns why there is no usable scan; empty if there is one."""
        return self._check.fault

    def take(self, message: LaserScan, came_s: float) -> RangeScan | None:
        """Returns a message that came at `came_s` as a scan on the base, or None if it is not usable."""
        scan = self._check.take(convert.scan_sample(message), came_s)
        self._follow(self._check.lacks_transform or self._moves(message.header.frame_id))
        return scan

    def _moves(self, frame: str) -> bool:
        """Whether the lidar is known to move on the base."""
        try:
            return self._moving is not None and self._transforms.moves(self._base_frame, frame)
        except TransformError:
            return True  # not known yet

    def _follow(self, wanted: bool) -> None:
        if wanted and self._moving is None:
            on_transforms = partial(self._on_transforms, False)
            self._moving = self._node.subscription(TFMessage, TF, on_transforms, qos.FROM_ANY)
        elif not wanted and self._moving is not None:
            self._node.drop(self._moving)
            self._moving = None

    def _on_transforms(self, static: bool, message: TFMessage) -> None:
        for transform in convert.stamped_transforms(message, static):
            self._transforms.put(transform)
