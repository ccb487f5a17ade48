"""Drafts beside a job's own, as the worker runs them: the target follows one of them, and all agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from cloud_machine import ALICE, BOB, PROMPT, own
from support.toys import own_text, toy_pair

from outrider.core.errors import OutOfMemoryError
from outrider.core.ports import Chunk
from outrider.core.values import DecodeRequest
from outrider.decoding.acceptance.schemes import GREEDY
from outrider.decoding.execution.cached_sequence import CachedSequence
from outrider.decoding.execution.workers import TargetWorker
from outrider.decoding.fakes.toy import ToyModel
from outrider.decoding.jobs import (
    Aborted,
    ExitHint,
    Judgement,
    PrefillTarget,
    SessionKey,
    Verify,
)
from outrider.decoding.protocol.sampling_rules import Sampling

TEXT = own()
KEY = SessionKey(ALICE, 1)


def other(token: int) -> int:
    """Not that token, and not the end."""
    return token % 30 + 1


def verify(length: int, draft: tuple[int, ...], *beside: tuple[int, ...]) -> Verify:
    evidence = (None,) * len(draft)
    return Verify(KEY, 1, TEXT[:length], draft, evidence, GREEDY, Sampling(), True, True, beside)


def never(job: Verify, hint: ExitHint) -> bool:
    return False


@pytest.fixture
def chunks(monkeypatch) -> list[list[int]]:
    """How many tokens each chunk of each forward has."""
    sizes: list[list[int]] = []
    plain = ToyModel.forward_together

    def noted(model: ToyModel, chunks: Sequence[Chunk], *given: object, **named: object) -> list:
        sizes.append([len(chunk.token_ids) for chunk in chunks])
        return plain(model, chunks, *given, **named)

    monkeypatch.setattr(ToyModel, "forward_together", noted)
    return sizes


def worker() -> TargetWorker:
    one = TargetWorker(toy_pair(1, 1.0, eos_bias=-9.0)[0])
    assert one.run([PrefillTarget(KEY, 1, PROMPT, 20)], never) == [None]
    return one


def outcome(judged: object) -> tuple[int, int, int | None]:
    assert isinstance(judged, Judgement)
    return judged.branch, judged.accepted, judged.next_token


def test_the_draft_that_the_target_follows_furthest_counts(chunks):
    one = worker()
    wrong = (*TEXT[:2], other(TEXT[2]), 5)
    [judged] = one.run([verify(0, wrong, TEXT[:1], TEXT[:5], TEXT[:4])], never)
    assert outcome(judged) == (2, 5, TEXT[5])
    assert chunks == [[4, 1, 5, 4]], "one forward for all of them"


def test_of_drafts_that_come_as_far_the_jobs_own_counts():
    [judged] = worker().run([verify(0, TEXT[:3], (*TEXT[:3], other(TEXT[3])), TEXT[:2])], never)
    assert outcome(judged) == (0, 3, TEXT[3])


def test_sequences_beside_take_over_what_the_jobs_own_has_of_the_text(chunks):
    """Whatever came between, a forward holds the drafts and the token before them alone."""
    one = worker()
    one.run([verify(0, TEXT[:5])], never)
    one.run([verify(6, TEXT[6:7], (*TEXT[6:7], 9))], never)
    one.run([verify(8, TEXT[8:11])], never)
    [judged] = one.run([verify(12, (other(TEXT[12]), 4), TEXT[12:14], TEXT[12:13])], never)
    assert outcome(judged) == (1, 2, TEXT[14])
    assert chunks == [[5], [2, 3], [4], [3, 3, 2]]


def test_after_a_branch_beside_has_stood_no_token_of_it_runs_again(chunks):
    """Else the next forward holds its tokens too, and is two where they do not fit into one."""
    one = worker()
    one.run([verify(0, TEXT[:2])], never)
    assert outcome(one.run([verify(3, (other(TEXT[3]), 4), TEXT[3:8])], never)[0]) == (1, 5, TEXT[8])
    assert outcome(one.run([verify(9, TEXT[9:11])], never)[0]) == (0, 2, TEXT[11])
    assert chunks == [[2], [3, 6], [3]]


def test_a_text_of_another_prompt_begins_with_nothing_of_the_last_one():
    target = toy_pair(1, 1.0, eos_bias=-9.0)[0]
    one, prompts = TargetWorker(target), [PROMPT, replace(PROMPT, text="go home")]
    for epoch, prompt in enumerate([*prompts, prompts[0]], 1):
        text = own_text(target, DecodeRequest(prompt, 20), Sampling())
        assert one.run([PrefillTarget(KEY, epoch, prompt, 20)], never) == [None]
        draft = (other(text[0]), 3)
        job = verify(0, draft, text[:4], text[:3])._replace(epoch=epoch)
        assert outcome(one.run([job], never)[0]) == (1, 4, text[4])


def test_a_verification_left_in_its_midst_leaves_all_as_they_were():
    one, heard = worker(), []

    def at_first_exit(job: Verify, hint: ExitHint) -> bool:
        heard.append(hint)
        return True

    one.run([verify(0, TEXT[:2], TEXT[:3])], never)
    [left] = one.run([verify(3, (7, 7), (8, 8), TEXT[3:6])], at_first_exit)
    assert isinstance(left, Aborted)
    [judged] = one.run([verify(3, (7, 7), (8, 8), TEXT[3:6])], never)
    assert outcome(judged) == (2, 3, TEXT[6])
    [hint] = heard
    assert [len(word.choices) for word in hint.words] == [3, 3, 4], "exits speak of all of them at once"


def test_who_hears_an_exit_is_told_what_is_verified_beside():
    """Else a verification is aborted for what it judges already."""
    one, heard = worker(), []

    def note(job: Verify, hint: ExitHint) -> bool:
        heard.append(job)
        return False

    one.run([verify(0, TEXT[:2])], never)
    job = verify(3, (7, 7), TEXT[3:6])
    one.run([job], note)
    assert heard and set(heard) == {job}


def test_without_room_for_another_sequence_fewer_are_verified(monkeypatch):
    one, opened = worker(), []

    def full(model: ToyModel) -> None:
        opened.append(model)
        raise OutOfMemoryError("no room")

    monkeypatch.setattr(ToyModel, "open_session", full)
    [judged] = one.run([verify(0, (7, 7), TEXT[:3])], never)
    assert outcome(judged) == (0, 0, TEXT[0]) and opened


def test_a_failure_beside_a_draft_is_not_its_own(monkeypatch):
    one = worker()
    one.run([verify(0, (7, 7), TEXT[:3])], never)

    def broken(*given: object) -> None:
        raise RuntimeError("a fault")

    one._beside[0]._session.forward = broken
    [judged] = one.run([verify(1, TEXT[1:2], TEXT[1:3])], never)
    assert outcome(judged) == (0, 1, TEXT[2])


def test_a_place_that_a_new_session_may_need_is_free():
    one = worker()
    one.run([verify(0, (7, 7), TEXT[:3])], never)
    assert one._beside
    one.run([PrefillTarget(SessionKey(BOB, 1), 1, PROMPT, 20)], never)
    assert not one._beside
    [judged] = one.run([verify(1, (7,), TEXT[1:3])], never)
    assert outcome(judged) == (1, 2, TEXT[3])


def test_a_sequence_that_has_as_much_copies_nothing(monkeypatch):
    target = toy_pair(1, 1.0, eos_bias=-9.0)[0]
    first, second = CachedSequence(target), CachedSequence(target)
    first.prefill(PROMPT, 20)
    first.logits(TEXT[:4], 1)
    second.follow(first, TEXT[:4])
    assert second.shared(TEXT) == 4
    monkeypatch.setattr(type(second._session), "copy_from", None)
    second.follow(first, TEXT[:4])
    second.follow(first, (*TEXT[:2], 5))
    assert second.shared(TEXT) == 4
