# SPDX-License-Identifier: Apache-2.0
"""Packs distributions into bytes, for the opaque fields of frames that the acceptance schemes fill.

Probabilities travel as counts in units of their grid, so they arrive unchanged. A distribution is packed as
the number of tokens with mass, their ids as gaps, and their counts, all varints. If most tokens have mass,
it is a 0 and the counts of all tokens: one or two bytes for a token of the far tail. Several distributions
are packed as one over their concatenated vocabularies. Received bytes are not trusted: all of them are
unpacked and checked, and any that do not encode distributions over the vocabulary raise ProtocolError.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch

from outrider.core.errors import ProtocolError
from outrider.core.ports import Array
from outrider.core.varints import CUT_OFF, MAX_BYTES, NOT_SHORTEST, read_varints
from outrider.decoding.acceptance.quantized import DRAFT_BITS, PEER_BITS, TARGET_BITS, counts_of
from outrider.decoding.acceptance.sparse import SparseResidue, TailDraws

_NOTHING = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
_TARGET_UNIT = 2.0**-TARGET_BITS
_TARGET_TOTAL = 1 << TARGET_BITS


_FEW_BYTES = 128
"""Up to this many bytes, a plain loop is faster than arrays."""
_SHIFTS = 7 * np.arange(MAX_BYTES)


def encode_varints(values: np.ndarray) -> bytes:
    """Encode int64 (n,), each 0 <= value < 2^35, as varints of the shortest form."""
    rest = values[:, None] >> _SHIFTS
    digits = (rest & 0x7F | (rest > 0x7F) << 7).astype(np.uint8)
    rest[:, 0] |= 1  # a zero has a digit too
    return digits[rest > 0].tobytes()


def decode_varints(payload: bytes) -> np.ndarray:
    """Decode int64 (n,). Raises ProtocolError for a varint cut off, padded, or over five bytes long."""
    if len(payload) <= _FEW_BYTES:
        return np.array(read_varints(payload), dtype=np.int64)
    digits = np.frombuffer(payload, dtype=np.uint8)
    if digits[-1] >= 0x80:
        raise ProtocolError(CUT_OFF)
    ends = (digits < 0x80).nonzero()[0] + 1
    starts = np.concatenate(([0], ends[:-1]))
    sizes = ends - starts
    if np.max(sizes) > MAX_BYTES or ((digits[ends - 1] == 0) & (sizes > 1)).any():
        raise ProtocolError(NOT_SHORTEST)
    offsets = np.arange(len(digits)) - starts.repeat(sizes)
    return np.bitwise_or.reduceat((digits & 0x7F).astype(np.int64) << 7 * offsets, starts)


class SparseRow(NamedTuple):
    """A received distribution: the ascending ids (K,) of the tokens with mass, and their probabilities.

    Sparse, so that few bytes on the wire take few bytes in memory; a dense row of a large vocabulary takes
    a megabyte.
    """

    ids: np.ndarray
    probs: np.ndarray
    vocab_size: int

    def dense(self) -> Array:
        """Return the whole distribution, float64 (vocab_size,)."""
        row = np.zeros(self.vocab_size)
        row[self.ids] = self.probs
        return torch.from_numpy(row)

    def has(self, token: int) -> bool:
        """Return whether a token has any mass."""
        at = int(np.searchsorted(self.ids, token))
        return at < len(self.ids) and int(self.ids[at]) == token


def pack_token_probs(draft_token_probs: Sequence[float]) -> bytes:
    """Pack Q(x) of each draft token into 2 bytes: its count minus one,
    because a drawn token has at least one.
    """
    counts = [prob * 2.0**DRAFT_BITS for prob in draft_token_probs]
    if not all(1 <= count <= 1 << DRAFT_BITS and count.is_integer() for count in counts):
        raise ValueError("not probabilities of tokens drawn from a draft_distribution")
    return struct.pack(f"<{len(counts)}H", *(int(count) - 1 for count in counts))


def unpack_token_probs(payload: bytes, num_tokens: int) -> tuple[float, ...]:
    """Return Q(x) of each of num_tokens draft tokens, in (0, 1]. Raises ProtocolError for a wrong length."""
    if len(payload) != 2 * num_tokens:
        raise ProtocolError(f"{len(payload)} bytes of draft probabilities for {num_tokens} tokens")
    counts = struct.unpack(f"<{num_tokens}H", payload)
    return tuple((count + 1) * 2.0**-DRAFT_BITS for count in counts)


def pack_draft_rows(draft_probs: Array) -> bytes:
    """Pack the draft's gridded distributions (n, V), for `rejection`."""
    return _pack_rows(draft_probs, DRAFT_BITS)


def unpack_draft_rows(payload: bytes, num_tokens: int, vocab_size: int) -> tuple[SparseRow, ...]:
    """Return each token's distribution. Raises ProtocolError for anything but gridded distributions."""
    return _unpack_rows(payload, num_tokens, vocab_size, DRAFT_BITS)


def pack_target_row(target_row: Array) -> bytes:
    """Pack the target's gridded distribution (V,), for `split`."""
    return _pack_rows(target_row[None], TARGET_BITS)


def unpack_target_row(payload: bytes, vocab_size: int) -> Array:
    """Return float64 (vocab_size,). Raises ProtocolError for anything but a gridded distribution."""
    return _unpack_rows(payload, 1, vocab_size, TARGET_BITS)[0].dense()


def pack_peer_rows(rows: Sequence[Array]) -> bytes:
    """Pack distributions (V,) on the grid of PEER_BITS, for `aggregation`."""
    return _pack_rows(torch.stack(list(rows)), PEER_BITS) if rows else b""


def unpack_peer_rows(payload: bytes, num_rows: int, vocab_size: int) -> tuple[SparseRow, ...]:
    """Return each distribution. Raises ProtocolError for anything but gridded distributions."""
    return _unpack_rows(payload, num_rows, vocab_size, PEER_BITS)


def pack_residue(residue: SparseResidue) -> bytes:
    """Pack the head of P, then the tail draws, for `sparse`."""
    head = _entry_numbers(np.array(residue.head_ids), _target_counts(residue.head_probs))
    return encode_varints(np.concatenate((head, _draw_numbers(residue.draws))))


def unpack_residue(payload: bytes, vocab_size: int) -> SparseResidue:
    """Unpack a residue. Raises ProtocolError if its head exceeds mass 1 or its draws do not fit the tail."""
    reader = _Reader(payload)
    ids, counts = reader.entries(vocab_size)
    tail = _TARGET_TOTAL - int(counts.sum())
    if tail < 0:
        raise ProtocolError("the head of a residue has a mass above 1")
    residue = SparseResidue(
        tuple(ids.tolist()), tuple((counts * _TARGET_UNIT).tolist()), reader.draws(vocab_size, ids, tail)
    )
    reader.finish()
    return residue


class _Reader:
    """Takes numbers off a payload and raises ProtocolError for impossible ones."""

    def __init__(self, payload: bytes) -> None:
        self._numbers = decode_varints(payload)

    def take(self, count: int) -> np.ndarray:
        if count > len(self._numbers):
            raise ProtocolError("a packed distribution is cut off")
        taken, self._numbers = self._numbers[:count], self._numbers[count:]
        return taken

    def finish(self) -> None:
        if len(self._numbers):
            raise ProtocolError("a packed distribution is followed by more bytes")

    def entries(self, vocab_size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return ascending ids below `vocab_size` and their counts, each at least 1."""
        size = int(self.take(1)[0])
        if size == 0:
            counts = self.take(vocab_size)
            return np.flatnonzero(counts), counts[counts > 0]
        if size > vocab_size:
            raise ProtocolError(f"{size} tokens with mass in a vocabulary of {vocab_size}")
        ids = np.cumsum(self.take(size) + 1) - 1
        if ids[-1] >= vocab_size:
            raise ProtocolError(f"token {ids[-1]} is not in the vocabulary of {vocab_size}")
        return ids, _positive(self.take(size))

    def draws(self, vocab_size: int, head_ids: np.ndarray, tail_count: int) -> TailDraws:
        first, size = self.take(2).tolist()
        ids, counts = self.take(size), _positive(self.take(size))
        if size and int(ids.max()) >= vocab_size:
            raise ProtocolError(f"token {int(ids.max())} is not in the vocabulary of {vocab_size}")
        if bool(np.isin(ids, head_ids).any()):
            raise ProtocolError("a tail draw is in the head")
        entries = np.unique(np.stack((ids, counts)), axis=1)
        if len(np.unique(ids)) < entries.shape[1] or int(entries[1].sum()) > tail_count:
            raise ProtocolError("tail draws do not fit the tail's mass")
        return TailDraws(first, tuple(ids.tolist()), tuple((counts * _TARGET_UNIT).tolist()))


def _positive(counts: np.ndarray) -> np.ndarray:
    if not counts.all():
        raise ProtocolError("a packed token has probability 0")
    return counts


def _pack_rows(rows: Array, bits: int) -> bytes:
    """Pack distributions (n, V) on a grid."""
    counts = counts_of(rows, bits).ravel()
    (ids,) = counts.nonzero()
    if 2 * len(ids) > len(counts):
        return encode_varints(np.concatenate(([0], counts)))
    return encode_varints(_entry_numbers(ids, counts[ids]))


def _unpack_rows(payload: bytes, num_rows: int, vocab_size: int, bits: int) -> tuple[SparseRow, ...]:
    """Return the distributions. Raises ProtocolError for anything but distributions on that grid."""
    reader = _Reader(payload)
    ids, counts = reader.entries(num_rows * vocab_size) if num_rows else _NOTHING
    reader.finish()
    probs = counts * 2.0**-bits
    bounds = np.searchsorted(ids, np.arange(num_rows + 1) * vocab_size).tolist()
    rows = []
    for number, (start, end) in enumerate(pairwise(bounds)):
        total = float(probs[start:end].sum())
        if total != 1.0:
            raise ProtocolError(f"a packed distribution sums to {total:g}, not to 1")
        # Copied, so that keeping one row does not keep the others in memory.
        rows.append(SparseRow(ids[start:end] - number * vocab_size, probs[start:end].copy(), vocab_size))
    return tuple(rows)


def _entry_numbers(ids: np.ndarray, counts: np.ndarray) -> np.ndarray:
    numbers = np.empty(1 + 2 * len(ids), dtype=np.int64)
    gaps = numbers[1 : 1 + len(ids)]
    numbers[0], gaps[:], numbers[1 + len(ids) :] = len(ids), ids, counts
    gaps[1:] -= ids[:-1] + 1
    return numbers


def _draw_numbers(draws: TailDraws) -> np.ndarray:
    counts = _target_counts(draws.probs)
    return np.concatenate(([draws.first, len(draws.ids)], draws.ids, counts)).astype(np.int64)


def _target_counts(probs: Sequence[float]) -> np.ndarray:
    return (np.array(probs, dtype=np.float64) * _TARGET_TOTAL).astype(np.int64)
