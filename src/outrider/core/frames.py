# SPDX-License-Identifier: Apache-2.0
"""The frames that edge and cloud exchange, as strict schemas shared by the machines and the codec.

Positions count generated tokens: 0 is the first one after the prompt. `digest` is the chained digest of
prompt and text (`protocol.prefix_digest`): neither side ever builds on a prefix that the other does not
hold. Frames are arrays on the wire; the most frequent ones are shorter still (`wire.codec`). A new kind of
frame, and any change of a frame's fields, needs a new PROTOCOL_VERSION below 16, because the short form has
four bits for it.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

PROTOCOL_VERSION = 10
MAX_FRAME_BYTES = 2 * 1024 * 1024
MAX_PROMPT_CHARS = 16 * 1024
MAX_JPEG_BYTES = 1024 * 1024
MAX_NEW_TOKENS = 4096
MAX_CHUNK_TOKENS = 64
MAX_RUNS_BYTES = 2048
MAX_EVIDENCE_BYTES = 1024 * 1024
MAX_VOCABULARY = 1 << 20
MAX_SEED = (1 << 64) - 1

U32 = Annotated[int, Meta(ge=0, lt=1 << 32)]
Position = Annotated[int, Meta(ge=0, le=MAX_NEW_TOKENS)]
Run = Annotated[tuple[Position, ...], Meta(max_length=2)]
TokenId = Annotated[int, Meta(ge=0, lt=MAX_VOCABULARY)]
TopK = Annotated[int, Meta(ge=0, le=MAX_VOCABULARY)]
SeedBits = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""The 64 bits of a seed as a signed number: a schema cannot bound a larger one."""
TextTokens = Annotated[tuple[TokenId, ...], Meta(max_length=MAX_NEW_TOKENS)]
ChunkTokens = Annotated[tuple[TokenId, ...], Meta(max_length=MAX_CHUNK_TOKENS)]
MAX_END_TOKENS = 64
EndTokens = Annotated[tuple[TokenId, ...], Meta(max_length=MAX_END_TOKENS)]
MAX_SHORT_TEXT = 500
ShortText = Annotated[str, Meta(max_length=MAX_SHORT_TEXT)]
Evidence = Annotated[bytes, Meta(max_length=MAX_EVIDENCE_BYTES)]
IdlePolicy = Literal["wait", "step", "adaptive"]
HintPolicy = Literal["none", "all", "useful"]
HintOrder = Literal["confidence", "fifo", "random"]
AcceptanceName = Literal["greedy", "coupled", "rejection", "split", "sparse"]
FULL_SHARE = 1 << 16
LOG_WEIGHT_UNIT = 2.0**-16
LogWeight = Annotated[int, Meta(ge=-(1 << 31), lt=1 << 31)]
PeerSide = Literal["device", "cloud"]
Synchronisation = Literal["speculative", "token", "sequence", "alone"]
AggregationRule = Literal["coupled", "rejection", "greedy"]
AggregatorPolicy = Literal["scheduled", "device", "cloud", "random"]


class Peer(NamedTuple):
    """The sender of a frame: the authenticated user (empty without keys) and the
    transport's return address.
    """

    user: str
    route: bytes

    @property
    def owner(self) -> str | bytes:
        """The key of limits: a robot's key, or without keys its connection."""
        return self.user or self.route


class Schema(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A value on the wire: an array of exactly these fields, in this order."""


class Addressed(Schema, frozen=True):
    """A frame about a session's text: each text that the edge begins in a session has its own `epoch`."""

    session: U32
    epoch: U32


class Rules(Schema, frozen=True):
    """How a text is decoded. `when_idle`: what the cloud does while no draft fits.

    `bonus`: a wholly accepted chunk is followed by one of the target's own tokens, for an edge that waits.
    `hints`: which are sent; `useful` ones say something new at an exit that has often been right.
    """

    when_idle: IdlePolicy
    acceptance: AcceptanceName
    temperature: Annotated[float, Meta(ge=0.0, le=100.0)]
    top_p: Annotated[float, Meta(gt=0.0, le=1.0)]
    top_k: TopK
    seed_bits: SeedBits
    bonus: bool
    hints: HintPolicy

    @property
    def seed(self) -> int:
        """The seed, from 0 to MAX_SEED."""
        return self.seed_bits & MAX_SEED


class Open(Addressed, frozen=True, tag=1):
    """Decode from this prompt, continuing after `tokens`. With a known epoch, catch up instead.

    `tokenizer` is the fingerprint of the edge's: both must give every token the same id. `model` is the
    name of the model that must answer, empty for any; or the checksum, as text, of the model that wrote
    `tokens`.
    """

    digest: U32
    text: Annotated[str, Meta(max_length=MAX_PROMPT_CHARS)]
    jpeg: Annotated[bytes, Meta(max_length=MAX_JPEG_BYTES)]
    tokens: TextTokens
    max_new_tokens: Annotated[int, Meta(ge=1, le=MAX_NEW_TOKENS)]
    tokenizer: ShortText
    rules: Rules
    model: ShortText = ""


class Resume(Addressed, frozen=True, tag=2):
    """The edge holds the text up to `base` and asks for what follows.

    `draws`: for an unsettled text, how many draws from the tail the edge has used up.
    """

    base: Position
    digest: U32
    draws: U32 = 0


class Draft(Addressed, frozen=True, tag=3):
    """Branches that start at the text of `base` tokens with this digest; without one, at the committed
    text.

    `runs` are packed by `protocol.branch_codec`.
    """

    base: Position
    digest: U32 | None
    runs: Annotated[bytes, Meta(max_length=MAX_RUNS_BYTES)]


class Proposal(Addressed, frozen=True, tag=7):
    """One branch for the schemes that need evidence of how it was drafted.

    `settled` is the token with which the edge completed an `Unsettled` text; `tokens` follow it. `evidence`
    says how each token was drawn (`acceptance.schemes`).
    """

    base: Position
    digest: U32
    settled: TokenId | None
    tokens: ChunkTokens
    evidence: Evidence


class Cancel(Addressed, frozen=True, tag=4):
    """Stop decoding this epoch; nothing of it is needed any more."""


class Close(Addressed, frozen=True, tag=5):
    """End the session; its cache may be freed."""


class Ping(Addressed, frozen=True, tag=6):
    """Ask for a Pong. Needs no open session."""


class StandBy(Addressed, frozen=True, tag=9):
    """Keep this text cached, but run nothing for it until asked: another verifier writes it."""


class AggregationRules(Schema, frozen=True):
    """How two peers write one text (`decoding.aggregation`).

    `window`: the most drafts ahead of the final text.
    """

    sync: Synchronisation
    rule: AggregationRule
    aggregator: AggregatorPolicy
    window: Annotated[int, Meta(ge=1, le=MAX_NEW_TOKENS)]
    temperature: Annotated[float, Meta(ge=0.0, le=100.0)]
    top_p: Annotated[float, Meta(gt=0.0, le=1.0)]
    top_k: TopK
    seed_bits: SeedBits

    @property
    def seed(self) -> int:
        """The seed, from 0 to MAX_SEED."""
        return self.seed_bits & MAX_SEED


class Join(Addressed, frozen=True, tag=8):
    """Write a text together: answer this question, each side with its own documents,
    which are not in the frame.

    `weight`: log of the sum of the exponentials of the relevances of the device's documents, in
    LOG_WEIGHT_UNIT. `end_ids`: the device's end tokens, with which both sides end the text. `model`: the
    name of the model that must join, empty for any.
    """

    digest: U32
    text: Annotated[str, Meta(max_length=MAX_PROMPT_CHARS)]
    jpeg: Annotated[bytes, Meta(max_length=MAX_JPEG_BYTES)]
    max_new_tokens: Annotated[int, Meta(ge=1, le=MAX_NEW_TOKENS)]
    tokenizer: ShortText
    rules: AggregationRules
    weight: LogWeight
    end_ids: EndTokens
    model: ShortText = ""


class Joined(Addressed, frozen=True, tag=23):
    """The cloud has cached its documents.

    `share`: the device's part in the mixture, in units of 1/FULL_SHARE.
    `model`: the checksum of the joining model's name.
    """

    share: Annotated[int, Meta(ge=0, le=FULL_SHARE)]
    prefill_us: U32
    model: U32


class Drafted(Addressed, frozen=True, tag=32):
    """From peer to peer: the sender's drafts after the text of `base` tokens with this digest.

    `evidence`: the distributions of the tokens (`acceptance.packing`), if the rule needs them. `decode_us`:
    the decode time of the last token.
    """

    base: Position
    digest: U32
    tokens: TextTokens
    decode_us: U32
    evidence: Evidence


class Settled(Addressed, frozen=True, tag=33):
    """From peer to peer: these tokens are final, and `aggregator` decides the next one.

    `round_trip_us`: the sender's measurement of the link.
    """

    base: Position
    digest: U32
    tokens: TextTokens
    aggregator: PeerSide
    round_trip_us: U32


class Behind(Addressed, frozen=True, tag=34):
    """From peer to peer: the sender holds the text up to `base` and asks for what follows."""

    base: Position
    digest: U32


class Opened(Addressed, frozen=True, tag=16):
    """The prompt and `base` tokens of the text are in the target's cache; that took `prefill_us`.

    `model`: the checksum of the target's name (`core.pairs`); `end_ids`: its end tokens.
    """

    base: Position
    model: U32
    prefill_us: U32
    end_ids: EndTokens


class Verdict(Addressed, frozen=True, tag=17):
    """Final: `tokens` follow the text of `base` tokens with this digest.

    The verified chunk had `drafted` tokens. Not counted are tokens that only an early exit predicted:
    rejected ones, and ones that no draft followed. `passes` counts the target's forward passes of this
    epoch so far, an aborted one by the fraction of its time that it ran; `verify_us` is the time of the
    last one. `kept`, empty or two numbers: the start and end of the run, after the first rejected token,
    that the target would have written too.
    """

    base: Position
    digest: U32
    tokens: TextTokens
    drafted: Position
    passes: U32
    verify_us: U32
    kept: Run = ()


class Unsettled(Addressed, frozen=True, tag=21):
    """A verdict whose last token the edge draws itself, from `residue` (`acceptance.schemes`)."""

    base: Position
    digest: U32
    tokens: TextTokens
    drafted: Position
    passes: U32
    verify_us: U32
    residue: Evidence
    kept: Run = ()


class Hint(Addressed, frozen=True, tag=22):
    """The outcome that early exit `exit` predicts for the verification at `base`,
    with a confidence in percent.

    It has no digest, because it is only advice: applied to another text, it wastes a draft and does no
    harm.
    """

    base: Position
    exit: Annotated[int, Meta(ge=0, le=255)]
    confidence: Annotated[int, Meta(ge=0, le=100)]
    tokens: ChunkTokens


class PrefillAgain(Addressed, frozen=True, tag=18):
    """The cloud does not hold the prefix that the edge builds on; the edge must send Open."""


RefusalReason = Literal["busy", "frame", "config", "model", "protocol", "internal"]


class Refused(Addressed, frozen=True, tag=19):
    """This epoch will not be decoded, with the reason."""

    reason: RefusalReason
    message: ShortText


class Pong(Addressed, frozen=True, tag=20):
    """The verifier's answer to a Ping: its model and its load."""

    model: ShortText
    vocab_size: Annotated[int, Meta(ge=1, le=MAX_VOCABULARY)]
    open_sessions: U32
    max_sessions: U32


PeerFrame = Drafted | Settled | Behind
VerifierFrame = Open | Resume | Draft | Proposal | StandBy | Cancel | Close | Ping
EdgeFrame = VerifierFrame | Join | PeerFrame
CloudFrame = Opened | Hint | Verdict | Unsettled | PrefillAgain | Refused | Pong | Joined | PeerFrame
Frame = EdgeFrame | CloudFrame
