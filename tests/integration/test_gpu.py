"""The shipped pair on a GPU: what it writes there, by every strategy and precision. Skipped without one."""

from __future__ import annotations

import pytest
import torch

from outrider.core.values import DecodeRequest
from outrider.decoding.config import DecodingConfig
from outrider.models import load_model
from outrider.runtime.common.paths import models_folder
from outrider.runtime.datasets.held_out import held_out_prompts
from outrider.runtime.wiring.decoders import local_decoder

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
NUM_TEXTS = 4


@pytest.fixture(scope="module")
def requests():
    return [DecodeRequest(prompt, 64, 600.0) for prompt in held_out_prompts(NUM_TEXTS, seed=3)]


def written(target, draft, config, requests):
    decoder = local_decoder(target, draft, config)
    return [decoder.decode(request).token_ids for request in requests]


def test_the_gpu_writes_what_the_cpu_writes(requests):
    ar = DecodingConfig(strategy="ar")
    on_cpu, on_gpu = (load_model(models_folder(None) / "target", device=place) for place in ("cpu", "cuda"))
    assert written(on_gpu, None, ar, requests) == written(on_cpu, None, ar, requests)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8", "int4"])
@pytest.mark.parametrize("strategy", ["sd", "fsd", "picospec", "dssd", "outrider"])
def test_every_strategy_writes_what_the_target_writes_alone(requests, precision, strategy):
    folder = models_folder(None)
    target = load_model(folder / "target", precision=precision, device="cuda")
    draft = load_model(folder / "draft", role="draft")
    for temperature in (0.0, 0.8):
        settings = {"temperature": temperature, "seed": 7, "acceptance": "coupled"}
        alone = written(target, None, DecodingConfig(strategy="ar", **settings), requests)
        assert written(target, draft, DecodingConfig(strategy=strategy, **settings), requests) == alone
