"""An embedder without a model, and stores for tests."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np


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
