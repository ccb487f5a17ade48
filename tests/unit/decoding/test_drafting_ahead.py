"""In the cloud, a draft on its own device drafts while the target verifies; the text is the target's own."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

import pytest
from cloud_machine import ALICE, BOB, USEFUL, opening
from support.toy_models import ToyModel, ToySettings
from support.toys import own_text, request, toy_pair
from test_cloud_drafts import cloud_draft, world

from outrider.core.errors import ModelError
from outrider.core.frames import Verdict
from outrider.core.ports import Pause
from outrider.decoding.acceptance.schemes import SCHEMES, Choices
from outrider.decoding.cloud.machine import Reply
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.linked_decoder import LinkedDecoder
from outrider.decoding.drivers.local_link import LocalLink
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.execution.cached_sequence import CachedSequence
from outrider.decoding.execution.cloud_draft_worker import CloudDraftWorker
from outrider.decoding.execution.draft_ahead import DraftAhead
from outrider.decoding.fakes.synthetic import SyntheticSettings, synthetic_pair
from outrider.decoding.jobs import CloudDraft, SessionKey
from outrider.decoding.policy.cloud_drafting import CloudDrafting
from outrider.decoding.policy.session_estimates import SessionEstimates
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.decoding.simulation.decoder import VirtualDecoder

KEY = SessionKey(ALICE, 1)


def job(*prefix: int, key: SessionKey = KEY, epoch: int = 1, name: str = "a") -> CloudDraft:
    return CloudDraft(key, epoch, request(name).prompt, 50, prefix, 2, SCHEMES["coupled"], Sampling(0.0))


def elapsed_s(agreement: float, apart: bool, cloud_draft_token_s: float = 0.006) -> float:
    """Return the virtual seconds of six texts drafted by the cloud, on a separate device if `apart`."""
    target, _ = toy_pair(3, 0.0, eos_bias=-9.0)
    there = world(cloud_draft_token_s)
    there = replace(there, compute=replace(there.compute, cloud_draft_apart=apart))
    config, cloud_model = DecodingConfig(silence_s=1e3), cloud_draft(3, agreement, -9.0)
    decoder = VirtualDecoder(target, None, config, there, cloud_draft=cloud_model)
    seconds = 0.0
    for number in range(6):
        asked = request(f"text {number}", deadline_s=1e5)
        decoded = decoder.decode(asked)
        assert decoded.token_ids == own_text(target, asked, config.sampling_for(asked.prompt))
        seconds += decoded.elapsed_s
    return seconds


@pytest.mark.lengthy
def test_a_second_device_pays():
    assert elapsed_s(0.9, apart=True) < 0.9 * elapsed_s(0.9, apart=False)


@pytest.mark.lengthy
def test_a_useless_draft_on_a_second_device_costs_almost_nothing():
    assert elapsed_s(0.0, apart=True) < 1.03 * elapsed_s(0.0, apart=False)


@pytest.mark.lengthy
def test_a_draft_that_takes_next_to_no_time_does_not_draft_for_ever():
    assert elapsed_s(1.0, apart=True, cloud_draft_token_s=1e-5) < elapsed_s(1.0, apart=False)


@pytest.mark.lengthy
@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("with_robot", [True, False])
def test_in_threads_the_text_is_the_targets_own(temperature: float, with_robot: bool):
    target, draft = synthetic_pair(SyntheticSettings(1, 0.85, 0.5, (0.5, 0.7, 0.9)))
    drafters = ("model",) if with_robot else ("suffix",)
    config = DecodingConfig(drafters=drafters, temperature=temperature)

    def texts(service: VerifierService, config: DecodingConfig) -> list[tuple[int, ...]]:
        edge = draft if config.needs_model else None
        decoder = LinkedDecoder(LocalLink(service), edge, target.tokenizer, config, 1, "here")
        return [decoder.decode(request(f"text {number}", 60)).token_ids for number in range(4)]

    alone = texts(VerifierService(target), DecodingConfig("ar", temperature=temperature))
    assert texts(VerifierService(target, draft=draft, draft_apart=True), config) == alone


def test_robots_that_share_the_target_are_all_drafted_for():
    target, _ = toy_pair(1, 1.0, eos_bias=-9.0)
    ticks, tokens = count(), Counter[bytes]()
    draft, clock = cloud_draft(1, 0.9, -9.0), lambda: next(ticks) / 1000
    service = VerifierService(target, clock=clock, draft=draft, draft_apart=True)
    for peer in (ALICE, BOB):
        service.receive(peer, opening(max_new_tokens=60, **USEFUL))

    def send(reply: Reply) -> None:
        if isinstance(reply.frame, Verdict):
            tokens[reply.peer.route] += len(reply.frame.tokens)

    steps = sum(1 for _ in iter(lambda: service.step(send), False))
    assert list(tokens.values()) == [60, 60]
    assert steps < 100, "each draft is for the text that it was asked for"


class Broken(ToyModel):
    def open_session(self):
        raise ModelError("no room")


def test_a_draft_that_fails_on_a_second_device_ends_no_text():
    target, _ = toy_pair(1, 1.0, eos_bias=-9.0)
    service = VerifierService(target, draft=Broken(ToySettings(seed=1)), draft_apart=True)
    config = DecodingConfig(drafters=("suffix",))
    decoder = LinkedDecoder(LocalLink(service), None, target.tokenizer, config, 1, "here")
    asked = request("text", 30)
    assert decoder.decode(asked).token_ids == own_text(target, asked, config.sampling_for(asked.prompt))
    assert service.stats.failed_jobs > 0


def test_a_sequence_that_has_as_much_of_a_text_copies_nothing(monkeypatch):
    target = toy_pair(1, 1.0, eos_bias=-9.0)[0]
    first, second, text = CachedSequence(target), CachedSequence(target), (4, 7, 2, 9)
    first.prefill(request().prompt, 20)
    first.logits(text, 1)
    second.follow(first, text)
    assert second.shared(text) == 4
    monkeypatch.setattr(type(second._session), "copy_from", None)
    second.follow(first, text)
    second.follow(first, (*text[:2], 5))
    assert second.shared(text) == 4


@pytest.mark.parametrize("shares_prompts", [True, False])
def test_drafts_at_many_positions_equal_drafts_one_by_one(shares_prompts: bool):
    toy = ToyModel(ToySettings(seed=4))
    toy.shares_prompts = shares_prompts
    jobs = [
        [job()],
        [job(1), job(2), job(1, 2)],
        [job(1, 2, 3), job(2, 5), job(1, 4), job(7)],
        [job(5, name="b", epoch=2), job(6, name="b", epoch=2)],
        [job(1, key=SessionKey(BOB, 1)), job(5, 5, name="b", epoch=2)],
    ]
    worker = CloudDraftWorker(toy)
    for batch in jobs:
        alone = [CloudDraftWorker(ToyModel(ToySettings(seed=4))).run([job])[0] for job in batch]
        assert [choices.tokens for choices in worker.run(batch)] == [choices.tokens for choices in alone]


class Held:
    """A worker whose batches end when the test releases them, or when they are aborted."""

    def __init__(self) -> None:
        self.begun, self.let_go = threading.Semaphore(0), threading.Semaphore(0)
        self.ran: list[Sequence[CloudDraft]] = []
        self.kept: list[frozenset[SessionKey]] = []

    def run(self, jobs: Sequence[CloudDraft], pause: Pause) -> list[Choices]:
        self.begun.release()
        while not self.let_go.acquire(timeout=0.001):
            pause()
        self.ran.append(list(jobs))
        return [Choices((1,)) for _ in jobs]

    def keep_only(self, keys: frozenset[SessionKey]) -> None:
        self.kept.append(keys)


class Owner:
    """Returns each batch of jobs once, and records the finished ones in `finished`."""

    def __init__(self, *batches: Sequence[CloudDraft]) -> None:
        self.batches, self.finished, self.worker = list(batches), [], Held()
        self.lock = threading.RLock()
        self.ahead = DraftAhead(self.worker, self.lock, self.next_jobs, self.finish, lambda: 0.0)

    def next_jobs(self) -> list[CloudDraft]:
        return list(self.batches.pop(0)) if self.batches else []

    def finish(self, jobs: Sequence[CloudDraft], results: Sequence[Choices], seconds: float) -> None:
        self.finished.append(list(jobs))

    def while_it_runs(self, call: Callable[[], None]) -> threading.Thread:
        """Run `call` in another thread, once a batch has begun."""
        assert self.worker.begun.acquire(timeout=10.0)
        thread = threading.Thread(target=call)
        thread.start()
        return thread

    def let_go(self, batches: int) -> None:
        for _ in range(batches):
            self.worker.let_go.release()


def test_drafts_that_the_target_waits_for_run_first():
    owner = Owner([job(1), job(2)])
    owner.ahead.resume()
    waiting = owner.while_it_runs(lambda: owner.ahead.run_now([job(3)]))
    assert owner.worker.begun.acquire(timeout=10.0), "the batch was aborted for another"
    owner.let_go(1)
    waiting.join(10.0)
    assert owner.finished == [[job(3)]]


def test_a_running_batch_with_the_same_jobs_is_waited_for():
    owner = Owner([job(1), job(2)])
    owner.ahead.resume()
    fewer = job(2)._replace(num_choices=1)
    waiting = owner.while_it_runs(lambda: owner.ahead.run_now([fewer]))
    owner.let_go(2)
    waiting.join(10.0)
    assert owner.finished[0] == [job(1), job(2)], "it was not aborted"


def test_drafting_ahead_stops_without_jobs_and_can_resume():
    owner = Owner([job(1)], [job(2)])
    owner.let_go(3)
    owner.ahead.run_now([job(3)])
    assert owner.finished == [[job(3)], [job(1)], [job(2)]]
    owner.batches = [[job(4)]]
    owner.let_go(2)
    owner.ahead.run_now([job(5)])
    assert owner.finished[3:] == [[job(5)], [job(4)]]


def test_an_error_is_raised_and_the_next_batch_still_runs():
    owner = Owner()
    owner.next_jobs = lambda: 1 / 0
    failing = DraftAhead(owner.worker, owner.lock, lambda: owner.next_jobs(), owner.finish, lambda: 0.0)
    owner.let_go(1)
    with pytest.raises(ZeroDivisionError):
        failing.run_now([job(1)])
    owner.next_jobs = list
    owner.let_go(1)
    failing.run_now([job(2)])
    assert owner.finished == [[job(1)], [job(2)]]


def test_caches_of_sessions_that_are_gone_are_freed_once_nothing_runs():
    owner = Owner([job(1)])
    owner.ahead.resume()
    assert owner.worker.begun.acquire(timeout=10.0)
    owner.ahead.keep_only([KEY])
    assert owner.worker.kept == []
    owner.let_go(2)
    owner.ahead.run_now([job(9)])
    assert owner.worker.kept == [frozenset([KEY])]


def test_the_number_of_positions_in_a_batch_is_the_one_that_gains_most():
    cloud = CloudDrafting()
    for num_positions in (1, 1, 4):
        cloud.on_drafted(0.01 * (1.0 + 0.1 * (num_positions - 1)), 0.1, num_positions)
    assert cloud.num_positions([]) == 0
    assert cloud.num_positions([0.9]) == 1
    assert cloud.num_positions([0.9, 0.5, 0.2, 0.01]) == 3
    assert cloud.num_positions([0.9, 0.01, 0.01, 0.01]) == 1


def test_the_next_draft_is_as_long_as_its_rows_and_the_time_allow():
    estimates = SessionEstimates(cloud_drafts=True)
    for length in (0, 4, 8):
        estimates.on_verified(length, 0.1 + 0.02 * length)
    for _ in range(3):
        estimates.on_cloud_drafted(0.001, 1)
    dear_rows = estimates.cloud.length_ahead(60, estimates.times.draft_s)
    quick = SessionEstimates(cloud_drafts=True)
    for length in (0, 4, 8):
        quick.on_verified(length, 0.1)
    for _ in range(3):
        quick.on_cloud_drafted(0.02, 1)
    assert dear_rows < 6
    assert quick.cloud.length_ahead(60, quick.times.draft_s) == 5, (
        "no more than one verification leaves time for"
    )
    assert quick.cloud.length_ahead(3, quick.times.draft_s) == 3
