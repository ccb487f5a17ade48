"""Checkpoints by their name on the Hugging Face Hub: from its cache, else downloaded."""

from __future__ import annotations

import re
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

from outrider.core.errors import ModelError

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
FILES = ["*.json", "*.safetensors", "*.txt"]


def is_hub_name(name: str) -> bool:
    """Whether this has the form owner/name."""
    return _NAME.fullmatch(name) is not None


def model_name(folder: Path) -> str:
    """What a folder's model is called: owner/name for one in the Hub's cache, else the folder's own name."""
    cached = folder.parents[1].name if len(folder.parents) > 1 and folder.parent.name == "snapshots" else ""
    kind, _, name = cached.partition("--")
    return name.replace("--", "/") if kind == "models" else folder.name


def fetch_checkpoint(name: str) -> Path:
    """The folder of a checkpoint `owner/name`; downloads what is not cached. Raises ModelError."""
    try:
        return Path(snapshot_download(name, allow_patterns=FILES, local_files_only=True))
    except (OSError, LocalEntryNotFoundError):
        pass
    try:
        return Path(snapshot_download(name, allow_patterns=FILES))
    except (OSError, HfHubHTTPError, LocalEntryNotFoundError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(
            f"there is no model folder {name}, and it cannot be downloaded ({reason}): "
            f"give a folder, or run `hf download {name}` where there is a network"
        ) from error
