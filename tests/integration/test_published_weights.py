"""Published weights, by choice: `make weights`, then `pytest -m weights`."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM

from outrider.core.values import Prompt
from outrider.models import QwenModel, load_model
from outrider.runtime.datasets.published_weights import DRAFT, published_file
from outrider.runtime.datasets.real_prompts import real_prompts

pytestmark = [pytest.mark.weights, pytest.mark.timeout(3600)]
NUM_PROMPTS, NUM_TOKENS = 20, 12


def greedy_text(model: QwenModel, prompt: Prompt) -> list[int]:
    """The runtime's tokens, one forward each."""
    session = model.open_session()
    ids = [int(session.prefill(prompt).argmax())]
    while len(ids) < NUM_TOKENS:
        ids.append(int(session.forward(ids[-1:])[0].argmax()))
    return ids


@torch.inference_mode()
def test_greedy_texts_are_those_of_transformers_in_float32() -> None:
    path, prompts = published_file(DRAFT), real_prompts(NUM_PROMPTS)
    model = load_model(path, max_length=256)
    own = [greedy_text(model, prompt) for prompt in prompts]
    encoded = [model.tokenizer.encode(prompt.text) for prompt in prompts]
    del model
    reference = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    for ids, expected in zip(encoded, own, strict=True):
        inputs = torch.tensor([ids])
        text = reference.generate(
            inputs,
            attention_mask=torch.ones_like(inputs),
            max_new_tokens=NUM_TOKENS,
            min_new_tokens=NUM_TOKENS,
            do_sample=False,
            repetition_penalty=1.0,
            eos_token_id=None,
        )
        assert text[0, len(ids) :].tolist() == expected
