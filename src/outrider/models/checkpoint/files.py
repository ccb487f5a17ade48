# SPDX-License-Identifier: Apache-2.0
"""Which files of a folder hold a checkpoint's weights: those that transformers takes, or none.

Every part that reads, counts or names weights asks here. transformers takes `model.safetensors` where it is,
and else the shards that the index names; it looks at nothing else that lies beside them.
"""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError, safe_open

from outrider.core.errors import ModelError
from outrider.models.backbone.out_of_memory import is_out_of_memory
from outrider.models.checkpoint.card import read_json
from outrider.models.checkpoint.saves import difference_of_saves
from outrider.models.gguf.file import SUFFIX, gguf_of, open_gguf

WEIGHTS_FILE = "model.safetensors"
WEIGHTS_INDEX_FILE = "model.safetensors.index.json"
ADAPTER_FILES = ("adapter_model.safetensors", "adapter_model.bin")
_CONVERSION = (
    "python -c \"from transformers import AutoModelForImageTextToText as M; M.from_pretrained('{0}', "
    "dtype='auto').save_pretrained('{0}')\""
)


def weight_files(folder: Path) -> list[Path]:
    """The GGUF file, the single weight file, else the shards its index names. Raises ModelError for none."""
    gguf = gguf_of(folder)
    if gguf is not None:
        return [gguf]
    single, index = folder / WEIGHTS_FILE, folder / WEIGHTS_INDEX_FILE
    if single.exists():
        return [single]
    if not index.exists():
        raise _no_weights(folder)
    return [folder / name for name in sorted(set(_weight_map(index).values()))]


def check_weight_files(folder: Path) -> None:
    """Raises ModelError naming a file that is missing, corrupt, or of another save than the rest."""
    files = weight_files(folder)
    for path in files:
        if not path.exists():
            raise _missing(folder, path)
    if files[0].suffix == SUFFIX:
        open_gguf(files[0])
        return
    for path in files:
        _check_readable(path)
    adapter = next((folder / name for name in ADAPTER_FILES if (folder / name).exists()), None)
    if adapter is not None and (folder / "adapter_config.json").exists():
        raise ModelError(
            f"{folder} holds weights, {files[0].name}, and an adapter, {adapter.name}: which is meant "
            "cannot be told; merge the adapter into the weights, or move it to a folder of its own"
        )
    if files[0].name != WEIGHTS_FILE:
        index = folder / WEIGHTS_INDEX_FILE
        difference = difference_of_saves(index.name, _weight_map(index), _total_size(index), files)
        if difference is not None:
            raise ModelError(f"{folder} mixes files of two saves: {difference}. {_restore(folder)}")


def is_whole(folder: Path) -> bool:
    """Whether all files that its configuration and its weights consist of are there."""
    try:
        return (folder / "config.json").exists() and all(path.exists() for path in weight_files(folder))
    except ModelError:
        return False


def _weight_map(index: Path) -> dict[str, str]:
    """The shard of each tensor. Raises ModelError for what is no index, or leads out of the folder."""
    shards = read_json(index).get("weight_map")
    if not isinstance(shards, dict) or not shards or not all(isinstance(n, str) for n in shards.values()):
        raise ModelError(f"{index} names no weight files: restore the file")
    outside = next((name for name in shards.values() if Path(name).name != name or name == ".."), None)
    if outside is not None:
        raise ModelError(f"{index} names {outside!r}, which is no file of its folder: restore the file")
    return shards


def _total_size(index: Path) -> int | None:
    """Bytes of all shards as the index has them; None where it does not say; quantizers count otherwise."""
    config = index.parent / "config.json"
    if config.exists() and "quantization_config" in read_json(config):
        return None
    metadata = read_json(index).get("metadata")
    said = metadata.get("total_size") if isinstance(metadata, dict) else None
    return int(said) if isinstance(said, int | float) else None


def _check_readable(path: Path) -> None:
    try:
        with safe_open(path, framework="pt") as weights:
            count = len(weights.keys())
    except (OSError, SafetensorError) as error:
        if is_out_of_memory(error):
            raise
        raise ModelError(f"{path} is truncated or corrupt ({error}): restore the file") from error
    if count == 0:
        raise ModelError(f"{path} holds no weights: restore the file")


def _missing(folder: Path, path: Path) -> ModelError:
    return ModelError(f"{path} is missing, which {WEIGHTS_INDEX_FILE} names. {_restore(folder)}")


def hub_name(folder: Path) -> str | None:
    """owner/name of a folder in the Hugging Face Hub's cache; None for any other."""
    cached = folder.parents[1].name if len(folder.parents) > 1 and folder.parent.name == "snapshots" else ""
    kind, _, name = cached.partition("--")
    return name.replace("--", "/") if kind == "models" else None


def _restore(folder: Path) -> str:
    """What brings a folder's files back: for one in the Hub's cache its name is known."""
    name = hub_name(folder)
    if name is not None:
        return f"Complete it with `hf download {name}`"
    return "Restore the model folder, or choose another"


def _no_weights(folder: Path) -> ModelError:
    """What lies there instead of weights, and what to do with it."""
    path = folder / WEIGHTS_FILE
    names = sorted(one.name for one in folder.iterdir())

    def first(*endings: str) -> str | None:
        return next((name for name in names if name.endswith(endings)), None)

    adapter = next((name for name in names if name in ADAPTER_FILES), None)
    variant = next((n for n in names if n.startswith("model.") and n.endswith(".safetensors")), None)
    index_variant = next((n for n in names if n.startswith("model.safetensors.index.")), None)
    shard = next((n for n in names if n.startswith("model-") and n.endswith(".safetensors")), None)
    pickled, gguf = first(".bin", ".pt", ".pth"), first(SUFFIX)
    if adapter is not None:
        return ModelError(
            f"{folder} holds a LoRA adapter alone, {adapter}, no model: merge it into its base model (peft: "
            "merge_and_unload, then save_pretrained) and give the merged folder"
        )
    if variant is not None or index_variant is not None:
        return ModelError(
            f"{path} is missing; there is {variant or index_variant}, a variant, which is read under the "
            f"plain name only: rename it without the variant ({WEIGHTS_FILE} or {WEIGHTS_INDEX_FILE})"
        )
    if shard is not None:
        return ModelError(
            f"{folder} has shards, {shard}, and no {WEIGHTS_INDEX_FILE} that names them. {_restore(folder)}"
        )
    if pickled is not None:
        return ModelError(
            f"{path} is missing; {pickled} is a pickle, which may run code and is not read. If you trust it, "
            f"convert it once: {_CONVERSION.format(folder)}"
        )
    if gguf is not None:
        return ModelError(f"{path} is missing; there is {gguf}: give the path of the GGUF file itself")
    return ModelError(f"{path} is missing. {_restore(folder)}")
