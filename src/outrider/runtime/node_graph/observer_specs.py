# SPDX-License-Identifier: Apache-2.0
"""The nodes that give a robot tasks or watch it, and their parameters."""

from __future__ import annotations

from outrider.runtime.node_graph.parameters import NodeSpec, Parameter
from outrider.runtime.node_graph.shared_parameters import (
    AUTOSTART,
    DEFAULT_INSTRUCTION,
    FRAME_PREFIX,
    GO2_PREFIX,
)

MISSION = NodeSpec(
    "mission",
    "navigator.mission_node",
    (
        Parameter("instruction", DEFAULT_INSTRUCTION, "what the robot is told"),
        Parameter("out", "", "folder for the report; empty for none", is_path=True),
        Parameter("video", True, "make a video of the run beside the report"),
        Parameter("animation", "", "file for an animation of the run, .webp; empty for none", is_path=True),
        Parameter(
            "recording", "", "file that the run is recorded in: the goal waits for the recorder", is_path=True
        ),
        Parameter("server_wait_s", 120.0, "how long to wait for the other nodes", 1.0, 3600.0),
        Parameter("time_limit_s", 600.0, "the goal is cancelled after this", 5.0, 86_400.0),
    ),
)

RECORD = NodeSpec(
    "record",
    "observers.record_node",
    (
        AUTOSTART,
        GO2_PREFIX,
        Parameter("file", "", "MCAP file that the run is recorded in; empty for no recording", is_path=True),
    ),
    wanted_by="file",
)

MARKERS = NodeSpec(
    "markers",
    "observers.markers_node",
    (
        AUTOSTART,
        FRAME_PREFIX,
        Parameter("draw", False, "publish text, goal and path as markers for RViz and Foxglove"),
    ),
    wanted_by="draw",
    restarted=True,
)

CONSOLE = NodeSpec(
    "console",
    "observers.console_node",
    (
        AUTOSTART,
        FRAME_PREFIX,
        Parameter("serve", False, "start the web console"),
        Parameter("host", "127.0.0.1", "address to serve at; 0.0.0.0 for every network of this machine"),
        Parameter("port", 8088, "TCP port to serve at; 0 for a free one", 0, 65535),
        Parameter(
            "login", False, "ask for the login token on the loopback too; elsewhere it is always asked"
        ),
        Parameter(
            "token_file",
            "",
            "file of the login token, made if missing; ~/.outrider/console.token if empty",
            is_path=True,
        ),
        Parameter("tls_cert", "", "certificate file to serve https with; empty for http", is_path=True),
        Parameter("tls_key", "", "key file of the certificate", is_path=True),
        Parameter("relay", "", "relay to dial, tcp://HOST:5758, where people open the console too"),
        Parameter(
            "relay_key_file", "", "this robot's key for the relay, as `outrider keys` makes it", is_path=True
        ),
        Parameter("speech", "", "what recognises speech: moonshine or whisper; empty for nothing"),
        Parameter(
            "voice",
            "",
            "voice of Piper, a file .onnx, that speaks answers; empty for espeak-ng",
            is_path=True,
        ),
        Parameter(
            "speech_model", "models/draft", "draft model that says which words can be said", is_path=True
        ),
        Parameter(
            "journal",
            "",
            "signed journal of who asked for what; ~/.outrider/robot.journal if empty",
            is_path=True,
        ),
        Parameter("picture_hz", 10.0, "pictures per second for viewers", 1.0, 30.0, live=True),
        Parameter("picture_width", 640, "wider pictures are scaled down to this", 64, 3840, live=True),
        Parameter("quality", 75, "quality of the JPEG pictures", 10, 95, live=True),
        Parameter("forward_mps", 0.5, "fastest by hand ahead; the action node clamps too", 0.05, 1.0),
        Parameter("lateral_mps", 0.25, "fastest by hand sideways", 0.05, 0.4),
        Parameter("yaw_rps", 0.8, "fastest turning by hand", 0.1, 1.5),
    ),
    wanted_by="serve",
    restarted=True,
)
