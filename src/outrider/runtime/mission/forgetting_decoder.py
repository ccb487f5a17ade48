# SPDX-License-Identifier: Apache-2.0
"""Makes a decoder drop its texts when records are deleted from memory, whichever process deleted them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from outrider.core.ports import TextDecoder
from outrider.core.values import Decoded, DecodeRequest, Verified
from outrider.memory.store.store import MemoryStore


class ForgettingDecoder(TextDecoder, Protocol):
    """A TextDecoder that keeps texts to draft from and can drop them."""

    def forget(self) -> None:
        """Drop the texts that are kept to draft from."""


class MindfulDecoder:
    """Implements TextDecoder by another decoder, whose texts it drops once records have been deleted.

    Prompts contain what memory recalled, and answers repeat it. Drafts from either must not outlive the
    records.
    """

    def __init__(self, decoder: ForgettingDecoder, memory: MemoryStore) -> None:
        self._decoder, self._memory = decoder, memory
        self._num_forgotten = memory.num_forgotten()

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Decoded:
        """Decode as the other decoder does. Raises MemoryStoreError if the store cannot be read."""
        self.forget_deleted()
        return self._decoder.decode(request, on_verified, cancelled)

    def forget_deleted(self) -> None:
        """Drop the texts if records were deleted since the last call.

        Do not call it while a text is being decoded.
        """
        num_forgotten = self._memory.num_forgotten()
        if num_forgotten != self._num_forgotten:
            self._decoder.forget()
            self._num_forgotten = num_forgotten

    def close(self) -> None:
        """Close the other decoder."""
        self._decoder.close()
