"""Recorded steps are read and decoded again. The tests write recordings as the recorder does."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
import zstandard
from mcap_ros2.writer import Writer
from support.tapes import Tape

from outrider.core.errors import ConfigError, LinkError
from outrider.core.values import Decoded, DecodeRequest, Prompt
from outrider.decoding.config import DecodingConfig
from outrider.runtime.common.ports import free_port
from outrider.runtime.reports.mcap_file import message_rates
from outrider.runtime.reports.recording import RecordedStep, check_new, num_missing, read_steps
from outrider.runtime.reports.replay import compare, figures_of, replay, replay_steps

TEXT = "turn left small\nlook: nothing"


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


def test_a_text_that_the_robot_cut_for_its_next_picture_agrees_as_a_beginning(tape: Tape) -> None:
    tape.prompt(1)
    tape.text(1, "turn left sm", tokens=2, tokens_per_s=0.0)
    (step,) = read_steps(tape.close())
    assert not step.finished
    (pair,) = replay_steps([step], Echo(TEXT))
    figures = figures_of([step], [pair])
    assert pair[0].agrees and (figures["agree"], figures["unfinished"]) == (1, 1)
    (other,) = replay_steps([step], Echo("turn right small"))
    assert not other[0].agrees


def test_what_was_written_without_the_verifier_is_not_decoded_again(tape: Tape) -> None:
    tape.prompt(1)
    tape.text(1, "turn", state=0, link="local")
    tape.text(1, TEXT, link="connected")
    steps = read_steps(tape.close())
    assert steps[0].alone and list(replay_steps(steps, Echo("other"))) == []


def test_a_truncated_recording_is_read_up_to_its_end(tape: Tape) -> None:
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


@pytest.mark.lengthy
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


def long_recording(tape: Tape, steps: int = 40) -> bytes:
    for step in range(steps):
        tape.prompt(step, f"task {step}")
        tape.text(step, TEXT)
    return tape.close().read_bytes()


def logged(caplog: pytest.LogCaptureFixture, path: Path) -> tuple[list[RecordedStep], str]:
    """Returns the steps of a recording, and the warnings about it."""
    caplog.clear()
    return read_steps(path), caplog.text


@pytest.mark.parametrize("cut", [1, 8, 20, 400])
def test_a_recording_without_its_end_is_read_and_reported_as_truncated(
    tape: Tape, caplog: pytest.LogCaptureFixture, cut: int
) -> None:
    tape.path.write_bytes(long_recording(tape)[:-cut])
    steps, warnings = logged(caplog, tape.path)
    assert len(steps) == 40 and "run.mcap breaks off" in warnings


def test_a_recording_cut_anywhere_gives_its_whole_steps_or_an_error(tape: Tape) -> None:
    whole = long_recording(tape, 8)
    read = []
    for end in range(0, len(whole), 97):
        tape.path.write_bytes(whole[:end])
        try:
            read.append(len(read_steps(tape.path)))
        except ConfigError as error:
            assert "holds no step" in str(error)
            read.append(0)
    assert read == sorted(read) and read[-1] == 8


@pytest.mark.lengthy
def test_bytes_flipped_anywhere_cost_a_part_and_never_the_process(tape: Tape) -> None:
    whole, random = long_recording(tape, 8), np.random.default_rng(0)
    texts = {TEXT, ""}
    for _ in range(200):
        damaged = bytearray(whole)
        at = int(random.integers(len(whole) - 64))
        damaged[at : at + 64] = random.bytes(64)
        tape.path.write_bytes(damaged)
        with contextlib.suppress(ConfigError):
            assert {step.text for step in read_steps(tape.path)} <= texts


def test_a_damaged_chunk_is_left_out_with_its_channels_known_from_the_summary(
    tape: Tape, caplog: pytest.LogCaptureFixture
) -> None:
    whole = bytearray(long_recording(tape))
    first_chunk = whole.index(b"\x04\x00\x00\x00zstd")
    whole[first_chunk + 20 : first_chunk + 60] = bytes(40)
    tape.path.write_bytes(whole)
    steps, warnings = logged(caplog, tape.path)
    assert 30 < len(steps) < 40 and steps[-1].text == TEXT and "1 damaged part is left out" in warnings


def test_a_recording_compressed_as_a_whole_is_read_also_when_cut(
    tape: Tape, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    packed = zstandard.ZstdCompressor().compress(long_recording(tape))
    file = tmp_path / "run.mcap.zstd"
    file.write_bytes(packed)
    steps, warnings = logged(caplog, file)
    assert len(steps) == 40 and not warnings
    file.write_bytes(packed[: len(packed) // 2])
    with contextlib.suppress(ConfigError):
        assert len(read_steps(file)) < 40


def test_a_folder_of_rosbag2_is_read_in_order(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "metadata.yaml").write_text("rosbag2_bagfile_information: {}")
    for number in (10, 2):
        tape = Tape(tmp_path / f"bag_{number}.mcap")
        tape.prompt(number)
        tape.close()
    (tmp_path / "bag_11.mcap").touch()
    steps, warnings = logged(caplog, tmp_path)
    assert [step.step for step in steps] == [2, 10] and "bag_11.mcap is empty" in warnings


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("bag_0.db3", b"SQLite", "is a bag of SQLite: convert it"),
        ("bag_0.db3.zstd", b"SQLite", "is a bag of SQLite: convert it"),
        ("report.json", b"{}", "holds no .mcap file"),
        ("run.mcap", b"", "run.mcap is empty"),
        ("run.mcap", b"SQLite format 3\0", "run.mcap is no MCAP file"),
    ],
)
def test_a_folder_without_a_recording_is_named(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        read_steps(tmp_path)
    if "SQLite:" in said:
        with pytest.raises(ConfigError, match=said):
            read_steps(tmp_path / name)


def test_the_rates_of_topics_are_counted(tape: Tape) -> None:
    for step in range(4):
        tape.clock_ns += 500_000_000
        tape.prompt(step)
    rates = message_rates(tape.close(), ("step_prompt", "scan"))
    assert rates == {"step_prompt": pytest.approx(4 / 1.5, rel=0.01), "scan": 0.0}


def test_messages_of_another_kind_under_our_names_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "run.mcap"
    with path.open("wb") as stream, contextlib.closing(Tape(tmp_path / "unused.mcap")) as tape:
        writer = Writer(stream)
        schema = writer.register_msgdef("std_msgs/msg/String", "string data")
        writer.write_message("/step_prompt", schema, {"data": "no prompt"}, 1)
        writer.finish()
        tape.prompt(1)
    with pytest.raises(ConfigError, match="1 damaged part is left out"):
        read_steps(path)


def test_steps_that_the_recording_lacks_are_counted() -> None:
    def step(session: str, number: int) -> RecordedStep:
        return RecordedStep(session, number, DecodeRequest(Prompt("task", b""), 9, 1.0))

    whole = [step("a", 1), step("a", 2)]
    assert num_missing([]) == num_missing(whole) == 0
    assert num_missing([step("b", 2), step("b", 3)]) == 1
    assert num_missing([*whole, step("b", 2), step("b", 5)]) == 3
    assert figures_of([step("b", 2)], [])["missing"] == 1
