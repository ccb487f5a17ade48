# SPDX-License-Identifier: Apache-2.0
"""Parameters that several nodes have."""

from __future__ import annotations

from outrider.runtime.node_graph.parameters import Parameter

DEFAULT_INSTRUCTION = "find the silver bottle"

AUTOSTART = Parameter("autostart", True, "configure and activate at start, without a lifecycle manager")

FRAME_PREFIX = Parameter(
    "frame_prefix", "", "what stands before the names of this robot's tf frames, such as go2/"
)
GO2_PREFIX = Parameter(
    "go2_prefix",
    "",
    "what stands before the Go2's /sportmodestate, /lf/... and /api/..., such as /go2; empty as on the robot",
)
