"""The cloud's service alone: exits that report, and frames that arrive, during a forward pass."""

from __future__ import annotations

import pytest
import torch
from cloud_machine import (
    ALICE,
    BOB,
    EAGER,
    ROOT,
    USEFUL,
    branched,
    draft,
    opening,
    proposal,
    running,
    verdicts,
)

from outrider.core.frames import Cancel, Close, Verdict
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.protocol.prefix_digest import extend_digest


def test_a_branch_received_during_a_forward_can_abort_that_forward():
    served, text = running(tuning=EAGER, max_new_tokens=7)
    served.cloud.receive(ALICE, draft(0, branched(text)[0]))
    served.arriving = [(ALICE, draft(2, text[2:6], digest=extend_digest(ROOT, text[:2])))]
    assert verdicts(served.step()) == []
    assert served.cloud.stats.aborted == 1 and served.cloud.stats.failed_jobs == 0
    verdict = served.step()[-1]
    assert (verdict.tokens, verdict.passes) == (text[:7], 2)


@pytest.mark.parametrize("max_new_tokens", [2, 3, 9])
def test_without_drafts_the_target_continues_from_its_exits_to_the_end_of_the_text(
    max_new_tokens,
):
    """Nothing is predicted past the token that ends the text, so the text never exceeds its limit."""
    served, text = running(tuning=EAGER, max_new_tokens=max_new_tokens)
    assert verdicts(served.step()) == [text[:1]], "the prompt's last row has no exits"
    for _ in range(max_new_tokens - 2):
        assert verdicts(served.step()) == []
    assert served.cloud.stats.aborted == max_new_tokens - 2
    verdict = served.step()[-1]
    assert verdict.tokens == text[1:max_new_tokens]
    assert verdict.drafted == 0, "the exits' own tokens are no drafts"


@pytest.mark.parametrize(("most", "aborted"), [(72, 1), (4, 0)])
def test_no_verification_is_aborted_for_one_that_would_be_cut_to_the_same_tokens(most, aborted):
    served, text = running(CloudLimits(batch_tokens=most, shared_tokens=min(most, 8)), tuning=EAGER)
    served.cloud.receive(ALICE, draft(0, text[:3]))
    served.step()
    assert served.cloud.stats.aborted == aborted


def test_beyond_the_end_of_a_text_nothing_is_predicted():
    """An exit predicts the end of the text where there is none."""
    served, text = running(tuning=EAGER, max_new_tokens=9)
    target = served.cloud._worker._model
    target.exit_row = lambda index, digest: torch.eye(target.vocab_size)[min(target.end_ids)] * 50.0
    served.cloud.receive(ALICE, draft(0, text[:2]))
    assert verdicts(served.step()) == [text[:3]]
    assert served.cloud.stats.aborted == 0


@pytest.mark.parametrize("wrong_from", [0, 1, 3])
def test_tokens_of_wrong_exits_are_rejected_by_the_target(wrong_from):
    served, text = running(tuning=EAGER, max_new_tokens=9)
    target = served.cloud._worker._model
    known = [extend_digest(ROOT, text[:length]) for length in range(wrong_from)]
    target.exit_row = lambda index, digest: target.row(digest).roll(0 if digest in known else 1)
    written: tuple[int, ...] = ()
    for _ in range(300):
        if len(written) < 9:
            for tokens in verdicts(served.step()):
                written += tokens
                assert written == text[: len(written)]
    assert written == text[:9] and served.cloud.stats.aborted > 9


@pytest.mark.parametrize(
    "ending", [Cancel(5, 1), Close(5, 1), opening(epoch=2)], ids=["cancel", "close", "open"]
)
def test_a_text_cancelled_during_its_forward_aborts_only_that_forward(ending):
    served, text = running()
    served.cloud.receive(ALICE, draft(0, branched(text)[0]))
    served.arriving = [(ALICE, ending)]
    assert served.step() == []
    assert served.cloud.stats.aborted == 1 and served.cloud.stats.failed_jobs == 0
    served.cloud.receive(ALICE, opening(epoch=3, **USEFUL))
    served.step()
    served.cloud.receive(ALICE, draft(0, text[:4], epoch=3))
    assert verdicts(served.step()) == [text[:5]]


@pytest.mark.parametrize("tokens_per_s", [6.0, float("inf")])
def test_a_socket_error_during_a_forward_propagates_and_fails_no_session(tokens_per_s):
    """The rate allows the robot a verification of five tokens at once: the lost one is not charged."""
    served, text = running(CloudLimits(tokens_per_s=tokens_per_s), tuning=EAGER, when_idle="wait")
    served.cloud.receive(ALICE, draft(0, text[:4]))

    def broken() -> None:
        raise OSError("the socket is gone")

    poll, served.poll = served.poll, broken
    with pytest.raises(OSError, match="the socket is gone"):
        served.step()
    assert served.replies == []
    served.poll = poll
    stats = served.cloud.stats
    assert (stats.failed_jobs, stats.open_sessions, stats.tokens) == (0, 1, 0)
    [verdict] = [frame for frame in served.step() if isinstance(frame, Verdict)]
    assert (verdict.tokens, verdict.passes) == (text[:5], 2), "the pass of a lost verdict counts too"


def test_sessions_may_open_and_close_during_a_forward():
    served, text = running(tuning=EAGER, when_idle="wait")
    served.cloud.receive(ALICE, draft(0, branched(text)[0]))
    served.arriving = [
        (BOB, opening(when_idle="wait")),
        (BOB, draft(0, text[:3])),
        (BOB, Close(5, 1)),
        (BOB, opening(when_idle="wait", epoch=2)),
    ]
    assert verdicts(served.step()) == [text[:2]]
    served.step()
    served.cloud.receive(BOB, draft(0, text[:3], epoch=2))
    assert verdicts(served.step()) == [text[:4]]


@pytest.mark.parametrize("acceptance", ["split", "sparse"])
def test_schemes_that_test_distributions_never_abort(acceptance):
    """A ready or predicted branch would need the probability that it was drawn with."""
    served, text = running(tuning=EAGER, acceptance=acceptance)
    main, branch = branched(text)
    served.arriving = [(ALICE, proposal((), branch))]
    served.cloud.receive(ALICE, proposal((), main))
    assert len(served.step()) >= 1
    assert served.cloud.stats.aborted == served.cloud.stats.failed_jobs == 0
