# SPDX-License-Identifier: Apache-2.0
"""The cloud's general knowledge: where it is kept, and how it is filled. Imports no model."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from outrider.core.errors import StoreInputError
from outrider.core.files.given_file import expanded
from outrider.core.files.private_files import home_folder
from outrider.core.ports import Corpus
from outrider.memory.corpus import EmbeddedCorpus, read_folder
from outrider.memory.embedding import MiniLmEmbedder
from outrider.memory.qdrant_corpus import LOCAL, FleetCorpus, is_fleet

CORPUS_VARIABLE = "OUTRIDER_CORPUS"


def default_corpus() -> str:
    """`$OUTRIDER_CORPUS`, else a file in the home folder."""
    return os.environ.get(CORPUS_VARIABLE) or str(home_folder() / "corpus.db")


def open_corpus(where: str = "") -> Corpus:
    """The corpus at a place: a file, or Qdrant (`qdrant_corpus`); the default one where none is given.

    Raises MemoryStoreError.
    """
    where = where or default_corpus()
    if is_fleet(where):
        return FleetCorpus(where, MiniLmEmbedder())
    return EmbeddedCorpus(expanded(where), MiniLmEmbedder())


@contextlib.contextmanager
def opened_corpus(where: str = "", may_make: bool = False) -> Iterator[Corpus]:
    """`open_corpus`, closed in the end. Raises StoreInputError for a file or folder that is missing."""
    is_here = where and (where.startswith(LOCAL) or not is_fleet(where))
    if is_here and not (may_make or expanded(where.removeprefix(LOCAL)).exists()):
        raise StoreInputError(f"there is no corpus {where}: `outrider corpus fill` makes one")
    corpus = open_corpus(where)
    try:
        yield corpus
    finally:
        corpus.close()


def fill_corpus(corpus: Corpus, source: Path) -> str:
    """Take in a folder of texts, or one; the sentence that says what came of it."""
    added = corpus.add(read_folder(source))
    return f"{added} new passages, {corpus.count()} in all"
