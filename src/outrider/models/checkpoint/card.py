# SPDX-License-Identifier: Apache-2.0
"""A checkpoint's card: the words of the instructions that it was made for, and its measured figures."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from outrider.core.errors import ModelError
from outrider.core.files.git_lfs import unreadable
from outrider.core.files.given_file import cause_of, read_text
from outrider.core.files.writing import alone_in, replace_file
from outrider.core.language.grammar import Vocabulary

CARD_FILE = "card.json"
VOCABULARY = ("slots", "shapes", "rooms")
"""The keys of a card that form a `Vocabulary`. Old cards lack the last two."""


@dataclass(frozen=True)
class ModelCard:
    """`vocabulary` is None for general checkpoints, which take any sentence."""

    vocabulary: Vocabulary | None = None
    figures: dict[str, Any] = field(default_factory=dict)


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a model folder's file.

    Raises ModelError if it is missing or not an object.
    """
    try:
        content = json.loads(read_text(path))
    except FileNotFoundError:
        raise ModelError(f"{path} is missing: restore the model folder or choose another") from None
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(path, f"cannot be read as JSON ({cause_of(error)}): restore the file") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path} must hold a JSON object, not {type(content).__name__}: restore the file")
    return content


def read_card(folder: Path) -> ModelCard:
    """Return a model folder's card; an empty one if there is none, as for general checkpoints."""
    path = folder / CARD_FILE
    if not path.exists():
        return ModelCard()
    content = read_json(path)
    figures = content.get("figures", {})
    if not isinstance(figures, dict):
        raise ModelError(f"{path}: figures must be a JSON object: restore the file")
    words = {key: content[key] for key in VOCABULARY if content.get(key) is not None}
    return ModelCard(_vocabulary(path, words) if "slots" in words else None, figures)


def _vocabulary(path: Path, words: dict[str, Any]) -> Vocabulary:
    try:
        return msgspec.convert(words, Vocabulary)
    except msgspec.ValidationError as error:
        raise ModelError(
            f"{path}: slots must hold a list of words each, such as colour and kind, and shapes lists of "
            f"slots ({error}): restore the file"
        ) from None


def write_figures(folder: Path, name: str, figures: dict[str, Any]) -> None:
    """Put measured figures into a model folder's card under a name; keep everything else in it.

    Raises ConfigError if it cannot be written.
    """
    path = folder / CARD_FILE
    with alone_in(folder):  # exits and a draft head may be trained at the same time
        content = read_json(path) if path.exists() else {}
        content["figures"] = {**content.get("figures", {}), name: figures}
        replace_file(path, (json.dumps(content, indent=1) + "\n").encode())
