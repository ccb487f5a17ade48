# SPDX-License-Identifier: Apache-2.0
"""Projections that torchao has quantized: which they are, and whether they can be multiplied on a device."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from outrider.core.errors import ModelError
from outrider.models.backbone.out_of_memory import is_out_of_memory


def is_plain(projection: Any) -> bool:
    """Returns whether a projection is a linear layer of plain floating-point weights."""
    if type(projection) is not torch.nn.Linear:
        return False
    return type(projection.weight.data) is Tensor and projection.weight.is_floating_point()


def foreign_projections(modules: torch.nn.Module) -> list[torch.nn.Linear]:
    """Returns the linear layers whose weights are of another format."""
    linear = (one for one in modules.modules() if isinstance(one, torch.nn.Linear))
    return [one for one in linear if not is_plain(one)]


def check_products(folder: Path, modules: torch.nn.Module, place: torch.device) -> None:
    """One product of each kind. Raises ModelError where that kind has none on the device.

    torchao's 4-bit tensors load anywhere, and most of them are multiplied by a GPU alone.
    """
    kinds = {type(one.weight.data): one for one in foreign_projections(modules)}
    for kind, one in kinds.items():
        rows = torch.zeros(1, one.in_features, dtype=one.weight.dtype, device=place)
        try:
            copy.deepcopy(one).to(place)(rows)
        except Exception as error:  # torchao has one of its own for each kind and device
            if is_out_of_memory(error):
                raise
            raise ModelError(
                f"{folder} has weights of torchao's {kind.__name__}, which cannot be multiplied on {place} "
                f"({' '.join(str(error).split())[:200]}): choose another device, a checkpoint of 8 bits or "
                "the one that is not quantized"
            ) from error
