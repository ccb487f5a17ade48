"""The cloud's service alone: a text on standby is ready, and costs only the time for its prompt."""

from __future__ import annotations

from cloud_machine import (
    ALICE,
    BOB,
    USEFUL,
    draft,
    next_job,
    opened,
    opening,
    own,
    running,
    service,
    step,
    verdicts,
)

from outrider.core.frames import Opened, Resume, StandBy, Verdict

STAND_BY = StandBy(5, 1)


def test_a_text_on_standby_runs_only_its_prompt() -> None:
    cloud = service()
    cloud.receive(ALICE, opening(when_idle="step"))
    cloud.receive(ALICE, STAND_BY)
    [reply] = step(cloud)
    assert isinstance(reply.frame, Opened)
    assert next_job(cloud) is None and cloud.max_wait_s() is None


def test_a_draft_a_resume_or_an_open_ends_standby() -> None:
    text = own()
    asks = (draft(0, text[:3]), Resume(5, 1, 0, opening().digest), opening(when_idle="step"))
    for asked in asks:
        cloud = service()
        opened(cloud, when_idle="step")
        cloud.receive(ALICE, STAND_BY)
        assert next_job(cloud) is None
        cloud.receive(ALICE, asked)
        [verdict] = [reply.frame for reply in step(cloud) if isinstance(reply.frame, Verdict)]
        assert verdict.tokens == text[: len(verdict.tokens)]


def test_text_of_another_verifier_arrives_as_a_draft() -> None:
    cloud, text = service(), own()
    opened(cloud, **USEFUL)
    cloud.receive(ALICE, STAND_BY)
    cloud.receive(ALICE, draft(0, text[:9]))
    assert verdicts([reply.frame for reply in step(cloud)]) == [text[:10]]


def test_standby_aborts_a_running_verification() -> None:
    served, text = running()
    served.cloud.receive(ALICE, draft(0, text[:4]))
    served.arriving = [(ALICE, STAND_BY)]
    assert verdicts(served.step()) == []
    assert served.cloud.stats.aborted == 1 and next_job(served.cloud) is None


def test_a_text_on_standby_does_not_share_the_model() -> None:
    cloud = service()
    for peer in (ALICE, BOB):
        opened(cloud, peer, when_idle="step")
    cloud.receive(BOB, STAND_BY)
    assert {reply.peer for _ in range(6) for reply in step(cloud)} == {ALICE}
