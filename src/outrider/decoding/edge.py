"""The edge's state machine: drafts a branch, sends it up, commits what verdicts say. No socket, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.core.errors import (
    BusyError,
    ConfigError,
    FrameError,
    LinkError,
    ModelError,
    OutriderError,
    ProtocolError,
)
from outrider.core.frames import (
    Cancel,
    Chunk,
    CloudFrame,
    EdgeFrame,
    Open,
    Opened,
    PrefillAgain,
    RefusalReason,
    Refused,
    Resume,
    Verdict,
)
from outrider.core.ports import Tokenizer
from outrider.core.values import Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.digest import DigestedText, common_length, extend_digest, prompt_digest
from outrider.decoding.jobs import DraftToken, EdgeJob, PrefillDraft


@dataclass(frozen=True)
class Send:
    """Put a frame on the wire; it may get lost."""

    frame: EdgeFrame


@dataclass(frozen=True)
class Commit:
    """Tokens that are final now. `accepted` of the `drafted` stood; without a `verdict` the edge is alone."""

    tokens: tuple[int, ...]
    drafted: int
    accepted: int
    verdict: Verdict | None


@dataclass(frozen=True)
class Fail:
    """The text cannot be finished."""

    error: OutriderError


EdgeAction = Send | Commit | Fail

_ERRORS: dict[RefusalReason, type[OutriderError]] = {
    "busy": BusyError,
    "frame": FrameError,
    "config": ConfigError,
    "model": ModelError,
    "protocol": ProtocolError,
    "internal": LinkError,
}


class EdgeMachine:
    """One session, one text (epoch) at a time. Every call returns the actions it causes, in order."""

    def __init__(self, session: int, config: DecodingConfig, tokenizer: Tokenizer) -> None:
        self._session = session
        self._config = config
        self._vocab_size = tokenizer.vocab_size
        self._eos_id = tokenizer.eos_id
        self._fingerprint = tokenizer.fingerprint
        self._epoch = 0
        self.done = True

    def begin(self, prompt: Prompt, max_new_tokens: int) -> list[EdgeAction]:
        """Start the next text; whatever belongs to an earlier one is stale from here on."""
        self._epoch += 1
        self._prompt = prompt
        self._max_new_tokens = max_new_tokens
        self._text = DigestedText(prompt_digest(prompt))
        self._branch: list[int] = []
        self._chunk: Chunk | None = None
        self._draft_ready = False
        self._alone = False
        self._opened = False
        self.done = False
        self.target_prefill_s = 0.0
        self.target_passes = 0
        self._passes_before = 0
        return [Send(self._open()), *self._send_full_branch()]

    @property
    def tokens(self) -> tuple[int, ...]:
        """What is final so far."""
        return self._text.tokens

    def next_job(self) -> EdgeJob | None:
        """What the draft model should do now, if anything."""
        if self.done or not self._config.drafts:
            return None
        if not self._draft_ready:
            return PrefillDraft(self._epoch, self._prompt, self._max_new_tokens)
        if self._alone or self._wants_draft():
            return DraftToken(self._epoch, self._text.tokens + tuple(self._branch))
        return None

    def complete(self, job: EdgeJob, token: int | None) -> list[EdgeAction]:
        """The result of a job; that of a job the text has moved away from is dropped."""
        if self.done or job.epoch != self._epoch:
            return []
        if isinstance(job, PrefillDraft):
            self._draft_ready = True
            return []
        if token is None or job.tokens != self._text.tokens + tuple(self._branch):
            return []
        if self._alone:
            return self._commit((token,), None)
        self._branch.append(token)
        return self._send_full_branch()

    def receive(self, frame: CloudFrame) -> list[EdgeAction]:
        """A frame from the cloud, however late, doubled or out of order."""
        if self.done or (frame.session, frame.epoch) != (self._session, self._epoch):
            return []
        if isinstance(frame, Verdict):
            return self._on_verdict(frame)
        if isinstance(frame, Opened):
            self._opened = True
            self.target_prefill_s = frame.prefill_us / 1e6
        if isinstance(frame, PrefillAgain):
            return self._on_prefill_again()
        if isinstance(frame, Refused):
            return self._fail(_ERRORS[frame.reason](f"the verifier refused: {frame.message}"))
        return []

    def ask_again(self) -> list[EdgeAction]:
        """The link came up or was silent for too long: repeat what may be lost. Harmless at any time."""
        if self.done:
            return []
        self._alone = False
        frames: list[EdgeFrame] = [] if self._opened else [self._open()]
        if self._chunk is not None:
            frames.append(self._chunk)
        elif self._opened:
            frames.append(Resume(self._session, self._epoch, len(self._text), self._text.digest))
        return [Send(frame) for frame in frames]

    def go_alone(self) -> list[EdgeAction]:
        """The link is lost and the policy lets the edge finish without the target, until `ask_again`."""
        if self.done or self._alone or self._config.link_loss != "draft_only":
            return []
        self._alone = True
        self._opened = False
        self._chunk = None
        branch, self._branch = tuple(self._branch), []
        return self._commit(branch, None) if branch else []

    def cancel(self) -> list[EdgeAction]:
        """The owner no longer wants this text."""
        if self.done:
            return []
        self.done = True
        return [Send(Cancel(self._session, self._epoch))]

    def _open(self) -> Open:
        return Open(
            self._session,
            self._epoch,
            self._text.digest,
            self._prompt.text,
            self._prompt.jpeg,
            self._text.tokens,
            self._max_new_tokens,
            self._config.when_idle,
            self._fingerprint,
        )

    def _wants_draft(self) -> bool:
        """Whether the branch should grow. A verdict itself adds a token, so the last one is never drafted."""
        remaining = self._max_new_tokens - len(self._text)
        ended = bool(self._branch) and self._branch[-1] == self._eos_id
        return len(self._branch) < min(self._config.num_draft_tokens, remaining - 1) and not ended

    def _send_full_branch(self) -> list[EdgeAction]:
        if not self._config.drafts or self._chunk is not None or self._wants_draft():
            return []
        base = len(self._text)
        self._chunk = Chunk(self._session, self._epoch, base, self._text.digest, tuple(self._branch))
        return [Send(self._chunk)]

    def _on_prefill_again(self) -> list[EdgeAction]:
        """The cloud has no such text (any more); what it did for this epoch before still counts."""
        if self._opened:
            self._passes_before = self.target_passes
        self._opened = False
        return self.ask_again()

    def _on_verdict(self, verdict: Verdict) -> list[EdgeAction]:
        """Commit what is new in it; after a gap or a contradiction tell the cloud where this side stands."""
        known = self._text.tokens + tuple(self._branch)
        if verdict.base > len(self._text) or verdict.base + verdict.accepted > len(known):
            return self.ask_again()
        added = known[verdict.base : verdict.base + verdict.accepted] + verdict.tokens
        digest = extend_digest(self._text.digest_at(verdict.base), added)
        overlap = len(self._text) - verdict.base
        if digest != verdict.digest or added[:overlap] != self._text.tokens[verdict.base :][: len(added)]:
            self._opened = False
            return self.ask_again()
        self._opened = True
        return self._commit(added[overlap:], verdict) if len(added) > overlap else []

    def _commit(self, new: Sequence[int], verdict: Verdict | None) -> list[EdgeAction]:
        new = self._until_end(new)
        if max(new) >= self._vocab_size:
            return self._fail(ProtocolError(f"the verifier sent token {max(new)}, beyond the vocabulary"))
        if verdict is not None:
            self.target_passes = max(self.target_passes, self._passes_before + verdict.passes)
        drafted = len(self._chunk.tokens) if self._chunk else 0
        commit = Commit(new, drafted, common_length(new, self._branch), verdict)
        self._text.extend(new)
        self._branch.clear()
        self._chunk = None
        self.done = new[-1] == self._eos_id or len(self._text) >= self._max_new_tokens
        return [commit] if self.done or self._alone else [commit, *self._send_full_branch()]

    def _until_end(self, new: Sequence[int]) -> tuple[int, ...]:
        """Nothing counts after the end token or beyond the length asked for."""
        if self._eos_id in new:
            new = new[: new.index(self._eos_id) + 1]
        return tuple(new[: self._max_new_tokens - len(self._text)])

    def _fail(self, error: OutriderError) -> list[EdgeAction]:
        self.done = True
        return [Fail(error)]
