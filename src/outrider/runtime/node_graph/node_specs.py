# SPDX-License-Identifier: Apache-2.0
"""The nodes of Outrider and their parameters, described once.

The nodes declare their parameters from here, the launch files and the supervisor start processes from here,
and the parameter files are tested against it. It imports nothing of ROS.
"""

from __future__ import annotations

from outrider.core.frames import MAX_VOCABULARY
from outrider.core.language.questions import ANSWER_MODES, QUOTES
from outrider.core.model_options import (
    DEFAULT_MAX_LENGTH,
    DEVICES,
    DRAFT_BRANCHES,
    MAX_THREADS,
    PRECISIONS,
    PROVIDERS,
    RUNTIMES,
)
from outrider.decoding.config import LINK_LOSS_POLICIES, STRATEGIES
from outrider.decoding.protocol.limits import CloudLimits
from outrider.runtime.common.links import ROUND_TRIP_MS
from outrider.runtime.node_graph.observer_specs import CONSOLE, MARKERS, MISSION, RECORD
from outrider.runtime.node_graph.parameters import NodeSpec, Parameter
from outrider.runtime.node_graph.shared_parameters import AUTOSTART, FRAME_PREFIX, GO2_PREFIX
from outrider.runtime.node_graph.simulation_specs import GAZEBO, GAZEBO_WATCHDOG, SIMULATION

DEFAULT_ENDPOINT = "tcp://127.0.0.1:5757"
COMMAND_INTERFACES = ("twist", "twist_stamped", "sport", "nav2", "dry_run")
CAMERA_SOURCES = ("device", "file", "topic", "videohub", "rtp")
ODOMETRY_SOURCES = ("topic", "sportmodestate")
MOTIONS = ("continuous", "stepwise")

_MODEL_PARAMETERS = (
    Parameter("endpoint", DEFAULT_ENDPOINT, "where the verifier listens"),
    Parameter("key_file", "", "CURVE keys of the link; empty for a verifier on this machine", is_path=True),
    Parameter("threads", 1, "threads of the model's arithmetic", 1, MAX_THREADS),
    Parameter("max_length", DEFAULT_MAX_LENGTH, "room for prompt, image and text, in tokens", 64, 32_768),
    Parameter("constrained", False, "let the model's first line be nothing but an action of the table"),
    Parameter("device", "cpu", "where the model runs", choices=DEVICES),
    Parameter("precision", "fp32", "what the model's weights are kept in", choices=PRECISIONS),
)

_SAMPLING_PARAMETERS = (
    Parameter(
        "temperature", 0.0, "of the draws that texts are made of; 0 takes the likeliest token", 0.0, 100.0
    ),
    Parameter("top_p", 1.0, "probability that the tokens drawn from add up to; 1 for all tokens", 0.001, 1.0),
    Parameter("top_k", 0, "how many of the likeliest tokens are drawn from; 0 for all", 0, MAX_VOCABULARY),
    Parameter("seed", 0, "of the draws: the same one writes the same texts", 0, (1 << 63) - 1),
)
"""ROS has no integer above 2^63 - 1, so a node accepts half of the seeds that `Sampling` does."""

_MEMORY_PARAMETERS = (
    Parameter(
        "memory_store",
        "",
        "file of the memories; if empty $OUTRIDER_MEMORY or ~/.outrider/memory.db, a folder a namespace",
        is_path=True,
    ),
    Parameter(
        "memory_key_file", "", "key that the memories are encrypted with; empty for none", is_path=True
    ),
    Parameter(
        "home",
        "",
        "where odometry holds: places remembered in another home are not gone to; empty: until the next boot",
    ),
)

CAMERA = NodeSpec(
    "camera",
    "camera.camera_node",
    (
        AUTOSTART,
        FRAME_PREFIX,
        GO2_PREFIX,
        Parameter("source", "device", "where pictures come from", choices=CAMERA_SOURCES),
        Parameter("device", 0, "number of the OpenCV device", 0, 63),
        Parameter("path", "", "picture or video file of source=file", is_path=True),
        Parameter(
            "topic",
            "image_in",
            "picture topic that source=topic relays: raw or compressed; without a raw one, TOPIC/compressed",
        ),
        Parameter("interface", "eth0", "network interface of the robot's network, for source=rtp"),
        Parameter("rate_hz", 10.0, "pictures per second", 1.0, 60.0),
        Parameter("focal_px", 864.4, "focal length at a width of 1280 pixels", 100.0, 5000.0, live=True),
        Parameter(
            "frame_id", "camera_optical_frame", "tf frame of the pictures, after the prefix", live=True
        ),
    ),
    restarted=True,
)

GO2_STATE = NodeSpec(
    "go2_state",
    "go2.go2_state_node",
    (
        AUTOSTART,
        FRAME_PREFIX,
        GO2_PREFIX,
        Parameter(
            "odometry_source",
            "topic",
            "odom and tf from the Go2's /sportmodestate, or from a topic that another node publishes",
            choices=ODOMETRY_SOURCES,
        ),
        Parameter(
            "map_to_odom",
            False,
            "publish a fixed map->odom; false beside SLAM or AMCL, which publish their own",
        ),
    ),
    restarted=True,
)

NAVIGATOR = NodeSpec(
    "navigator",
    "navigator.navigator_node",
    (
        AUTOSTART,
        FRAME_PREFIX,
        *_MODEL_PARAMETERS,
        Parameter(
            "second_endpoint",
            "",
            "another verifier with the same target and keys, asked where the first is late; empty for none",
            read_only=True,
        ),
        Parameter(
            "link_profile",
            "",
            "emulated network to the verifier: a name in config/links.yaml, or a file; empty for none",
            is_path=True,
            live=True,
        ),
        Parameter(
            "link_rtt_ms",
            0.0,
            "shortest round trip of the emulated network, from 1 to 600 ms; 0 for its own",
            0.0,
            ROUND_TRIP_MS[1],
            live=True,
        ),
        Parameter(
            "draft_model", "models/draft", "the draft model: a folder, or its name on the Hub", is_path=True
        ),
        Parameter("runtime", "eager", "how the draft model runs", choices=RUNTIMES),
        Parameter("provider", "cpu", "where onnxruntime runs runtime=graphs", choices=PROVIDERS),
        Parameter(
            "strategy",
            "outrider",
            "decoding strategy, from the next text on",
            choices=tuple(STRATEGIES),
            live=True,
        ),
        Parameter(
            "drafters",
            "model,suffix",
            "where drafts come from, with commas between: model, lookup, suffix, calibration, reuse",
        ),
        Parameter("num_draft_tokens", 4, "tokens drafted before each verification", 1, 64),
        *_SAMPLING_PARAMETERS,
        Parameter(
            "draft_branches",
            DRAFT_BRANCHES,
            "likely outcomes that the draft model goes on from at once",
            1,
            64,
        ),
        Parameter("link_loss", "stop", "without a link: stop, or go on alone", choices=LINK_LOSS_POLICIES),
        Parameter("wanted_model", "", "target to insist on, by the name its verifier prints; empty for any"),
        Parameter(
            "motion",
            "continuous",
            "whether the next frame is taken under way, or once the robot stands",
            choices=MOTIONS,
        ),
        Parameter("max_new_tokens", 96, "longest text of a step, in tokens", 8, 1024, live=True),
        Parameter("answer_deadline_s", 20.0, "longest wait for one text", 0.5, 300.0, live=True),
        Parameter(
            "link_patience_s", 60.0, "how long a goal waits for a lost verifier", 0.0, 3600.0, live=True
        ),
        Parameter("max_steps", 300, "steps before a goal is given up", 1, 10_000, live=True),
        Parameter("max_travel_m", 80.0, "metres before a goal is given up", 1.0, 10_000.0, live=True),
        Parameter("max_time_s", 900.0, "seconds before a goal is given up", 5.0, 86_400.0, live=True),
        Parameter(
            "max_turning_deg",
            1440.0,
            "turning on the spot before a goal is given up",
            90.0,
            100_000.0,
            live=True,
        ),
        Parameter("camera_silence_s", 0.2, "without a new picture for this long nothing moves", 0.05, 10.0),
        Parameter("use_memory", True, "remember, answer, and go by what is remembered"),
        Parameter(
            "answers",
            "memory",
            "questions answered from memory alone, or in one text with a verifier that has a corpus",
            choices=ANSWER_MODES,
        ),
        Parameter(
            "answer_model",
            QUOTES,
            "model that answers for answers=aggregate: a folder, a GGUF file, or quotes",
            is_path=True,
        ),
        Parameter("wanted_answer_model", "", "the cloud's answering model to insist on; empty for any"),
        *_MEMORY_PARAMETERS,
    ),
    restarted=True,
)

MEMORY = NodeSpec(
    "memory",
    "navigator.memory_node",
    (
        AUTOSTART,
        *_MEMORY_PARAMETERS,
        Parameter("automatic", True, "remember what verified texts say was seen"),
        Parameter("max_records", 50_000, "records before the oldest sightings are forgotten", 1, 1_000_000),
        Parameter("max_mb", 512.0, "megabytes on the disk before the oldest are forgotten", 1.0, 100_000.0),
        Parameter(
            "max_age_days",
            365.0,
            "days, as seen to pass, before a record is forgotten; half as many more at most",
            0.01,
            36_500.0,
        ),
    ),
    restarted=True,
)

ACTION = NodeSpec(
    "action",
    "base.action_node",
    (
        AUTOSTART,
        FRAME_PREFIX,
        GO2_PREFIX,
        Parameter("command_interface", "twist", "how the base is commanded", choices=COMMAND_INTERFACES),
        Parameter(
            "robot_avoidance", False, "move a Go2 through its own obstacle avoidance, given back at the end"
        ),
        Parameter("min_battery_percent", 8, "under this no text moves a Go2; 0 looks at no battery", 0, 100),
        Parameter("rate_hz", 30.0, "velocity commands per second", 20.0, 50.0, read_only=True),
        Parameter("use_scan", True, "avoid obstacles by the scan; without one the base avoids nothing"),
        Parameter(
            "deadman_s", 0.27, "silence of the navigator that stops the robot", 0.1, 0.3, read_only=True
        ),
        Parameter(
            "joystick_s",
            0.3,
            "silence on cmd_vel_joy and cmd_vel_console that gives the robot back",
            0.1,
            0.3,
            read_only=True,
        ),
        Parameter("max_frame_age_s", 10.0, "older frames move nothing", 0.1, 60.0),
        Parameter("max_forward_mps", 0.6, "hard clamp ahead; Nav2 has its own", 0.05, 1.0, read_only=True),
        Parameter("max_lateral_mps", 0.3, "hard clamp sideways", 0.05, 0.4, read_only=True),
        Parameter("max_yaw_rps", 1.0, "hard clamp of turning", 0.1, 1.5, read_only=True),
    ),
    restarted=True,
)

VERIFIER = NodeSpec(
    "verifier",
    "navigator.verifier_node",
    (
        AUTOSTART,
        Parameter("serve", True, "start a verifier; false where another one serves this robot"),
        *_MODEL_PARAMETERS,
        Parameter(
            "model", "models/target", "the target model: a folder, or its name on the Hub", is_path=True
        ),
        Parameter(
            "draft_model",
            "",
            "what drafts beside the target: a model, or its own head; empty for none",
            is_path=True,
        ),
        Parameter("draft_device", "", "device for that draft alone: it drafts on while the target verifies"),
        Parameter(
            "corpus",
            "",
            "general knowledge to answer from together with robots; empty for none",
            is_path=True,
        ),
        Parameter(
            "answer_model",
            QUOTES,
            "model that answers from the corpus: a folder, a GGUF file, or quotes",
            is_path=True,
        ),
        Parameter("max_sessions", CloudLimits().max_sessions, "robots served at a time", 1),
        Parameter(
            "tokens_per_s",
            CloudLimits().tokens_per_s,
            "tokens of one robot verified a second, right or wrong",
            0.1,
        ),
        Parameter("metrics_port", 0, "port of a page for Prometheus on 127.0.0.1; 0 for none", 0, 65_535),
    ),
    wanted_by="serve",
    restarted=True,
)

_SPECS = (
    *(SIMULATION, CAMERA, GO2_STATE, NAVIGATOR, ACTION, MEMORY, VERIFIER, MISSION, RECORD, MARKERS),
    *(CONSOLE, GAZEBO, GAZEBO_WATCHDOG),
)
NODES = {spec.name: spec for spec in _SPECS}
