"""A draft head for a toy target. Its state is a text's digest, which it finds by the target's logits."""

from __future__ import annotations

import torch
from support.toy_models import ToyModel, ToySettings

from outrider.core.ports import Array
from outrider.decoding.protocol.prefix_digest import extend_digest


class HeadedToy(ToyModel):
    """A toy model that records the text's digest for each of its logit vectors."""

    def __init__(self, settings: ToySettings) -> None:
        super().__init__(settings)
        self.texts: dict[bytes, int] = {}

    def row(self, digest: int) -> Array:
        row = super().row(digest)
        self.texts[row.numpy().tobytes()] = digest
        return row


class ToyHead:
    """Implements `core.ports.DraftHead`: drafts like a toy draft model, after the text of a logit vector."""

    name = "the toy's head"

    def __init__(self, target: HeadedToy, draft: ToyModel) -> None:
        self._target, self._draft = target, draft
        self.steps: list[int] = []
        """The number of states that each step advanced."""

    def begin(self, row: Array) -> Array:
        return torch.tensor([self._target.texts[row.numpy().tobytes()]])

    def advance(self, states: Array, token_ids: Array) -> Array:
        self.steps.append(len(states))
        pairs = zip(states.flatten().tolist(), token_ids.tolist(), strict=True)
        return torch.tensor([[extend_digest(digest, (token,))] for digest, token in pairs])

    def logits(self, states: Array) -> Array:
        return torch.stack([self._draft.row(digest) for digest in states.flatten().tolist()])


def toy_with_head(
    seed: int, agreement: float, eos_bias: float = -1.0, exits: tuple[float, ...] = ()
) -> tuple[HeadedToy, ToyHead]:
    """Returns a target, and a head that agrees with it with probability `agreement` at each position."""
    target = HeadedToy(ToySettings(seed=seed, eos_bias=eos_bias, exit_agreement=exits))
    return target, ToyHead(target, ToyModel(ToySettings(seed=seed, eos_bias=eos_bias, agreement=agreement)))
