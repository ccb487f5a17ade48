"""The edge side complete: the machine with its draft model, driven over any FrameLink."""

from __future__ import annotations

import time
from collections.abc import Callable

from outrider.core.errors import Cancelled, LinkError
from outrider.core.frames import Close
from outrider.core.ports import FrameLink, LanguageModel, Tokenizer
from outrider.core.values import Decoded, DecodeRequest, LinkState, Verified
from outrider.decoding.config import DecodingConfig
from outrider.decoding.edge import Commit, EdgeAction, EdgeMachine, Fail, Send
from outrider.decoding.jobs import DraftToken, EdgeJob
from outrider.decoding.rounds import RoundRecorder
from outrider.decoding.workers import DraftWorker

_CANCEL_POLL_S = 0.02


def _ignore(_: Verified) -> None:
    return


def _never() -> bool:
    return False


class LinkedDecoder:
    """A TextDecoder. `where` names the verifier in messages. Not thread-safe, but `link_state` is."""

    def __init__(
        self,
        link: FrameLink,
        draft: LanguageModel | None,
        tokenizer: Tokenizer,
        config: DecodingConfig,
        session: int,
        where: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link = link
        self._worker = DraftWorker(draft) if draft is not None and config.drafts else None
        self._tokenizer = tokenizer
        self._config = config
        self._session = session
        self._machine = EdgeMachine(session, config, tokenizer.vocab_size, tokenizer.eos_id)
        self._where = where
        self._clock = clock

    @property
    def link_state(self) -> LinkState:
        return self._link.state

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = _ignore,
        cancelled: Callable[[], bool] = _never,
    ) -> Decoded:
        """See `core.ports.TextDecoder`. Raises LinkError when the deadline passes before the text ends."""
        run = _Run(self, request, on_verified)
        try:
            while not self._machine.done:
                if cancelled():
                    raise Cancelled(f"cancelled after {len(self._machine.tokens)} verified tokens")
                run.advance()
        except BaseException:
            self._perform_quietly(self._machine.cancel())
            raise
        return run.decoded()

    def close(self) -> None:
        self._link.send(Close(self._session, 0))
        self._link.close()

    def text_of(self, tokens: tuple[int, ...]) -> str:
        return self._tokenizer.decode([token for token in tokens if token != self._tokenizer.eos_id])

    def _perform_quietly(self, actions: list[EdgeAction]) -> None:
        for action in actions:
            if isinstance(action, Send):
                self._link.send(action.frame)


class _Run:
    """One call of `decode`."""

    def __init__(
        self, decoder: LinkedDecoder, request: DecodeRequest, on_verified: Callable[[Verified], None]
    ) -> None:
        self._decoder = decoder
        self._machine = decoder._machine
        self._link = decoder._link
        self._config = decoder._config
        self._request = request
        self._on_verified = on_verified
        self._recorder = RoundRecorder()
        self._start_s = decoder._clock()
        self._last_heard_s = 0.0
        self._last_up_s = 0.0
        self._generation = self._link.generation
        self._perform(self._machine.begin(request.prompt, request.max_new_tokens))

    def advance(self) -> None:
        """Take what has arrived; else do one small piece of work; else wait for news."""
        now_s = self._now()
        if now_s > self._request.deadline_s:
            raise self._deadline_error()
        self._watch_link(now_s)
        job = self._machine.next_job()
        received = self._link.receive(0.0 if job is not None else self._patience_s(now_s))
        if received is not None:
            frame, num_bytes = received
            self._recorder.on_received(num_bytes)
            self._last_heard_s = self._now()
            self._perform(self._machine.receive(frame))
        elif job is not None:
            self._work(job)

    def decoded(self) -> Decoded:
        tokens = self._machine.tokens
        unverified = self._recorder.unverified_tokens
        return Decoded(
            text=self._decoder.text_of(tokens),
            token_ids=tokens,
            finished=True,
            elapsed_s=self._now(),
            prefill_s=self._machine.target_prefill_s,
            target_passes=self._machine.target_passes,
            rounds=tuple(self._recorder.rounds),
            link=LinkState.LOST if unverified else self._link.state,
            unverified_tokens=unverified,
        )

    def _now(self) -> float:
        return self._decoder._clock() - self._start_s

    def _patience_s(self, now_s: float) -> float:
        return max(0.0, min(_CANCEL_POLL_S, self._request.deadline_s - now_s))

    def _work(self, job: EdgeJob) -> None:
        worker = self._decoder._worker
        assert worker is not None
        started_s = self._now()
        token = worker.run(job)
        if isinstance(job, DraftToken):
            self._recorder.on_drafted(self._now() - started_s)
        self._perform(self._machine.complete(job, token))

    def _watch_link(self, now_s: float) -> None:
        """Ask again after a reconnect or a long silence; go alone once the link was down for too long."""
        if self._link.state in (LinkState.CONNECTED, LinkState.LOCAL):
            self._last_up_s = now_s
            reconnected = self._link.generation != self._generation
            if reconnected or now_s - self._last_heard_s > self._config.silence_s:
                self._generation = self._link.generation
                self._last_heard_s = now_s
                self._perform(self._machine.ask_again())
        elif now_s - self._last_up_s > self._config.link_grace_s:
            self._perform(self._machine.go_alone())

    def _perform(self, actions: list[EdgeAction]) -> None:
        for action in actions:
            if isinstance(action, Send):
                self._recorder.on_sent(action.frame, self._link.send(action.frame), self._now())
            elif isinstance(action, Commit):
                self._announce(action)
            elif isinstance(action, Fail):
                raise action.error

    def _announce(self, commit: Commit) -> None:
        now_s = self._now()
        self._recorder.on_commit(commit, now_s)
        self._on_verified(Verified(commit.tokens, self._decoder.text_of(self._machine.tokens), now_s))

    def _deadline_error(self) -> LinkError:
        done = f"{len(self._machine.tokens)} tokens verified"
        limit = f"within {self._request.deadline_s:g} s"
        if self._link.state in (LinkState.CONNECTED, LinkState.LOCAL):
            return LinkError(
                f"{self._decoder._where} did not finish the text {limit} ({done}): raise the deadline"
            )
        return LinkError(
            f"{self._decoder._where} cannot be reached: no full text {limit} ({done}). "
            "Start it with `outrider verifier`, or correct the endpoint"
        )
