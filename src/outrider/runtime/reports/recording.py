# SPDX-License-Identifier: Apache-2.0
"""Names the topics of a recording, and reads its steps back. Needs no ROS."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.core.errors import ConfigError
from outrider.core.files.writing import checked_file
from outrider.core.values import DecodeRequest, LinkState, Prompt
from outrider.decoding.protocol.limits import check_request

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
    "e_stopped",
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
_DECODING, _FINISHED = 0, 1

log = logging.getLogger(__name__)


def check_new(path: Path) -> None:
    """Raise ConfigError if a recording would replace a file, or cannot be written."""
    if path.exists():
        raise ConfigError(f"{path} is there already: choose another file for the recording")
    checked_file(path)


@dataclass(frozen=True)
class RecordedStep:
    """The request of a step's text, and its verified text.

    If it is not `finished`, the text is only a beginning: it was `cut` when the robot had read enough, or
    the run was aborted. `alone`: the robot wrote at least a part of it without the verifier.
    """

    session_id: str
    step: int
    request: DecodeRequest
    text: str = ""
    verified_tokens: int = 0
    finished: bool = False
    alone: bool = False
    cut: bool = False

    @property
    def has_text(self) -> bool:
        """Whether the recording contains any of the step's text, with which a replay can be compared."""
        return self.finished or self.verified_tokens > 0


def read_steps(path: Path, deadline_s: float = 60.0) -> list[RecordedStep]:
    """Returns the steps of a recording or a rosbag2 folder, in order, each with `deadline_s` to decode it.

    Damaged parts are skipped with a warning. Raises ConfigError for a file that is no recording or holds no
    step.
    """
    from outrider.runtime.reports.mcap_file import Trouble, read_messages, recording_files  # slow to import

    steps: dict[tuple[str, int], RecordedStep] = {}
    trouble = Trouble()
    for file in recording_files(path):
        for topic, message in read_messages(file, (PROMPT_TOPIC, TEXT_TOPIC), trouble):
            try:
                _take(steps, topic, message, deadline_s)
            except (AttributeError, TypeError, ValueError, ConfigError):  # another version or package made it
                trouble.damaged += 1
    if not steps:
        why = str(trouble) or "record while the robot is told to find something"
        raise ConfigError(f"{path} holds no step: {why}")
    if str(trouble):
        log.warning("%s: %s", path, trouble)
    return list(steps.values())


def num_missing(steps: Iterable[RecordedStep]) -> int:
    """Returns how many steps of the recorded runs are missing. Each run numbers its steps from 1."""
    last: dict[str, int] = {}
    present: Counter[str] = Counter()
    for step in steps:
        last[step.session_id] = max(step.step, last.get(step.session_id, 0))
        present[step.session_id] += 1
    return sum(max(0, last[session] - present[session]) for session in last)


def _take(steps: dict[tuple[str, int], RecordedStep], topic: str, message: Any, deadline_s: float) -> None:
    key = (message.session_id, message.step)
    if topic == PROMPT_TOPIC:
        prompt = Prompt(message.prompt, bytes(message.jpeg))
        check_request(prompt, message.max_new_tokens)
        request = DecodeRequest(prompt, message.max_new_tokens, deadline_s)
        steps.setdefault(key, RecordedStep(*key, request))  # two recorders may have written one bag
    elif key in steps and not steps[key].finished and message.state in (_DECODING, _FINISHED):
        alone = steps[key].alone or message.link_state == LinkState.LOCAL.value
        # Only a whole text has a speed; one that was cut because the next picture was due has none.
        is_over, has_speed = message.state == _FINISHED, message.tokens_per_s > 0.0
        is_whole, is_cut = is_over and has_speed, is_over and not has_speed
        said = message.text, message.verified_tokens, is_whole, alone, is_cut
        steps[key] = RecordedStep(*key, steps[key].request, *said)
