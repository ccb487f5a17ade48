# SPDX-License-Identifier: Apache-2.0
"""Multimodal rotary positions (M-RoPE) of Qwen2-VL and later: time, row and column for each token.

Text tokens count up on all axes at once. An image's tokens share the time of its start and spread over rows
and columns. The text after it continues from the image's longer side, so later positions are lower
than the number of tokens before them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor


def text_positions(start: int, count: int) -> Tensor:
    """Return positions (3, count) of text tokens from `start` on."""
    return torch.arange(start, start + count).expand(3, count)


def image_positions(start: int, rows: int, columns: int) -> Tensor:
    """Return positions (3, rows * columns) of an image's merged tokens, row by row."""
    row_index = torch.arange(rows).repeat_interleave(columns)
    column_index = torch.arange(columns).repeat(rows)
    return torch.stack([torch.zeros_like(row_index), row_index, column_index]) + start


def prompt_positions(num_before: int, rows: int, columns: int, num_after: int) -> Tensor:
    """Return positions (3, L) of text, an image of rows x columns merged tokens (or 0 x 0), and text."""
    after = num_before + max(rows, columns)
    parts = [
        text_positions(0, num_before),
        image_positions(num_before, rows, columns),
        text_positions(after, num_after),
    ]
    return torch.cat(parts, dim=1)


def axes_in_sections(mrope_section: Sequence[int]) -> Tensor:
    """Return the axis that rotates each of a head's pairs if the axes' pairs follow each other (Qwen2-VL)."""
    return torch.arange(3).repeat_interleave(torch.tensor(mrope_section))


def axes_in_turn(mrope_section: Sequence[int]) -> Tensor:
    """Return the axis that rotates each of a head's pairs if the axes alternate (Qwen3-VL).

    Once rows and columns have as many pairs as their sections, the rest belongs to time.
    """
    axes = torch.zeros(sum(mrope_section), dtype=torch.long)
    for axis in (1, 2):
        axes[axis : 3 * mrope_section[axis] : 3] = axis
    return axes


class RotaryTable:
    """Cosines and sines for positions (3, M); `axis_of_pair` (head_dim / 2,) gives the axis of each pair."""

    def __init__(self, head_dim: int, theta: float, axis_of_pair: Tensor) -> None:
        exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
        self._frequencies = 1.0 / theta**exponents
        self._axis_of_frequency = axis_of_pair

    def to(self, device: torch.device) -> RotaryTable:
        """Return a copy on the device."""
        moved = copy.copy(self)
        moved._frequencies = self._frequencies.to(device)
        moved._axis_of_frequency = self._axis_of_frequency.to(device)
        return moved

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return (cos, sin), each (M, 1, head_dim); the sine's first half is negated, for swapped halves."""
        angles = positions.to(self._frequencies.device)[self._axis_of_frequency].T.float() * self._frequencies
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([cos, cos], dim=1).unsqueeze(1), torch.cat([-sin, sin], dim=1).unsqueeze(1)
