"""Recordings that other programs wrote or changed: compressed in other ways, partial, or malicious."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pytest
import yaml
import zstandard
from mcap.reader import make_reader
from mcap.writer import CompressionType, Writer
from support.tapes import Tape

from outrider.core.errors import ConfigError
from outrider.core.values import Decoded, DecodeRequest
from outrider.runtime.reports.recording import read_steps
from outrider.runtime.reports.replay import figures_of, replay_steps

TEXT = "turn left small\nlook: nothing"
MAX_BYTES = 1 << 28
Copy = Callable[..., Path]


class Echo:
    """Decodes every prompt as the recorded text."""

    def decode(self, request: DecodeRequest, *_: object) -> Decoded:
        return Decoded(TEXT, (0, 1, 2), True, 0.5, 0.1, 2)

    def close(self) -> None: ...


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """Returns a function that rewrites a recording of four steps, as another program would."""
    tape = Tape(tmp_path / "run.mcap")
    for step in range(1, 5):
        tape.prompt(step, f"task {step}")
        tape.text(step, TEXT)
    original = tape.close()

    def written(
        name: str = "copy.mcap",
        data: Callable[[bytes], bytes] = bytes,
        topics: str = "/",
        compression: CompressionType = CompressionType.LZ4,
    ) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        with original.open("rb") as read, path.open("wb") as stream:
            writer = Writer(stream, compression=compression)
            writer.start("ros2", "another")
            channels = dict[int, int]()
            for schema, channel, message in make_reader(read).iter_messages():
                if topics not in channel.topic:
                    continue
                if channel.id not in channels:
                    kind = writer.register_schema(schema.name, schema.encoding, schema.data)
                    channels[channel.id] = writer.register_channel(channel.topic, "cdr", kind)
                times = message.log_time, data(message.data), message.publish_time
                writer.add_message(channels[channel.id], *times)
            writer.finish()
        return path

    return written


@pytest.mark.parametrize("compression", list(CompressionType))
def test_chunks_of_every_compression_are_read(copy: Copy, compression: CompressionType) -> None:
    assert [step.text for step in read_steps(copy(compression=compression))] == [TEXT] * 4


def test_messages_that_rosbag2_compressed_one_by_one_are_read(copy: Copy) -> None:
    path = copy("bag/bag_0.mcap", zstandard.ZstdCompressor().compress)
    (path.parent / "metadata.yaml").write_text("compression_format: zstd\ncompression_mode: MESSAGE\n")
    steps = read_steps(path.parent)
    assert [(step.request.prompt.text, step.text) for step in steps] == [
        (f"task {number}", TEXT) for number in range(1, 5)
    ]


@pytest.mark.parametrize("told", ["bag_1.mcap", "bag/bag_1.mcap", "bag_1.mcap.zstd"])
def test_a_file_of_a_bag_that_is_not_there_is_missed(
    copy: Copy, caplog: pytest.LogCaptureFixture, told: str
) -> None:
    folder = copy("bag/bag_0.mcap").parent
    files = {"relative_file_paths": ["bag_0.mcap.zstd", told]}
    (folder / "metadata.yaml").write_text(yaml.safe_dump({"rosbag2_bagfile_information": files}))
    assert len(read_steps(folder)) == 4
    assert f"{Path(told).name} cannot be read (No such file or directory)" in caplog.text
    caplog.clear()
    copy("bag/bag_1.mcap")
    assert len(read_steps(folder)) == 4 and not caplog.text


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "content",
    [
        *("", "[", "\x00", "1", "rosbag2_bagfile_information: [1]", "2026-99-99", "[" * 5000),
        '!!timestamp "x"',
        'rosbag2_bagfile_information: {relative_file_paths: ["a\\0.mcap", "\\uD800.mcap"]}',
    ],
)
def test_a_bag_is_read_whatever_stands_in_place_of_its_metadata(
    copy: Copy, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    folder = copy("bag/bag_0.mcap").parent
    (folder / "metadata.yaml").write_text(content)
    assert len(read_steps(folder)) == 4 and not caplog.text


def test_a_bag_of_two_that_recorded_the_same_has_each_text_whole(tmp_path: Path) -> None:
    for number, texts in enumerate([(TEXT, 1), (TEXT[:9], 0)]):
        tape = Tape(tmp_path / f"bag_{number}.mcap")
        tape.prompt(1)
        tape.text(1, *texts)
        tape.close()
    (step,) = read_steps(tmp_path)
    assert (step.text, step.finished) == (TEXT, True)


def test_a_message_that_would_expand_beyond_a_record_is_left_out(copy: Copy) -> None:
    told = zstandard.ZstdCompressor().compressobj(size=MAX_BYTES + 1)
    bomb = told.compress(b"\0\1\0\0") + told.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    with pytest.raises(ConfigError, match="8 damaged parts are left out"):
        read_steps(copy(data=lambda _: bomb))


def test_steps_whose_texts_are_not_recorded_agree_with_nothing(copy: Copy) -> None:
    steps = read_steps(copy(topics="step_prompt"))
    pairs = list(replay_steps(steps, Echo()))
    figures = figures_of(steps, pairs)
    assert (figures["steps"], figures["without_text"], figures["unfinished"]) == (4, 4, 0)
    assert (figures["compared"], figures["agree"]) == (0, 0)


def test_a_prompt_that_no_verifier_would_take_costs_its_step_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tape = Tape(tmp_path / "run.mcap")
    tape.prompt(1, max_new_tokens=0)
    tape.prompt(2, max_new_tokens=4_000_000_000)
    tape.prompt(3)
    (step,) = read_steps(tape.close())
    assert step.step == 3 and "2 damaged parts are left out" in caplog.text


def frame_of_zeros(compression: str, size: int) -> bytes:
    """Returns `size` zero bytes, compressed to a small part of that."""
    block = bytes(1 << 20)
    if compression == "zstd":
        packer = zstandard.ZstdCompressor().compressobj(size=size)
        return b"".join([*(packer.compress(block) for _ in range(size >> 20)), packer.flush()])
    with lz4.frame.LZ4FrameCompressor() as packer:
        return b"".join(
            [packer.begin(), *(packer.compress(block) for _ in range(size >> 20)), packer.flush()]
        )


@pytest.mark.parametrize("told", [1000, 2 * MAX_BYTES, 2**63], ids=["less", "as much", "more"])
@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_chunk_that_would_expand_to_more_than_a_record_takes_no_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, compression: str, told: int
) -> None:
    tape = Tape(tmp_path / "run.mcap")
    tape.prompt(1)
    whole = tape.close().read_bytes()
    frame = frame_of_zeros(compression, 2 * MAX_BYTES)
    name = struct.pack("<I", len(compression)) + compression.encode()
    chunk = struct.pack("<QQQI", 0, 0, told, 0) + name + struct.pack("<Q", len(frame)) + frame
    first = 17 + struct.unpack_from("<Q", whole, 9)[0]  # after the magic and the header
    tape.path.write_bytes(whole[:first] + struct.pack("<BQ", 6, len(chunk)) + chunk + whole[first:])
    tracemalloc.start()
    try:
        (step,) = read_steps(tape.path)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert step.step == 1 and "1 damaged part is left out" in caplog.text
    assert peak_bytes < MAX_BYTES / 4
