# SPDX-License-Identifier: Apache-2.0
"""Decoded texts, kept as they come: a measurement that was ended goes on where it was."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from outrider.core.errors import ConfigError
from outrider.core.files.private_files import make_private_folder, open_private
from outrider.core.files.writing import writing_to

TEXTS_FILE = "texts.jsonl"


class TextKey(NamedTuple):
    """What a text is decoded with. `prompt` counts from 0."""

    network: str
    strategy: str
    temperature: float
    seed: int
    prompt: int


class KeptText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One decoded text. `later_tokens` were verified within `later_s` after the first ones.

    `met_outage`: whether the link was down at some time of it. Bytes are those of decoding, not the prompt's.
    """

    token_ids: tuple[int, ...]
    elapsed_s: float
    later_tokens: int
    later_s: float
    rounds: int
    emitted: int
    bytes_up: int
    bytes_down: int
    target_passes: float
    draft_busy_s: float
    met_outage: bool


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: TextKey
    text: KeptText


class Journal:
    """Texts by their keys, in a folder's file where one is given, else in memory alone.

    The file's first line holds what all its texts have in common.
    """

    def __init__(self, folder: Path | None, common: Mapping[str, str | int]) -> None:
        """Raises ConfigError for a folder whose texts have other things in common, or that cannot be used."""
        self._texts: dict[TextKey, KeptText] = {}
        self._path = None if folder is None else folder / TEXTS_FILE
        if self._path is None:
            return
        make_private_folder(self._path.parent)
        if self._path.exists():
            self._read(self._path, common)
        else:
            self._append(msgspec.json.encode(common))

    def __contains__(self, key: TextKey) -> bool:
        return key in self._texts

    def __getitem__(self, key: TextKey) -> KeptText:
        return self._texts[key]

    def add(self, key: TextKey, text: KeptText) -> None:
        """Keep a text, on disk before the next is decoded. Raises ConfigError."""
        self._texts[key] = text
        self._append(msgspec.json.encode(_Line(key, text)))

    def _append(self, line: bytes) -> None:
        if self._path is None:
            return
        with writing_to(self._path), open_private(self._path, "ab") as file:
            file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _read(self, path: Path, common: Mapping[str, str | int]) -> None:
        """What a kill cut off in its midst is dropped, and decoded anew."""
        head, *lines = path.read_bytes().split(b"\n")
        try:
            found = msgspec.json.decode(head)
            known = [msgspec.json.decode(line, type=_Line) for line in lines[:-1]]
        except msgspec.DecodeError as error:
            raise ConfigError(f"{path} holds no texts ({error}): delete it") from None
        if found != common:
            raise ConfigError(f"{path} holds texts of {found}, not of {common}: choose another folder")
        if lines and lines[-1]:
            with writing_to(path), path.open("r+b") as file:
                file.truncate(path.stat().st_size - len(lines[-1]))
        self._texts = {line.key: line.text for line in known}
