# SPDX-License-Identifier: Apache-2.0
"""What the robot forgets, its decoder forgets too, whoever told the store to forget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from outrider.core.ports import TextDecoder
from outrider.core.values import Decoded, DecodeRequest, Verified
from outrider.memory.store.store import MemoryStore


class ForgettingDecoder(TextDecoder, Protocol):
    """A TextDecoder that keeps texts to draft from, and can drop them."""

    def forget(self) -> None:
        """Drops the texts that are kept to draft from."""


class MindfulDecoder:
    """Implements TextDecoder by another, which forgets its texts before the next one once records have gone.

    Prompts hold what memory recalled, and answers say it again: drafts of both must not outlive it.
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
        """As the other's; MemoryStoreError where the store cannot be read."""
        self.heed()
        return self._decoder.decode(request, on_verified, cancelled)

    def heed(self) -> None:
        """Forget, if records have gone since the last time. Not while a text is being decoded."""
        num_forgotten = self._memory.num_forgotten()
        if num_forgotten != self._num_forgotten:
            self._decoder.forget()
            self._num_forgotten = num_forgotten

    def close(self) -> None:
        """Closes the other decoder."""
        self._decoder.close()
