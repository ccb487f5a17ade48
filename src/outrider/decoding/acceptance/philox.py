# SPDX-License-Identifier: Apache-2.0
"""Philox-4x64 on any device, in torch's wrapping 64-bit integers: the same bits as numpy's in
`counter_rng`.

It computes many rows at once on the device, so no noise is copied from the host. A single block is computed
with Python integers, which is faster than creating a numpy generator.
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
_WORD = (1 << 64) - 1
BLOCKS_AT_ONCE = 1 << 20


def block_words(seed: int, purpose: int, position: int, block: int) -> tuple[int, int, int, int]:
    """Return the four 64-bit words of one block, computed on the host."""
    words, first_key, second_key = (block + 1, 0, position, 0), seed, purpose
    for _ in range(_ROUNDS):
        product, other = words[0] * _FACTORS[0], words[2] * _FACTORS[1]
        first, third = other >> 64 ^ words[1] ^ first_key, product >> 64 ^ words[3] ^ second_key
        words = first, other & _WORD, third, product & _WORD
        first_key, second_key = first_key + _WEYL[0] & _WORD, second_key + _WEYL[1] & _WORD
    return words


def generator_keys(seeds: Sequence[int], positions: Sequence[int], device: torch.device) -> Array:
    """Return int64 (2, R) on a device. The copy uses pinned memory, so it does not wait for a GPU."""
    words = [[signed(seed) for seed in seeds], list(positions)]
    keys = torch.tensor(words, pin_memory=device.type == "cuda")
    return keys.to(device, non_blocking=True)


def uniform_rows(keys: Array, purpose: int, count: int, blocks_at_once: int = BLOCKS_AT_ONCE) -> Array:
    """Return float64 (R, count) on the device of the `generator_keys` (2, R).

    Row r is `counter_rng.uniforms(seeds[r], purpose, positions[r], count)`. The extra memory is a few words
    for each of `blocks_at_once` blocks, however many blocks there are.
    """
    num_rows, num_blocks = keys.shape[1], -(-count // _WORDS)
    rows_at_once = max(1, blocks_at_once // num_blocks)
    if rows_at_once >= num_rows:
        return _uniform(keys, purpose, num_blocks)[:, :count]
    values = torch.empty(num_rows, count, dtype=torch.float64, device=keys.device)
    for first in range(0, num_rows, rows_at_once):
        rows = slice(first, first + rows_at_once)
        values[rows] = _uniform(keys[:, rows], purpose, num_blocks)[:, :count]
    return values


def _uniform(keys: Array, purpose: int, num_blocks: int) -> Array:
    """Return float64 (R, 4 * num_blocks), uniform in (0, 1)."""
    words = _words(keys, purpose, num_blocks)
    words >>= 12
    words &= (1 << 52) - 1
    return words.double().add_(0.5).mul_(2.0**-52)


def _words(keys: Array, purpose: int, num_blocks: int) -> Array:
    """Return int64 (R, 4 * num_blocks): the generator's 64-bit words for each row's key and counters."""
    first_key, position = keys[:, :, None].unbind()
    none = torch.zeros_like(position)
    # The counter is incremented before each block, as in numpy.
    state = [torch.arange(1, num_blocks + 1, device=keys.device)[None], none, position, none]
    second_key = purpose
    for _ in range(_ROUNDS):
        (high, low), (other_high, other_low) = (
            _product(word, factor) for word, factor in zip(state[::2], _FACTORS, strict=True)
        )
        first = other_high ^ state[1] ^ first_key
        state = [first, other_low, high ^ state[3] ^ signed(second_key), low]
        first_key = first_key + signed(_WEYL[0])
        second_key = (second_key + _WEYL[1]) % (1 << 64)
    words = torch.broadcast_tensors(*state)  # type: ignore[no-untyped-call]
    return torch.stack(words, dim=-1).flatten(1)


def _product(words: Array, factor: int) -> tuple[Array, Array]:
    """Return the upper and lower 64 bits of unsigned products, computed from 32-bit halves."""
    low, high = words & _HALF, (words >> 32) & _HALF
    factor_low, factor_high = factor & _HALF, factor >> 32
    middle = high * factor_low + (((low * factor_low) >> 32) & _HALF)
    rest = low * factor_high + (middle & _HALF)
    upper = high * factor_high + ((middle >> 32) & _HALF) + ((rest >> 32) & _HALF)
    return upper, words * signed(factor)


def signed(value: int) -> int:
    """Return the signed number with the bits of an unsigned 64-bit one, such as torch's int64."""
    return value - (1 << 64) if value >= 1 << 63 else value
