# SPDX-License-Identifier: Apache-2.0
"""Two verifiers for one text: one leads, the other is on standby and is asked too if the first is late.

Both draw every token with the same noise, so their texts are the same and the first answer counts. Asking
the second one late is hedging as in Dean and Barroso, The Tail at Scale (2013). What one verifier has
written reaches the other as a draft, which it verifies itself. Sans-IO: times are monotonic seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import structs

from outrider.core.frames import (
    MAX_CHUNK_TOKENS,
    Close,
    CloudFrame,
    Draft,
    EdgeFrame,
    Hint,
    Open,
    Opened,
    Ping,
    Pong,
    PrefillAgain,
    Refused,
    Resume,
    StandBy,
    Unsettled,
    Verdict,
)
from outrider.core.pairs import checksum_text
from outrider.core.values import Prompt
from outrider.decoding.protocol.branch_codec import Run, pack_runs
from outrider.decoding.protocol.prefix_digest import DigestedText, prompt_digest

MAX_WAITS = 32
MIN_WAITS = 8
"""Answer times needed to use the quantile; until then INITIAL_WAIT_S counts."""
USUAL_QUANTILE = 0.75
"""Quantile of recent answer times that counts as usual: one answer in four may take longer."""
LATE_FACTOR = 1.5
"""An answer is late after this factor times the usual time."""
INITIAL_WAIT_S = 0.25
MIN_WAIT_S = 0.01


class Patience:
    """How long to wait for an answer, by the last MAX_WAITS times. First answers, which include the prompt,
    are kept apart.
    """

    def __init__(self) -> None:
        self._waits = {is_first: deque[float](maxlen=MAX_WAITS) for is_first in (True, False)}

    def add(self, is_first: bool, waited_s: float) -> None:
        """Record how long an answer took."""
        self._waits[is_first].append(waited_s)

    def seconds(self, is_first: bool) -> float:
        """Return the time after which an answer is late."""
        waits = sorted(self._waits[is_first])
        if len(waits) < MIN_WAITS:
            return INITIAL_WAIT_S
        return max(MIN_WAIT_S, LATE_FACTOR * waits[int(USUAL_QUANTILE * (len(waits) - 1))])


MAX_DRAFTS = 64
"""Number of newest drafts of a text that are kept for a verifier that begins to lead."""


class Directed(NamedTuple):
    """A frame for one of the verifiers, given by its number."""

    verifier: int
    frame: EdgeFrame


class Routed(NamedTuple):
    """The result of a received frame: a frame for the edge's machine or None, and frames to send."""

    forward: CloudFrame | None
    send: list[Directed]


@dataclass
class _Verifier:
    """The state of one verifier. `model`: its name in its last Pong, on this connection if `is_named`;
    `serves`: checksum, as text, of the model that read this prompt. `held`: number of the text's tokens it
    has verified or been sent; `is_opening`: its prompt is unanswered; `refused`: it refused this text.
    """

    is_up: bool = False
    generation: int = 0
    model: str = ""
    is_named: bool = False
    serves: str = ""
    leads: bool = False
    held: int = 0
    is_opening: bool = False
    refused: bool = False
    passes: int = 0

    def begin(self) -> None:
        self.leads, self.held, self.passes, self.serves = False, 0, 0, ""
        self.is_opening = self.refused = False


class Hedge:
    """Directs frames of a session to the leading verifiers, and passes on what is new in their answers.

    The first reachable verifier leads; if another one answers sooner, that one leads to the end of the
    text. For acceptance schemes that need no evidence.
    """

    def __init__(self, num_verifiers: int = 2) -> None:
        self._verifiers = [_Verifier() for _ in range(num_verifiers)]
        self._patience = Patience()
        self._open: Open | None = None
        self._is_opened = False
        self._begun_by = ""  # the `serves` of the verifier that wrote the text's first tokens
        self._text = DigestedText(0)
        self._drafts: list[Draft] = []
        self._early: dict[int, Verdict | Unsettled] = {}
        self._requested_s: float | None = None
        self.num_hedged = 0
        """How often another verifier was asked."""

    def send(self, frame: EdgeFrame, now_s: float) -> list[Directed]:
        """Return the frames to send for a frame of the edge's machine."""
        if isinstance(frame, Open):
            return self._on_open(frame, now_s)
        if isinstance(frame, Close):
            self._open, self._drafts, self._text = None, [], DigestedText(0)
        if not isinstance(frame, (Draft, Resume)):
            self._requested_s = None
            return [Directed(number, frame) for number in range(len(self._verifiers))]
        if isinstance(frame, Draft):
            self._keep_draft(frame)
        else:  # something was lost, perhaps the prompt
            for verifier in self._leading():
                verifier.is_opening = False
        if self._requested_s is None:
            self._requested_s = now_s
        return [Directed(number, frame) for number, verifier in enumerate(self._verifiers) if verifier.leads]

    def receive(self, number: int, frame: CloudFrame, now_s: float) -> Routed:
        """Return the result of a verifier's frame."""
        if isinstance(frame, Pong):
            return self._on_pong(number, frame)
        opened = self._open
        if opened is None or (frame.session, frame.epoch) != (opened.session, opened.epoch):
            return Routed(None, [])
        if isinstance(frame, (Opened, Verdict, Unsettled)):
            self._verifiers[number].refused = False  # it serves the text now, whatever came before
        if isinstance(frame, (Verdict, Unsettled)):
            return self._on_verdict(number, frame, now_s)
        if isinstance(frame, PrefillAgain):
            return Routed(None, self._open_frames(number))
        if isinstance(frame, Refused):
            return self._on_refused(number, frame)
        if isinstance(frame, Opened):
            self._verifiers[number].is_opening = False
            self._verifiers[number].serves = checksum_text(frame.model)
            is_first, self._is_opened = not self._is_opened, True
            return Routed(frame if is_first else None, [])
        is_current = not isinstance(frame, Hint) or self._verifiers[number].leads
        return Routed(frame if is_current else None, [])

    def watch(self, up: Sequence[bool], generations: Sequence[int], now_s: float) -> list[Directed]:
        """Return the frames to send now: to a verifier that is back, and to one more if the leading ones
        cannot be reached or are late. `up`, `generations`: of the links, as in `FrameLink`.
        """
        frames: list[Directed] = []
        for number, verifier in enumerate(self._verifiers):
            reconnected = up[number] and generations[number] != verifier.generation
            verifier.is_up = up[number]
            if reconnected:
                verifier.generation = generations[number]
                verifier.is_opening = verifier.is_named = False
                frames += self._open_frames(number)
                if self._open is not None:
                    frames.append(Directed(number, Ping(self._open.session, self._open.epoch)))
        if self._open is None:
            return []
        serves = any(verifier.is_up and not verifier.refused for verifier in self._leading())
        return frames if serves and not self._is_late(now_s) else frames + self._hedge_all()

    def due_s(self) -> float | None:
        """Return when the leading verifiers count as late; None if no other could be asked."""
        can_help = any(map(self._can_help, self._verifiers))
        return None if self._requested_s is None or not can_help else self._requested_s + self._patience_s

    @property
    def _patience_s(self) -> float:
        return self._patience.seconds(self._is_first_answer)

    @property
    def _is_first_answer(self) -> bool:
        return not len(self._text)

    def _is_late(self, now_s: float) -> bool:
        return self._requested_s is not None and now_s - self._requested_s >= self._patience_s

    def _leading(self) -> list[_Verifier]:
        return [verifier for verifier in self._verifiers if verifier.leads]

    def _can_help(self, verifier: _Verifier) -> bool:
        """Whether a verifier is on standby and reachable, has not refused, and serves the same model."""
        fits = verifier.is_up and not verifier.refused and verifier.model == self._model != ""
        return fits and not verifier.leads

    @property
    def _model(self) -> str:
        """The name of the model that is served; empty until a verifier has named it."""
        return next((verifier.model for verifier in self._verifiers if verifier.model), "")

    def _on_open(self, frame: Open, now_s: float) -> list[Directed]:
        """Begin a text, or restate the current one."""
        before, self._open = self._open, frame
        self._text = DigestedText(prompt_digest(Prompt(frame.text, frame.jpeg)))
        self._text.extend(frame.tokens)
        if before is None or (before.session, before.epoch) != (frame.session, frame.epoch):
            for verifier in self._verifiers:
                verifier.begin()
            self._begun_by = ""
            first = next((verifier for verifier in self._verifiers if verifier.is_up), self._verifiers[0])
            first.leads = True
        self._drafts, self._early = [], {}
        self._is_opened, self._requested_s = False, now_s
        frames = [Directed(n, Ping(frame.session, frame.epoch)) for n in range(len(self._verifiers))]
        for number, verifier in enumerate(self._verifiers):
            verifier.is_opening = verifier.refused = False
            frames += self._open_frames(number)
        return frames

    def _open_frames(self, number: int) -> list[Directed]:
        """Return the frames that open the text so far at a verifier; none while an Open is unanswered."""
        verifier, opened = self._verifiers[number], self._open
        if opened is None or verifier.is_opening:
            return []
        verifier.is_opening, verifier.held = True, len(self._text)
        model = self._begun_by or opened.model
        now = structs.replace(opened, tokens=self._text.tokens, digest=self._text.digest, model=model)
        after: list[EdgeFrame] = [*self._drafts] if verifier.leads else [StandBy(now.session, now.epoch)]
        return [Directed(number, frame) for frame in (now, *after)]

    def _keep_draft(self, frame: Draft) -> None:
        """Keep a draft for a verifier that leads later, with the digest of the text that it follows."""
        if frame.digest is None:
            if frame.base > len(self._text):
                return
            frame = structs.replace(frame, digest=self._text.digest_at(frame.base))
        self._drafts = [*self._drafts, frame][-MAX_DRAFTS:]

    def _hedge_all(self) -> list[Directed]:
        """Return the frames that make every verifier lead that can help."""
        frames: list[Directed] = []
        for number, verifier in enumerate(self._verifiers):
            if self._can_help(verifier):
                self.num_hedged += 1
                verifier.leads = True
                frames += self._catch_up(number)
        return frames

    def _catch_up(self, number: int) -> list[Directed]:
        """Return the frames for a verifier on standby: the text it lacks, as a draft, and the kept drafts."""
        verifier, opened = self._verifiers[number], self._open
        assert opened is not None
        tail = self._text.tokens[verifier.held :]
        if len(tail) > MAX_CHUNK_TOKENS:
            verifier.is_opening = False
            return self._open_frames(number)
        where = opened.session, opened.epoch, verifier.held, self._text.digest_at(verifier.held)
        runs = [Run(0, tail)] if tail else []
        caught_up = [] if self._drafts and not tail else [Draft(*where, pack_runs(runs))]
        verifier.is_opening = False
        return [Directed(number, frame) for frame in (*caught_up, *self._drafts)]

    def _on_verdict(self, number: int, frame: Verdict | Unsettled, now_s: float) -> Routed:
        verifier, text = self._verifiers[number], self._text
        verifier.is_opening = False
        verifier.passes = max(verifier.passes, frame.passes)
        counted = structs.replace(frame, passes=sum(each.passes for each in self._verifiers))
        if frame.base > len(text):
            self._early[frame.base] = frame
        if not self._fits(frame):
            return Routed(counted, [])
        verifier.held = max(verifier.held, min(frame.base + len(frame.tokens), len(text)))
        new = frame.tokens[len(text) - frame.base :]
        if not new:
            return Routed(counted if verifier.leads else None, [])
        self._record_wait(now_s)
        text.extend(new)
        self._begun_by = self._begun_by or verifier.serves
        verifier.held = len(text)
        early = self._early.pop(len(text), None)
        if early is not None and early.digest == text.digest:  # the machine has kept it too
            text.extend(early.tokens)
        return Routed(counted, self._make_leader(number))

    def _fits(self, frame: Verdict | Unsettled) -> bool:
        """Whether a verdict agrees with the text so far."""
        text = self._text
        if frame.base > len(text) or frame.digest != text.digest_at(frame.base):
            return False
        known = text.tokens[frame.base :]
        return frame.tokens[: len(known)] == known[: len(frame.tokens)]

    def _record_wait(self, now_s: float) -> None:
        """Record how long the answer took. If the target takes steps by itself, another is due at once."""
        assert self._open is not None
        if self._requested_s is not None:
            self._patience.add(self._is_first_answer, now_s - self._requested_s)
        self._requested_s = None if self._open.rules.when_idle == "wait" else now_s

    def _make_leader(self, number: int) -> list[Directed]:
        """Return the frames that make an answering verifier lead alone; none if it is on standby."""
        opened = self._open
        if opened is None or not self._verifiers[number].leads:
            return []
        frames: list[Directed] = []
        for other, verifier in enumerate(self._verifiers):
            if verifier.leads and other != number:
                verifier.leads = False
                frames.append(Directed(other, StandBy(opened.session, opened.epoch)))
        return frames

    def _on_refused(self, number: int, frame: Refused) -> Routed:
        """Exclude a verifier that refuses from this text. Pass the refusal on if no other can help."""
        verifier = self._verifiers[number]
        verifier.refused, verifier.leads = True, False
        frames = [] if self._leading() else self._hedge_all()
        return Routed(None if self._leading() else frame, frames)

    def _on_pong(self, number: int, frame: Pong) -> Routed:
        """Record a verifier's model. Refuse the text if one that is up and another, or its own, differ."""
        verifier, opened = self._verifiers[number], self._open
        verifier.model, verifier.is_named = frame.model, True
        begun = [each.model for each in self._leading() if self._begun_by and each.model and not each.is_up]
        names = [*begun, *[each.model for each in self._verifiers if each.is_named and each.is_up]]
        if opened is None or len(set(names)) < 2:
            return Routed(frame, [])
        models = " and ".join(map(repr, dict.fromkeys(names)))
        message = f"the verifiers serve {models}: start both with one model"
        return Routed(Refused(opened.session, opened.epoch, "config", message), [])
