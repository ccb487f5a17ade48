"""Writes recordings message by message, in the recorder's format."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from mcap_ros2.writer import Writer

INTERFACES = Path(__file__).resolve().parents[2] / "ros2_ws" / "src" / "outrider_interfaces" / "msg"
HEADER = """
================================================================================
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
================================================================================
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
"""


@dataclass
class Tape:
    """Writes a recording message by message."""

    path: Path
    clock_ns: int = 0
    _schemas: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._stream = self.path.open("wb")
        self._writer = Writer(self._stream, chunk_size=1000)

    def prompt(
        self,
        step: int,
        words: str = "task",
        topic: str = "/step_prompt",
        jpeg: bytes = b"\xff\xd8\xff",
        max_new_tokens: int = 9,
    ) -> None:
        more = {"prompt": words, "jpeg": jpeg, "max_new_tokens": max_new_tokens}
        self._write("StepPrompt", topic, {"session_id": "s", "step": step, **more})

    def text(
        self,
        step: int,
        text: str,
        state: int = 1,
        tokens: int = 3,
        link: str = "connected",
        tokens_per_s: float = 40.0,
    ) -> None:
        speed = {"tokens_per_s": tokens_per_s if state == 1 else 0.0}
        more = {"text": text, "state": state, "verified_tokens": tokens, "link_state": link, **speed}
        self._write("VerifiedText", "/verified_text", {"session_id": "s", "step": step, **more})

    def close(self) -> Path:
        self._writer.finish()
        self._stream.close()
        return self.path

    def _write(self, name: str, topic: str, fields: dict[str, object]) -> None:
        kind = f"outrider_interfaces/msg/{name}"
        if kind not in self._schemas:
            definition = (INTERFACES / f"{name}.msg").read_text() + HEADER
            self._schemas[kind] = self._writer.register_msgdef(kind, definition)
        self.clock_ns += 1
        blank = {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": ""}
        self._writer.write_message(topic, self._schemas[kind], {"header": blank, **fields}, self.clock_ns)
