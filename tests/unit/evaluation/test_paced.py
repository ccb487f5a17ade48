"""Paced workers take the profile's time, give hints at their layer's share of it, and return true results."""

from dataclasses import replace

import pytest
from support.toy_models import ToyModel, ToySettings
from support.toys import own_text, request, toy_pair

from outrider.core.frames import Peer
from outrider.decoding.acceptance.schemes import GREEDY
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.local_link import LocalLink
from outrider.decoding.jobs import (
    Aborted,
    DraftTokens,
    ExitHint,
    PrefillDraft,
    PrefillTarget,
    SessionKey,
    Verify,
)
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.decoding.simulation.compute import ComputeProfile, DeviceQueue
from outrider.evaluation.common.paced_models import (
    PacedDecoder,
    PacedDraftWorker,
    PacedService,
    PacedTargetWorker,
    Pacer,
)

COMPUTE = ComputeProfile(
    draft_prefill_s=0.0,
    draft_token_s=0.1,
    draft_branch_s=0.02,
    target_prefill_s=0.5,
    verify_s=1.0,
    step_s=0.3,
)


class FakeTime:
    """A clock that only `sleep` advances."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.naps: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now_s += seconds

    def pacer(self) -> Pacer:
        return Pacer(lambda: self.now_s, self.sleep)


@pytest.fixture
def fake() -> FakeTime:
    return FakeTime()


def test_pacer_waits_for_the_rest_only(fake: FakeTime) -> None:
    pacer = fake.pacer()
    pacer.start()
    fake.now_s += 0.4
    pacer.wait_until(1.0)
    pacer.wait_until(0.9)
    assert fake.naps == pytest.approx([0.6])
    assert pacer.late_s == pytest.approx(0.1)


def test_texts_are_the_targets_and_take_the_profiles_time(fake: FakeTime) -> None:
    target = ToyModel(ToySettings(seed=5, eos_bias=-9.0))
    edge, cloud = FakeTime(), fake
    asked = request(max_new_tokens=20)
    service = PacedService(target, COMPUTE, cloud.pacer())
    decoder = PacedDecoder(
        LocalLink(service), target, DecodingConfig(strategy="sd"), COMPUTE, "the toy", edge.pacer()
    )
    decoded = decoder.decode(asked)
    assert decoded.token_ids == own_text(target, asked)
    assert edge.now_s == pytest.approx(decoded.speculation.drafted_tokens * 0.1)
    # 20 tokens with a draft that is always right: 4 rounds of 4 + 1.
    assert cloud.now_s == pytest.approx(0.5 + 4 * 1.0)


@pytest.mark.parametrize(
    ("queue", "end_s"), [(DeviceQueue(), 0.5), (DeviceQueue(10), 0.6), (DeviceQueue(10, 0.7), 1.0)]
)
def test_a_verification_given_up_takes_the_time_to_its_exit_and_what_runs_on(
    fake: FakeTime, queue: DeviceQueue, end_s: float
) -> None:
    compute = replace(COMPUTE, target_queue=queue)
    target, asked = toy_pair(5, 1.0, eos_bias=-9.0)[0], request(max_new_tokens=20)
    worker, text = PacedTargetWorker(target, compute, fake.pacer()), own_text(target, asked)
    heard: list[int] = []

    def at_the_second(job: Verify, hint: ExitHint) -> bool:
        heard.append(hint.exit)
        return hint.exit == 1

    def verify(session: int, draft: tuple[int, ...]) -> Verify:
        evidence = (None,) * len(draft)
        key = SessionKey(Peer("", b"robot"), session)
        return Verify(key, 1, text[:2], draft, evidence, GREEDY, Sampling(), True, hints=True)

    for session in (1, 2):
        worker.run(
            [PrefillTarget(SessionKey(Peer("", b"robot"), session), 1, asked.prompt, 20)], at_the_second
        )
    fake.now_s = 0.0
    [left] = worker.run([verify(1, (text[2], 29, 3))], at_the_second)
    assert isinstance(left, Aborted) and heard == [0, 1]
    assert fake.now_s == pytest.approx(end_s)
    judged = worker.run([verify(1, text[2:6]), verify(2, text[2:4])], at_the_second)
    assert [(one.accepted, one.next_token) for one in judged] == [(4, text[6]), (2, text[4])]
    assert fake.now_s == pytest.approx(end_s + 1.0), "a batch is not left"
    assert sorted(heard) == [0, 0, 0, 1, 1, 1, 2, 2]


@pytest.mark.parametrize(("segments", "end_s"), [(0, 0.052), (10, 0.07)])
def test_a_paced_draft_can_be_left_in_its_midst(fake: FakeTime, segments: int, end_s: float) -> None:
    draft = ToyModel(ToySettings(seed=5))
    worker = PacedDraftWorker(draft, replace(COMPUTE, draft_queue=DeviceQueue(segments)), fake.pacer())
    worker.run(PrefillDraft(1, request().prompt, 20))
    job = DraftTokens(1, ((),), 1, GREEDY, Sampling())
    whole = worker.run(job)
    began_s = fake.now_s

    def leave() -> None:
        if fake.now_s > began_s + 0.051:
            raise Aborted

    with pytest.raises(Aborted):
        worker.run(job, leave)
    assert fake.now_s - began_s == pytest.approx(end_s)
    assert worker.run(job, lambda: None) == whole


@pytest.mark.parametrize(("draft_s", "agreement", "most"), [(0.09, 0.9, 0.8), (0.3, 1.0, 1.2)])
def test_in_one_process_nothing_is_drafted_on_before_a_verdict(
    draft_s: float, agreement: float, most: float
) -> None:
    """There nothing runs in parallel with the target. `draft_s` is per draft token; `ar` takes 0.3 s."""
    target, draft = toy_pair(5, agreement, eos_bias=-9.0)
    compute = replace(
        COMPUTE, target_prefill_s=0.0, draft_token_s=draft_s, draft_branch_s=0.01, verify_s=0.36
    )
    elapsed_s: dict[str, float] = {}
    for strategy in ("ar", "outrider"):
        time = FakeTime()
        service = PacedService(target, compute, time.pacer())
        config = DecodingConfig(strategy=strategy)
        decoder = PacedDecoder(LocalLink(service), draft, config, compute, "the toy", time.pacer())
        for number in range(3):
            asked = request(f"text {number}", 60, 1e6)
            assert decoder.decode(asked).token_ids == own_text(target, asked)
        elapsed_s[strategy] = time.now_s
    assert elapsed_s["outrider"] < most * elapsed_s["ar"], elapsed_s
