# SPDX-License-Identifier: Apache-2.0
"""The Protocols through which sibling packages meet. Implementations and fakes live elsewhere."""

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
    """Made of logits where they are: `chosen` crosses to the host, and `observe` is then called with it."""

    chosen: Array
    observe: Callable[[Array], None]


ExitReader = Callable[[int, Sequence[tuple[int, Array]]], Reading | None]
"""Called with an exit's index and, of the chunks of a batch that are complete there, their numbers and logits
(M, S) on the model's device. It may not wait for the device. None: nobody listens."""

Pause = Callable[[], None]
"""Called in mid-forward, between layers, parts or blocks of them. What it raises breaks the forward off."""


@dataclass(frozen=True, eq=False)
class ExitInfo:
    """A model's early exits: after which of its decoder layers (1..num_layers - 1, ascending) each stands.

    `token_ids` (S,) int64, ascending: the shortlist of the vocabulary on which the exits choose.
    """

    layers: tuple[int, ...]
    num_layers: int
    token_ids: Array


class Tokenizer(Protocol):
    """Text to ids and back; `decode` of a growing id list only ever extends the text at whole characters."""

    vocab_size: int
    end_ids: frozenset[int]
    """The end tokens: a text is complete with the first of them."""

    @property
    def fingerprint(self) -> str:
        """Equal for tokenizers that give every token the same id."""

    def encode(self, text: str) -> list[int]:
        """Returns the token ids of a text, without special tokens."""

    def encode_prompt(self, text: str) -> list[int]:
        """Returns the token ids of a prompt, in which a prompt's own markup alone is markup."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """Returns the text of token ids."""


def finish(parts: Generator[None, None, Array]) -> Array:
    """Run what is done in parts to its end."""
    while True:
        try:
            next(parts)
        except StopIteration as end:
            return end.value


def reader_of(on_exit: OnExit | None) -> ExitReader | None:
    """For a batch of one chunk: all its logits cross to the host."""
    if on_exit is None:
        return None
    return lambda index, rows: Reading(rows[0][1], lambda logits: on_exit(index, logits))


class ModelSession(Protocol):
    """One sequence in one static KV cache. Rollback is a length, never a copy. Not thread-safe."""

    @property
    def length(self) -> int:
        """Tokens in the cache, prompt and image tokens included."""

    def prefill(self, prompt: Prompt) -> Array:
        """Replace the content by the prompt; logits (V,) of the first new token.

        Reuses the cached prefix it shares with the previous prompt.
        Raises FrameError for a bad JPEG and ConfigError for a prompt that does not fit.
        """

    def prefill_parts(self, prompt: Prompt) -> Generator[None, None, Array]:
        """`prefill` in parts, between which other sessions may run; the same bits. Abandoned on the way, the
        session holds nothing.
        """

    def expected(self, count: int) -> Successors:
        """The `count` likeliest successors of each token of the prompt past its image, by the prefill.

        Empty where the prefill tells nothing of them.
        """

    def forward(self, token_ids: Sequence[int], on_exit: OnExit | None = None) -> Array:
        """Append M >= 1 tokens; logits (M, V), row i predicting what follows token i.

        `on_exit` is called in mid-forward: once for each exit of the model, the earliest first, before the
        deeper layers have finished, always with the rows of all M tokens of this call. What it does cannot
        change the logits; if it raises, the session is as it was before the call.
        """

    def truncate(self, length: int) -> None:
        """Forget everything past `length` tokens."""


@runtime_checkable
class SharingSession(ModelSession, Protocol):
    """A session that can take over what another of its model holds."""

    def copy_from(self, other: ModelSession, start: int, length: int) -> None:
        """The other's first `length` tokens, the prompt among them, of which the first `start` are here.

        With start 0 the prompt is the other's from now on, and whatever was here is gone.
        """


@dataclass(frozen=True, eq=False)
class Chunk:
    """What one session's `forward` is asked for, as a part of a batch."""

    session: ModelSession
    token_ids: Sequence[int]


class LanguageModel(Protocol):
    """Weights that any number of sessions share; no per-session state lives on its modules."""

    name: str
    vocab_size: int
    end_ids: frozenset[int]
    max_length: int

    @property
    def exits(self) -> ExitInfo | None:
        """None where the model has no early exits: `on_exit` is then never called."""

    @property
    def tokenizer(self) -> Tokenizer:
        """Returns the tokenizer of the model's vocabulary."""

    @property
    def shares_prompts(self) -> bool:
        """Whether another session's prompt is next to free, and batches are: then branches have sessions, and
        all sessions are `SharingSession`s.
        """

    def open_session(self) -> ModelSession:
        """Returns a new session with an empty cache."""

    def forward_together(
        self, chunks: Sequence[Chunk], read: ExitReader | None = None, pause: Pause | None = None
    ) -> list[Array]:
        """Each chunk's `ModelSession.forward`, for different sessions of this model in one pass.

        The logits are those of the sessions' own forwards. `read` is called as `on_exit` is, for all chunks
        at once; what it wants on the host is heard in mid-forward. If it or `pause` raises, no session has
        changed.
        """


class DraftHead(Protocol):
    """A small network beside a target that writes on from what the target has read. A state (hidden,) stands
    for a text: all that is known of it.
    """

    name: str

    def begin(self, row: Array) -> Array:
        """The state at a place for which the target gave these logits (V,)."""

    def advance(self, states: Array, token_ids: Array) -> Array:
        """The states (M, hidden) after one more token each, int64 (M,)."""

    def logits(self, states: Array) -> Array:
        """Logits (M, V) of what follows; tokens that it never writes have none."""


class TextDecoder(Protocol):
    """Decodes one text at a time: in-process, over the network, or on a virtual clock."""

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = ...,
        cancelled: Callable[[], bool] = ...,
    ) -> Decoded:
        """Blocks until the text ends or `cancelled()` is true.

        `on_verified` sees each batch of final tokens as soon as it is final. Both are called in this thread,
        also amid a forward of the draft model, which they may not use.
        Raises LinkError where the verifier fails for good or the deadline passes before the text ends;
        Cancelled where it was cancelled.
        """

    def close(self) -> None:
        """Releases the connection and what the decoder holds."""


class FrameLink(Protocol):
    """The edge's end of a connection to one verifier; frames may be lost while it is down. For one thread."""

    @property
    def state(self) -> LinkState:
        """Safe to read from any thread."""

    @property
    def generation(self) -> int:
        """How many times the connection has come up; a new number means that frames may have been lost."""

    def send(self, frame: EdgeFrame) -> int:
        """Never blocks. Bytes put on the wire; 0 where the link is down and the frame was dropped."""

    def receive(self, timeout_s: float) -> tuple[CloudFrame, int] | None:
        """The next frame and its bytes on the wire, or None after `timeout_s`. Malformed ones are skipped."""

    def close(self) -> None:
        """Closes the connection; nothing is sent or received afterwards."""


class FrameServer(Protocol):
    """The cloud's end: frames from many peers. Used by one thread."""

    def receive(self, timeout_s: float) -> list[tuple[Peer, EdgeFrame]]:
        """What has arrived, oldest first, bounded; waits up to `timeout_s` for the first."""

    def send(self, peer: Peer, frame: CloudFrame) -> None:
        """Never blocks; a frame to a peer that has gone is dropped."""

    def close(self) -> None:
        """Closes the socket; nothing is sent or received afterwards."""


class Robot(Protocol):
    """A base that can be driven: the simulated one in-process, or nodes' view of the real one."""

    def odometry(self) -> Odometry:
        """Returns the newest pose and velocity."""

    def scan(self) -> RangeScan:
        """Returns the newest range scan."""

    def frame_jpeg(self) -> bytes:
        """The newest camera frame as the JPEG that both models will see."""

    def drive(self, velocity: Velocity, duration_s: float) -> None:
        """Hold a velocity for a while; in simulation this advances the clock."""


class Embedder(Protocol):
    """Texts as vectors whose inner product is their likeness. Needs no network."""

    name: str
    size: int

    def embed(self, text: str) -> Array:
        """A NumPy float32 vector (size,) of length 1."""


class PrivateMemory(Protocol):
    """All that the robot remembers, private records among it: for use on the robot alone."""

    def recall(self, query: str, limit: int = 3) -> list[Recalled]:
        """The records that answer a query best, best first. Raises MemoryStoreError."""


class Corpus(Protocol):
    """General knowledge in short passages, for whoever asks: what a cloud answers from.

    Every method raises MemoryStoreError where the store is at fault.
    """

    where: str

    def add(self, passages: Iterable[str]) -> int:
        """Take in passages; those that are known already are not kept twice. How many were new."""

    def recall(self, query: str, limit: int = 3) -> list[Recalled]:
        """The passages that answer a query best, best first."""

    def passages(self) -> Iterator[str]:
        """All of them, in no order."""

    def forget_matching(self, words: str) -> int:
        """Forget every passage that holds all of these words; how many there were."""

    def count(self) -> int:
        """Returns the number of passages."""

    def close(self) -> None:
        """Closes the store."""
