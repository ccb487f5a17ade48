# SPDX-License-Identifier: Apache-2.0
"""Where the data that comes with the package lies: in a checkout, or installed under a prefix."""

from __future__ import annotations

import os
import re
import site
import sys
import sysconfig
from pathlib import Path

from outrider.core.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parents[2]
_CHECKOUT = _PACKAGE.parents[1]
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
MODEL_CONFIG = "config.json"


def models_folder(given: Path | None = None) -> Path:
    """The folder with target/, draft/ and tokenizer/: the given, else the checkout's or the installed one.

    Raises ConfigError naming where it was looked for.
    """
    candidates = [given] if given is not None else _default_folders()
    for folder in candidates:
        if (folder / "tokenizer").is_dir():
            return folder
    looked = ", ".join(str(folder) for folder in candidates)
    raise ConfigError(
        f"no models found (looked in {looked}): give the folder that holds tokenizer/ and target/"
    )


def model_folder(name: str) -> Path:
    """A model's folder, or its GGUF file: as given where it exists, else beside the models that come with the
    package, else of the checkpoint that has this name on the Hugging Face Hub (cached, or downloaded).

    Raises ConfigError where there is none, ModelError where only a part of it can be had.
    """
    folder = local_model(name)
    if folder is not None:
        return folder
    from outrider.models.checkpoint.hub import fetch_checkpoint  # seconds to import

    return fetch_checkpoint(name)


def local_model(name: str) -> Path | None:
    """A model's folder, or its GGUF file, here; None for a name of the Hub. Raises ConfigError for neither.

    `models/X` is no name of the Hub, so that a slip in `models/target` is told at once.
    """
    given = Path(name)
    folder = given if given.exists() or given.is_absolute() else models_folder().parent / name
    if folder.is_dir() or (folder.is_file() and folder.suffix == ".gguf"):
        return folder
    if given.parent.name == "models" or _HUB_NAME.fullmatch(name) is None:
        raise ConfigError(f"there is no model folder {name}: give one with {MODEL_CONFIG}, or a GGUF file")
    return None


def check_model(name: str) -> None:
    """Raises ConfigError where `model_folder` finds no model in a folder here; asks no network."""
    folder = local_model(name)
    if folder is not None and folder.is_dir() and not has_model(folder):
        raise ConfigError(f"{folder} holds no {MODEL_CONFIG}: give a model's folder, or a GGUF file")


def has_model(folder: Path) -> bool:
    """Whether a folder holds a model's configuration, or a GGUF file, which has it within."""
    return (folder / MODEL_CONFIG).is_file() or any(folder.glob("*.gguf"))


def check_tokenizer(models: Path, data: Path) -> None:
    """Raises ConfigError where a folder of models has no tokenizer yet, which is learned from `data`."""
    folder = models / "tokenizer"
    if not (folder / "tokenizer.json").exists():
        raise ConfigError(f"{folder} holds no tokenizer; run `outrider train tokenizer {data}` first")


def config_file(name: str) -> Path:
    """A parameter file that comes with the package; ConfigError where it is missing."""
    return _package_file(f"config/{name}")


def benchmark_file(name: str) -> Path:
    """A data file of the benchmarks that comes with the package; ConfigError where it is missing."""
    return _package_file(f"benchmarks/{name}")


def _package_file(name: str) -> Path:
    for folder in _package_folders():
        if (folder / name).is_file():
            return folder / name
    raise ConfigError(f"the file {name} is not installed: run `make setup` or `colcon build`")


def _default_folders() -> list[Path]:
    return [Path("models").resolve(), *(folder / "models" for folder in _package_folders())]


def _package_folders() -> list[Path]:
    """The checkout, then the prefixes of ROS and of Python that the package may be installed under.

    pip has several: of the environment, of Debian's `/usr/local`, of `--user`, and the folder of `--target`.
    """
    ament = [Path(prefix) for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if prefix]
    pip = [sys.prefix, sysconfig.get_path("data"), site.getuserbase(), str(_PACKAGE.parent)]
    prefixes = dict.fromkeys([*ament, *map(Path, pip)])
    return [_CHECKOUT, *(prefix / "share" / "outrider" for prefix in prefixes)]
