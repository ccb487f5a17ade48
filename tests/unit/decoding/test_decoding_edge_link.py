"""The edge machine alone: how it handles loss and refusals, and how it goes on without a link."""

from __future__ import annotations

import pytest
import torch
from edge_machine import PROMPT, ROOT, TOKENIZER, draft, drafted, edge, grow, hint, prefill, verdict

from outrider.core.errors import BusyError, ConfigError, FrameError, LinkError, ModelError, ProtocolError
from outrider.core.frames import MAX_CHUNK_TOKENS, Draft, Open, Opened, PrefillAgain, Refused, Resume
from outrider.core.pairs import checksum_text
from outrider.decoding.acceptance.schemes import Choices
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.decoding.edge.actions import Commit, Fail, Send
from outrider.decoding.edge.link_estimator import EdgeEstimator
from outrider.decoding.edge.machine import EdgeMachine
from outrider.decoding.fakes.synthetic import ToyTokenizer
from outrider.decoding.tuning import AdaptiveTuning
from outrider.wire.codec import decode_edge_frame, encode


def test_verdicts_out_of_order_are_kept_and_the_gap_is_requested_once():
    machine = edge(strategy="ar")
    machine.receive(Opened(5, 1, 0, ROOT, 100, (0,)), 1.0)
    text = (3, 4, 5, 6)
    assert machine.receive(verdict(text, 2), 1.0) == [Send(Resume(5, 1, 0, ROOT))]
    assert machine.receive(verdict(text, 3), 1.0) == []
    committed = machine.receive(verdict(text[:2], 0), 1.0)
    assert [commit.tokens for commit in committed] == [(3, 4), (5, 6)]


def test_a_gap_is_requested_again_without_an_answer():
    machine = edge(strategy="ar", silence_s=2.0)
    machine.receive(Opened(5, 1, 0, ROOT, 100, (0,)), 1.0)
    text = (3, 4, 5, 6, 7)
    asked = [Send(Resume(5, 1, 0, ROOT))]
    answers = [machine.receive(verdict(text[: base + 1], base), 0.2 * base) for base in (1, 2, 3, 4)]
    assert answers == [asked, [], [], asked], "a quarter of silence_s must pass between two of them"


def test_prefill_again_sends_the_text_so_far_and_the_waiting_chunk():
    machine = edge(num_draft_tokens=1)
    draft(machine, 3)
    machine.receive(verdict((3, 9), 0, drafted=1), 1.0)
    grow(machine, (7,), now_s=1.0)
    frames = [action.frame for action in machine.receive(PrefillAgain(5, 1), 1.0)]
    assert isinstance(frames[0], Open)
    assert frames[0].tokens == (3, 9)
    assert frames[1:] == [drafted((3, 9), 7).frame]


def test_a_text_is_requested_again_only_from_the_target_that_began_it():
    machine = edge(num_draft_tokens=1, wanted_model="target:mine")
    machine.receive(Opened(5, 1, 0, 0x2A, 100, (0,)), 0.5)
    models = []
    for now_s in (1.0, 2.0):
        [again, *_] = machine.receive(PrefillAgain(5, 1), now_s)
        models.append(again.frame.model)
        machine.receive(Opened(5, 1, 0, 0x2A, 100, (0,)), now_s)
        machine.receive(verdict((3,), 0), now_s)
    assert models == ["target:mine", "#0000002a"], "nothing was written yet; then it was"


@pytest.mark.parametrize(
    ("reason", "error"),
    [
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


def test_a_busy_verifier_is_asked_again_after_a_while_and_not_at_once():
    machine = edge()
    assert machine.receive(Refused(5, 1, "busy", "all taken"), 1.0) == []
    assert isinstance(machine.text.busy_error, BusyError)
    assert machine.receive(PrefillAgain(5, 1), 1.1) == [], "an answer to drafts that were under way"
    [again, *_] = machine.retry(3.0)
    assert isinstance(again, Send) and isinstance(again.frame, Open)
    machine.receive(Opened(5, 1, 0, ROOT, 0, (0,)), 3.1)
    assert machine.text.busy_error is None


def test_with_draft_only_the_edge_continues_alone_at_a_busy_verifier():
    machine = edge(link_loss="draft_only")
    draft(machine, 3, 4)
    [commit] = machine.receive(Refused(5, 1, "busy", "all taken"), 1.0)
    assert isinstance(commit, Commit) and commit.tokens == (3, 4)
    [commit] = grow(machine, (7,))
    assert isinstance(commit, Commit) and commit.tokens == (7,)


def test_the_edge_continues_alone_only_with_draft_only():
    assert edge().continue_alone(1.0) == []
    machine = edge(link_loss="draft_only", num_draft_tokens=2)
    draft(machine, 3)
    assert machine.continue_alone(1.0) == [Commit((3,), 0, (False,), None)]
    assert grow(machine, (4,)) == [Commit((4,), 0, (False,), None)]
    [opening] = machine.retry(2.0)
    assert opening.frame.tokens == (3, 4)
    assert machine.next_job().prefixes == ((3, 4),)
    assert grow(machine, (5,)) == []
    assert grow(machine, (6,)) == [drafted((3, 4), 5, 6)]


@pytest.mark.parametrize("strategy", ["sd", "fsd", "outrider"])
def test_the_edge_alone_commits_the_draft_models_text(strategy):
    machine = edge(strategy=strategy, link_loss="draft_only", num_draft_tokens=2, max_new_tokens=5)
    prefill(machine)
    grow(machine, (3, 9))
    actions = machine.continue_alone(1.0)
    while not machine.done:
        actions += grow(machine, (machine.tokens[-1] + 1, 9))
    assert [action.tokens for action in actions] == [(3,), (4,), (5,), (6,), (7,)]
    assert machine.tokens == (3, 4, 5, 6, 7)


def test_a_verdict_that_contradicts_text_written_alone_is_not_committed():
    machine = edge(link_loss="draft_only", num_draft_tokens=2)
    draft(machine, 3)
    machine.continue_alone(1.0)
    [opening] = machine.receive(verdict((8,), 0), 2.0)
    assert opening.frame.tokens == (3,) == machine.tokens


def test_a_text_written_alone_is_bound_to_no_target():
    machine = edge(link_loss="draft_only", num_draft_tokens=2)
    machine.receive(Opened(5, 1, 0, 7, 0, tuple(TOKENIZER.end_ids)), 0.0)
    draft(machine, 3)
    machine.continue_alone(1.0)
    [opening] = machine.receive(PrefillAgain(5, 1), 20.0)
    assert opening.frame.tokens == (3,) and opening.frame.model == ""
    machine.receive(Opened(5, 1, 1, 8, 0, tuple(TOKENIZER.end_ids)), 20.1)
    machine.receive(verdict((3, 4), 1), 20.2)
    [opening] = machine.receive(PrefillAgain(5, 1), 40.0)
    assert opening.frame.model == checksum_text(8)


def test_a_late_verdict_on_text_written_alone_judges_no_later_drafts():
    machine = edge(link_loss="draft_only", num_draft_tokens=2)
    draft(machine, 3, 4)
    machine.continue_alone(1.0)
    machine.retry(2.0)
    grow(machine, (9,))
    commit = machine.receive(verdict((3, 4, 9), 0, drafted=2), 3.0)[0]
    assert (commit.tokens, commit.drafted, commit.is_accepted) == ((9,), 0, (False,))


def test_repeated_prefill_again_frames_cause_one_open():
    """Each draft that overtakes the Open is answered with PrefillAgain."""
    machine = edge(silence_s=2.0)
    answers = [machine.receive(PrefillAgain(5, 1), 0.01 * number) for number in range(20)]
    assert answers == [[]] * 20
    assert isinstance(machine.receive(PrefillAgain(5, 1), 1.0)[0].frame, Open)
    assert machine.receive(PrefillAgain(5, 1), 1.1) == []
    machine.receive(Opened(5, 1, 0, ROOT, 100, (0,)), 1.2)
    assert isinstance(machine.receive(PrefillAgain(5, 1), 1.3)[0].frame, Open)
    assert machine.receive(PrefillAgain(5, 1), 1.4) == []


def test_after_silence_the_edge_repeats_frames_that_may_be_lost():
    machine = edge(num_draft_tokens=2)
    draft(machine, 3, 4)
    assert [type(action.frame) for action in machine.retry(1.0)] == [Open, Draft]
    machine.receive(Opened(5, 1, 0, ROOT, 100, (0,)), 1.5)
    assert machine.retry(2.0) == [Send(Resume(5, 1, 0, ROOT)), drafted((), 3, 4)]


@pytest.mark.lengthy
@pytest.mark.parametrize("strategy", ["sd", "dssd", "fsd", "picospec", "outrider"])
def test_whatever_is_repeated_after_a_silence_fits_the_wire(strategy):
    """Long drafts with alternatives throughout, in a vocabulary whose ids take three bytes."""
    tuning = AdaptiveTuning(acceptance_priors=(1.0, 1.0))
    sizes = {"num_draft_tokens": MAX_CHUNK_TOKENS, "workers": 8, "tuning": tuning}
    config = DecodingConfig(strategy=strategy, acceptance=STRATEGIES[strategy].acceptance, **sizes)
    machine = EdgeMachine(5, config, ToyTokenizer(20_000))
    actions = machine.begin(PROMPT, 2000, 0.0)
    prefill(machine)
    row = torch.zeros(20_000, dtype=torch.float64)
    row[19_000] = 1.0
    machine.receive(hint((19_999,), confidence=50), 0.0)
    for _ in range(700):
        job = machine.next_job()
        if job is not None:
            choices = [Choices((19_000, 19_001)[: job.num_choices], row) for _ in job.prefixes]
            actions += machine.complete(job, choices, 0.0, 0.01)
    actions += machine.retry(5.0)
    assert len(actions) >= 3
    for action in actions:
        assert decode_edge_frame(encode(action.frame)) == action.frame


def test_forwards_between_two_verdicts_are_counted_once_however_the_verdicts_come(monkeypatch):
    seen = []
    monkeypatch.setattr(EdgeEstimator, "on_verdict", lambda estimates, now_s, news: seen.append(news.passes))
    machine = edge(strategy="outrider")
    text = (1, 2, 3, 4)
    machine.receive(verdict(text[:1], 0, passes=1), 1.0)
    machine.receive(verdict(text[:2], 1, passes=3), 2.0)
    assert seen == [1, 2], "one was aborted in between"
    machine.receive(verdict(text, 3, passes=5), 3.0)
    machine.receive(verdict(text[:3], 2, passes=5, verify_us=0), 4.0)
    assert machine.tokens == text
    assert seen == [1, 2, 2, 0]
