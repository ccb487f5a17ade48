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
    `beside`: other drafts of the same text, judged in the same forward without evidence: the one that the
    target follows furthest counts (as in a token tree, Miao et al. 2024, "SpecInfer").
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
    beside: tuple[tuple[int, ...], ...] = ()

    @property
    def num_rows(self) -> int:
        """Of the target's distributions that it asks for."""
        return len(self.draft) + 1 + sum([len(draft) + 1 for draft in self.beside])

    @property
    def needs_forward(self) -> bool:
        """Not where it asks for the text's first token alone: that comes from the prefill."""
        return bool(self.tokens or self.draft)

    @property
    def drafts(self) -> tuple[tuple[int, ...], ...]:
        """Its own and those beside it."""
        return self.draft, *self.beside

    def branch(self, number: int) -> Verify:
        """The verification that judges one draft: 0 its own, from 1 on one alone of those beside it, whose
        exits are heard with those of its own.
        """
        if number == 0:
            return self
        draft = self.beside[number - 1]
        return self._replace(draft=draft, evidence=(None,) * len(draft), hints=False, beside=())


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
    that the target would have gone on with (`retrieval.reuse`): its start and end, or nothing. `branch`: of
    which `Verify.branch` this is said.
    """

    accepted: int
    next_token: int | None = None
    residue: Residue | None = None
    margin: float = float("inf")
    kept: tuple[int, ...] = ()
    branch: int = 0


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


class Word(NamedTuple):
    """What an early exit says of one draft: its token for every position judged, and how sure it is of it."""

    choices: tuple[int, ...] = ()
    confidences: tuple[float, ...] = ()


class ExitHint(NamedTuple):
    """What an early exit expects of the running verification.

    `words`: of its own draft and of those beside it, as far as they are heard; of the first one the first
    `accepted` choices are the draft's. `confidence`: of that outcome as a whole.
    """

    exit: int
    accepted: int
    next_token: int
    confidence: float
    words: tuple[Word, ...] = (Word(),)
