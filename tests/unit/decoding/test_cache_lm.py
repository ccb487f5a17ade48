"""The count model that reads documents."""

from __future__ import annotations

import pytest
import torch

from outrider.core.errors import ConfigError
from outrider.core.values import Prompt
from outrider.decoding.fakes.cache_lm import CacheModel, WordTokenizer

LESSONS = ("tom likes tea .", "sue likes tea .", "tom likes jam .")
WORDS = WordTokenizer(["tom", "sue", "ann", "likes", "tea", "jam", "figs", "who"])
MODEL = CacheModel(WORDS, LESSONS)


def after(text: str, *more: str) -> torch.Tensor:
    session = MODEL.open_session()
    row = session.prefill(Prompt(text, b""))
    return session.forward(WORDS.encode(" ".join(more)))[-1] if more else row


def likeliest(row: torch.Tensor) -> str:
    return WORDS.decode([int(row.argmax())])


@pytest.mark.parametrize("text", ["who | tom", "tom likes figs | who | ann likes", "| |", "ann | who | who"])
def test_rows_are_distributions_over_all_words(text: str) -> None:
    probs = after(text).exp()
    assert float(probs.sum()) == pytest.approx(1.0)
    assert float(probs.min()) > 0.0


def test_the_model_prefers_its_documents_to_its_training_sentences() -> None:
    assert likeliest(after("ann likes figs | who | ann likes")) == "figs"
    assert likeliest(after("who | tom likes")) == "tea"
    assert likeliest(after("ann likes figs | who | ann", "likes", "figs")) == "."


def test_a_truncated_session_forgets_the_dropped_tokens() -> None:
    session = MODEL.open_session()
    session.prefill(Prompt("ann likes figs | who | ann", b""))
    first = session.forward(WORDS.encode("likes figs"))
    session.truncate(session.length - 2)
    again = [session.forward(WORDS.encode(word))[0] for word in ("likes", "figs")]
    assert torch.equal(first, torch.stack(again))


def test_an_unknown_word_is_named() -> None:
    with pytest.raises(ConfigError, match="bread"):
        WORDS.encode("tom likes bread")
    assert WORDS.decode(WORDS.encode("tom likes jam .")) == "tom likes jam ."
