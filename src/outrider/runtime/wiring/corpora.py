# SPDX-License-Identifier: Apache-2.0
"""Opens and fills the corpus of the cloud's general knowledge. Imports no model."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from outrider.core.errors import StoreInputError
from outrider.core.files.given_file import in_home
from outrider.core.files.private_files import home_folder
from outrider.core.ports import Corpus
from outrider.memory.corpus import EmbeddedCorpus, read_folder
from outrider.memory.embedding import MiniLmEmbedder
from outrider.memory.qdrant_corpus import LOCAL, FleetCorpus, is_fleet

CORPUS_VARIABLE = "OUTRIDER_CORPUS"


def default_corpus() -> str:
    """Returns `$OUTRIDER_CORPUS`, else a file in the home folder."""
    return os.environ.get(CORPUS_VARIABLE) or str(home_folder() / "corpus.db")


def open_corpus(where: str = "") -> Corpus:
    """Opens the corpus at a location: a file, or Qdrant (`qdrant_corpus`); by default `default_corpus`.

    Raises MemoryStoreError.
    """
    where = where or default_corpus()
    if is_fleet(where):
        return FleetCorpus(where, MiniLmEmbedder())
    return EmbeddedCorpus(in_home(where), MiniLmEmbedder())


@contextlib.contextmanager
def opened_corpus(where: str = "", may_make: bool = False) -> Iterator[Corpus]:
    """Opens a corpus, and closes it at the end.

    Raises StoreInputError if the file or folder in `where` does not exist, unless `may_make`.
    """
    is_here = where and (where.startswith(LOCAL) or not is_fleet(where))
    if is_here and not (may_make or in_home(where.removeprefix(LOCAL)).exists()):
        raise StoreInputError(f"there is no corpus {where}: `outrider corpus fill` makes one")
    corpus = open_corpus(where)
    try:
        yield corpus
    finally:
        corpus.close()


def fill_corpus(corpus: Corpus, source: Path) -> str:
    """Add a text or a folder of texts. Returns a sentence about the result."""
    added = corpus.add(read_folder(source))
    return f"{added} new {'passage' if added == 1 else 'passages'}, {corpus.count()} in all"
