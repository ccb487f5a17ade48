"""Work the machines ask a model for, and what comes back. Drivers run it; the machines only name it."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.core.frames import Peer
from outrider.core.values import Prompt


@dataclass(frozen=True)
class PrefillDraft:
    """Edge: put the prompt into the draft's cache."""

    epoch: int
    prompt: Prompt
    max_new_tokens: int


@dataclass(frozen=True)
class DraftToken:
    """Edge: the draft's next token after `tokens`."""

    epoch: int
    tokens: tuple[int, ...]


EdgeJob = PrefillDraft | DraftToken


@dataclass(frozen=True)
class SessionKey:
    """A session at the cloud: nobody but its own peer can name it."""

    peer: Peer
    session: int


@dataclass(frozen=True)
class PrefillTarget:
    """Cloud: put the prompt into the target's cache."""

    key: SessionKey
    epoch: int
    prompt: Prompt
    max_new_tokens: int


@dataclass(frozen=True)
class Verify:
    """Cloud: which of `draft` the target would have written after `tokens`, and what it writes next."""

    key: SessionKey
    epoch: int
    tokens: tuple[int, ...]
    draft: tuple[int, ...]


CloudJob = PrefillTarget | Verify


@dataclass(frozen=True)
class Judgement:
    """`accepted` draft tokens stand, then comes `next_token`.

    `margin` is the smallest gap between the best and the second logit among the decisions made: near 0,
    rounding could have changed the text.
    """

    accepted: int
    next_token: int
    margin: float
