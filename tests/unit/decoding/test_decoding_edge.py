"""The edge machine alone: frames in, actions out."""

from __future__ import annotations

import pytest
from support.toys import JPEG

from outrider.core.errors import BusyError, ConfigError, FrameError, LinkError, ModelError, ProtocolError
from outrider.core.frames import Cancel, Chunk, Open, Opened, PrefillAgain, Refused, Resume, Verdict
from outrider.core.values import Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.digest import extend_digest, prompt_digest
from outrider.decoding.edge import Commit, EdgeMachine, Fail, Send
from outrider.decoding.toy import ToyTokenizer

PROMPT = Prompt("find the chair", JPEG)
ROOT = prompt_digest(PROMPT)
TOKENIZER = ToyTokenizer(32)


def edge(**options) -> EdgeMachine:
    machine = EdgeMachine(5, DecodingConfig(**options), TOKENIZER)
    machine.begin(PROMPT, 20)
    return machine


def draft(machine: EdgeMachine, *tokens: int) -> list:
    """Let the machine's jobs answer with these tokens after the prefill."""
    machine.complete(machine.next_job(), None)
    actions = []
    for token in tokens:
        actions += machine.complete(machine.next_job(), token)
    return actions


def verdict(
    text: tuple[int, ...], base: int, accepted: int, tokens: tuple[int, ...], epoch: int = 1
) -> Verdict:
    return Verdict(5, epoch, base, extend_digest(ROOT, text), accepted, tokens, 1, 10)


def test_open_carries_the_prompt_and_a_full_branch_is_sent_once():
    machine = EdgeMachine(5, DecodingConfig(num_draft_tokens=2), TOKENIZER)
    assert machine.begin(PROMPT, 20) == [
        Send(Open(5, 1, ROOT, PROMPT.text, JPEG, (), 20, "wait", TOKENIZER.fingerprint))
    ]
    assert draft(machine, 3, 4) == [Send(Chunk(5, 1, 0, ROOT, (3, 4)))]
    assert machine.next_job() is None


def test_a_verdict_commits_accepted_drafts_and_the_targets_token():
    machine = edge(num_draft_tokens=3)
    draft(machine, 3, 4, 5)
    answer = verdict((3, 4, 9), 0, 2, (9,))
    assert machine.receive(answer) == [Commit((3, 4, 9), 3, 2, answer)]
    assert machine.next_job().tokens == (3, 4, 9)


def test_drafting_stops_at_the_end_token():
    machine = edge(num_draft_tokens=4)
    assert draft(machine, 3, 0) == [Send(Chunk(5, 1, 0, ROOT, (3, 0)))]


def test_doubled_late_and_foreign_frames_change_nothing():
    machine = edge(num_draft_tokens=1)
    draft(machine, 3)
    answer = verdict((3, 9), 0, 1, (9,))
    machine.receive(answer)
    assert machine.receive(answer) == []
    assert machine.receive(verdict((3, 9, 1), 2, 0, (1,), epoch=0)) == []
    assert machine.receive(Refused(6, 1, "busy", "not for us")) == []
    assert machine.tokens == (3, 9)


def test_a_gap_makes_it_ask_for_what_is_missing():
    machine = edge(strategy="ar")
    machine.receive(Opened(5, 1, 0, ROOT, 100))
    assert machine.receive(verdict((3, 4), 1, 0, (4,))) == [Send(Resume(5, 1, 0, ROOT))]
    assert machine.receive(verdict((3, 4), 0, 0, (3, 4)))[0].tokens == (3, 4)


def test_a_verdict_with_a_wrong_digest_is_not_believed():
    machine = edge(strategy="ar")
    wrong = Verdict(5, 1, 0, 123, 0, (3,), 1, 10)
    assert isinstance(machine.receive(wrong)[0].frame, Open)
    assert machine.tokens == ()


def test_prefill_again_sends_the_text_so_far_and_the_waiting_chunk():
    machine = edge(num_draft_tokens=1)
    draft(machine, 3)
    machine.receive(verdict((3, 9), 0, 1, (9,)))
    machine.complete(machine.next_job(), 7)
    frames = [action.frame for action in machine.receive(PrefillAgain(5, 1))]
    assert isinstance(frames[0], Open)
    assert frames[0].tokens == (3, 9)
    assert frames[1] == Chunk(5, 1, 2, extend_digest(ROOT, (3, 9)), (7,))


def test_passes_before_a_restart_still_count():
    machine = edge(strategy="ar")
    machine.receive(verdict((3,), 0, 0, (3,)))
    machine.receive(PrefillAgain(5, 1))
    machine.receive(verdict((3, 4), 1, 0, (4,)))
    assert machine.target_passes == 2


def test_nothing_counts_after_the_end_token():
    machine = edge(strategy="ar")
    machine.receive(verdict((3, 0, 4), 0, 0, (3, 0, 4)))
    assert machine.tokens == (3, 0)
    assert machine.done
    assert machine.ask_again() == [] == machine.cancel()


def test_a_job_from_before_a_verdict_or_a_new_text_is_dropped():
    machine = edge(num_draft_tokens=2)
    draft(machine, 3)
    stale = machine.next_job()
    machine.receive(verdict((5,), 0, 0, (5,)))
    assert machine.complete(stale, 4) == []
    assert machine.next_job().tokens == (5,)
    machine.begin(PROMPT, 20)
    assert machine.complete(stale, 4) == []


def test_cancel_tells_the_cloud_and_ends_the_text():
    machine = edge()
    assert machine.cancel() == [Send(Cancel(5, 1))]
    assert machine.next_job() is None
    assert machine.receive(verdict((3,), 0, 0, (3,))) == []


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ("busy", BusyError),
        ("frame", FrameError),
        ("config", ConfigError),
        ("model", ModelError),
        ("protocol", ProtocolError),
        ("internal", LinkError),
    ],
)
def test_a_refusal_becomes_the_right_error(reason, error):
    [failure] = edge().receive(Refused(5, 1, reason, "because"))
    assert isinstance(failure, Fail)
    assert type(failure.error) is error
    assert "because" in str(failure.error)


def test_a_token_beyond_the_vocabulary_is_refused():
    [failure] = edge(strategy="ar").receive(verdict((32,), 0, 0, (32,)))
    assert isinstance(failure.error, ProtocolError)


def test_alone_only_where_the_policy_allows():
    assert edge().go_alone() == []
    machine = edge(link_loss="draft_only", num_draft_tokens=2)
    draft(machine, 3)
    assert machine.go_alone() == [Commit((3,), 0, 0, None)]
    assert machine.complete(machine.next_job(), 4) == [Commit((4,), 0, 0, None)]
    [opening] = machine.ask_again()
    assert opening.frame.tokens == (3, 4)
