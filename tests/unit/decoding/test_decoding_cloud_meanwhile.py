"""The cloud's service alone: what it does when more comes of a draft that it verifies."""

from __future__ import annotations

import pytest
from cloud_machine import (
    ALICE,
    ROOT,
    Speaking,
    draft,
    frames,
    next_job,
    own,
    run,
    running,
    verdicts,
)

from outrider.core.frames import Draft, Proposal
from outrider.core.ports import Array
from outrider.decoding.acceptance.schemes import SCHEMES, certain_row
from outrider.decoding.fakes.toy import ToySettings
from outrider.decoding.protocol.prefix_digest import extend_digest


def one_round(one: Speaking, text: tuple[int, ...], at: int) -> int:
    """A forward of 50 ms in which no exit is heard; how much of the text is written after it."""
    job = next_job(one.cloud)
    one.cloud._clock.now_s += 0.05
    [verdict] = frames(one.cloud.finish(job, run(one.cloud, job), 0.05))
    return at + len(verdict.tokens)


def more(text: tuple[int, ...], at: int, count: int) -> Draft:
    """So much of the right text, from a place on."""
    return draft(at, text[at : at + count], digest=extend_digest(ROOT, text[:at]))


def awaiting(hints: str = "useful", exits: bool = True) -> tuple[Speaking, tuple[int, ...], int]:
    """Drafts have always come 20 ms after a verdict, and stood; the next one is waited for."""
    one, _ = running(max_new_tokens=60, hints=hints, exits=exits)
    text, at = own(60), 0
    at = one_round(one, text, one_round(one, text, at))
    for _ in range(10):
        one.cloud._clock.now_s += 0.02
        one.cloud.receive(ALICE, more(text, at, 4))
        at = one_round(one, text, at)
    return one, text, at


def certain(tokens: tuple[int, ...]) -> list[Array]:
    return [certain_row(token, ToySettings().vocab_size) for token in tokens]


@pytest.mark.parametrize("acceptance", ["rejection", "split", "sparse"])
def test_drafts_that_are_tested_may_grow_without_harm(acceptance):
    """No edge of ours has them verified in this way, but a frame may ask for it."""
    one, text = running(acceptance=acceptance)
    first, grown = (
        Proposal(5, 1, 0, ROOT, None, tokens, SCHEMES[acceptance].pack_evidence(tokens, certain(tokens)))
        for tokens in (text[:2], text[:6])
    )
    one.cloud.receive(ALICE, first)
    one.arriving = [(ALICE, grown)]
    assert len(one.step()) >= 1 and one.arriving == []
    assert one.cloud.stats.aborted == one.cloud.stats.failed_jobs == 0


def test_a_draft_that_grows_early_in_its_verification_is_verified_whole():
    one, text, at = awaiting()
    one.cloud.receive(ALICE, more(text, at, 2))
    one.arriving = [(ALICE, more(text, at + 2, 4))]
    assert verdicts(one.step()) == []
    [verdict] = one.step()
    assert (verdict.tokens, verdict.drafted) == (text[at : at + 7], 6)
    assert one.cloud.stats.aborted == 1
