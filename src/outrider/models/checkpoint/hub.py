# SPDX-License-Identifier: Apache-2.0
"""Finds checkpoints by their name on the Hugging Face Hub: in its cache, or by download."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

from outrider.core.errors import ConfigError, ModelError
from outrider.models.checkpoint.absent import hub_name
from outrider.models.checkpoint.files import is_whole

FILES = ["*.json", "*.safetensors", "*.txt"]


def model_name(folder: Path) -> str:
    """Return a model's name: owner/name for a folder in the Hub's cache, else the folder's own name."""
    return hub_name(folder) or folder.name


def fetch_checkpoint(name: str) -> Path:
    """Return the folder of a checkpoint `owner/name`; download what is not cached.

    Raises ConfigError if there is none, ModelError if the cache is incomplete and there is no network.
    """
    cached = _cached(name)
    if cached is not None and is_whole(cached):
        return cached
    is_missing = cached is None
    state = "there is no model folder" if is_missing else f"the cache, {cached}, holds only a part of"
    try:
        return Path(snapshot_download(name, allow_patterns=FILES))
    except (OSError, HfHubHTTPError, LocalEntryNotFoundError) as error:
        reason = str(error).splitlines()[0]
        raise (ConfigError if is_missing else ModelError)(
            f"{state} {name}, and it cannot be downloaded ({reason}): "
            f"give a folder, or run `hf download {name}` where there is a network"
        ) from error


def _cached(name: str) -> Path | None:
    try:
        return Path(snapshot_download(name, allow_patterns=FILES, local_files_only=True))
    except (OSError, LocalEntryNotFoundError):
        return None
