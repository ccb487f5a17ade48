# SPDX-License-Identifier: Apache-2.0
"""Checkpoints, which a full disk or a kill leaves as they were."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from outrider.core.files.writing import make_folder, replace_file


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Replaces the file. Raises ConfigError where it cannot be written."""
    content = io.BytesIO()
    torch.save(dict(state), content)  # of a full disk torch itself says nothing that a person understands
    make_folder(path.parent)
    replace_file(path, content.getvalue())
