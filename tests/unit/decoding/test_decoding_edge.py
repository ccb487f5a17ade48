"""The edge machine alone: frames in, actions out."""

from __future__ import annotations

import pytest
from support.toys import JPEG

from outrider.core.errors import BusyError, ConfigError, FrameError, LinkError, ModelError, ProtocolError
from outrider.core.frames import Cancel, Draft, Open, Opened, PrefillAgain, Refused, Resume, Rules, Verdict
from outrider.core.values import Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.digest import extend_digest, prompt_digest
from outrider.decoding.edge import Commit, EdgeMachine, Fail, Send
from outrider.decoding.jobs import Choices
from outrider.decoding.token_runs import pack_runs
from outrider.decoding.toy import ToyTokenizer

PROMPT = Prompt("find the chair", JPEG)
ROOT = prompt_digest(PROMPT)
TOKENIZER = ToyTokenizer(32)


def edge(max_new_tokens: int = 20, **options) -> EdgeMachine:
    """A machine that has sent its Open at 0 s; greedy `sd` where nothing else is asked for."""
    options = {"strategy": "sd", "acceptance": "greedy", **options}
    machine = EdgeMachine(5, DecodingConfig(**options), TOKENIZER)
    machine.begin(PROMPT, max_new_tokens, 0.0)
    return machine


def prefill(machine: EdgeMachine, now_s: float = 0.0) -> list:
    return machine.complete(machine.next_job(), (), now_s, 0.01)


def grow(
    machine: EdgeMachine, *choices: tuple[int, ...], now_s: float = 0.0, compute_s: float = 0.01
) -> list:
    """Let the machine's next job answer with these choices, one tuple for each of its prefixes."""
    return machine.complete(machine.next_job(), [Choices(some) for some in choices], now_s, compute_s)


def draft(machine: EdgeMachine, *tokens: int) -> list:
    """Prefill, then let the machine's jobs answer with these tokens."""
    actions = prefill(machine)
    for token in tokens:
        actions += grow(machine, (token,))
    return actions


def verdict(
    text: tuple[int, ...], base: int, drafted: int = 0, epoch: int = 1, passes: int = 1, verify_us: int = 10
) -> Verdict:
    """The text after `base` is final."""
    digest = extend_digest(ROOT, text[:base])
    return Verdict(5, epoch, base, digest, text[base:], drafted, passes, verify_us)


def drafted(text: tuple[int, ...], *tokens: int) -> Send:
    """A Draft of one branch after a text."""
    return Send(Draft(5, 1, len(text), extend_digest(ROOT, text), pack_runs([(0, tokens)])))


def test_open_carries_the_prompt_and_a_whole_chunk_is_sent_once():
    config = DecodingConfig(strategy="sd", acceptance="greedy", num_draft_tokens=2)
    machine = EdgeMachine(5, config, TOKENIZER)
    rules = Rules("wait", "greedy", 0.0, 1.0, config.sampling_for(PROMPT).seed, True, "none", "confidence")
    assert machine.begin(PROMPT, 20, 0.0) == [
        Send(Open(5, 1, ROOT, PROMPT.text, JPEG, (), 20, TOKENIZER.fingerprint, rules))
    ]
    assert prefill(machine) == []
    assert grow(machine, (3,)) == []
    assert grow(machine, (4,)) == [drafted((), 3, 4)]
    assert machine.next_job() is None


def test_a_verdict_commits_accepted_drafts_and_the_targets_token():
    machine = edge(num_draft_tokens=3)
    draft(machine, 3, 4, 5)
    answer = verdict((3, 4, 9), 0, drafted=3)
    assert machine.receive(answer, 1.0) == [Commit((3, 4, 9), 3, 2, answer)]
    assert machine.next_job().prefixes == ((3, 4, 9),)


def test_drafting_stops_at_the_end_token_and_before_the_last():
    machine = edge(num_draft_tokens=4)
    assert draft(machine, 3, 0) == [drafted((), 3, 0)]
    assert machine.next_job() is None
    machine = edge(num_draft_tokens=4, max_new_tokens=3)
    assert draft(machine, 3, 4) == [drafted((), 3, 4)]
    assert machine.next_job() is None


def test_doubled_late_and_foreign_frames_change_nothing():
    machine = edge(num_draft_tokens=1)
    draft(machine, 3)
    answer = verdict((3, 9), 0, drafted=1)
    machine.receive(answer, 1.0)
    assert machine.receive(answer, 1.0) == []
    assert machine.receive(verdict((3, 9, 1), 2, epoch=0), 1.0) == []
    assert machine.receive(Refused(6, 1, "busy", "not for us"), 1.0) == []
    assert machine.tokens == (3, 9)


def test_verdicts_out_of_order_are_kept_and_the_gap_is_asked_for_once():
    machine = edge(strategy="ar")
    machine.receive(Opened(5, 1, 0, ROOT, 100), 1.0)
    text = (3, 4, 5, 6)
    assert machine.receive(verdict(text, 2), 1.0) == [Send(Resume(5, 1, 0, ROOT))]
    assert machine.receive(verdict(text, 3), 1.0) == []
    committed = machine.receive(verdict(text[:2], 0), 1.0)
    assert [commit.tokens for commit in committed] == [(3, 4), (5, 6)]


def test_a_verdict_with_a_wrong_digest_is_not_believed():
    machine = edge(strategy="ar")
    wrong = Verdict(5, 1, 0, 123, (3,), 0, 1, 10)
    assert isinstance(machine.receive(wrong, 1.0)[0].frame, Open)
    assert machine.tokens == ()


def test_prefill_again_sends_the_text_so_far_and_the_waiting_chunk():
    machine = edge(num_draft_tokens=1)
    draft(machine, 3)
    machine.receive(verdict((3, 9), 0, drafted=1), 1.0)
    grow(machine, (7,), now_s=1.0)
    frames = [action.frame for action in machine.receive(PrefillAgain(5, 1), 1.0)]
    assert isinstance(frames[0], Open)
    assert frames[0].tokens == (3, 9)
    assert frames[1:] == [drafted((3, 9), 7).frame]


def test_passes_before_a_restart_still_count():
    machine = edge(strategy="ar")
    machine.receive(verdict((3,), 0), 1.0)
    machine.receive(PrefillAgain(5, 1), 1.0)
    machine.receive(verdict((3, 4), 1), 1.0)
    assert machine.target_passes == 2


def test_nothing_counts_after_the_end_token():
    machine = edge(strategy="ar")
    machine.receive(verdict((3, 0, 4), 0), 1.0)
    assert machine.tokens == (3, 0)
    assert machine.done
    assert machine.ask_again(1.0) == [] == machine.cancel()


def test_a_job_from_before_a_verdict_or_a_new_text_is_dropped():
    machine = edge(num_draft_tokens=2)
    draft(machine, 3)
    stale = machine.next_job()
    machine.receive(verdict((5,), 0), 1.0)
    assert machine.complete(stale, [Choices((4,))], 1.0, 0.01) == []
    assert machine.next_job().prefixes == ((5,),)
    machine.begin(PROMPT, 20, 2.0)
    assert machine.complete(stale, [Choices((4,))], 2.0, 0.01) == []


def test_cancel_tells_the_cloud_and_ends_the_text():
    machine = edge()
    assert machine.cancel() == [Send(Cancel(5, 1))]
    assert machine.next_job() is None
    assert machine.receive(verdict((3,), 0), 1.0) == []


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
    [failure] = edge().receive(Refused(5, 1, reason, "because"), 1.0)
    assert isinstance(failure, Fail)
    assert type(failure.error) is error
    assert "because" in str(failure.error)


def test_a_token_beyond_the_vocabulary_is_refused():
    [failure] = edge(strategy="ar").receive(verdict((32,), 0), 1.0)
    assert isinstance(failure.error, ProtocolError)


def test_alone_only_where_the_policy_allows():
    assert edge().go_alone(1.0) == []
    machine = edge(link_loss="draft_only", num_draft_tokens=2)
    draft(machine, 3)
    assert machine.go_alone(1.0) == [Commit((3,), 0, 0, None)]
    assert grow(machine, (4,)) == [Commit((4,), 0, 0, None)]
    [opening] = machine.ask_again(2.0)
    assert opening.frame.tokens == (3, 4)
