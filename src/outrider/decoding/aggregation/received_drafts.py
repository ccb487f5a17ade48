# SPDX-License-Identifier: Apache-2.0
"""The other side's drafts of one text, by position and by the digest of the prefix that each follows."""

from __future__ import annotations

from outrider.core.errors import ProtocolError
from outrider.core.frames import Drafted
from outrider.decoding.acceptance.packing import SparseRow, unpack_peer_rows
from outrider.decoding.aggregation.rule import PeerDraft
from outrider.decoding.protocol.prefix_digest import extend_digest

_RIVALS_PER_POSITION = 4
_Received = tuple[int, SparseRow | None]


class ReceivedDrafts:
    """The newest few drafts at each position. `has_rows`: each comes with its distribution."""

    def __init__(self, vocab_size: int, has_rows: bool) -> None:
        self._vocab_size = vocab_size
        self._has_rows = has_rows
        self._drafts: dict[int, dict[int, _Received]] = {}

    def add(self, frame: Drafted, length: int) -> None:
        """Keep those drafts of a frame whose positions are `length` or later.

        Raises ProtocolError for a token to which its own distribution gives probability 0.
        """
        rows: tuple[SparseRow | None, ...] = (None,) * len(frame.tokens)
        if self._has_rows:
            rows = unpack_peer_rows(frame.evidence, len(frame.tokens), self._vocab_size)
        digest = frame.digest
        for position, (token, row) in enumerate(zip(frame.tokens, rows, strict=True), frame.base):
            if row is not None and not row.has(token):
                raise ProtocolError(f"a draft at position {position} has probability 0")
            if position >= length:
                self._keep(position, digest, (token, row))
            digest = extend_digest(digest, (token,))

    def _keep(self, position: int, digest: int, draft: _Received) -> None:
        rivals = self._drafts.setdefault(position, {})
        rivals.pop(digest, None)
        rivals[digest] = draft
        if len(rivals) > _RIVALS_PER_POSITION:
            del rivals[next(iter(rivals))]

    def at(self, position: int, digest: int) -> PeerDraft | None:
        """Return the draft at a position that follows the prefix with this digest, or None."""
        return _as_draft(self._drafts.get(position, {}).get(digest))

    def take(self, position: int, digest: int) -> PeerDraft | None:
        """Return the same, and drop all drafts at the position, which is final now."""
        return _as_draft(self._drafts.pop(position, {}).get(digest))


def _as_draft(received: _Received | None) -> PeerDraft | None:
    if received is None:
        return None
    token, row = received
    return PeerDraft(token, None if row is None else row.dense())
