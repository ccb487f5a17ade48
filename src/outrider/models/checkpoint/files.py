# SPDX-License-Identifier: Apache-2.0
"""Finds the files of a folder that hold a checkpoint's weights: those that transformers reads.

Every part that reads, counts or names weights asks here. transformers reads `model.safetensors` if it
exists, else the shards that the index names; it ignores all other files.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from safetensors import SafetensorError, safe_open

from outrider.core.errors import ModelError
from outrider.core.files.git_lfs import unreadable
from outrider.core.model_options import Precision
from outrider.models.backbone.out_of_memory import is_out_of_memory
from outrider.models.checkpoint.absent import (
    ADAPTER_CONFIG_FILE,
    CONFIG_FILE,
    WEIGHTS_FILE,
    WEIGHTS_INDEX_FILE,
    adapter_file,
    no_weights,
    restore,
)
from outrider.models.checkpoint.card import read_json
from outrider.models.checkpoint.saves import difference_of_saves
from outrider.models.gguf.file import gguf_of, is_gguf, open_gguf

TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_PARTS = ("vocab.json", "merges.txt")
"""Older checkpoints have these files in its place."""
_SAMPLES, _SAMPLE_BYTES = 1024, 64
_GENERATION_FILE = "generation_config.json"
_PICTURES_FILES = ("preprocessor_config.json", "processor_config.json")


def weight_files(folder: Path) -> list[Path]:
    """Return the GGUF file, the single weight file, or the index's shards.

    Raises ModelError if there are none.
    """
    gguf = gguf_of(folder)
    if gguf is not None:
        return [gguf]
    single, index = folder / WEIGHTS_FILE, folder / WEIGHTS_INDEX_FILE
    if single.exists():
        return [single]
    if not index.exists():
        raise no_weights(folder)
    return [folder / name for name in sorted(set(_weight_map(index).values()))]


def weights_mark(folder: Path, precision: Precision) -> str:
    """Return eight hexadecimal digits that differ for other weights, or the same ones in another precision.

    They come from samples throughout the files and, except in GGUF files, the first numbers of each tensor.
    So this takes milliseconds. Training changes more than a few numbers of a tensor.
    """
    digest = blake2b(precision.encode(), digest_size=4)
    for path in weight_files(folder):
        size = path.stat().st_size
        with path.open("rb") as file:
            tensors = [] if is_gguf(path) else _tensor_offsets(file)
            for offset in (*range(0, size, max(_SAMPLE_BYTES, size // _SAMPLES)), *tensors):
                file.seek(offset)
                digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def _tensor_offsets(file: BinaryIO) -> list[int]:
    """Return the start of each tensor in an open safetensors file, in bytes."""
    length = int.from_bytes(file.read(8), "little")
    header = json.loads(file.read(length))
    return [8 + length + one["data_offsets"][0] for name, one in header.items() if name != "__metadata__"]


def check_weight_files(folder: Path) -> None:
    """Raise ModelError that names a file which is missing, corrupt, or from another save than the rest."""
    files = weight_files(folder)
    for path in files:
        if not path.exists():
            raise _missing(folder, path)
    if is_gguf(files[0]):
        open_gguf(files[0])
        return
    for path in files:
        _check_readable(path)
    adapter = adapter_file(folder)
    if adapter is not None and (folder / ADAPTER_CONFIG_FILE).exists():
        raise ModelError(
            f"{folder} holds weights, {files[0].name}, and an adapter, {adapter}: which is meant "
            "cannot be told; merge the adapter into the weights, or move it to a folder of its own"
        )
    if files[0].name != WEIGHTS_FILE:
        index = folder / WEIGHTS_INDEX_FILE
        if "metadata" not in read_json(index):
            raise ModelError(
                f'{index} has no "metadata", which transformers reads: add "metadata": {{}} to it'
            )
        difference = difference_of_saves(index.name, _weight_map(index), _total_size(index), files)
        if difference is not None:
            raise ModelError(f"{folder} mixes files of two saves: {difference}. {restore(folder)}")


def is_whole(folder: Path) -> bool:
    """Return whether all files of a published checkpoint exist, its tokenizer included."""
    try:
        needed = [folder / CONFIG_FILE, folder / _GENERATION_FILE, *weight_files(folder)]
        sees = "vision_config" in read_json(folder / CONFIG_FILE)
    except ModelError:
        return False
    reads_pictures = not sees or any((folder / name).exists() for name in _PICTURES_FILES)
    return all(path.exists() for path in needed) and has_tokenizer_files(folder) and reads_pictures


def has_tokenizer_files(folder: Path) -> bool:
    """Return whether a folder has a tokenizer, whole or in its older parts."""
    parts = all((folder / part).exists() for part in TOKENIZER_PARTS)
    return (folder / TOKENIZER_FILE).exists() or parts


def _weight_map(index: Path) -> dict[str, str]:
    """Return the shard of each tensor.

    Raises ModelError for an invalid index, or one that leads out of the folder.
    """
    shards = read_json(index).get("weight_map")
    if not isinstance(shards, dict) or not shards or not all(isinstance(n, str) for n in shards.values()):
        raise ModelError(f"{index} names no weight files: restore the file")
    outside = next((name for name in shards.values() if Path(name).name != name or name == ".."), None)
    if outside is not None:
        raise ModelError(f"{index} names {outside!r}, which is no file of its folder: restore the file")
    return shards


def _total_size(index: Path) -> int | None:
    """Return the total bytes of all shards by the index; None if it does not say.

    None for quantized weights too, because quantizers count differently.
    """
    config = index.parent / CONFIG_FILE
    if config.exists() and "quantization_config" in read_json(config):
        return None
    metadata = read_json(index).get("metadata")
    content = metadata.get("total_size") if isinstance(metadata, dict) else None
    return int(content) if isinstance(content, int | float) else None


def _check_readable(path: Path) -> None:
    try:
        with safe_open(path, framework="pt") as weights:
            count = len(weights.keys())
    except (OSError, SafetensorError) as error:
        if is_out_of_memory(error):
            raise
        raise unreadable(path, f"is truncated or corrupt ({error}): restore the file") from error
    if count == 0:
        raise ModelError(f"{path} holds no weights: restore the file")


def _missing(folder: Path, path: Path) -> ModelError:
    return ModelError(f"{path} is missing, which {WEIGHTS_INDEX_FILE} names. {restore(folder)}")
