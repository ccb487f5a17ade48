"""Published weights, tested on request: `make weights`, then `pytest -m weights`."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from transformers import AutoModelForCausalLM

from outrider.core.values import Prompt
from outrider.models import QwenModel, load_model
from outrider.runtime.datasets.published_weights import DRAFT, published_file
from outrider.runtime.datasets.real_prompts import real_prompts

pytestmark = [pytest.mark.weights, pytest.mark.timeout(3600)]
NUM_PROMPTS, NUM_TOKENS = 20, 12
LOADING = """
import sys, threading, time
from pathlib import Path
from outrider.models import load_model
from outrider.models.footprint.footprint import bytes_needed

def held():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))

def watch():
    while True:
        peaks.append(held())
        time.sleep(0.01)

file, precision, peaks = Path(sys.argv[1]), sys.argv[2], []
before = held()
threading.Thread(target=watch, daemon=True).start()
model = load_model(file, precision=precision, max_length=256)
said = bytes_needed([file], precision)
print(said.loading, max(peaks) - before, said.kept, held() - before)
"""


def greedy_text(model: QwenModel, prompt: Prompt) -> list[int]:
    """Returns the runtime's greedy tokens, with one forward pass for each."""
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


@pytest.mark.parametrize("precision", ["bf16", "int8", "int4"])
def test_loading_takes_no_more_memory_than_announced(precision: str) -> None:
    """Loaded weights may take 5 % and 128 MiB more than announced, for caches and the allocator."""
    command = [sys.executable, "-c", LOADING, str(published_file(DRAFT)), precision]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    loading, peak, kept, stays = map(int, told.split())
    assert peak <= loading
    assert stays <= 1.05 * kept + 2**27
