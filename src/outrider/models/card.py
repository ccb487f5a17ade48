"""The card beside a checkpoint: the words its instructions may use and its measured figures."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outrider.core.errors import ModelError
from outrider.core.writing import replace_file

CARD_FILE = "card.json"


@dataclass(frozen=True)
class ModelCard:
    """`instruction_words` is None for general checkpoints, which know every word."""

    instruction_words: frozenset[str] | None = None
    figures: dict[str, Any] = field(default_factory=dict)


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a model folder's file. Raises ModelError where it is missing or no object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path} is missing: restore the model folder or choose another") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as JSON ({error}): restore the file") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path} must hold a JSON object, not {type(content).__name__}: restore the file")
    return content


def read_card(folder: Path) -> ModelCard:
    """The card of a model folder; an empty one where the folder has none, as general checkpoints do not."""
    path = folder / CARD_FILE
    if not path.exists():
        return ModelCard()
    content = read_json(path)
    words = content.get("instruction_words")
    if words is not None and not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
        raise ModelError(f"{path}: instruction_words must be a list of strings: restore the file")
    figures = content.get("figures", {})
    if not isinstance(figures, dict):
        raise ModelError(f"{path}: figures must be a JSON object: restore the file")
    return ModelCard(None if words is None else frozenset(words), figures)


def write_figures(folder: Path, name: str, figures: dict[str, Any]) -> None:
    """Put measured figures into a model folder's card under a name; whatever else it holds stays.

    Raises ConfigError where it cannot be written.
    """
    path = folder / CARD_FILE
    content = read_json(path) if path.exists() else {}
    content["figures"] = {**content.get("figures", {}), name: figures}
    replace_file(path, (json.dumps(content, indent=1) + "\n").encode())
