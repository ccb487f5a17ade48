"""What a recording of a run holds, and its steps read back. Needs no ROS."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.core.errors import ConfigError
from outrider.core.values import DecodeRequest, LinkState, Prompt

PROMPT_TOPIC, TEXT_TOPIC = "step_prompt", "verified_text"
RECORDED_TOPICS = (
    "camera/image_raw",
    "camera/camera_info",
    "odom",
    "scan",
    PROMPT_TOPIC,
    TEXT_TOPIC,
    "speculation_stats",
    "motion_report",
    "cmd_vel",
    "cmd_vel_joy",
    "cmd_vel_console",
    "e_stop",
    "simulation_state",
    "base_velocity",
    "top_view/compressed",
    "markers",
    "/tf",
    "/tf_static",
    "/diagnostics",
    "/api/sport/request",
    "/api/sport/response",
)
MAGIC = b"\x89MCAP0\r\n"
_DECODING, _FINISHED = 0, 1


def check_new(path: Path) -> None:
    """ConfigError where a recording would replace a file."""
    if path.exists():
        raise ConfigError(f"{path} is there already: choose another file for the recording")


@dataclass(frozen=True)
class RecordedStep:
    """What a step's text was decoded from, and its verified text, which is a beginning where not `finished`.

    `alone`: the robot wrote at least a part of it without the verifier.
    """

    session_id: str
    step: int
    request: DecodeRequest
    text: str = ""
    verified_tokens: int = 0
    finished: bool = False
    alone: bool = False


def read_steps(path: Path, deadline_s: float = 60.0) -> list[RecordedStep]:
    """The steps of a recording in order, to be decoded within a deadline each.

    A file whose recorder was killed is read as far as it goes. Raises ConfigError for one that is no
    recording, or holds no step.
    """
    steps: dict[tuple[str, int], RecordedStep] = {}
    for topic, message in _messages(path):
        key = (message.session_id, message.step)
        if topic == PROMPT_TOPIC:
            prompt = Prompt(message.prompt, bytes(message.jpeg))
            request = DecodeRequest(prompt, message.max_new_tokens, deadline_s)
            steps[key] = RecordedStep(*key, request)
        elif key in steps and message.state in (_DECODING, _FINISHED):
            alone = steps[key].alone or message.link_state == LinkState.LOCAL.value
            said = message.text, message.verified_tokens, message.state == _FINISHED, alone
            steps[key] = RecordedStep(*key, steps[key].request, *said)
    if not steps:
        raise ConfigError(f"{path} holds no step: record while the robot is told to find something")
    return list(steps.values())


def _messages(path: Path) -> Iterator[tuple[str, Any]]:
    """The messages that steps are made of, each with the last part of its topic's name."""
    from mcap.exceptions import EndOfFile, McapError
    from mcap.reader import NonSeekingReader
    from mcap_ros2.decoder import DecoderFactory

    factory = DecoderFactory()
    try:
        with path.open("rb") as stream:
            if stream.read(len(MAGIC)) not in (MAGIC, b""):
                raise ConfigError(f"{path} is no MCAP file: give one of `outrider record`")
            stream.seek(0)
            for schema, channel, message in NonSeekingReader(stream).iter_messages(log_time_order=False):
                name = channel.topic.rpartition("/")[2]
                if name in (PROMPT_TOPIC, TEXT_TOPIC):
                    decode = factory.decoder_for(channel.message_encoding, schema)
                    if decode is None:
                        raise ConfigError(f"{path}: {channel.topic} is not encoded as ROS 2 does")
                    yield name, decode(message.data)
    except (EndOfFile, struct.error):
        return
    except (OSError, McapError, ValueError, RuntimeError) as error:
        raise ConfigError(f"{path} cannot be read as a recording: {error}") from error
