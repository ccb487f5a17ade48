# SPDX-License-Identifier: Apache-2.0
"""The Protocols that connect sibling packages. Implementations and fakes are elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from outrider.core.frames import CloudFrame, EdgeFrame, Peer
from outrider.core.values import (
    Decoded,
    DecodeRequest,
    LinkState,
    Odometry,
    Prompt,
    RangeScan,
    Recalled,
    Successors,
    Velocity,
    Verified,
)

Array = Any
"""A torch tensor. `core` does not import torch, so the port only names it."""

OnExit = Callable[[int, Array], None]
"""Called with an exit's index (0..) and its logits (M, S) over the shortlist of `ExitInfo.token_ids`."""


@dataclass(frozen=True, eq=False)
class Reading:
    """A request to copy `chosen`, computed from logits, to the host and call `observe` with the copy."""

    chosen: Array
    observe: Callable[[Array], None]


ExitReader = Callable[[int, Sequence[tuple[int, Array]]], Reading | None]
"""Called with an exit's index and, for each chunk of a batch that is complete there, its number and its
logits (M, S) on the model's device. It must not wait for the device. None: there is nothing to copy.
"""

Pause = Callable[[], None]
"""Called during a forward pass, between layers, parts or blocks. An exception from it aborts the pass."""


@dataclass(frozen=True, eq=False)
class ExitInfo:
    """A model's early exits: the decoder layer (1..num_layers - 1, ascending) after which each is placed.

    `token_ids` (S,) int64, ascending: the shortlist of the vocabulary from which the exits choose.
    """

    layers: tuple[int, ...]
    num_layers: int
    token_ids: Array


class Tokenizer(Protocol):
    """Text to ids and back. `decode` of a growing list of ids only ever appends whole characters."""

    vocab_size: int
    end_ids: frozenset[int]
    """The end tokens: the first of them completes a text."""

    @property
    def fingerprint(self) -> str:
        """A string that is equal for tokenizers with the same token ids."""

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text; no special tokens are added."""

    def encode_prompt(self, text: str) -> list[int]:
        """Return the token ids of a prompt, in which only the prompt's own markup counts as markup."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of token ids."""


def finish(parts: Generator[None, None, Array]) -> Array:
    """Run a generator of parts to its end; return its result."""
    while True:
        try:
            next(parts)
        except StopIteration as end:
            return end.value


def reader_of(on_exit: OnExit | None) -> ExitReader | None:
    """Return a reader for a batch of one chunk that copies all its logits to the host."""
    if on_exit is None:
        return None
    return lambda index, rows: Reading(rows[0][1], lambda logits: on_exit(index, logits))


class ModelSession(Protocol):
    """One sequence in one static key/value cache.

    A rollback sets the length and copies nothing. Not thread-safe.
    """

    @property
    def length(self) -> int:
        """The number of tokens in the cache, prompt and image tokens included."""

    def prefill(self, prompt: Prompt) -> Array:
        """Replace the content by the prompt; return the logits (V,) of the first new token.

        Reuses the cached prefix shared with the previous prompt.
        Raises FrameError for a bad JPEG and ConfigError for a prompt that does not fit.
        """

    def prefill_parts(self, prompt: Prompt) -> Generator[None, None, Array]:
        """Do `prefill` in parts, with the same bits; between parts other sessions may run.

        If it is aborted, the session is empty.
        """

    def expected(self, count: int) -> Successors:
        """Return the `count` likeliest successors of each prompt token after the image, from the prefill.

        Empty if the prefill did not compute them.
        """

    def forward(self, token_ids: Sequence[int], on_exit: OnExit | None = None) -> Array:
        """Append M >= 1 tokens; return logits (M, V), of which row i predicts what follows token i.

        `on_exit` is called during the forward pass: once for each exit of the model, the earliest first,
        before the deeper layers have finished, always with the rows of all M tokens of this call. It cannot
        change the logits. If it raises, the session is as it was before the call.
        """

    def truncate(self, length: int) -> None:
        """Drop everything beyond `length` tokens."""


@runtime_checkable
class SharingSession(ModelSession, Protocol):
    """A session that can copy the cache of another session of its model."""

    def copy_from(self, other: ModelSession, start: int, length: int) -> None:
        """Take over the other's first `length` tokens, prompt included; the first `start` are here already.

        With start 0 the other's prompt replaces this one, and the old content is dropped.
        """


@dataclass(frozen=True, eq=False)
class Chunk:
    """The tokens of one session's `forward`, as a part of a batch."""

    session: ModelSession
    token_ids: Sequence[int]


class LanguageModel(Protocol):
    """Weights shared by any number of sessions; its modules hold no state of a session."""

    name: str
    vocab_size: int
    end_ids: frozenset[int]
    max_length: int

    @property
    def exits(self) -> ExitInfo | None:
        """The early exits; None if the model has none, and `on_exit` is then never called."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the model's vocabulary."""

    @property
    def shares_prompts(self) -> bool:
        """Whether copying another session's prompt is almost free, and batches are. Then branches get their
        own sessions, and all sessions are `SharingSession`s.
        """

    def open_session(self) -> ModelSession:
        """Return a new session with an empty cache."""

    def forward_together(
        self, chunks: Sequence[Chunk], read: ExitReader | None = None, pause: Pause | None = None
    ) -> list[Array]:
        """Run each chunk's `ModelSession.forward`, for different sessions of this model, in one forward
        pass.

        The logits are those of separate passes. `read` is called like `on_exit`, but for all chunks at
        once, and `observe` of its `Reading` during the pass. If it or `pause` raises, no session has
        changed.
        """


class DraftHead(Protocol):
    """A small network that extends a target: it continues the target's text.

    A state (hidden,) represents a text completely.
    """

    name: str

    def begin(self, row: Array) -> Array:
        """Return the state after a text for which the target gave these logits (V,)."""

    def advance(self, states: Array, token_ids: Array) -> Array:
        """Return the states (M, hidden) after one more token each, int64 (M,)."""

    def logits(self, states: Array) -> Array:
        """Return the logits (M, V) after each state; tokens that the head never writes get -inf."""


class TextDecoder(Protocol):
    """Decodes one text at a time: in-process, over the network, or on a virtual clock."""

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = ...,
        cancelled: Callable[[], bool] = ...,
    ) -> Decoded:
        """Decode a text. Blocks until it ends or `cancelled()` is true.

        `on_verified` gets each batch of tokens as soon as they are final. Both callbacks run in this
        thread, also during a forward pass of the draft model, which they must not use.
        Raises LinkError if the verifier fails for good or the deadline passes before the text ends;
        Cancelled if it was cancelled.
        """

    def close(self) -> None:
        """Close the connection and free what the decoder holds."""


class FrameLink(Protocol):
    """The edge's end of a connection to one verifier; frames may be lost while it is down. For one thread."""

    @property
    def state(self) -> LinkState:
        """The state of the connection. Thread-safe."""

    @property
    def generation(self) -> int:
        """How many times the connection has come up; a new number means that frames may have been lost."""

    def send(self, frame: EdgeFrame) -> int:
        """Send without blocking.

        Returns the bytes on the wire; 0 if the link is down and the frame was dropped.
        """

    def receive(self, timeout_s: float) -> tuple[CloudFrame, int] | None:
        """Return the next frame and its bytes on the wire, or None after `timeout_s`.

        Skips malformed frames.
        """

    def close(self) -> None:
        """Close the connection; nothing is sent or received afterwards."""


class FrameServer(Protocol):
    """The cloud's end of the connections to many peers. For one thread."""

    def receive(self, timeout_s: float) -> list[tuple[Peer, EdgeFrame]]:
        """Return the frames that have arrived, oldest first, bounded;
        wait up to `timeout_s` for the first.
        """

    def send(self, peer: Peer, frame: CloudFrame) -> None:
        """Send without blocking; a frame to a peer that has gone is dropped."""

    def close(self) -> None:
        """Close the socket; nothing is sent or received afterwards."""


class Robot(Protocol):
    """A base that can be driven: the simulated one in-process, or the real one through nodes."""

    def odometry(self) -> Odometry:
        """Return the newest pose and velocity."""

    def scan(self) -> RangeScan:
        """Return the newest range scan."""

    def frame_jpeg(self) -> bytes:
        """Return the newest camera frame as the JPEG that both models will see."""

    def drive(self, velocity: Velocity, duration_s: float) -> None:
        """Hold a velocity for `duration_s`; in simulation this advances the clock."""


class Embedder(Protocol):
    """Turns texts into vectors whose inner product is their similarity. Needs no network."""

    name: str
    size: int

    def embed(self, text: str) -> Array:
        """Return a NumPy float32 vector (size,) of length 1."""


class PrivateMemory(Protocol):
    """All memories of the robot, private records included: for use on the robot alone."""

    def recall(self, query: str, limit: int = 3) -> list[Recalled]:
        """Return the records that answer a query best, best first. Raises MemoryStoreError."""


class Corpus(Protocol):
    """General knowledge in short passages, open to every client: what a cloud answers from.

    Every method raises MemoryStoreError if the store fails.
    """

    where: str

    def add(self, passages: Iterable[str]) -> int:
        """Add passages, without duplicates; return how many were new."""

    def recall(self, query: str, limit: int = 3) -> list[Recalled]:
        """Return the passages that answer a query best, best first."""

    def passages(self) -> Iterator[str]:
        """Return all passages, in no particular order."""

    def forget_matching(self, words: str) -> int:
        """Forget every passage that holds all of these words; return how many there were."""

    def count(self) -> int:
        """Return the number of passages."""

    def close(self) -> None:
        """Close the store."""
