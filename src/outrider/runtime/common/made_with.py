# SPDX-License-Identifier: Apache-2.0
"""Identifies the software of measured figures: the version, the engine's code and the pair's weights.

Digests depend on contents alone, so that anybody can check whether a result is from this engine and pair.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import outrider
from outrider.core.errors import ConfigError
from outrider.runtime.common.paths import models_folder

DIGEST_CHARACTERS = 12
PAIR = ("target", "draft")
HEAD_FILE = "head.safetensors"
"""Not part of the pair: decoding does not use the target's draft head unless asked to."""


def made_with(models: Path | None = None) -> dict[str, str]:
    """Returns Outrider's version, and digests of `outrider.decoding` and of the pair's weights, if any."""
    return {"outrider": outrider.__version__, "engine": engine_digest(), **pair_digest(models)}


def engine_digest() -> str:
    """Returns the digest of the decoding engine's modules."""
    folder = Path(outrider.__file__).parent / "decoding"
    return digest_of(folder, folder.rglob("*.py"))


def pair_digest(models: Path | None = None) -> dict[str, str]:
    """Returns the digest of target and draft, given or shipped, as `pair`; empty without models."""
    try:
        folder = models_folder(models)
    except ConfigError:
        return {}
    weights = [file for name in PAIR for file in (folder / name).glob("*.safetensors")]
    files = [file for file in weights if file.name != HEAD_FILE]
    return {"pair": digest_of(folder, files)} if files else {}


def digest_of(folder: Path, files: Iterable[Path]) -> str:
    """Returns the start of the SHA-256 of files and their names in a folder, in the order of the names."""
    total = hashlib.sha256()
    for file in sorted(files):
        total.update(f"{file.relative_to(folder)}\0".encode())
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:DIGEST_CHARACTERS]
