"""Which documents go into the prompt of the model that answers."""

from __future__ import annotations

import pytest
import tokenizers

from outrider.decoding.aggregation.quoting import QuotingModel
from outrider.models.text.tokenizer import QwenTokenizer
from outrider.runtime.common.paths import models_folder
from outrider.runtime.wiring.knowledge import ANSWER_TOKENS, fitting_context


@pytest.mark.parametrize("spelled", ["[INST]", "\u2581special", "EOD"])
def test_a_document_that_spells_added_tokens_is_counted_as_words(spelled: str) -> None:
    backend = tokenizers.Tokenizer.from_file(str(models_folder() / "tokenizer" / "tokenizer.json"))
    backend.add_special_tokens([spelled])
    tokenizer = QwenTokenizer(backend, frozenset((0,)))
    model = QuotingModel(tokenizer)
    documents = [("the cup is red", 1.0), (spelled * 600, 0.5)]
    context = fitting_context("where is the cup?", documents, model)
    assert "the cup is red" in context.prompt.text and spelled not in context.prompt.text
    assert len(tokenizer.encode_prompt(context.prompt.text)) + ANSWER_TOKENS <= model.max_length
