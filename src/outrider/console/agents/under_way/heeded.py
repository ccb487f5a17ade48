# SPDX-License-Identifier: Apache-2.0
"""A session's stream of messages, of which some are heeded before the SDK sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Heeded:
    """The stream without those messages for which `heeds` is true; it is called with each."""

    def __init__(self, stream: Any, heeds: Callable[[Any], bool]) -> None:
        self._stream, self._heeds = stream, heeds

    async def __aenter__(self) -> Heeded:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stream.__aexit__(*error)

    def __aiter__(self) -> Heeded:
        return self

    async def __anext__(self) -> Any:
        while self._heeds(message := await self._stream.__anext__()):
            pass
        return message
