"""Recorded steps read back and decoded again. The recordings are written here as the recorder writes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from mcap_ros2.writer import Writer

from outrider.core.errors import ConfigError, LinkError
from outrider.core.values import Decoded, DecodeRequest, Prompt
from outrider.decoding.config import DecodingConfig
from outrider.runtime.recording import RecordedStep, check_new, read_steps
from outrider.runtime.replay import compare, figures_of, replay, replay_steps
from outrider.runtime.supervisor import free_port

INTERFACES = Path(__file__).resolve().parents[3] / "ros2_ws" / "src" / "outrider_interfaces" / "msg"
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
TEXT = "turn left small\nlook: nothing"


@dataclass
class Tape:
    """Writes a recording message by message."""

    path: Path
    clock_ns: int = 0
    _schemas: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._stream = self.path.open("wb")
        self._writer = Writer(self._stream, chunk_size=1000)

    def prompt(self, step: int, words: str = "task", topic: str = "/step_prompt") -> None:
        more = {"prompt": words, "jpeg": b"\xff\xd8\xff", "max_new_tokens": 9}
        self._write("StepPrompt", topic, {"session_id": "s", "step": step, **more})

    def text(self, step: int, text: str, state: int = 1, tokens: int = 3, link: str = "connected") -> None:
        more = {"text": text, "state": state, "verified_tokens": tokens, "link_state": link}
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


@pytest.fixture
def tape(tmp_path: Path) -> Tape:
    return Tape(tmp_path / "run.mcap")


class Echo:
    """Decodes every prompt as the text it is given."""

    def __init__(self, text: str, tokens: int = 3) -> None:
        self.text, self.tokens = text, tokens

    def decode(self, request: DecodeRequest, *_: object) -> Decoded:
        return Decoded(self.text, tuple(range(self.tokens)), True, 0.5, 0.1, 2)

    def close(self) -> None: ...


def recorded(text: str = TEXT, **more: object) -> RecordedStep:
    values = {"text": text, "verified_tokens": 3, "finished": True, **more}
    return RecordedStep("s", 1, DecodeRequest(Prompt("task", b"")), **values)


def test_steps_are_read_back_with_their_last_text(tape: Tape) -> None:
    tape.prompt(1)
    tape.text(1, "turn left", state=0, tokens=2)
    tape.text(1, TEXT)
    tape.text(1, "the goal has ended", state=2)
    tape.prompt(2, "another", topic="/go2/step_prompt")
    tape.text(2, "turn", state=0, tokens=1)
    first, second = read_steps(tape.close())
    assert (first.text, first.verified_tokens, first.finished) == (TEXT, 3, True)
    assert first.request.prompt == Prompt("task", b"\xff\xd8\xff") and first.request.max_new_tokens == 9
    assert (second.request.prompt.text, second.text, second.finished) == ("another", "turn", False)


def test_what_was_written_without_the_verifier_is_not_decoded_again(tape: Tape) -> None:
    tape.prompt(1)
    tape.text(1, "turn", state=0, link="local")
    tape.text(1, TEXT, link="connected")
    steps = read_steps(tape.close())
    assert steps[0].alone and list(replay_steps(steps, Echo("other"))) == []


def test_a_recording_that_broke_off_is_read_as_far_as_it_goes(tape: Tape) -> None:
    for step in range(40):
        tape.prompt(step, f"task {step}")
    whole = tape.close().read_bytes()
    tape.path.write_bytes(whole[: len(whole) // 2])
    steps = read_steps(tape.path)
    assert 5 < len(steps) < 40 and [step.step for step in steps] == list(range(len(steps)))


def test_what_is_no_recording_of_a_run_is_named(tape: Tape, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"run.mcap holds no step"):
        read_steps(tape.close())
    other = tmp_path / "notes.txt"
    other.write_text("not a recording")
    with pytest.raises(ConfigError, match=r"notes.txt is no MCAP file"):
        read_steps(other)
    with pytest.raises(ConfigError, match=r"nowhere.mcap cannot be read"):
        read_steps(tmp_path / "nowhere.mcap")
    with pytest.raises(ConfigError, match=r"notes.txt is there already"):
        check_new(other)


def test_a_verifier_that_is_not_there_is_missed_at_once(tape: Tape, tmp_path: Path) -> None:
    config, nobody = DecodingConfig(strategy="ar"), f"tcp://127.0.0.1:{free_port()}"
    tape.prompt(1, "find it")
    with pytest.raises(LinkError, match="no verifier answers"):
        replay(tape.close(), config, nobody, None)


@pytest.mark.parametrize(
    ("step", "text", "tokens", "agrees"),
    [
        (recorded(), TEXT, 3, True),
        (recorded(), TEXT, 4, False),
        (recorded(), TEXT + " more", 3, False),
        (recorded("turn", finished=False), TEXT, 3, True),
        (recorded("turn right", finished=False), TEXT, 3, False),
        (recorded("turn", finished=False, verified_tokens=4), TEXT, 3, False),
        (recorded("turn"), TEXT, 3, False),
    ],
)
def test_texts_agree_word_for_word_and_token_for_token(
    step: RecordedStep, text: str, tokens: int, agrees: bool
) -> None:
    (comparison, decoded), *_ = pairs = list(replay_steps([step], Echo(text, tokens)))
    assert comparison == compare(step, decoded) and comparison.agrees is agrees
    figures = figures_of([step], pairs)
    assert (figures["compared"], figures["agree"]) == (1, int(agrees))
    assert len(figures["differences"]) == int(not agrees)
