"""The cloud's service alone: what it does while it waits for a draft, or for more of one that it verifies."""

from __future__ import annotations

import pytest
from cloud_machine import (
    ALICE,
    BOB,
    ROOT,
    USEFUL,
    Speaking,
    draft,
    frames,
    next_job,
    opening,
    own,
    run,
    running,
    verdicts,
)

from outrider.core.frames import Close, Draft, Opened, Proposal
from outrider.core.ports import Array
from outrider.decoding.digest import extend_digest
from outrider.decoding.jobs import ExitHint, Word
from outrider.decoding.pace import Pace
from outrider.decoding.schemes import certain_row, pack_evidence
from outrider.decoding.toy import ToySettings


def one_round(one: Speaking, text: tuple[int, ...], at: int) -> int:
    """A forward of 50 ms in which no exit is heard; how much of the text is written after it."""
    job = next_job(one.cloud)
    one.cloud._clock.now_s += 0.05
    [verdict] = frames(one.cloud.finish(job, run(one.cloud, job), 0.05))
    return at + len(verdict.tokens)


def more(text: tuple[int, ...], at: int, count: int) -> Draft:
    """So much of the right text, from a place on."""
    return draft(at, text[at : at + count], digest=extend_digest(ROOT, text[:at]))


def awaiting(
    hints: str = "useful", exits: bool = True, shared: bool = False
) -> tuple[Speaking, tuple[int, ...], int]:
    """Drafts have always come 20 ms after a verdict, and stood; the next one is waited for."""
    one, _ = running(max_new_tokens=60, hints=hints, exits=exits, shared=shared)
    text, at = own(60), 0
    at = one_round(one, text, one_round(one, text, at))
    for _ in range(10):
        one.cloud._clock.now_s += 0.02
        one.cloud.receive(ALICE, more(text, at, 4))
        at = one_round(one, text, at)
    return one, text, at


def certain(tokens: tuple[int, ...]) -> list[Array]:
    return [certain_row(token, ToySettings().vocab_size) for token in tokens]


def test_while_a_draft_is_waited_for_a_step_runs_that_is_left_when_it_comes():
    one, text, at = awaiting()
    one.arriving = [(ALICE, more(text, at, 4))]
    assert verdicts(one.step()) == []
    assert one.cloud.stats.given_up == 1
    [verdict] = one.step()
    assert verdict.tokens == text[at : at + 5]


@pytest.mark.parametrize("arriving", ["nothing", "too late"])
def test_a_step_that_is_nearly_done_when_the_draft_comes_is_the_texts(arriving):
    one, text, at = awaiting()
    job = next_job(one.cloud)
    assert job.draft == ()
    one.cloud._clock.now_s += 0.049
    if arriving == "too late":
        one.cloud.receive(ALICE, more(text, at, 4))
    word = Word(text[at : at + 1], (0.9,))
    one.cloud.hint(job, ExitHint(2, 0, text[at], 0.9, (word,)))
    assert not one.cloud.gives_up(job)
    [verdict] = frames(one.cloud.finish(job, run(one.cloud, job), 0.05))
    assert verdict.tokens == text[at : at + 1]


@pytest.mark.parametrize("why", ["no hints", "all hints", "no exits", "shared"])
def test_where_no_exit_would_have_such_a_step_left_the_cloud_stands_idle(why):
    """A model that others use too is not kept busy by what nobody asked for."""
    hints = {"no hints": "none", "all hints": "all"}.get(why, "useful")
    one, _, _ = awaiting(hints, exits=why != "no exits", shared=why == "shared")
    assert next_job(one.cloud) is None and one.cloud.next_look_s() > 0.02


def test_what_runs_while_one_robot_is_waited_for_keeps_no_other_waiting():
    one, text, _ = awaiting()
    one.arriving = [(BOB, opening(**USEFUL))]
    assert verdicts(one.step()) == [] and one.cloud.stats.given_up == 1
    assert isinstance(one.step()[0], Opened)
    assert verdicts(one.step()) == [text[:1]], "Bob's, while Alice's draft is waited for"
    one.cloud.receive(BOB, Close(5, 1))
    assert next_job(one.cloud).draft == ()


def test_a_step_that_nobody_asked_for_is_no_trial_of_what_exits_gain(monkeypatch):
    trials: list[float] = []
    monkeypatch.setattr(Pace, "on_exits_gained", lambda pace, drafted, tokens: trials.append(tokens))
    one, text, at = awaiting()
    trials.clear()
    one.arriving = [(ALICE, more(text, at, 2))]
    assert verdicts(one.step()) == [] and trials == []
    one.arriving = [(ALICE, more(text, at + 2, 4))]
    assert verdicts(one.step()) == []
    assert len(trials) == 1 and trials[0] > 0.0, "the verification was asked for"


@pytest.mark.parametrize("acceptance", ["rejection", "split", "sparse"])
def test_drafts_that_are_tested_may_grow_without_harm(acceptance):
    """No edge of ours has them verified in this way, but a frame may ask for it."""
    one, text = running(acceptance=acceptance)
    first, grown = (
        Proposal(5, 1, 0, ROOT, None, tokens, pack_evidence(acceptance, tokens, certain(tokens)))
        for tokens in (text[:2], text[:6])
    )
    one.cloud.receive(ALICE, first)
    one.arriving = [(ALICE, grown)]
    assert len(one.step()) >= 1 and one.arriving == []
    assert one.cloud.stats.given_up == one.cloud.stats.failed_jobs == 0


def test_a_draft_that_grows_early_in_its_verification_is_verified_whole():
    one, text, at = awaiting()
    one.cloud.receive(ALICE, more(text, at, 2))
    one.arriving = [(ALICE, more(text, at + 2, 4))]
    assert verdicts(one.step()) == []
    [verdict] = one.step()
    assert (verdict.tokens, verdict.drafted) == (text[at : at + 7], 6)
    assert one.cloud.stats.given_up == 1
