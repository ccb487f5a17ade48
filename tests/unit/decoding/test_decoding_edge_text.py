"""The edge machine alone: drafts are sent, and verdicts become text."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import pytest
from edge_machine import PROMPT, ROOT, TOKENIZER, draft, drafted, edge, grow, hint, prefill, verdict
from support.toy_models import ToyModel, ToySettings
from support.toys import JPEG, own_text, request

from outrider.core.errors import Cancelled, ConfigError, LinkError, OutriderError, ProtocolError
from outrider.core.frames import (
    MAX_JPEG_BYTES,
    MAX_NEW_TOKENS,
    MAX_PROMPT_CHARS,
    Cancel,
    Open,
    Opened,
    PrefillAgain,
    Refused,
    Rules,
    Verdict,
)
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.acceptance.schemes import Choices
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.linked_decoder import LinkedDecoder
from outrider.decoding.drivers.local_link import LocalLink
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.edge.actions import Commit, Send
from outrider.decoding.edge.machine import EdgeMachine


def test_open_carries_the_prompt_and_a_whole_chunk_is_sent_once():
    config = DecodingConfig(strategy="sd", acceptance="greedy", num_draft_tokens=2, wanted_model="large")
    machine = EdgeMachine(5, config, TOKENIZER)
    rules = Rules("wait", "greedy", 0.0, 1.0, 0, config.sampling_for(PROMPT).seed, True, "none")
    assert machine.begin(PROMPT, 20, 0.0) == [
        Send(Open(5, 1, ROOT, PROMPT.text, JPEG, (), 20, TOKENIZER.fingerprint, rules, "large"))
    ]
    assert prefill(machine) == []
    assert grow(machine, (3,)) == []
    assert grow(machine, (4,)) == [drafted((), 3, 4)]
    assert machine.next_job() is None


def test_a_verdict_commits_accepted_drafts_and_the_targets_token():
    machine = edge(num_draft_tokens=3)
    draft(machine, 3, 4, 5)
    answer = verdict((3, 4, 9), 0, drafted=3)
    actions = machine.receive(answer, 1.0)
    assert actions == [Commit((3, 4, 9), 3, (True, True, False), answer)]
    assert (actions[0].rejected, actions[0].ahead) == ((5,), ())
    assert machine.next_job().prefixes == ((3, 4, 9),)


def test_drafting_stops_at_the_end_token_and_before_the_last():
    machine = edge(num_draft_tokens=4)
    assert draft(machine, 3, 0) == [drafted((), 3, 0)]
    assert machine.next_job() is None
    machine = edge(num_draft_tokens=4, max_new_tokens=3)
    assert draft(machine, 3, 4) == [drafted((), 3, 4)]
    assert machine.next_job() is None


def test_duplicated_late_and_foreign_frames_change_nothing():
    machine = edge(num_draft_tokens=1)
    draft(machine, 3)
    answer = verdict((3, 9), 0, drafted=1)
    machine.receive(answer, 1.0)
    assert machine.receive(answer, 1.0) == []
    assert machine.receive(verdict((3, 9, 1), 2, epoch=0), 1.0) == []
    assert machine.receive(Refused(6, 1, "busy", "not for us"), 1.0) == []
    assert machine.tokens == (3, 9)


def test_a_verdict_with_a_wrong_digest_is_not_committed():
    machine = edge(strategy="ar")
    wrong = Verdict(5, 1, 0, 123, (3,), 0, 1, 10)
    assert isinstance(machine.receive(wrong, 1.0)[0].frame, Open)
    assert machine.tokens == ()


def test_passes_before_a_restart_still_count():
    machine = edge(strategy="ar")
    machine.receive(verdict((3,), 0), 1.0)
    machine.receive(PrefillAgain(5, 1), 1.0)
    machine.receive(verdict((3, 4), 1), 1.0)
    assert machine.text.target_passes == 2


def test_nothing_counts_after_the_end_token():
    machine = edge(strategy="ar")
    machine.receive(verdict((3, 0, 4), 0), 1.0)
    assert machine.tokens == (3, 0)
    assert machine.done
    assert machine.retry(1.0) == [] == machine.cancel()


def test_a_job_from_before_a_verdict_or_a_new_text_is_dropped():
    machine = edge(num_draft_tokens=2)
    draft(machine, 3)
    stale = machine.next_job()
    machine.receive(verdict((5,), 0), 1.0)
    assert machine.complete(stale, [Choices((4,))], 1.0, 0.01) == []
    assert machine.next_job().prefixes == ((5,),)
    machine.begin(PROMPT, 20, 2.0)
    assert machine.complete(stale, [Choices((4,))], 2.0, 0.01) == []


def test_cancel_sends_a_frame_and_ends_the_text():
    machine = edge()
    assert machine.cancel() == [Send(Cancel(5, 1))]
    assert machine.next_job() is None
    assert machine.receive(verdict((3,), 0), 1.0) == []


def test_a_token_beyond_the_vocabulary_is_refused():
    [failure] = edge(strategy="ar").receive(verdict((32,), 0), 1.0)
    assert isinstance(failure.error, ProtocolError)


def test_an_answer_without_new_tokens_changes_nothing():
    machine = edge(num_draft_tokens=2)
    draft(machine, 3, 4)
    assert machine.receive(verdict((), 0), 1.0) == []
    machine.receive(verdict((3, 9), 0, drafted=2), 1.0)
    assert machine.receive(verdict((3, 9), 2), 1.0) == []
    assert machine.receive(verdict((3,), 0), 1.0) == []
    assert machine.tokens == (3, 9)


def test_statistics_of_the_verifier_are_passed_on():
    machine = edge(strategy="ar")
    machine.receive(Opened(5, 1, 0, ROOT, 250_000, (0,)), 1.0)
    assert machine.text.target_prefill_s == pytest.approx(0.25)
    machine.receive(verdict((3,), 0, passes=4), 1.0)
    machine.receive(verdict((3, 4), 0, passes=3), 1.0)
    assert machine.text.target_passes == 4


def test_sd_drafts_whole_chunks_and_is_silent_until_the_verdict():
    machine = edge(num_draft_tokens=3)
    assert draft(machine, 3, 4) == []
    assert grow(machine, (5,)) == [drafted((), 3, 4, 5)]
    assert machine.next_job() is None
    assert machine.receive(hint((3, 8)), 1.0) == []
    assert machine.next_job() is None
    assert len(machine.receive(verdict((3, 4, 5, 6), 0, drafted=3), 1.0)) == 1
    assert machine.next_job().prefixes == ((3, 4, 5, 6),)
    assert machine.next_job().num_choices == 1


@pytest.mark.parametrize(
    ("asked", "max_new_tokens", "words"),
    [
        (Prompt("x" * (MAX_PROMPT_CHARS + 1), JPEG), 20, "16385 characters: 16384 are the most"),
        (Prompt("find", b"x" * (MAX_JPEG_BYTES + 1)), 20, "the picture has 1048577 bytes"),
        (Prompt("find \ud800", JPEG), 20, "the prompt is no text"),
        (PROMPT, 0, "max_new_tokens=0 must be a whole number between 1 and 4096"),
        (PROMPT, 20.0, "max_new_tokens=20.0 must be a whole number"),
        (PROMPT, MAX_NEW_TOKENS + 1, "max_new_tokens=4097"),
    ],
)
def test_an_oversized_request_is_refused_at_once_and_the_next_text_is_decoded(asked, max_new_tokens, words):
    target = ToyModel(ToySettings(seed=3))
    link = LocalLink(VerifierService(target))
    with closing(LinkedDecoder(link, target, target.tokenizer, DecodingConfig("sd"), 1, "here")) as decoder:
        with pytest.raises(ConfigError, match=words):
            decoder.decode(DecodeRequest(asked, max_new_tokens, 1e3))
        assert decoder.decode(request()).token_ids == own_text(target, request())


def test_a_second_text_meanwhile_is_refused_and_changes_nothing_of_the_first():
    target, refused = ToyModel(ToySettings(seed=3)), []

    def ask_too(_: object) -> None:
        for other in (partial(decoder.decode, request("another text")), decoder.forget):
            refused.append(str(executor.submit(other).exception()))

    link = LocalLink(VerifierService(target))
    decoder = LinkedDecoder(link, target, target.tokenizer, DecodingConfig("sd"), 1, "here")
    with ThreadPoolExecutor(1) as executor, closing(decoder):
        assert decoder.decode(request(), ask_too).token_ids == own_text(target, request())
        assert len(refused) > 1 and all("a decoder of its own" in reason for reason in refused)
        assert decoder.decode(request()).token_ids == own_text(target, request())


@pytest.mark.parametrize("thread", ["its own", "another"])
def test_closing_ends_the_text_and_then_the_link_once(thread):
    target, closed = ToyModel(ToySettings(seed=3)), []

    class Watched(LocalLink):
        def close(self) -> None:
            closed.append(threading.current_thread())

    def close(_: object) -> None:
        if thread == "another":
            executor.submit(decoder.close).result()
        else:
            decoder.close()
        assert closed == []  # the decoding thread uses the link

    link = Watched(VerifierService(target))
    decoder = LinkedDecoder(link, target, target.tokenizer, DecodingConfig("sd"), 1, "here")
    with ThreadPoolExecutor(1) as executor, pytest.raises(Cancelled, match="closed"):
        decoder.decode(request(), close)
    decoder.close()
    assert closed == [threading.current_thread()]
    for late in (partial(decoder.decode, request()), decoder.forget):
        with pytest.raises(OutriderError, match="is closed"):
            late()


def test_a_nan_deadline_ends_a_text_at_once():
    target = ToyModel(ToySettings(seed=3))
    link = LocalLink(VerifierService(target))
    decoder = LinkedDecoder(link, target, target.tokenizer, DecodingConfig("sd"), 1, "here")
    with closing(decoder), pytest.raises(LinkError, match="within nan s"):
        decoder.decode(request(deadline_s=float("nan")))
