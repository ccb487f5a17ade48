# SPDX-License-Identifier: Apache-2.0
"""Reads a model's configuration, from config.json or from its GGUF file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outrider.models.checkpoint.absent import CONFIG_FILE
from outrider.models.checkpoint.card import read_json
from outrider.models.gguf.configuration import config_content
from outrider.models.gguf.file import gguf_of, is_gguf, open_gguf


def config_file(model: Path) -> Path:
    """Return the file with a model's configuration. Raises ModelError if it is ambiguous."""
    return gguf_of(model) or model / CONFIG_FILE


def read_settings(path: Path) -> dict[str, Any]:
    """Return the content of a config.json, or its equivalent from a GGUF file. Raises ModelError."""
    return config_content(open_gguf(path)) if is_gguf(path) else read_json(path)
