"""The target worker alone: a verification that runs alone can be aborted, and nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from cloud_machine import ALICE, BOB, PROMPT, own
from support.toy_models import ToyModel, ToySession
from support.toys import own_text, toy_pair

from outrider.core.frames import Peer
from outrider.core.ports import Array, Chunk
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.acceptance.schemes import GREEDY
from outrider.decoding.execution import batch_verification
from outrider.decoding.execution.workers import TargetWorker
from outrider.decoding.jobs import (
    Aborted,
    ExitHint,
    Judgement,
    PrefillTarget,
    SessionKey,
    Unfinished,
    Verify,
)
from outrider.decoding.protocol.sampling_rules import Sampling

TEXT = own()


@pytest.fixture
def sessions(monkeypatch) -> list[ToySession]:
    """Return the target's sessions, in the order they are opened."""
    opened: list[ToySession] = []

    def open_session(model: ToyModel) -> ToySession:
        opened.append(ToySession(model))
        return opened[-1]

    monkeypatch.setattr(ToyModel, "open_session", open_session)
    return opened


def worker(*peers: Peer) -> TargetWorker:
    one = TargetWorker(toy_pair(1, 1.0, eos_bias=-9.0)[0])
    for peer in peers:
        assert one.run([PrefillTarget(SessionKey(peer, 1), 1, PROMPT, 20)], never) == [None]
    return one


def verify(length: int, draft: tuple[int, ...], peer: Peer = ALICE) -> Verify:
    """Return the job that verifies a draft after `length` tokens of the target's own text."""
    evidence = (None,) * len(draft)
    return Verify(
        SessionKey(peer, 1),
        1,
        TEXT[:length],
        draft,
        evidence,
        GREEDY,
        Sampling(),
        True,
        hints=True,
    )


def never(job: Verify, hint: ExitHint) -> bool:
    return False


def at_exit(index: int, heard: list[int]):
    """Return a listener that aborts at exit `index`; `heard` collects the exits that have reported."""

    def on_hint(job: Verify, hint: ExitHint) -> bool:
        heard.append(hint.exit)
        return hint.exit == index

    return on_hint


def is_accepted(judged: object, tokens: tuple[int, ...]) -> bool:
    return isinstance(judged, Judgement) and (judged.accepted, judged.next_token) == (
        len(tokens) - 1,
        tokens[-1],
    )


@pytest.mark.parametrize("index", [0, 1, 2])
def test_an_aborted_verification_leaves_the_session_unchanged(sessions, index):
    one = worker(ALICE)
    [judged] = one.run([verify(0, TEXT[:4])], never)
    assert is_accepted(judged, TEXT[:5])
    for length, draft in ((5, (*TEXT[5:7], 29, 3)), (5, ()), (5, TEXT[5:12])):
        before, heard = sessions[0].length, []
        [left] = one.run([verify(length, draft)], at_exit(index, heard))
        assert isinstance(left, Aborted) and heard == list(range(index + 1))
        assert sessions[0].length == before
    [judged] = one.run([verify(5, TEXT[5:8])], never)
    assert is_accepted(judged, TEXT[5:9])


def test_tokens_rolled_back_for_an_aborted_verification_are_forgotten():
    """An edge may move the text to where the cache then ends. The last row does not belong there."""
    one = worker(ALICE)
    one.run([verify(0, TEXT[:8])], never)
    [left] = one.run([verify(5, TEXT[5:7])], at_exit(0, []))
    assert isinstance(left, Aborted)
    [judged] = one.run([verify(4, ())], never)
    assert is_accepted(judged, TEXT[4:5])


def test_in_a_batch_no_verification_is_aborted():
    one, heard = worker(ALICE, BOB), []
    jobs = [verify(0, TEXT[:3], peer) for peer in (ALICE, BOB)]
    judged = one.run(jobs, at_exit(0, heard))
    assert [is_accepted(each, TEXT[:4]) for each in judged] == [True, True]
    assert sorted(heard) == [0, 0, 1, 1, 2, 2]


def test_a_failure_is_not_an_abort(sessions):
    one = worker(ALICE)
    failing = ToySession.forward

    def broken(*given: object) -> None:
        raise RuntimeError("out of memory")

    sessions[0].forward = broken
    [failed] = one.run([verify(0, TEXT[:3])], at_exit(0, []))
    assert isinstance(failed, RuntimeError)
    sessions[0].forward = failing.__get__(sessions[0])
    [judged] = one.run([verify(0, TEXT[:3])], never)
    assert is_accepted(judged, TEXT[:4])


class LinkDownError(Exception):
    """An error that a listener may raise."""


def failing_at(index: int, calls: list[int]):
    def on_hint(job: Verify, hint: ExitHint) -> bool:
        calls.append(hint.exit)
        if hint.exit == index:
            raise LinkDownError
        return False

    return on_hint


@pytest.mark.parametrize("index", [0, 2])
def test_an_error_of_on_hint_is_not_a_failed_job(sessions, index):
    """Its error is raised unchanged, nothing runs twice, and the session stays as it was."""
    one, calls = worker(ALICE), []
    one.run([verify(0, TEXT[:4])], never)
    before = sessions[0].length
    with pytest.raises(LinkDownError):
        one.run([verify(5, TEXT[5:8])], failing_at(index, calls))
    assert calls == list(range(index + 1)) and sessions[0].length == before
    [judged] = one.run([verify(5, TEXT[5:8])], never)
    assert is_accepted(judged, TEXT[5:9])


def test_an_error_of_on_hint_in_a_batch_leaves_all_sessions_unchanged(sessions):
    one, calls = worker(ALICE, BOB), []
    jobs = [verify(0, TEXT[:3], peer) for peer in (ALICE, BOB)]
    before = [session.length for session in sessions]

    def on_hint(job: Verify, hint: ExitHint) -> bool:
        calls.append(job.key.peer)
        if job.key.peer == BOB:
            raise LinkDownError
        return False

    with pytest.raises(LinkDownError):
        one.run(jobs, on_hint)
    assert calls[-1] == BOB and calls.count(BOB) == 1
    assert [session.length for session in sessions] == before
    assert [is_accepted(each, TEXT[:4]) for each in one.run(jobs, never)] == [True, True]


def test_after_a_failed_batch_each_chunk_runs_from_its_old_state(sessions):
    one = worker(ALICE, BOB)

    def broken(*given: object) -> None:
        raise RuntimeError("out of memory")

    sessions[1].forward = broken
    jobs = [verify(0, TEXT[:3], peer) for peer in (ALICE, BOB)]
    fine, failed = one.run(jobs, never)
    assert is_accepted(fine, TEXT[:4]) and isinstance(failed, RuntimeError)
    assert sessions[0].length == sessions[1].length + 3


def test_an_error_of_on_hint_rolls_back_chunks_run_before_it(sessions, monkeypatch):
    """The jobs of a failed batch run one by one; those that have run by then have a longer cache."""
    one = worker(ALICE, BOB)
    together = ToyModel.forward_together

    def broken(model: ToyModel, chunks: Sequence[Chunk], *others: object) -> list[Array]:
        if len(chunks) > 1:
            raise RuntimeError("out of memory")
        return together(model, chunks, *others)

    def on_hint(job: Verify, hint: ExitHint) -> bool:
        if job.key.peer == BOB:
            raise LinkDownError
        return False

    monkeypatch.setattr(ToyModel, "forward_together", broken)
    before = [session.length for session in sessions]
    jobs = [verify(0, TEXT[:3], peer) for peer in (ALICE, BOB)]
    with pytest.raises(LinkDownError):
        one.run(jobs, on_hint)
    assert [session.length for session in sessions] == before
    assert [is_accepted(each, TEXT[:4]) for each in one.run(jobs, never)] == [True, True]


@pytest.mark.parametrize("failing", ["draws_on", "decide"])
def test_a_failure_outside_the_forward_is_the_jobs_result(monkeypatch, failing):
    """For example if the device has no memory left for it."""
    work = worker(ALICE, BOB)
    jobs = [verify(0, TEXT[:3]), verify(0, TEXT[:3], BOB)]
    error = RuntimeError("out of memory")

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(batch_verification, failing, fail)
        assert work.run(jobs, never) == [error, error]
        assert work.run(jobs[:1], never) == [error]
    assert all(is_accepted(judged, TEXT[:4]) for judged in work.run(jobs, never))


def test_a_resumed_text_is_cached_in_parts(monkeypatch):
    """Other jobs run between the parts, as they do between the parts of a prompt."""
    target = toy_pair(1, 1.0, eos_bias=-9.0)[0]
    text = own_text(target, DecodeRequest(PROMPT, 200))
    sizes: list[int] = []
    really = ToySession.forward

    def counting(session: ToySession, token_ids: Sequence[int], *rest: object) -> Array:
        sizes.append(len(token_ids))
        return really(session, token_ids, *rest)

    monkeypatch.setattr(ToySession, "forward", counting)
    one, results = TargetWorker(target), []
    while results[-1:] != [None]:
        results += one.run([PrefillTarget(SessionKey(ALICE, 1), 1, PROMPT, 200, text[:150])], never)
    assert [isinstance(result, Unfinished) for result in results] == [True] * 3 + [False]
    assert sizes == [64, 64, 21], "all but the last token, which the next verification runs"
    asked = verify(0, ())._replace(tokens=text[:150], draft=text[150:153], evidence=(None,) * 3)
    [judged] = one.run([asked], never)
    assert is_accepted(judged, text[150:154])
    assert sizes[3:] == [4]


def test_a_prompt_is_not_prefilled_again_for_another_text(monkeypatch):
    begun: list[None] = []

    def in_parts(session: ToySession, prompt: Prompt):
        begun.append(None)
        for _ in range(3):
            yield
        return session.prefill(prompt)

    monkeypatch.setattr(ToySession, "prefill_parts", in_parts)
    one, result, others = TargetWorker(toy_pair(1, 1.0, eos_bias=-9.0)[0]), Unfinished(), 0
    while isinstance(result, Unfinished):
        others += 1
        [result] = one.run([PrefillTarget(SessionKey(ALICE, 1), 1, PROMPT, 20, (others % 2,) * 2)], never)
    assert len(begun) == 1 and result is None
    while one.run([PrefillTarget(SessionKey(ALICE, 1), 1, PROMPT, 20, TEXT[:5])], never) != [None]:
        pass
    assert len(begun) == 1, "it is there still"
    [judged] = one.run([verify(5, TEXT[5:8])], never)
    assert is_accepted(judged, TEXT[5:9])
    while one.run([PrefillTarget(SessionKey(ALICE, 1), 2, PROMPT, 20)], never) != [None]:
        pass
    assert len(begun) == 2, "of another epoch"
