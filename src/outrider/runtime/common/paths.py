# SPDX-License-Identifier: Apache-2.0
"""Locates the data that comes with the package: in a checkout, or installed under a prefix."""

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
    """Returns the folder with target/, draft/ and tokenizer/: `given`, or ./models, or the package's.

    Raises ConfigError that names the folders searched.
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
    """Returns a model's folder, or its GGUF file.

    It looks for the name as given, then next to the models that come with the package, then on the Hugging
    Face Hub (cached, or downloaded). Raises ConfigError if there is none, ModelError if only a part is
    available.
    """
    folder = local_model(name)
    if folder is not None:
        return folder
    from outrider.models.checkpoint.hub import fetch_checkpoint  # takes seconds to import

    return fetch_checkpoint(name)


def local_model(name: str) -> Path | None:
    """Returns a model's local folder or GGUF file; None for a name of the Hub.

    Raises ConfigError for anything else. `models/X` is never a name of the Hub, so that a typo in
    `models/target` is reported at once.
    """
    path = Path(name)
    folder = path if path.exists() or path.is_absolute() else models_folder().parent / name
    if folder.is_dir() or (folder.is_file() and folder.suffix == ".gguf"):
        return folder
    if path.parent.name == "models" or _HUB_NAME.fullmatch(name) is None:
        raise ConfigError(f"there is no model folder {name}: give one with {MODEL_CONFIG}, or a GGUF file")
    return None


def check_model(name: str) -> None:
    """Raise ConfigError if a local folder holds no model. It does not access the network."""
    folder = local_model(name)
    if folder is not None and folder.is_dir() and not has_model(folder):
        raise ConfigError(f"{folder} holds no {MODEL_CONFIG}: give a model's folder, or a GGUF file")


def has_model(folder: Path) -> bool:
    """Whether a folder holds a model's configuration, or a GGUF file, which contains one."""
    return (folder / MODEL_CONFIG).is_file() or any(folder.glob("*.gguf"))


def check_tokenizer(models: Path, data: Path) -> None:
    """Raise ConfigError if a folder of models has no tokenizer. The message says to learn it from `data`."""
    folder = models / "tokenizer"
    if not (folder / "tokenizer.json").exists():
        raise ConfigError(f"{folder} holds no tokenizer; run `outrider train tokenizer {data}` first")


def config_file(name: str) -> Path:
    """Returns a parameter file that comes with the package; ConfigError if it is missing."""
    return _package_file(f"config/{name}")


def benchmark_file(name: str) -> Path:
    """Returns a benchmark data file that comes with the package; ConfigError if it is missing."""
    return _package_file(f"benchmarks/{name}")


def _package_file(name: str) -> Path:
    for folder in _package_folders():
        if (folder / name).is_file():
            return folder / name
    raise ConfigError(f"the file {name} is not installed: run `make setup` or `colcon build`")


def _default_folders() -> list[Path]:
    return [Path("models").resolve(), *(folder / "models" for folder in _package_folders())]


def _package_folders() -> list[Path]:
    """Returns the checkout, then the prefixes of ROS and Python where the package may be installed.

    pip has several: the environment's, Debian's `/usr/local`, that of `--user`, and the folder of
    `--target`.
    """
    ament = [Path(prefix) for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if prefix]
    pip = [sys.prefix, sysconfig.get_path("data"), site.getuserbase(), str(_PACKAGE.parent)]
    prefixes = dict.fromkeys([*ament, *map(Path, pip)])
    return [_CHECKOUT, *(prefix / "share" / "outrider" for prefix in prefixes)]
