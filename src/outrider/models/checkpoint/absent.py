# SPDX-License-Identifier: Apache-2.0
"""Recognises what a folder holds instead of a complete checkpoint, and says what to do."""

from __future__ import annotations

from pathlib import Path

from outrider.core.errors import ModelError
from outrider.models.checkpoint.card import read_json
from outrider.models.gguf.file import SUFFIX

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
WEIGHTS_INDEX_FILE = "model.safetensors.index.json"
ADAPTER_FILES = ("adapter_model.safetensors", "adapter_model.bin")
ADAPTER_CONFIG_FILE = "adapter_config.json"
_CONVERSION = (
    "python -c \"from transformers import {1} as M; M.from_pretrained('{0}', "
    "dtype='auto').save_pretrained('{0}')\""
)


def hub_name(folder: Path) -> str | None:
    """Return owner/name of a folder in the Hugging Face Hub's cache; None for any other."""
    cached = folder.parents[1].name if len(folder.parents) > 1 and folder.parent.name == "snapshots" else ""
    kind, _, name = cached.partition("--")
    return name.replace("--", "/") if kind == "models" else None


def restore(folder: Path) -> str:
    """Return advice on how to restore a folder's files; for one in the Hub's cache, with its name."""
    name = hub_name(folder)
    if name is not None:
        return f"Complete it with `hf download {name}`"
    return "Restore the model folder, or choose another"


def adapter_file(folder: Path) -> str | None:
    """Return the file name of a LoRA adapter's weights in a folder, or None."""
    return next((name for name in ADAPTER_FILES if (folder / name).exists()), None)


def no_config(folder: Path) -> ModelError:
    """Return the error for a folder without a configuration."""
    path, adapter = folder / CONFIG_FILE, adapter_file(folder)
    if adapter is not None or (folder / ADAPTER_CONFIG_FILE).exists():
        return _adapter_alone(folder, adapter or ADAPTER_CONFIG_FILE)
    snapshots = sorted(folder.glob("snapshots/*/"))
    if snapshots:
        name = hub_name(snapshots[0])
        return ModelError(
            f"{folder} is the Hub's cache of a model, which keeps its files in snapshots: give "
            f"{name or 'its name on the Hub'}, or {snapshots[-1]}"
        )
    inner = min(folder.glob(f"*/{CONFIG_FILE}"), default=None)
    if inner is not None:
        return ModelError(f"{path} is missing; there is {inner}: give the folder {inner.parent}")
    return ModelError(f"{path} is missing. {restore(folder)}")


def no_weights(folder: Path) -> ModelError:
    """Return the error for a folder without the weight files that transformers reads."""
    path = folder / WEIGHTS_FILE
    names = sorted(one.name for one in folder.iterdir())

    def first(*endings: str) -> str | None:
        return next((name for name in names if name.endswith(endings)), None)

    adapter = adapter_file(folder)
    variant = next((n for n in names if n.startswith("model.") and n.endswith(".safetensors")), None)
    index_variant = next((n for n in names if n.startswith("model.safetensors.index.")), None)
    shard = next((n for n in names if n.startswith("model-") and n.endswith(".safetensors")), None)
    pickled, gguf, other = first(".bin", ".pt", ".pth"), first(SUFFIX), first(".safetensors")
    if adapter is not None:
        return _adapter_alone(folder, adapter)
    if path.is_symlink():
        return ModelError(f"{path} is a link to a file that is not there. {restore(folder)}")
    if variant is not None or index_variant is not None:
        return ModelError(
            f"{path} is missing; there is {variant or index_variant}, a variant, which is read under the "
            f"plain name only: rename it without the variant ({WEIGHTS_FILE} or {WEIGHTS_INDEX_FILE})"
        )
    if shard is not None:
        return ModelError(
            f"{folder} has shards, {shard}, and no {WEIGHTS_INDEX_FILE} that names them. {restore(folder)}"
        )
    if pickled is not None:
        return ModelError(
            f"{path} is missing; {pickled} is a pickle, which may run code and is not read. If you trust it, "
            f"convert it once: {_CONVERSION.format(folder, _automatic_class(folder))}"
        )
    if gguf is not None:
        return ModelError(f"{path} is missing; there is {gguf}: give the path of the GGUF file itself")
    if other is not None:
        return ModelError(
            f"{path} is missing; there is {other}, a name that transformers does not look for: rename it to "
            f"{WEIGHTS_FILE} if it holds the whole model"
        )
    return ModelError(f"{path} is missing. {restore(folder)}")


def _automatic_class(folder: Path) -> str:
    """Return transformers' class that loads a folder of any architecture."""
    sees = "vision_config" in read_json(folder / CONFIG_FILE)
    return "AutoModelForImageTextToText" if sees else "AutoModelForCausalLM"


def _adapter_alone(folder: Path, name: str) -> ModelError:
    return ModelError(
        f"{folder} holds a LoRA adapter alone, {name}, no model: merge it into its base model (peft: "
        "merge_and_unload, then save_pretrained) and give the merged folder"
    )
