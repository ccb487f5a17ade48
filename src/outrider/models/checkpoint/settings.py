# SPDX-License-Identifier: Apache-2.0
"""Where a model's configuration stands, in config.json or in its GGUF file, and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outrider.models.checkpoint.absent import CONFIG_FILE
from outrider.models.checkpoint.card import read_json
from outrider.models.gguf.configuration import config_content
from outrider.models.gguf.file import gguf_of, is_gguf, open_gguf


def config_file(model: Path) -> Path:
    """The file of a model that its configuration stands in. Raises ModelError where that cannot be told."""
    return gguf_of(model) or model / CONFIG_FILE


def read_settings(path: Path) -> dict[str, Any]:
    """The content of a config.json, or what a GGUF file says of the same. Raises ModelError."""
    return config_content(open_gguf(path)) if is_gguf(path) else read_json(path)
