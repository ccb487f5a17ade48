"""The same machines and models on a virtual clock: a seeded discrete-event loop over a modelled link.

Nothing sleeps. Models really run, but their time is what `ComputeProfile` says, so hardware and networks that
are not at hand can be studied, and any schedule can be replayed from its seed.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass

from outrider.core.errors import Cancelled, LinkError
from outrider.core.frames import CloudFrame, EdgeFrame, Frame, Peer
from outrider.core.ports import LanguageModel
from outrider.core.values import Decoded, DecodeRequest, LinkState, Verified
from outrider.decoding.cloud import Reply
from outrider.decoding.config import DecodingConfig
from outrider.decoding.driver import ignore_verified, never_cancelled
from outrider.decoding.edge import Commit, EdgeAction, EdgeMachine, Fail, Send
from outrider.decoding.jobs import CloudJob, DraftToken, EdgeJob, Judgement, Verify
from outrider.decoding.patience import Patience
from outrider.decoding.service import VerifierService
from outrider.decoding.transcript import Transcript
from outrider.decoding.workers import DraftWorker

_PEER = Peer("", b"virtual")
_TICK_S = 0.05


@dataclass(frozen=True)
class ComputeProfile:
    """Modelled compute times in seconds. A verification of n drafts takes verify_s + n * verify_token_s."""

    draft_prefill_s: float = 0.02
    draft_token_s: float = 0.005
    target_prefill_s: float = 0.05
    verify_s: float = 0.03
    verify_token_s: float = 0.0


@dataclass(frozen=True)
class LinkProfile:
    """One direction of the link. A lost frame arrives `retransmit_s` later, or never where that is None."""

    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0
    retransmit_s: float | None = None
    bytes_per_s: float = float("inf")
    ordered: bool = True


@dataclass(frozen=True)
class Outage:
    """The link is down from `start_s` to `end_s`; frames in flight are lost; the verifier may restart."""

    start_s: float
    end_s: float
    verifier_restarts: bool = False


class _Channel:
    """Decides when a frame arrives."""

    def __init__(self, profile: LinkProfile, rng: random.Random) -> None:
        self._profile = profile
        self._rng = rng
        self._free_s = 0.0
        self._last_arrival_s = 0.0

    def arrival_s(self, now_s: float, num_bytes: int) -> float | None:
        """None where the frame is lost for good."""
        profile = self._profile
        self._free_s = max(self._free_s, now_s) + num_bytes / profile.bytes_per_s
        arrival_s = self._free_s + profile.delay_s + self._rng.uniform(0.0, profile.jitter_s)
        while self._rng.random() < profile.loss:
            if profile.retransmit_s is None:
                return None
            arrival_s += profile.retransmit_s
        if profile.ordered:
            arrival_s = max(arrival_s, self._last_arrival_s)
        self._last_arrival_s = arrival_s
        return arrival_s


@dataclass(frozen=True)
class VirtualWorld:
    """Everything outside the machines. `frame_bytes` is the size of a frame on the wire."""

    frame_bytes: Callable[[Frame], int]
    compute: ComputeProfile = ComputeProfile()
    uplink: LinkProfile = LinkProfile()
    downlink: LinkProfile = LinkProfile()
    outages: tuple[Outage, ...] = ()
    seed: int = 0

    def is_up(self, start_s: float, end_s: float) -> bool:
        """Whether no outage touches the interval."""
        return all(end_s < outage.start_s or start_s >= outage.end_s for outage in self.outages)


class VirtualDecoder:
    """A TextDecoder whose seconds are virtual; its clock `now_s` runs on from text to text."""

    def __init__(
        self,
        target: LanguageModel,
        draft: LanguageModel | None,
        config: DecodingConfig,
        world: VirtualWorld,
    ) -> None:
        self.now_s = 0.0
        self._world = world
        self._config = config
        self._target = target
        self._worker = DraftWorker(draft) if draft is not None and config.drafts else None
        self._machine = EdgeMachine(1, config, target.tokenizer)
        self._service = self._new_service()
        rng = random.Random(world.seed)
        self._uplink = _Channel(world.uplink, rng)
        self._downlink = _Channel(world.downlink, rng)
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._num_planned = 0
        self._edge_busy = self._cloud_busy = False
        self._generation = 1
        for outage in world.outages:
            self._at(outage.end_s, self._reconnect, outage)

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = ignore_verified,
        cancelled: Callable[[], bool] = never_cancelled,
    ) -> Decoded:
        """See `core.ports.TextDecoder`; `cancelled` is asked after every event."""
        self._start_s = self.now_s
        self._transcript = Transcript(self._target.tokenizer, on_verified)
        self._patience = Patience(self._config, self._generation, self.now_s)
        try:
            self._perform(self._machine.begin(request.prompt, request.max_new_tokens))
            self._at(self.now_s, self._tick, request, self._transcript)
            while not self._machine.done:
                if cancelled():
                    raise Cancelled(f"cancelled after {len(self._machine.tokens)} verified tokens")
                self._next_event()
        except BaseException:
            self._perform(self._machine.cancel())
            raise
        link = LinkState.CONNECTED if self._world.is_up(self.now_s, self.now_s) else LinkState.LOST
        return self._transcript.decoded(self._machine, self.now_s - self._start_s, link)

    def close(self) -> None:
        self._agenda.clear()

    def _new_service(self) -> VerifierService:
        return VerifierService(self._target, clock=lambda: self.now_s)

    def _at(self, time_s: float, action: Callable[..., None], *arguments: object) -> None:
        self._num_planned += 1
        heapq.heappush(self._agenda, (time_s, self._num_planned, lambda: action(*arguments)))

    def _next_event(self) -> None:
        self._start_edge_job()
        self._start_cloud_job()
        self.now_s, _, action = heapq.heappop(self._agenda)
        action()

    def _tick(self, request: DecodeRequest, transcript: Transcript) -> None:
        """Watches deadline and link while this request's text is decoded."""
        if self._machine.done or transcript is not self._transcript:
            return
        if self.now_s - self._start_s > request.deadline_s:
            raise LinkError(f"no full text within {request.deadline_s:g} virtual s")
        up = self._world.is_up(self.now_s, self.now_s)
        advice = self._patience.verdict(up, self._generation, self.now_s)
        if advice is not None:
            self._perform(self._machine.ask_again() if advice == "ask again" else self._machine.go_alone())
        self._at(self.now_s + _TICK_S, self._tick, request, transcript)

    def _reconnect(self, outage: Outage) -> None:
        self._generation += 1
        if outage.verifier_restarts:
            self._service = self._new_service()
            self._cloud_busy = False

    def _start_edge_job(self) -> None:
        job = None if self._edge_busy else self._machine.next_job()
        if job is None or self._worker is None:
            return
        compute = self._world.compute
        duration_s = compute.draft_token_s if isinstance(job, DraftToken) else compute.draft_prefill_s
        token = self._worker.run(job)
        self._edge_busy = True
        self._at(self.now_s + duration_s, self._finish_edge_job, job, token, duration_s)

    def _finish_edge_job(self, job: EdgeJob, token: int | None, duration_s: float) -> None:
        self._edge_busy = False
        if isinstance(job, DraftToken):
            self._transcript.on_drafted(duration_s)
        self._perform(self._machine.complete(job, token))

    def _start_cloud_job(self) -> None:
        job = None if self._cloud_busy else self._service.next_job()
        if job is None:
            return
        compute = self._world.compute
        duration_s = compute.target_prefill_s
        if isinstance(job, Verify):
            duration_s = compute.verify_s + len(job.draft) * compute.verify_token_s
        self._cloud_busy = True
        result = self._service.run(job)
        self._at(self.now_s + duration_s, self._finish_cloud_job, self._service, job, result, duration_s)

    def _finish_cloud_job(
        self,
        service: VerifierService,
        job: CloudJob,
        result: Judgement | Exception | None,
        duration_s: float,
    ) -> None:
        if service is self._service:
            self._cloud_busy = False
            self._reply(service.finish(job, result, duration_s))

    def _perform(self, actions: list[EdgeAction]) -> None:
        for action in actions:
            if isinstance(action, Send):
                self._send_up(action.frame)
            elif isinstance(action, Commit):
                self._transcript.on_commit(action, self.now_s - self._start_s)
            elif isinstance(action, Fail):
                raise action.error

    def _send_up(self, frame: EdgeFrame) -> None:
        if not self._world.is_up(self.now_s, self.now_s):
            return
        num_bytes = self._world.frame_bytes(frame)
        self._transcript.on_sent(frame, num_bytes, self.now_s - self._start_s)
        arrival_s = self._uplink.arrival_s(self.now_s, num_bytes)
        if arrival_s is not None and self._world.is_up(self.now_s, arrival_s):
            self._at(arrival_s, lambda: self._reply(self._service.receive(_PEER, frame)))

    def _reply(self, replies: list[Reply]) -> None:
        for reply in replies:
            num_bytes = self._world.frame_bytes(reply.frame)
            arrival_s = self._downlink.arrival_s(self.now_s, num_bytes)
            if arrival_s is not None and self._world.is_up(self.now_s, arrival_s):
                self._at(arrival_s, self._receive_down, reply.frame, num_bytes)

    def _receive_down(self, frame: CloudFrame, num_bytes: int) -> None:
        self._transcript.on_received(num_bytes)
        self._patience.on_heard(self.now_s)
        self._perform(self._machine.receive(frame))
