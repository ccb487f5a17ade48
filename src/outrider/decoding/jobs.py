# SPDX-License-Identifier: Apache-2.0
"""Work the machines ask a model for, and what comes back. Drivers run it; the machines only name it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from outrider.core.frames import Peer
from outrider.core.values import Prompt, Successors
from outrider.decoding.acceptance.schemes import AcceptanceScheme, Choices, Evidence, Residue
from outrider.decoding.protocol.sampling_rules import Sampling


@dataclass(frozen=True)
class PrefillDraft:
    """Edge: put the prompt into the draft's cache; so many successors of each of its tokens are wanted."""

    epoch: int
    prompt: Prompt
    max_new_tokens: int
    num_expected: int = 0


@dataclass(frozen=True)
class DraftTokens:
    """Edge: the draft's next token after each of `prefixes`, as one batch, by an acceptance scheme.

    The `num_choices` best are asked for where the scheme lets the text be guessed.
    """

    epoch: int
    prefixes: tuple[tuple[int, ...], ...]
    num_choices: int
    scheme: AcceptanceScheme
    sampling: Sampling


EdgeJob = PrefillDraft | DraftTokens


class NoRoom(NamedTuple):
    """The draft model has no room for the text: it drafts nothing of it."""


EdgeResult = Sequence[Choices] | Successors | NoRoom
"""Of a prefill what it expects, or that there is no room; else what was drafted after each prefix."""


class SessionKey(NamedTuple):
    """A session at the cloud: nobody but its own peer can name it."""

    peer: Peer
    session: int


CATCH_UP_TOKENS = 64
"""Of a text that is resumed, in one forward: others wait for no more of it, nor are more logits held."""


@dataclass(frozen=True)
class PrefillTarget:
    """Cloud: put the prompt into the target's cache, and after it what is final of a text that is resumed."""

    key: SessionKey
    epoch: int
    prompt: Prompt
    max_new_tokens: int
    tokens: tuple[int, ...] = ()


class Verify(NamedTuple):
    """Cloud: which of `draft` the target would have written after `tokens`, and what it writes next.

    Without a `bonus` nothing follows a wholly accepted draft. `hints`: whether early exits are asked.
    """

    key: SessionKey
    epoch: int
    tokens: tuple[int, ...]
    draft: tuple[int, ...]
    evidence: tuple[Evidence, ...]
    scheme: AcceptanceScheme
    sampling: Sampling
    bonus: bool
    hints: bool

    @property
    def num_rows(self) -> int:
        """Of the target's distributions that it asks for."""
        return len(self.draft) + 1

    @property
    def needs_forward(self) -> bool:
        """Not where it asks for the text's first token alone: that comes from the prefill."""
        return bool(self.tokens or self.draft)


class CloudDraft(NamedTuple):
    """Cloud: the next token of its own draft model after the prompt and `prefix`, by an acceptance scheme.

    The `num_choices` best are asked for. `prompt` and `max_new_tokens` are those of the text.
    """

    key: SessionKey
    epoch: int
    prompt: Prompt
    max_new_tokens: int
    prefix: tuple[int, ...]
    num_choices: int
    scheme: AcceptanceScheme
    sampling: Sampling


TargetJob = PrefillTarget | Verify
CloudJob = TargetJob | CloudDraft


class Judgement(NamedTuple):
    """`accepted` draft tokens stand; then comes `next_token`, or one that the edge draws from `residue`.

    `margin` is the smallest gap between the best and the second logit among the decisions made: near 0,
    rounding could have changed the text. `kept`: where in a rejected draft a run stands, past the mistake,
    that the target would have gone on with (`retrieval.reuse`): its start and end, or nothing.
    """

    accepted: int
    next_token: int | None = None
    residue: Residue | None = None
    margin: float = float("inf")
    kept: tuple[int, ...] = ()


@dataclass(frozen=True)
class Unfinished:
    """A prompt of which another part is to run: the job comes again."""


class Aborted(Exception):
    """A verification or a draft was aborted for what is of more use. No failure."""


class Interrupted(Exception):
    """Whoever heard an exit failed, and the forward has ended: `error` is the listener's, not the model's."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


CloudResult = Judgement | Choices | Unfinished | Exception | None
"""Of a verification its judgement, of a draft its choices; of a prefill None at its end. A failure is a
result too.
"""


class ExitHint(NamedTuple):
    """What an early exit expects of the running verification.

    `confidence`: of that outcome as a whole. `choices`: the exit's token for every position judged, of which
    the first `accepted` are the draft's, and `confidences`: how sure it is of each.
    """

    exit: int
    accepted: int
    next_token: int
    confidence: float
    choices: tuple[int, ...] = ()
    confidences: tuple[float, ...] = ()
