"""An embedder without a model, and stores for tests."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

READER = """
import apsw, sys
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN")
print(connection.execute("SELECT count(*) FROM records").get, flush=True)
sys.stdin.readline()
"""


class WordEmbedder:
    """Implements `Embedder`: a text's embedding is the normalised sum of its words' random vectors."""

    name = "words"
    size = 384

    def embed(self, text: str) -> np.ndarray[Any, Any]:
        total = np.full(self.size, 1e-3, dtype=np.float32)
        for word in text.lower().split():
            total += vector_of(word, self.size)
        return total / np.linalg.norm(total)


@lru_cache(4096)
def vector_of(word: str, size: int) -> np.ndarray[Any, Any]:
    """Returns a word's random vector. It is cached: do not modify it."""
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little")
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


@contextmanager
def another_reader(path: Path) -> Iterator[None]:
    """Runs a process that keeps a read transaction on the store open during the block."""
    command = [sys.executable, "-c", READER, str(path)]
    reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert reader.stdout is not None
    reader.stdout.readline()
    try:
        yield
    finally:
        reader.communicate("\n")
