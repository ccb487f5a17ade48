"""The edge machine alone: it draws the token that the cloud has left unsettled."""

from __future__ import annotations

import pytest
import torch
from edge_machine import ROOT, TOKENIZER, edge, prefill, verdict

from outrider.core.errors import ProtocolError
from outrider.core.frames import Cancel, Open, Opened, Proposal, Resume, Unsettled, Verdict
from outrider.decoding.acceptance.packing import pack_residue, pack_target_row, pack_token_probs
from outrider.decoding.acceptance.schemes import Choices
from outrider.decoding.acceptance.sparse import SparseResidue, TailDraws
from outrider.decoding.edge.actions import Commit, Fail, Send
from outrider.decoding.edge.machine import EdgeMachine
from outrider.decoding.protocol.prefix_digest import extend_digest


def settling(scheme: str) -> tuple[EdgeMachine, list[torch.Tensor]]:
    """Return a machine that has sent the drafts 3 and 4, and the rows that they were drawn from."""
    machine = edge(strategy="sd", acceptance=scheme, temperature=1.0, num_draft_tokens=2)
    rows = [one_hot(3), one_hot(4)]
    prefill(machine)
    for token, row in zip((3, 4), rows, strict=True):
        actions = machine.complete(machine.next_job(), [Choices((token,), row)], 0.0, 0.01)
    assert actions == [Send(proposal((), None, (3, 4)))]
    return machine, rows


def one_hot(token: int) -> torch.Tensor:
    row = torch.zeros(32, dtype=torch.float64)
    row[token] = 1.0
    return row


def proposal(text: tuple[int, ...], settled: int | None, tokens: tuple[int, ...]) -> Proposal:
    """Return a Proposal of tokens drawn with probability 1."""
    evidence = pack_token_probs([1.0] * len(tokens))
    return Proposal(5, 1, len(text), extend_digest(ROOT, text), settled, tokens, evidence)


def unsettled(text: tuple[int, ...], base: int, residue: bytes) -> Unsettled:
    return Unsettled(5, 1, base, extend_digest(ROOT, text[:base]), text[base:], 2, 1, 10, residue)


def test_the_settled_token_is_sent_until_the_cloud_answers():
    machine, _ = settling("split")
    answer = unsettled((3,), 0, pack_target_row(one_hot(9)))
    assert machine.receive(answer, 1.0) == [Commit((3, 9), 2, (True, False), answer)]
    assert machine.receive(answer, 1.0) == []
    machine.complete(machine.next_job(), [Choices((5,), one_hot(5))], 1.0, 0.01)
    sent = machine.complete(machine.next_job(), [Choices((6,), one_hot(6))], 1.0, 0.01)
    assert sent == [Send(proposal((3,), 9, (5, 6)))]
    machine.receive(Opened(5, 1, 0, ROOT, 10, (0,)), 1.0)
    asked, repeated = machine.retry(3.0)
    assert asked.frame == Resume(5, 1, 1, extend_digest(ROOT, (3,)))
    assert repeated == sent[0]
    machine.receive(verdict((3, 9, 5, 6, 7), 2, drafted=2), 4.0)
    machine.complete(machine.next_job(), [Choices((5,), one_hot(5))], 1.0, 0.01)
    sent = machine.complete(machine.next_job(), [Choices((6,), one_hot(6))], 1.0, 0.01)
    assert sent == [Send(proposal((3, 9, 5, 6, 7), None, (5, 6)))]


def test_more_tail_draws_are_requested_when_they_run_out():
    machine, _ = settling("sparse")
    # Nearly all of P is tail. A draw of 3 is always rejected, because the draft gave it all its mass.
    half = SparseResidue((7,), (2.0**-32,), TailDraws(0, (3,) * 4, (0.25,) * 4))
    assert machine.receive(unsettled((), 0, pack_residue(half)), 1.0) == [Send(Resume(5, 1, 0, ROOT, 4))]
    assert machine.tokens == ()
    more = SparseResidue((7,), (2.0**-32,), TailDraws(4, (3, 9, 3, 3), (0.25,) * 4))
    answer = unsettled((), 0, pack_residue(more))
    assert machine.receive(answer, 1.0) == [Commit((9,), 2, (False,), answer)]


def test_bytes_that_are_no_residue_are_a_protocol_error():
    machine, _ = settling("split")
    [failure] = machine.receive(unsettled((3,), 0, b"\x05"), 1.0)
    assert isinstance(failure, Fail)
    assert isinstance(failure.error, ProtocolError)
    assert machine.done


def test_a_verdict_stays_committed_where_the_residue_kept_for_after_it_is_none():
    machine, _ = settling("split")
    machine.receive(unsettled((3,), 1, b"\x05"), 1.0)
    committed, failure = machine.receive(verdict((3,), 0, drafted=1), 1.0)
    assert committed.tokens == (3,) == machine.tokens
    assert isinstance(failure.error, ProtocolError)


@pytest.mark.parametrize("kind", ["never drafted", "another text"])
def test_repeated_verdicts_on_another_text_cause_few_opens(kind):
    machine = edge(acceptance="split", temperature=1.0, silence_s=2.0)
    prefill(machine)
    machine.complete(machine.next_job(), [Choices((3,), one_hot(3))], 0.0, 0.01)
    stranger = {
        "never drafted": unsettled((7,), 0, pack_target_row(one_hot(9))),
        "another text": Verdict(5, 1, 0, ROOT + 1, (5,), 0, 1, 10),
    }[kind]
    opens = []
    for number in range(40):
        now_s = 0.05 * number
        opens += [now_s for action in machine.receive(stranger, now_s) if isinstance(action.frame, Open)]
    assert opens == pytest.approx([0.5, 1.0, 1.5], abs=0.06)
    assert machine.tokens == ()


def test_a_token_settled_before_going_on_alone_is_no_longer_special():
    """The Open that follows contains the token. Naming it again would name a text that never existed."""
    machine = edge(acceptance="split", num_draft_tokens=1, link_loss="draft_only", temperature=1.0)
    prefill(machine)
    machine.complete(machine.next_job(), [Choices((3,), one_hot(3))], 0.0, 0.01)
    machine.receive(unsettled((), 0, pack_target_row(one_hot(9))), 1.0)
    machine.continue_alone(2.0)
    machine.complete(machine.next_job(), [Choices((5,), one_hot(5))], 2.0, 0.01)
    assert machine.tokens == (9, 5)
    assert [type(action.frame) for action in machine.retry(3.0)] == [Open]
    sent = machine.complete(machine.next_job(), [Choices((6,), one_hot(6))], 3.0, 0.01)
    assert sent == [Send(proposal((9, 5), None, (6,)))]


def test_a_text_that_ends_with_a_drawn_token_is_ended_at_the_cloud_too():
    machine, _ = settling("split")
    answer = unsettled((3,), 0, pack_target_row(one_hot(min(TOKENIZER.end_ids))))
    commit, last = machine.receive(answer, 1.0)
    assert machine.done and commit.tokens == (3, min(TOKENIZER.end_ids))
    assert last == Send(Cancel(5, 1))
    machine, _ = settling("split")
    final = verdict((3, min(TOKENIZER.end_ids)), 0, drafted=1)
    assert [type(action) for action in machine.receive(final, 1.0)] == [Commit], "it knows its own"
