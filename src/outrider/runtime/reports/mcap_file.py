# SPDX-License-Identifier: Apache-2.0
"""Reads the intact messages of MCAP files, which power losses and disk errors may have damaged.

A file that is truncated, or whose index is missing, is read up to its end. A damaged chunk is skipped.
Chunks may be compressed, and so may each message or the whole file, as in rosbag2.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import yaml  # type: ignore[import-untyped]
from mcap.exceptions import McapError
from mcap.reader import SeekingReader
from mcap.records import Channel, Chunk, McapRecord, Message, Schema
from mcap.stream_reader import StreamReader, breakup_chunk
from mcap_ros2.decoder import DecoderFactory

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import open_file, read_text

MAGIC, ZSTD_MAGIC = b"\x89MCAP0\r\n", b"\x28\xb5\x2f\xfd"
METADATA = "metadata.yaml"
SUFFIXES = (".mcap", ".mcap.zst", ".mcap.zstd")
MAX_RECORD_BYTES = 1 << 28
# The errors that readers raise for damaged bytes; lz4 raises RuntimeError.
DAMAGE = (
    McapError,
    struct.error,
    ValueError,
    LookupError,
    RuntimeError,
    EOFError,
    MemoryError,
    OverflowError,
)


@dataclass
class Trouble:
    """The parts of files that could not be read."""

    damaged: int = 0
    """The number of damaged chunks and messages."""
    notes: list[str] = field(default_factory=list)
    """Messages about faulty files."""

    def __str__(self) -> str:
        parts = "part is" if self.damaged == 1 else "parts are"
        return "; ".join(
            [*self.notes, *([f"{self.damaged} damaged {parts} left out"] if self.damaged else [])]
        )


def recording_files(path: Path) -> list[Path]:
    """Returns the files of a recording: the file itself, or the ordered files in a folder of rosbag2.

    Files that its metadata name but that do not exist are included. Raises ConfigError.
    """
    try:
        names = list(path.iterdir()) if path.is_dir() else []
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): give a recording") from error
    files = [file for file in names if file.name.endswith(SUFFIXES)]
    if files:
        present = {_unpacked(file.name) for file in files}
        files += [path / name for name in _listed_files(path / METADATA) if _unpacked(name) not in present]
        files.sort(key=lambda file: (len(_unpacked(file.name)), _unpacked(file.name)))
    if not files and any(".db3" in file.suffixes for file in names or [path]):
        raise ConfigError(f"{path} is a bag of SQLite: convert it to MCAP with `ros2 bag convert`")
    if files or not path.is_dir():
        return files or [path]
    raise ConfigError(f"{path} holds no .mcap file: give a recording, or a folder of rosbag2")


def _listed_files(metadata: Path) -> list[str]:
    """Returns the names of MCAP files in rosbag2's metadata; none if it is missing or invalid."""
    try:
        listed = yaml.safe_load(read_text(metadata))["rosbag2_bagfile_information"]["relative_file_paths"]
    except (OSError, yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []
    names = [Path(str(name)).name for name in listed] if isinstance(listed, list) else []
    return [name for name in names if name.endswith(SUFFIXES) and name.isprintable()]


def _unpacked(name: str) -> str:
    """Returns a file's name without its compression suffix, since people decompress files by hand."""
    return name.partition(".mcap")[0]


def read_messages(path: Path, names: Collection[str], trouble: Trouble) -> Iterator[tuple[str, Any]]:
    """Yields messages on topics whose last part is one of `names`, each with that part.

    Adds to `trouble` what it cannot read.
    """
    try:
        with open_file(path) as stream:
            begin = stream.read(len(MAGIC))
            stream.seek(0)
            if not begin:
                trouble.notes.append(f"{path.name} is empty")
            elif begin.startswith(ZSTD_MAGIC):
                import zstandard

                with zstandard.open(stream, "rb") as opened:
                    yield from _decoded(_whole_records(opened, path, trouble), names, _Known(), trouble)
            elif MAGIC.startswith(begin):
                known = _Known(SeekingReader(stream))
                stream.seek(0)
                yield from _decoded(_whole_records(stream, path, trouble), names, known, trouble)
            else:
                trouble.notes.append(f"{path.name} is no MCAP file: give one of `outrider record`")
    except OSError as error:
        trouble.notes.append(f"{path.name} cannot be read ({error.strerror})")


class _Known:
    """Schemas and channels: from the file's summary, if it has one, and from the records read so far.

    The summary includes those that a damaged chunk declared.
    """

    def __init__(self, reader: SeekingReader | None = None) -> None:
        self.schemas: dict[int, Schema] = {}
        self.channels: dict[int, Channel] = {}
        with contextlib.suppress(*DAMAGE, OSError):  # a truncated file has none
            summary = reader.get_summary() if reader is not None else None
            if summary is not None:
                self.schemas, self.channels = dict(summary.schemas), dict(summary.channels)


def _whole_records(stream: IO[bytes], path: Path, trouble: Trouble) -> Iterator[McapRecord]:
    import zstandard

    damage = (*DAMAGE, zstandard.ZstdError)
    reader = StreamReader(stream, emit_chunks=True, record_size_limit=MAX_RECORD_BYTES).records
    while True:
        try:
            record = next(reader, None)
        except damage:
            trouble.notes.append(f"{path.name} breaks off, or is damaged: nothing is read from there on")
            return
        if record is None:
            return
        try:
            if isinstance(record, Chunk):
                yield from breakup_chunk(_expanded(record), validate_crc=True)
            else:
                yield record
        except damage:
            trouble.damaged += 1


def _expanded(chunk: Chunk) -> Chunk:
    """Returns a chunk without compression. Raises ValueError if it is larger than a record may be.

    A few compressed bytes may claim any size, or expand to it.
    """
    size = chunk.uncompressed_size
    if size > MAX_RECORD_BYTES:
        raise ValueError(f"a chunk of {size} bytes: {MAX_RECORD_BYTES} are the most")
    if chunk.compression == "zstd":
        data = _unzipped(chunk.data, size)
    elif chunk.compression == "lz4":
        import lz4.frame  # type: ignore[import-untyped]

        frame = lz4.frame.LZ4FrameDecompressor()
        data = frame.decompress(chunk.data, size + 1)
        if not frame.eof:
            raise ValueError(f"no frame of {size} bytes")
    else:
        return chunk
    return replace(chunk, compression="", data=data)


def _unzipped(data: bytes, most: int) -> bytes:
    """Returns the content of a zstd frame.

    Raises ValueError or ZstdError if it is no frame of at most `most` bytes.
    """
    import zstandard

    if zstandard.frame_content_size(data) > most:
        raise ValueError(f"more than {most} bytes")
    return zstandard.decompress(data, most)


def message_rates(path: Path, names: Collection[str]) -> dict[str, float]:
    """Returns messages per second on topics ending in one of `names`, of an intact recording; 0 for none."""
    with path.open("rb") as stream:
        summary = SeekingReader(stream).get_summary()
    rates = dict.fromkeys(names, 0.0)
    if summary is None or summary.statistics is None:
        return rates
    times = summary.statistics.message_start_time, summary.statistics.message_end_time
    duration_s = max(1e-9, (times[1] - times[0]) * 1e-9)
    for channel_id, count in summary.statistics.channel_message_counts.items():
        for name in names:
            if summary.channels[channel_id].topic.endswith(f"/{name}"):
                rates[name] += count / duration_s
    return rates


def _decoded(
    records: Iterator[McapRecord], names: Collection[str], known: _Known, trouble: Trouble
) -> Iterator[tuple[str, Any]]:
    factory = DecoderFactory()
    for record in records:
        if isinstance(record, Schema):
            known.schemas[record.id] = record
        elif isinstance(record, Channel):
            known.channels[record.id] = record
        elif isinstance(record, Message):
            channel = known.channels.get(record.channel_id)
            name = channel.topic.rpartition("/")[2] if channel is not None else ""
            if channel is not None and name not in names:
                continue
            try:
                yield name, _message(record, channel, known, factory)
            except Exception:  # a damaged schema or message can make its parser raise anything
                trouble.damaged += 1


def _message(record: Message, channel: Channel | None, known: _Known, factory: DecoderFactory) -> Any:
    if channel is None:
        raise ValueError("a message of an unknown channel")
    decode = factory.decoder_for(channel.message_encoding, known.schemas.get(channel.schema_id))
    if decode is None:
        raise ValueError(f"{channel.topic} is not encoded as ROS 2 does")
    # rosbag2 records message compression only in its metadata. No plain message begins like a zstd frame.
    is_zipped = record.data.startswith(ZSTD_MAGIC)
    return decode(_unzipped(record.data, MAX_RECORD_BYTES) if is_zipped else record.data)
