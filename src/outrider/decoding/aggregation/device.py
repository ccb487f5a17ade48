# SPDX-License-Identifier: Apache-2.0
"""The device's side of a text: it asks the cloud to join, and meanwhile drafts from its own documents.

It also holds the account that its driver keeps of a text.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from outrider.core.errors import LinkError, OutriderError
from outrider.core.frames import (
    Behind,
    Cancel,
    CloudFrame,
    Drafted,
    EdgeFrame,
    Join,
    Joined,
    PrefillAgain,
    Refused,
    Settled,
)
from outrider.core.pairs import checksum_text
from outrider.core.ports import Array, Tokenizer
from outrider.core.values import Decoded, LinkState, Prompt, SpeculationStats, Verified
from outrider.decoding.aggregation.config import AggregationConfig
from outrider.decoding.aggregation.peer import PeerText
from outrider.decoding.aggregation.scheduling import Profile
from outrider.decoding.protocol.prefix_digest import prompt_digest
from outrider.decoding.protocol.refusals import error_of


class DeviceMachine:
    """Handles one text at a time without I/O: `begin`, then the model's distributions and the cloud's
    frames.

    Methods return the frames to send. `failure` is set when the cloud cannot continue the text.
    """

    def __init__(self, session: int, config: AggregationConfig, tokenizer: Tokenizer) -> None:
        self._session = session
        self._config = config
        self._tokenizer = tokenizer
        self._epoch = 0
        self._profile = Profile()
        self.cloud_prefill_s = 0.0
        self.failure: OutriderError | None = None

    def begin(self, question: Prompt, max_new_tokens: int, weight: int, now_s: float) -> list[EdgeFrame]:
        """Start a text and return the frames to send. `weight`: see `worker.log_weight`.

        The device's documents are not sent.
        """
        self._epoch += 1
        self.failure = None
        self.rules = self._config.rules_for(question)
        digest = prompt_digest(question)
        self.text = PeerText(
            "device",
            self.rules,
            self._session,
            self._epoch,
            digest,
            max_new_tokens,
            self._tokenizer.end_ids,
            self._tokenizer.vocab_size,
            profile=self._profile,
        )
        self._join_sent_s = now_s
        self._join = Join(
            self._session,
            self._epoch,
            digest,
            question.text,
            question.jpeg,
            max_new_tokens,
            self._tokenizer.fingerprint,
            self.rules,
            weight,
            tuple(sorted(self._tokenizer.end_ids)),
            self._config.wanted_model,
        )
        return [] if self.rules.sync == "alone" else [self._join]

    def on_drafted(
        self, prefix: tuple[int, ...], probs: Array, decode_s: float, now_s: float
    ) -> list[EdgeFrame]:
        """Take the device's distribution after `prefix`; return the frames to send."""
        return list(self.text.on_drafted(prefix, probs, decode_s, now_s))

    def receive(self, frame: CloudFrame, now_s: float) -> list[EdgeFrame]:
        """Take a frame and return the frames to send. Frames of other epochs are ignored.

        Raises ProtocolError for an impossible frame.
        """
        if (frame.session, frame.epoch) != (self._session, self._epoch):
            return []
        if isinstance(frame, Joined):
            self.cloud_prefill_s = frame.prefill_us / 1e6
            self._join = structs.replace(self._join, model=checksum_text(frame.model))
            if self.text.share not in (None, frame.share):
                self.failure = LinkError("the cloud has other documents than this text began with: ask again")
                return []
            if self.text.share is not None:
                return list(self.text.repeat_all())
            self.text.profile.round_trip_s = max(0.0, now_s - self._join_sent_s - self.cloud_prefill_s)
            return list(self.text.on_share(frame.share, now_s))
        if isinstance(frame, (Drafted, Settled, Behind)):
            return list(self.text.on_frame(frame, now_s))
        if isinstance(frame, PrefillAgain):
            return [self._join]
        if isinstance(frame, Refused):
            self.failure = error_of(frame)
        return []

    def retry(self, now_s: float) -> list[EdgeFrame]:
        """Return the frames to repeat after a long silence."""
        if self.text.share is None:
            self._join_sent_s = now_s
            return [self._join]
        return list(self.text.retry())

    def cancel(self) -> list[EdgeFrame]:
        """Return the frames that end a text, finished or not."""
        return [] if self.rules.sync == "alone" else [Cancel(self._session, self._epoch)]


class Account:
    """A driver's account of one text: bytes, the tokens reported so far, and the result.

    Times are seconds since the request. The frames `Join` and `Joined` count as the prompt's bytes.
    """

    def __init__(
        self, machine: DeviceMachine, tokenizer: Tokenizer, on_verified: Callable[[Verified], None]
    ) -> None:
        self._machine = machine
        self._tokenizer = tokenizer
        self._on_verified = on_verified
        self._num_reported = 0
        self._bytes_up = self._bytes_down = self._prompt_bytes = 0

    def on_sent(self, frame: EdgeFrame, num_bytes: int) -> None:
        """Add the bytes of a frame sent to the cloud."""
        if isinstance(frame, Join):
            self._prompt_bytes += num_bytes
        else:
            self._bytes_up += num_bytes

    def on_received(self, frame: CloudFrame, num_bytes: int) -> None:
        """Add the bytes of a frame received from the cloud."""
        if isinstance(frame, Joined):
            self._prompt_bytes += num_bytes
        else:
            self._bytes_down += num_bytes

    def report(self, elapsed_s: float) -> None:
        """Report the tokens that have become final since the last call."""
        tokens = self._machine.text.tokens
        if len(tokens) > self._num_reported:
            new, self._num_reported = tokens[self._num_reported :], len(tokens)
            self._on_verified(Verified(new, self._words(tokens), elapsed_s))

    def decoded(self, elapsed_s: float, link: LinkState, target_passes: int) -> Decoded:
        """Return the finished text."""
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
