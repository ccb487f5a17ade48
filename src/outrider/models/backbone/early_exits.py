# SPDX-License-Identifier: Apache-2.0
"""Early exits: logits over a shortlist after some layers, for about a percent of a forward pass's cost.

An exit is a linear adapter of low rank into the frozen final norm's gain and LM head (adapters after
Venkatesha et al., "Fast and Cost-effective Speculative Edge-Cloud Decoding with Early Exits", section 3).
Because it is linear, it is folded with both into one matrix at load: an exit is one small product of any
rank.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from outrider.core.errors import ModelError
from outrider.core.files.git_lfs import unreadable
from outrider.core.files.writing import replace_file
from outrider.core.ports import ExitInfo
from outrider.models.backbone.text_stack import TextStack

EXITS_FILE = "exits.safetensors"
BACKBONE = "backbone"
"""The entry of a file's metadata that identifies the weights that it was made for."""
_LAYERS, _TOKEN_IDS, _DOWN, _UP = "layers", "token_ids", "down", "up"


@dataclass(frozen=True)
class ExitAdapters:
    """The result of training. With u a layer's output scaled to a root mean square of 1, its exit's logits
    are head[token_ids] @ (final_norm_weight * u + u @ down @ up).

    layers: the decoder layers, from 1, after which exits are placed, ascending. token_ids (S,) int64,
    ascending. down (E, hidden, rank) and up (E, rank, hidden): one pair per layer.
    """

    layers: tuple[int, ...]
    token_ids: Tensor
    down: Tensor
    up: Tensor


@dataclass(frozen=True)
class ExitHeads:
    """Adapters folded for running: `matrices` are (hidden, S), one per exit."""

    info: ExitInfo
    matrices: tuple[Tensor, ...]

    def only(self, indices: Sequence[int]) -> ExitHeads:
        """Return some of the exits, by ascending index."""
        layers = tuple(self.info.layers[index] for index in indices)
        matrices = tuple(self.matrices[index] for index in indices)
        return replace(self, info=replace(self.info, layers=layers), matrices=matrices)

    def to(self, device: torch.device, dtype: torch.dtype) -> ExitHeads:
        """Return a copy on a device that multiplies in `dtype`; the shortlist stays on the host."""
        return replace(self, matrices=tuple(matrix.to(device, dtype) for matrix in self.matrices))

    def index_of(self, layer: int) -> int | None:
        """Return the index of the exit after a layer, or None."""
        return self.info.layers.index(layer) if layer in self.info.layers else None

    def logits(self, index: int, unit: Tensor) -> Tensor:
        """Return logits (M, S) of exit `index` from its layer's output (M, hidden), at a length of about 1.

        The next layer's norm computes that output anyway, so an exit is one small product.
        """
        matrix = self.matrices[index]
        return torch.mm(unit.to(matrix.dtype), matrix)


def fold_adapters(adapters: ExitAdapters, text: TextStack) -> ExitHeads:
    """Fold adapters into one matrix per exit, in the stack's dtype."""
    gain = text.final_norm.gain
    head = text.head.columns(adapters.token_ids).to(gain.device).contiguous()
    matrices = tuple(
        gain.unsqueeze(1) * head + math.sqrt(len(gain)) * (down.to(head) @ (up.to(head) @ head))
        for down, up in zip(adapters.down, adapters.up, strict=True)
    )
    info = ExitInfo(adapters.layers, text.shape.num_layers, adapters.token_ids)
    return ExitHeads(info, matrices)


def write_exits(folder: Path, adapters: ExitAdapters, text: TextStack) -> Path:
    """Write a model folder's exits in bf16, bound to the weights that they are for. Raises ConfigError."""
    tensors = {
        _LAYERS: torch.tensor(adapters.layers),
        _TOKEN_IDS: adapters.token_ids,
        _DOWN: adapters.down.to(torch.bfloat16).contiguous(),
        _UP: adapters.up.to(torch.bfloat16).contiguous(),
    }
    path = folder / EXITS_FILE
    replace_file(path, save(tensors, metadata={BACKBONE: backbone_fingerprint(text)}))
    return path


def read_exits(folder: Path, text: TextStack, *, expected: bool) -> ExitHeads | None:
    """Load the exits of a model folder; None if it has none and none are `expected`.

    Raises ModelError for a file that is missing, corrupt, or made for other weights.
    """
    path = folder / EXITS_FILE
    if not path.exists():
        if expected:
            raise ModelError(f"{path} is missing though the card lists early exits: {_REMEDY}")
        return None
    tensors = read_tensors(path, text, _REMEDY)
    objection = _objection(tensors, text)
    if objection:
        raise ModelError(f"{path}: {objection}: {_REMEDY}")
    layers = tuple(tensors[_LAYERS].tolist())
    return fold_adapters(ExitAdapters(layers, tensors[_TOKEN_IDS], tensors[_DOWN], tensors[_UP]), text)


def read_tensors(path: Path, text: TextStack, remedy: str) -> dict[str, Tensor]:
    """Return the tensors of a file next to a model's weights.

    Raises ModelError, with the remedy, for one that is corrupt or was made for other weights.
    """
    try:
        with safe_open(path, framework="pt") as file:
            backbone = (file.metadata() or {}).get(BACKBONE)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise unreadable(path, f"is truncated or corrupt ({error}): {remedy}") from error
    if backbone != backbone_fingerprint(text):
        raise ModelError(f"{path} was trained for other weights than those beside it: {remedy}")
    return tensors


def is_made_for(path: Path, text: TextStack) -> bool:
    """Return whether a file next to a model's weights is sound and was made for them."""
    try:
        read_tensors(path, text, "")
    except ModelError:
        return False
    return True


_REMEDY = "restore the file, or run `outrider train exits` for this model"


def backbone_fingerprint(text: TextStack) -> str:
    """Return a hash of the norms and biases: they are small, and any training changes them."""
    digest = hashlib.sha256()
    for layer in text.layers:
        of_heads = () if layer.head_norm is None else (layer.head_norm.gain,)
        for weight in (layer.input_norm.gain, layer.qkv_bias, layer.mlp_norm.gain, *of_heads):
            digest.update(weight.float().cpu().numpy().tobytes())
    digest.update(text.final_norm.gain.float().cpu().numpy().tobytes())
    return digest.hexdigest()


def _objection(tensors: Mapping[str, Tensor], text: TextStack) -> str | None:
    """Return what is wrong with a file's content, or None."""
    if set(tensors) != {_LAYERS, _TOKEN_IDS, _DOWN, _UP}:
        return f"holds {', '.join(sorted(tensors)) or 'nothing'}"
    layers, token_ids, down, up = (tensors[name] for name in (_LAYERS, _TOKEN_IDS, _DOWN, _UP))
    hidden, vocab_size = text.head.shape
    if not ascends(layers, 1, text.shape.num_layers):
        return f"layers {layers.tolist()} are not ascending numbers below {text.shape.num_layers}"
    if not ascends(token_ids, 0, vocab_size):
        return f"token_ids are not ascending ids below {vocab_size}"
    num_exits, rank = len(layers), down.shape[-1]
    if down.shape != (num_exits, hidden, rank) or up.shape != (num_exits, rank, hidden):
        return f"adapters of {tuple(down.shape)} and {tuple(up.shape)} do not fit the model"
    if not (down.isfinite().all() and up.isfinite().all()):
        return "adapters are not finite"
    return None


def ascends(numbers: Tensor, low: int, high: int) -> bool:
    """Return whether these are strictly ascending integers in low..high-1, at least one."""
    if numbers.dtype != torch.int64 or numbers.dim() != 1 or len(numbers) == 0:
        return False
    return bool(numbers[0] >= low and numbers[-1] < high and (numbers.diff() > 0).all())
