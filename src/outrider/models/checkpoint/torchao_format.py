# SPDX-License-Identifier: Apache-2.0
"""Projections quantized by torchao: finds them, and checks that a device can multiply them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from outrider.core.errors import ModelError
from outrider.models.backbone.out_of_memory import is_out_of_memory


def is_plain(projection: Any) -> bool:
    """Return whether a projection is a linear layer of plain floating-point weights."""
    if type(projection) is not torch.nn.Linear:
        return False
    return type(projection.weight.data) is Tensor and projection.weight.is_floating_point()


def foreign_projections(modules: torch.nn.Module) -> list[torch.nn.Linear]:
    """Return the linear layers whose weights have another format."""
    linear = (module for module in modules.modules() if isinstance(module, torch.nn.Linear))
    return [module for module in linear if not is_plain(module)]


def check_products(folder: Path, modules: torch.nn.Module, device: torch.device) -> None:
    """Try one product of each kind. Raises ModelError if the device does not support it.

    torchao's 4-bit tensors load anywhere, but most of them can be multiplied only on a GPU.
    """
    kinds = {type(module.weight.data): module for module in foreign_projections(modules)}
    for kind, module in kinds.items():
        rows = torch.zeros(1, module.in_features, dtype=module.weight.dtype, device=device)
        try:
            copy.deepcopy(module).to(device)(rows)
        except Exception as error:  # torchao raises another one for each kind and device
            if is_out_of_memory(error):
                raise
            raise ModelError(
                f"{folder} has weights of torchao's {kind.__name__}, which cannot be multiplied on {device} "
                f"({' '.join(str(error).split())[:200]}): choose another device, a checkpoint of 8 bits or "
                "the one that is not quantized"
            ) from error
