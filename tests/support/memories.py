"""An embedder without a model, and stores for tests."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
    """Implements `Embedder`: a text is the sum of its words' random vectors."""

    name = "words"
    size = 384

    def embed(self, text: str) -> np.ndarray[Any, Any]:
        total = np.full(self.size, 1e-3, dtype=np.float32)
        for word in text.lower().split():
            seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little")
            total += np.random.default_rng(seed).standard_normal(self.size).astype(np.float32)
        return total / np.linalg.norm(total)


@contextmanager
def another_reader(path: Path) -> Iterator[None]:
    """A process that reads the store as it is now for as long as the block runs."""
    command = [sys.executable, "-c", READER, str(path)]
    reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert reader.stdout is not None
    reader.stdout.readline()
    try:
        yield
    finally:
        reader.communicate("\n")
