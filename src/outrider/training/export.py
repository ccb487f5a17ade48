# SPDX-License-Identifier: Apache-2.0
"""Turns a checkpoint into a model folder: bf16 weights in safetensors, configuration, card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import PreTrainedModel

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import cause_of
from outrider.core.files.writing import replaced_in, writing_to
from outrider.core.language.grammar import Vocabulary
from outrider.training.architecture import build_model
from outrider.training.tokenizer import read_tokenizer

WEIGHTS_PREFIX = "model."


def export(
    role: str, checkpoint: Path, tokenizer_folder: Path, folder: Path, vocabulary: Vocabulary
) -> dict[str, Any]:
    """Write `folder` and return its card.

    Raises ConfigError if the checkpoint is missing or is another role's.
    """
    try:
        state = torch.load(checkpoint, weights_only=True)
    except (OSError, RuntimeError) as error:
        raise ConfigError(
            f"{checkpoint} is no readable checkpoint; run `outrider train model {role}` first"
        ) from error
    if state["config"]["role"] != role:
        raise ConfigError(f"{checkpoint} holds a {state['config']['role']}, not a {role}")
    model = build_model(role, read_tokenizer(tokenizer_folder))
    weights = {
        k.removeprefix(WEIGHTS_PREFIX): v for k, v in state["network"].items() if k.startswith(WEIGHTS_PREFIX)
    }
    model.load_state_dict(weights)
    save_weights(model, folder)
    card = _card(role, state, sum(p.numel() for p in model.parameters()), vocabulary)
    write_card(folder, card)
    return card


def _card(role: str, state: Mapping[str, Any], parameters: int, vocabulary: Vocabulary) -> dict[str, Any]:
    return {
        "name": f"outrider-{role}",
        "slots": dict(vocabulary.slots),
        "shapes": vocabulary.shapes,
        "rooms": vocabulary.rooms,
        "figures": {
            "parameters": parameters,
            "training_frames": state["progressed"]["frames"],
            "imitation_steps": state["config"]["steps"],
            "vision_steps": state["config"]["vision_steps"],
        },
    }


def save_weights(model: PreTrainedModel, folder: Path) -> None:
    """Write a model's configuration and its bf16 weights. Raises ConfigError if they cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replaced_in(folder) as made:
            model.to(torch.bfloat16).save_pretrained(made)
    except (OSError, SafetensorError) as error:
        raise ConfigError(
            f"cannot write {folder} ({cause_of(error)}): make room, or choose another place"
        ) from error


def write_card(folder: Path, card: Mapping[str, Any]) -> None:
    """Write a model's card into its folder. Raises ConfigError if that fails."""
    with writing_to(folder), replaced_in(folder) as made:
        (made / "card.json").write_text(json.dumps(card, indent=1) + "\n")
