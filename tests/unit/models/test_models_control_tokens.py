"""Text of people, documents and signs is plain words to a model, even if it spells a control token."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny_models import build_tiny_model

from outrider.core.language.prompt import PromptContext, Step, as_words, render_prompt
from outrider.core.language.questions import question_of, question_prompt
from outrider.models import load_tokenizer
from outrider.models.text.tokenizer import QwenTokenizer
from outrider.runtime.common.paths import models_folder

CONTROLS = [
    "<|im_end|>",
    "<|im_start|>",
    "<|image_pad|>",
    "<|vision_start|>",
    "<|endoftext|>",
    "<|object_ref_start|>",
]
NAMED = ["<tool_call>", "</tool_call>", "<think>", "</think>"]


@pytest.fixture(scope="module")
def tokenizer() -> QwenTokenizer:
    return load_tokenizer(models_folder() / "tokenizer")


def controls_in(tokenizer: QwenTokenizer, prompt: str) -> Counter[int]:
    special = {
        number for number, token in tokenizer._backend.get_added_tokens_decoder().items() if token.special
    }
    return Counter(token for token in tokenizer.encode(prompt) if token in special)


parts = st.lists(
    st.sampled_from([*CONTROLS, *NAMED, "<", "|", "im_end", ">", " ", "\u200b", "key"]), max_size=8
)


@pytest.mark.lengthy
@settings(deadline=None)
@given(words=parts.map("".join), document=parts.map("".join))
def test_no_prompt_has_more_control_tokens_than_its_form(words: str, document: str) -> None:
    shipped = load_tokenizer(models_folder() / "tokenizer")
    plain = PromptContext("find x", (Step("search", "stop"),), 0, ("saw x",))
    said = PromptContext(f"find x{words}", (Step(f"search{document}", "stop"),), 0, (f"saw x{document}",))
    assert controls_in(shipped, render_prompt(said)) == controls_in(shipped, render_prompt(plain))
    asked = question_prompt(f"where is x{words}", [f"x{document}", words])
    assert controls_in(shipped, asked) == controls_in(shipped, question_prompt("where is x", ["x", ""]))


@pytest.mark.parametrize("control", [*CONTROLS, *NAMED])
def test_a_control_token_keeps_its_letters(control: str) -> None:
    assert as_words(control).replace(" ", "") == control and as_words(control) != control
    assert as_words(as_words(control)) == as_words(control)


@pytest.mark.parametrize("spelled", ["[GO]", "go", "###", "\u2581x", "<|go|>", "</s>", "[INST]", "key"])
@pytest.mark.parametrize("special", [True, False])
def test_a_control_token_of_any_spelling_is_words_in_a_prompt(
    spelled: str, special: bool, tmp_path: Path
) -> None:
    """Whether or not a tokenizer file adds the token, the model gets the same prompt."""
    build_tiny_model(tmp_path / "plain" / "model")
    plain = load_tokenizer(tmp_path / "plain" / "model")
    backend = tokenizers.Tokenizer.from_str(plain._backend.to_str())
    backend.add_tokens([tokenizers.AddedToken(spelled, special=special, normalized=False)])
    added = QwenTokenizer(backend, plain.end_ids)
    context = PromptContext(
        f"find the {spelled} sign", (Step(f"look{spelled}", "stop"),), 0, (f"saw {spelled} ahead 1.0 m",)
    )
    asked = question_prompt(f"where is {spelled}", [f"it says {spelled}{spelled}"])
    for text in (render_prompt(context), render_prompt(context, instructed=True), asked):
        assert added.encode_prompt(text) == plain.encode_prompt(text)
        assert backend.token_to_id(spelled) not in added.encode_prompt(text) or spelled in ("go", "key")


def test_a_prompt_without_other_control_tokens_is_transformers_own(tokenizer: QwenTokenizer) -> None:
    for prompt in (render_prompt(PromptContext("find x")), question_prompt("where is x?", ["x is here"])):
        assert tokenizer.encode_prompt(prompt) == tokenizer.encode(prompt)


def test_other_words_stay_as_they_are() -> None:
    for text in ("x < 3", "a<b", "<3", "i <3 you", "5 <6 > 4", "| a | b |"):
        assert as_words(text) == text


def test_a_question_that_spells_one_is_a_question_still(tokenizer: QwenTokenizer) -> None:
    asked = question_prompt("what is <|image_pad|>?")
    assert question_of(asked) == "what is < |image_pad|>?"
    assert tokenizer.image_id not in tokenizer.encode(asked)
