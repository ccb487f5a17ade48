# SPDX-License-Identifier: Apache-2.0
"""Jobs that the state machines ask a model to run, and their results. Drivers run them."""

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
    """Edge: prefill the draft model. `num_expected`: how many successors of each prompt token to return."""

    epoch: int
    prompt: Prompt
    max_new_tokens: int
    num_expected: int = 0


@dataclass(frozen=True)
class DraftTokens:
    """Edge: draft the next token after each of `prefixes`, in one batch, by an acceptance scheme.

    The `num_choices` best are returned if the scheme lets the text be guessed.
    """

    epoch: int
    prefixes: tuple[tuple[int, ...], ...]
    num_choices: int
    scheme: AcceptanceScheme
    sampling: Sampling


EdgeJob = PrefillDraft | DraftTokens


class NoRoom(NamedTuple):
    """The draft model has no room for the text and drafts nothing for it."""


EdgeResult = Sequence[Choices] | Successors | NoRoom
"""The successors or `NoRoom` for a prefill; otherwise what was drafted after each prefix."""


class SessionKey(NamedTuple):
    """A session at the cloud. Only its own peer can name it."""

    peer: Peer
    session: int


CATCH_UP_TOKENS = 64
"""Most tokens of a resumed text in one forward. They bound others' wait and the logits that are held."""


@dataclass(frozen=True)
class PrefillTarget:
    """Cloud: prefill the target with the prompt, and with the final tokens of a resumed text."""

    key: SessionKey
    epoch: int
    prompt: Prompt
    max_new_tokens: int
    tokens: tuple[int, ...] = ()


class Verify(NamedTuple):
    """Cloud: find which tokens of `draft` the target would have written after `tokens`, and its next token.

    Without `bonus`, nothing follows a fully accepted draft. `hints`: whether early exits are read.
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
        """Number of the target's distributions that the job needs."""
        return len(self.draft) + 1

    @property
    def needs_forward(self) -> bool:
        """Whether a forward is needed; not for the text's first token alone, which comes from the prefill."""
        return bool(self.tokens or self.draft)


class CloudDraft(NamedTuple):
    """Cloud: draft the next token after the prompt and `prefix`, by its own model and a scheme.

    The `num_choices` best are returned. `prompt` and `max_new_tokens` are those of the text.
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
    """The judgement of a draft: `accepted` tokens, then `next_token`, or one drawn by the edge (`residue`).

    `margin`: the smallest gap between the best and the second logit among the decisions made; near 0,
    rounding could have changed the text. `kept`: the start and end of a run in a rejected draft, after the
    mistake, that the target would have written (`retrieval.reuse`); empty if none.
    """

    accepted: int
    next_token: int | None = None
    residue: Residue | None = None
    margin: float = float("inf")
    kept: tuple[int, ...] = ()


@dataclass(frozen=True)
class Unfinished:
    """Another part of the prompt remains to be run: the job comes again."""


class Aborted(Exception):
    """A verification or a draft was aborted for something more useful. This is not a failure."""


class Interrupted(Exception):
    """A listener to exits failed, and the forward has ended. `error` is the listener's own."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


CloudResult = Judgement | Choices | Unfinished | Exception | None
"""The judgement of a verification, the choices of a draft, None at the end of a prefill. A failure is a
result too.
"""


class ExitHint(NamedTuple):
    """An early exit's prediction of the running verification.

    `confidence`: of that outcome as a whole. `choices`: the exit's token for each judged position, of which
    the first `accepted` equal the draft's. `confidences`: its confidence in each.
    """

    exit: int
    accepted: int
    next_token: int
    confidence: float
    choices: tuple[int, ...] = ()
    confidences: tuple[float, ...] = ()
