"""The edge machine with retrieved drafts, with the draft model and without it."""

from __future__ import annotations

import pytest
from support.toy_models import ToyModel, ToySettings
from support.toys import JPEG

from outrider.core.errors import ConfigError
from outrider.core.frames import Draft, Opened, Verdict
from outrider.core.values import DecodeRequest, Prompt, Successors
from outrider.decoding.acceptance.schemes import GREEDY, Choices
from outrider.decoding.config import DecodingConfig, drafter_names
from outrider.decoding.drivers.linked_decoder import LinkedDecoder
from outrider.decoding.drivers.local_link import LocalLink
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.edge.actions import Commit, EdgeAction, Send
from outrider.decoding.edge.machine import EdgeMachine
from outrider.decoding.fakes.synthetic import ToyTokenizer
from outrider.decoding.jobs import DraftTokens, PrefillDraft
from outrider.decoding.protocol.branch_codec import unpack_runs
from outrider.decoding.protocol.prefix_digest import extend_digest, prompt_digest

PROMPT = Prompt("w1 w2 w3", JPEG)
ROOT = prompt_digest(PROMPT)
TEXT = (11, 12, 13, 14, 15, 16)


def edge(*drafters: str, **options) -> EdgeMachine:
    config = DecodingConfig(strategy="sd", acceptance="greedy", drafters=drafters, **options)
    machine = EdgeMachine(5, config, ToyTokenizer(32), epoch=-1)
    machine.begin(Prompt("another", JPEG), 20, 0.0)
    machine.receive(Opened(5, 0, 0, ROOT, 0, tuple(ToyTokenizer(32).end_ids)), 0.0)  # the target's end tokens
    return machine


def begin(machine: EdgeMachine, prompt: Prompt = PROMPT) -> list[EdgeAction]:
    return machine.begin(prompt, 20, 0.0)


def judged(
    machine: EdgeMachine, *tokens: int, epoch: int = 1, drafted: int = 0, kept: tuple[int, ...] = ()
) -> list[EdgeAction]:
    """Receive the verdict that these tokens follow the text; return the actions."""
    base, digest = len(machine.tokens), extend_digest(ROOT, machine.tokens)
    return machine.receive(Verdict(5, epoch, base, digest, tokens, drafted, 1, 10, kept), 1.0)


def sent(actions: list[EdgeAction]) -> list[tuple[int, ...]]:
    """Return the tokens of each Draft among the actions."""
    frames = [one.frame for one in actions if isinstance(one, Send) and isinstance(one.frame, Draft)]
    return [tuple(token for run in unpack_runs(frame.runs) for token in run.tokens) for frame in frames]


def after_one_text(*drafters: str, **options) -> EdgeMachine:
    """Return a machine that has received TEXT as the answer to PROMPT."""
    machine = edge(*drafters, **options)
    begin(machine)
    judged(machine, *TEXT, 0)
    assert machine.done
    return machine


def test_without_a_model_nothing_is_computed_and_the_cloud_is_asked_even_with_nothing_to_draft():
    machine = edge("suffix")
    assert sent(begin(machine)) == [()]
    assert machine.next_job() is None
    assert sent(judged(machine, 9)) == [()]


def test_an_answer_seen_before_is_drafted_at_once():
    machine = after_one_text("suffix", num_draft_tokens=4)
    assert sent(begin(machine)) == [TEXT[:4]]
    assert sent(judged(machine, *TEXT[:5], epoch=2, drafted=4)) == [(16, 0)]


def test_the_model_drafts_where_retrieval_is_not_surer_and_only_there():
    machine = edge("model", "suffix", num_draft_tokens=3)
    for epoch in range(1, 30):
        begin(machine)
        judged(machine, *TEXT, 20 + epoch % 2, epoch=epoch)
        judged(machine, 0, epoch=epoch)
    actions = begin(machine)
    assert sent(actions) == [TEXT[:3]]
    assert isinstance(machine.next_job(), PrefillDraft)
    machine.complete(machine.next_job(), (), 0.0, 0.01)
    assert machine.next_job() is None
    judged(machine, *TEXT[:4], epoch=30, drafted=3)
    assert machine.next_job() == DraftTokens(30, (TEXT,), 1, GREEDY, machine.next_job().sampling)
    assert sent(machine.complete(machine.next_job(), [Choices((21,))], 1.0, 0.01)) == [(15, 16, 21)]


def test_a_rejected_run_is_drafted_again_after_the_correction():
    machine = after_one_text("suffix", "reuse", num_draft_tokens=5)
    begin(machine)
    actions = judged(machine, 11, 30, epoch=2, drafted=5, kept=(2, 5))
    assert sent(actions) == [(13, 14, 15, 16, 0)]
    assert [one.accepted for one in actions if isinstance(one, Commit)] == [1]


@pytest.mark.parametrize("kept", [(), (2,), (4, 2), (0, 90), (7, 9)])
def test_a_verdict_that_names_no_run_of_the_draft_is_a_verdict_all_the_same(kept: tuple[int, ...]):
    machine = after_one_text("suffix", "reuse", num_draft_tokens=3)
    begin(machine)
    judged(machine, 11, 30, epoch=2, drafted=3, kept=kept)
    assert machine.tokens == (11, 30)


def test_forgotten_texts_are_not_drafted():
    machine = after_one_text("suffix")
    machine.forget()
    assert sent(begin(machine)) == [()]


def test_the_prefills_expectations_correct_the_copies():
    machine = edge("model", "suffix", "calibration", num_draft_tokens=2)
    begin(machine)
    job = machine.next_job()
    assert isinstance(job, PrefillDraft) and job.num_expected > 0
    machine.complete(job, Successors([(7,), (8,), (9,)], [(0.99,)] * 3), 0.0, 0.01)
    plain = edge("model", "suffix")
    begin(plain)
    assert plain.next_job() == PrefillDraft(1, PROMPT, 20)


def test_alone_the_edge_uses_the_model_and_no_retrieved_tokens():
    machine = edge("model", "suffix", num_draft_tokens=3, link_loss="draft_only")
    for epoch in range(1, 4):
        begin(machine)
        judged(machine, *TEXT, 0, epoch=epoch)
    begin(machine)
    machine.complete(machine.next_job(), (), 0.0, 0.01)
    assert machine.continue_alone(1.0) == []
    assert machine.next_job().prefixes == ((),)
    assert machine.complete(machine.next_job(), [Choices((25,))], 1.0, 0.01) == [
        Commit((25,), 0, (False,), None)
    ]


@pytest.mark.parametrize(
    ("drafters", "complaint"),
    [
        ((), "at least one"),
        (("suffix", "suffix"), "different"),
        ("suffix", "list"),
        (("oracle",), "oracle.*model, lookup, suffix"),
        (("model", "calibration"), "suffix"),
        (("suffix", "calibration"), "model"),
    ],
)
def test_invalid_drafters_are_refused(drafters, complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        DecodingConfig(drafters=drafters)


def test_draft_only_needs_the_model():
    with pytest.raises(ConfigError, match="draft_only needs a draft model"):
        DecodingConfig(drafters=("suffix",), link_loss="draft_only")
    assert drafter_names("model, suffix") == ("model", "suffix")


def test_a_decoder_drafts_from_its_earlier_texts_until_forget():
    target = ToyModel(ToySettings(seed=3, eos_bias=-9.0))
    config = DecodingConfig(strategy="sd", acceptance="greedy", drafters=("suffix",))
    link = LocalLink(VerifierService(target))
    decoder = LinkedDecoder(link, None, target.tokenizer, config, 1, "the target")

    def accepted() -> int:
        return sum(one.accepted for one in decoder.decode(DecodeRequest(PROMPT, 20)).rounds)

    first, again = accepted(), accepted()
    assert again > 12 > first
    decoder.forget()
    assert accepted() == first
