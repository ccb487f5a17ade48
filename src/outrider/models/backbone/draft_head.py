# SPDX-License-Identifier: Apache-2.0
"""A draft head: a small recurrent network that continues a target's text.

It starts with the target's own last state, as EAGLE does (arXiv 2401.15077), and continues without
attention, as ReDrafter does (arXiv 2403.09919): a token costs a few small products, and no cache. The
target's state is computed from the logits that a verification returns anyway; logits over at least as many
tokens as the model is wide determine it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save
from torch import Tensor

from outrider.core.errors import ModelError
from outrider.core.files.writing import replace_file
from outrider.models.backbone.early_exits import (
    BACKBONE,
    ascends,
    backbone_fingerprint,
    read_tensors,
)
from outrider.models.backbone.text_stack import TextStack

HEAD_FILE = "head.safetensors"
_TOKEN_IDS, _KEEP, _MIX, _OUT = "token_ids", "keep", "mix", "out"
_REMEDY = "restore the file, or run `outrider train head` for this model"
RIDGE = 1e-6
"""Ridge term, as a share of the largest square, when the state is solved from logits."""


@dataclass(frozen=True)
class HeadWeights:
    """The result of training; see `next_state`.

    token_ids (S,) int64, ascending: the shortlist of tokens that the head can draft.

    keep (hidden,), mix (2 * hidden, 2 * rank), out (rank, hidden).
    """

    token_ids: Tensor
    keep: Tensor
    mix: Tensor
    out: Tensor


def unit(rows: Tensor) -> Tensor:
    """Scale rows (M, hidden) to a root mean square of 1."""
    return F.rms_norm(rows, rows.shape[-1:])


def next_state(states: Tensor, embedded: Tensor, keep: Tensor, mix: Tensor, out: Tensor) -> Tensor:
    """Return the states (M, hidden) after one more token each, embedded (M, hidden).

    All states have a root mean square of 1: they represent the target's last layer before its norm's
    weight. u' = unit(keep * u + (silu(g) * v) @ out) with [g, v] = [u, unit(e)] @ mix: a gated layer.
    """
    gate, value = (torch.cat((states, unit(embedded)), dim=-1) @ mix).chunk(2, dim=-1)
    return unit(keep * states + (F.silu(gate) * value) @ out)


class DraftHead:
    """Implements `core.ports.DraftHead` for one target."""

    def __init__(self, name: str, weights: HeadWeights, text: TextStack) -> None:
        self.name = name
        device = text.embeddings.device
        gain = text.final_norm.gain.float() / len(text.final_norm.gain) ** 0.5
        self._text, self._vocab_size = text, text.head.shape[1]
        self._token_ids = weights.token_ids.to(device)
        self._head = text.head.columns(weights.token_ids).to(device).float() * gain.unsqueeze(1)
        self._reader = _solver(self._head)
        parts = (weights.keep, weights.mix, weights.out)
        self._weights = tuple(part.to(device).float() for part in parts)

    def begin(self, row: Tensor) -> Tensor:
        """Return the state (hidden,) from which the target computed its logits (V,)."""
        logits = row[self._token_ids].float()
        return unit(logits @ self._reader)

    def advance(self, states: Tensor, token_ids: Tensor) -> Tensor:
        """Return the states (M, hidden) after one more token each (M,)."""
        embedded = self._text.embeddings[token_ids.to(states.device)].float()
        return next_state(states, embedded, *self._weights)

    def logits(self, states: Tensor) -> Tensor:
        """Return logits (M, V) after each state; tokens outside the shortlist get -inf."""
        rows = states.new_full((len(states), self._vocab_size), -torch.inf)
        return rows.index_copy_(1, self._token_ids, states @ self._head)


def _solver(head: Tensor) -> Tensor:
    """Return the matrix (S, hidden) from logits over S tokens to their state, by `head` (hidden, S)."""
    wide = head.double()
    squares = wide @ wide.T
    squares.diagonal().add_(RIDGE * squares.diagonal().max())
    return torch.linalg.solve(squares, wide).T.to(head)


def write_head(folder: Path, weights: HeadWeights, text: TextStack) -> Path:
    """Write a model folder's draft head in bf16, bound to the weights that it is for. Raises ConfigError."""
    tensors = {_TOKEN_IDS: weights.token_ids}
    for name, weight in ((_KEEP, weights.keep), (_MIX, weights.mix), (_OUT, weights.out)):
        tensors[name] = weight.to(torch.bfloat16).contiguous()
    path = folder / HEAD_FILE
    replace_file(path, save(tensors, metadata={BACKBONE: backbone_fingerprint(text)}))
    return path


def read_head(folder: Path, name: str, text: TextStack) -> DraftHead:
    """Load the draft head of a model folder.

    Raises ModelError for a file that is missing, corrupt, or made for other weights.
    """
    path = folder / HEAD_FILE
    if not path.exists():
        raise ModelError(f"{folder} has no draft head: run `outrider train head` for this model")
    tensors = read_tensors(path, text, _REMEDY)
    objection = _objection(tensors, text)
    if objection:
        raise ModelError(f"{path}: {objection}: {_REMEDY}")
    weights = HeadWeights(*(tensors[entry] for entry in (_TOKEN_IDS, _KEEP, _MIX, _OUT)))
    return DraftHead(name, weights, text)


def _objection(tensors: Mapping[str, Tensor], text: TextStack) -> str | None:
    """Return what is wrong with a file's content, or None."""
    if set(tensors) != {_TOKEN_IDS, _KEEP, _MIX, _OUT}:
        return f"holds {', '.join(sorted(tensors)) or 'nothing'}"
    keep, mix, out = tensors[_KEEP], tensors[_MIX], tensors[_OUT]
    hidden, vocab_size = text.head.shape
    if not ascends(tensors[_TOKEN_IDS], 0, vocab_size):
        return f"token_ids are not ascending ids below {vocab_size}"
    if len(tensors[_TOKEN_IDS]) < hidden:
        return f"{len(tensors[_TOKEN_IDS])} token_ids are fewer than the model is wide ({hidden})"
    if keep.shape != (hidden,) or out.dim() != 2 or out.shape[1] != hidden:
        return f"keep {tuple(keep.shape)} and out {tuple(out.shape)} do not fit the model"
    if mix.shape != (2 * hidden, 2 * out.shape[0]):
        return f"mix {tuple(mix.shape)} does not fit the model"
    if not all(weight.isfinite().all() for weight in (keep, mix, out)):
        return "weights are not finite"
    return None
