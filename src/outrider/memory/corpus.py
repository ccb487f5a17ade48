# SPDX-License-Identifier: Apache-2.0
"""The cloud's general knowledge, open to all: passages in one file, found by meaning."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from outrider.core.errors import StoreInputError
from outrider.core.files.given_file import cause_of, read_text
from outrider.core.ports import Embedder
from outrider.core.values import Recalled, Visibility
from outrider.memory.store.records import RecordFilter, checked_text
from outrider.memory.store.store import MemoryStore

PASSAGE_CHARACTERS = 300
TEXT_SUFFIXES = (".txt", ".md")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_ALL = 1 << 40
_SHAREABLE, _PRIVATE = (RecordFilter(visibility=kind) for kind in (Visibility.SHAREABLE, Visibility.PRIVATE))


class EmbeddedCorpus:
    """Implements `core.ports.Corpus` by a store like the robot's own. Processes may share it."""

    def __init__(self, path: Path, embedder: Embedder) -> None:
        """Raises MemoryStoreError if the file cannot be used, or is a robot's memory with private records."""
        self.where = str(path)
        self._store = MemoryStore(path, embedder)
        if self._store.newest(1, _PRIVATE):
            self._store.close()
            raise StoreInputError(
                f"{path} is a robot's memory and holds what is private: give a file of its own to a corpus"
            )

    def add(self, passages: Iterable[str]) -> int:
        """Store passages that are new, in one transaction. Returns their number."""
        new = set(dict.fromkeys(map(checked_text, passages))) - set(self.passages())
        with self._store.batch():
            for passage in sorted(new):
                self._store.add(passage, visibility=Visibility.SHAREABLE)
        return len(new)

    def recall(self, query: str, limit: int = 3) -> list[Recalled]:
        """Returns the `limit` best passages for a query, best first.

        Private records are excluded, in case a robot's memory is kept in this file later.
        """
        return self._store.recall(query, limit, _SHAREABLE)

    def passages(self) -> Iterator[str]:
        """Returns all passages, newest first."""
        return (record.text for record in self._store.newest(_ALL, _SHAREABLE))

    def forget_matching(self, words: str) -> int:
        """Delete the passages that contain all of these words. Returns their number."""
        return self._store.forget_matching(words)

    def count(self) -> int:
        """Returns the number of passages."""
        return self._store.count()

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def passages_of(text: str) -> Iterator[str]:
    """Yields paragraphs; long ones are cut between sentences into pieces of at most PASSAGE_CHARACTERS."""
    for paragraph in re.split(r"\n\s*\n", text):
        piece = ""
        for sentence in _SENTENCE_END.split(" ".join(paragraph.split())):
            for part in _parts(sentence):
                if piece and len(piece) + 1 + len(part) > PASSAGE_CHARACTERS:
                    yield piece
                    piece = ""
                piece = f"{piece} {part}".strip()
        if piece:
            yield piece


def read_folder(folder: Path) -> Iterator[str]:
    """Yields the passages of every text file in a folder and below, or of one file.

    Raises StoreInputError, also for a file that is not plain text, and for a link to a file outside the
    folder: the passages become public.
    """
    files = [folder] if folder.is_file() else sorted(folder.rglob("*"))
    texts = [file for file in files if file.suffix.lower() in TEXT_SUFFIXES and file.is_file()]
    if not texts:
        raise StoreInputError(
            f"{folder} holds no text: give a folder with {' or '.join(TEXT_SUFFIXES)} files"
        )
    for file in texts:
        if not (file is folder or file.resolve().is_relative_to(folder.resolve())):
            raise StoreInputError(f"{file} is a link that leads out of {folder}: copy the file, or remove it")
        try:
            yield from map(checked_text, passages_of(read_text(file)))
        except (OSError, UnicodeDecodeError) as error:
            raise StoreInputError(
                f"{file} cannot be read as text ({cause_of(error)}): give it in UTF-8"
            ) from error
        except StoreInputError as error:
            raise StoreInputError(f"{file}: {error}") from error


def _parts(sentence: str) -> Iterator[str]:
    """Yields a sentence that is longer than a passage in parts, cut between words."""
    while len(sentence) > PASSAGE_CHARACTERS:
        cut = sentence.rfind(" ", 1, PASSAGE_CHARACTERS + 1)
        cut = PASSAGE_CHARACTERS if cut < 0 else cut
        yield sentence[:cut]
        sentence = sentence[cut:].lstrip()
    yield sentence
