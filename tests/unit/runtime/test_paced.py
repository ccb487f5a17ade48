"""Paced workers take the profile's time, hints leave at their layer's share, and results stay the models'."""

import pytest
from support.toys import own_text, request

from outrider.decoding.config import DecodingConfig
from outrider.decoding.local import LocalLink
from outrider.decoding.toy import ToyModel, ToySettings
from outrider.decoding.virtual import ComputeProfile
from outrider.runtime.paced import PacedDecoder, PacedService, Pacer

COMPUTE = ComputeProfile(
    draft_prefill_s=0.0,
    draft_token_s=0.1,
    draft_branch_s=0.02,
    target_prefill_s=0.5,
    verify_s=1.0,
    step_s=0.3,
)


class FakeTime:
    """A clock that only sleeping moves."""

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
    # 20 tokens of a draft that is always right: 4 rounds of 4 + 1.
    assert cloud.now_s == pytest.approx(0.5 + 4 * 1.0)
