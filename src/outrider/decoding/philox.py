"""Philox-4x64 on any device, of torch's wrapping 64-bit integers: bit for bit what `randomness` has of numpy.

Many rows at once, so that a device makes its noise itself and none of it crosses from the host.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from outrider.core.ports import Array

_FACTORS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
_WEYL = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
_ROUNDS = 10
_WORDS = 4
_HALF = (1 << 32) - 1


def uniform_rows(
    seeds: Sequence[int], purpose: int, positions: Sequence[int], count: int, device: torch.device
) -> Array:
    """float64 (R, count): row r is `randomness.uniforms(seeds[r], purpose, positions[r], count)`."""
    words = _words(seeds, purpose, positions, -(-count // _WORDS), device)[:, :count]
    return (((words >> 12) & ((1 << 52) - 1)).double() + 0.5) * 2.0**-52


def _words(
    seeds: Sequence[int], purpose: int, positions: Sequence[int], num_blocks: int, device: torch.device
) -> Array:
    """int64 (R, 4 * num_blocks): the generator's 64-bit words of each row's key and counters."""
    first_key, place = torch.tensor([list(seeds), list(positions)], device=device)[:, :, None].unbind()
    none = torch.zeros_like(place)
    # The counter is increased before each block, as numpy does it.
    state = [torch.arange(1, num_blocks + 1, device=device)[None], none, place, none]
    second_key = purpose
    for _ in range(_ROUNDS):
        (high, low), (other_high, other_low) = (
            _product(word, factor) for word, factor in zip(state[::2], _FACTORS, strict=True)
        )
        first = other_high ^ state[1] ^ first_key
        state = [first, other_low, high ^ state[3] ^ _signed(second_key), low]
        first_key = first_key + _signed(_WEYL[0])
        second_key = (second_key + _WEYL[1]) % (1 << 64)
    return torch.stack(torch.broadcast_tensors(*state), dim=-1).flatten(1)


def _product(words: Array, factor: int) -> tuple[Array, Array]:
    """The upper and the lower 64 bits of unsigned products, by halves of 32 bits."""
    low, high = words & _HALF, (words >> 32) & _HALF
    factor_low, factor_high = factor & _HALF, factor >> 32
    middle = high * factor_low + (((low * factor_low) >> 32) & _HALF)
    rest = low * factor_high + (middle & _HALF)
    upper = high * factor_high + ((middle >> 32) & _HALF) + ((rest >> 32) & _HALF)
    return upper, words * _signed(factor)


def _signed(value: int) -> int:
    """An unsigned 64-bit number as torch's int64 of the same bits."""
    return value - (1 << 64) if value >= 1 << 63 else value
