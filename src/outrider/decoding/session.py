"""One session's text at the cloud: what is committed, what was offered, what should run next."""

from __future__ import annotations

from outrider.core.errors import ModelError, ProtocolError
from outrider.core.frames import Chunk, CloudFrame, Open, Opened, PrefillAgain, Resume, Verdict
from outrider.core.ports import Tokenizer
from outrider.core.values import Prompt
from outrider.decoding.digest import DigestedText, prompt_digest
from outrider.decoding.jobs import CloudJob, Judgement, PrefillTarget, SessionKey, Verify


class TargetText:
    """The text of one epoch. The newest waiting chunk whose parent is the committed text is verified next."""

    def __init__(self, key: SessionKey, frame: Open, tokenizer: Tokenizer) -> None:
        """Raises ModelError for an edge with another tokenizer, ProtocolError for a broken frame."""
        if frame.tokenizer != tokenizer.fingerprint:
            raise ModelError(
                "the draft's tokenizer is not the target's: use a draft and a target made as a pair"
            )
        self._key = key
        self._eos_id = tokenizer.eos_id
        self._vocab_size = tokenizer.vocab_size
        self.epoch = frame.epoch
        self._prompt = Prompt(frame.text, frame.jpeg)
        self._max_new_tokens = frame.max_new_tokens
        self._when_idle = frame.when_idle
        self._root_digest = prompt_digest(self._prompt)
        self._text = DigestedText(self._root_digest)
        self._waiting: list[Chunk] = []
        self._prefill_us: int | None = None
        self._passes = 0
        self._verify_us = 0
        self.adopt(frame)

    def adopt(self, frame: Open) -> None:
        """The edge's word on what is final wins, unless it is only behind. Raises ProtocolError."""
        self._check_tokens(frame.tokens)
        if len(frame.tokens) > self._max_new_tokens:
            raise ProtocolError(f"Open holds {len(frame.tokens)} tokens, {self._max_new_tokens} are allowed")
        theirs = DigestedText(self._root_digest)
        theirs.extend(frame.tokens)
        if theirs.digest != frame.digest:
            raise ProtocolError("the digest of Open does not match its prompt and tokens")
        if frame.tokens != self._text.tokens[: len(frame.tokens)]:
            self._text = theirs
            self._waiting.clear()

    def on_open(self, frame: Open) -> list[CloudFrame]:
        """An Open of the running epoch, doubled or after a reconnect."""
        self.adopt(frame)
        if self._prefill_us is None:
            return []
        return [self._opened(), *self._catch_up(len(frame.tokens))]

    def on_resume(self, frame: Resume) -> list[CloudFrame]:
        """Repeat what the edge has missed; an empty verdict where it has missed nothing."""
        if not self._holds(frame.base, frame.digest):
            return [PrefillAgain(frame.session, frame.epoch)]
        return [self._verdict(frame.base, 0, self._text.tokens[frame.base :])]

    def on_chunk(self, frame: Chunk) -> list[CloudFrame]:
        """Queue a branch; one whose parent is already behind gets what came after it."""
        self._check_tokens(frame.tokens)
        if not self._holds(frame.base, frame.digest):
            return [PrefillAgain(frame.session, frame.epoch)]
        if frame.base < len(self._text):
            return self._catch_up(frame.base)
        if frame not in self._waiting:
            self._waiting = [*self._waiting[-3:], frame]
        return []

    def next_job(self) -> CloudJob | None:
        """What the target should run for this text now, if anything."""
        if self._prefill_us is None:
            return PrefillTarget(self._key, self.epoch, self._prompt, self._max_new_tokens)
        self._waiting = [chunk for chunk in self._waiting if chunk.base == len(self._text)]
        if self._finished or not (self._waiting or self._when_idle == "step"):
            return None
        draft = max((chunk.tokens for chunk in self._waiting), key=len, default=())
        room = self._max_new_tokens - len(self._text) - 1
        return Verify(self._key, self.epoch, self._text.tokens, draft[:room])

    def on_prefilled(self, compute_us: int) -> list[CloudFrame]:
        self._prefill_us = compute_us
        return [self._opened()]

    def on_judged(self, job: Verify, judgement: Judgement, compute_us: int) -> list[CloudFrame]:
        """Commit a judgement, unless the edge has meanwhile moved the text elsewhere."""
        self._passes += bool(job.tokens or job.draft)  # the first token alone comes from the prefill
        self._verify_us = compute_us
        if job.tokens != self._text.tokens:
            return []
        added = (*job.draft[: judgement.accepted], judgement.next_token)
        if self._eos_id in added:
            added = added[: added.index(self._eos_id) + 1]
        accepted = min(judgement.accepted, len(added))
        base = len(self._text)
        self._text.extend(added)
        return [self._verdict(base, accepted, added[accepted:])]

    @property
    def _finished(self) -> bool:
        tokens = self._text.tokens
        return len(tokens) >= self._max_new_tokens or tokens[-1:] == (self._eos_id,)

    def _holds(self, base: int, digest: int) -> bool:
        return base <= len(self._text) and self._text.digest_at(base) == digest

    def _catch_up(self, base: int) -> list[CloudFrame]:
        missed = self._text.tokens[base:]
        return [self._verdict(base, 0, missed)] if missed else []

    def _opened(self) -> Opened:
        return Opened(
            self._key.session,
            self.epoch,
            len(self._text),
            self._text.digest,
            self._prefill_us or 0,
        )

    def _verdict(self, base: int, accepted: int, tokens: tuple[int, ...]) -> Verdict:
        return Verdict(
            self._key.session,
            self.epoch,
            base,
            self._text.digest,
            accepted,
            tokens,
            self._passes,
            self._verify_us,
        )

    def _check_tokens(self, tokens: tuple[int, ...]) -> None:
        if tokens and max(tokens) >= self._vocab_size:
            raise ProtocolError(f"token {max(tokens)} is beyond the vocabulary of {self._vocab_size}")
