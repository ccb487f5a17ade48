"""The model without weights that quotes the documents of its prompt."""

from __future__ import annotations

import pytest

from outrider.core.errors import ConfigError
from outrider.core.language.questions import question_prompt
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.aggregation.config import AggregationConfig
from outrider.decoding.aggregation.quoting import QuotingModel, best_document
from outrider.decoding.aggregation.virtual import PeerWorld, VirtualPeers
from outrider.decoding.aggregation.worker import Context
from outrider.models import load_tokenizer
from outrider.runtime.common.paths import models_folder
from outrider.wire.codec import frame_bytes

HAMMER = "my old hammer #1."
REPAIRS = "hammers are repaired by hugo at the harbour."
OTHERS = ("keys are cut at the kiosk.", "the museum opens at nine.")
BOTH = "tell me where my old hammer is and where hammers are repaired"


@pytest.fixture(scope="module")
def model() -> QuotingModel:
    return QuotingModel(load_tokenizer(models_folder() / "tokenizer"))


def written(model: QuotingModel, question: str, device: list[str], cloud: list[str]) -> list[str]:
    """Return the lines that two such models write together."""
    sides = [
        lambda _, documents=documents: (Context(Prompt(question_prompt(question, documents), b"")),)
        for documents in (device, cloud)
    ]
    together = VirtualPeers(model, model, AggregationConfig(), PeerWorld(frame_bytes), *sides)
    asked = DecodeRequest(Prompt(question_prompt(question), b""), 96, 100.0)
    return together.decode(asked).text.splitlines()


@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("tell me where my hammer is", HAMMER),
        ("where did you last see the old hammer?", HAMMER),
        ("where are hammers repaired?", REPAIRS),
        ("what do you know about cats?", ""),
        ("where is it?", ""),
    ],
)
def test_the_document_with_most_words_of_the_question(question: str, best: str) -> None:
    assert best_document(question, [*OTHERS, HAMMER, REPAIRS]) == best
    assert best_document(question, []) == ""


def test_each_side_alone_quotes_its_document_and_both_together_quote_both(model: QuotingModel) -> None:
    assert written(model, BOTH, [HAMMER], list(OTHERS)) == [HAMMER]
    assert written(model, BOTH, [], [REPAIRS, *OTHERS]) == [REPAIRS]
    assert sorted(written(model, BOTH, [HAMMER, *OTHERS], [*OTHERS, REPAIRS])) == [REPAIRS, HAMMER]
    assert written(model, "what about cats?", [HAMMER], [REPAIRS]) == []


def test_rows_after_a_rollback_are_those_of_a_fresh_session(model: QuotingModel) -> None:
    prompt = Prompt(question_prompt(BOTH, [HAMMER]), b"")
    session, line = model.open_session(), model.tokenizer.encode(f"{HAMMER}\n")
    first = session.prefill(prompt)
    start = session.length
    assert int(first.argmax()) == line[0]
    rows = session.forward([*line, 5, 6])
    assert rows.argmax(-1)[: len(line)].tolist() == [*line[1:], *model.end_ids]
    assert float(rows[-1].max() - rows[-1].min()) == 0.0, (
        "within the other model's line all tokens are equally likely"
    )
    session.truncate(start + len(line))
    assert session.length == start + len(line)
    assert int(session.forward(model.tokenizer.encode("x\n"))[-1].argmax()) in model.end_ids


def test_a_prompt_that_is_no_question_is_refused(model: QuotingModel) -> None:
    with pytest.raises(ConfigError, match="no question"):
        model.open_session().prefill(Prompt("task: stop", b""))
