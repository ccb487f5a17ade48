# SPDX-License-Identifier: Apache-2.0
"""What a device's driver keeps of one text: bytes, what its owner was told, and the result."""

from __future__ import annotations

from collections.abc import Callable

from outrider.core.frames import CloudFrame, EdgeFrame, Join, Joined
from outrider.core.ports import Tokenizer
from outrider.core.values import Decoded, LinkState, SpeculationStats, Verified
from outrider.decoding.aggregation.device import DeviceMachine


class Account:
    """Times are seconds since the request. What joins the peers counts as the prompt's bytes."""

    def __init__(
        self, machine: DeviceMachine, tokenizer: Tokenizer, on_verified: Callable[[Verified], None]
    ) -> None:
        self._machine = machine
        self._tokenizer = tokenizer
        self._on_verified = on_verified
        self._told = 0
        self._bytes_up = self._bytes_down = self._prompt_bytes = 0

    def on_sent(self, frame: EdgeFrame, num_bytes: int) -> None:
        """Adds the bytes of a frame sent to the cloud."""
        if isinstance(frame, Join):
            self._prompt_bytes += num_bytes
        else:
            self._bytes_up += num_bytes

    def on_received(self, frame: CloudFrame, num_bytes: int) -> None:
        """Adds the bytes of a frame received from the cloud."""
        if isinstance(frame, Joined):
            self._prompt_bytes += num_bytes
        else:
            self._bytes_down += num_bytes

    def tell_owner(self, elapsed_s: float) -> None:
        """Hand out what has become final since."""
        tokens = self._machine.text.tokens
        if len(tokens) > self._told:
            new, self._told = tokens[self._told :], len(tokens)
            self._on_verified(Verified(new, self._words(tokens), elapsed_s))

    def decoded(self, elapsed_s: float, link: LinkState, target_passes: int) -> Decoded:
        """The finished text."""
        text = self._machine.text
        return Decoded(
            text=self._words(text.tokens),
            token_ids=text.tokens,
            finished=True,
            elapsed_s=elapsed_s,
            prefill_s=self._machine.cloud_prefill_s,
            target_passes=target_passes,
            link=link,
            speculation=SpeculationStats(
                drafted_tokens=text.num_drafted,
                bytes_up=self._bytes_up,
                bytes_down=self._bytes_down,
                prompt_bytes=self._prompt_bytes,
            ),
        )

    def _words(self, tokens: tuple[int, ...]) -> str:
        return self._tokenizer.decode([token for token in tokens if token not in self._tokenizer.end_ids])
