"""What models write on a GPU: the shipped pair, and others at published widths. Skipped without a GPU."""

from __future__ import annotations

import pytest
import torch
from support.published_models import PUBLISHED, build_published
from support.tiny_models import random_prompt

from outrider.core.values import DecodeRequest
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.linked_decoder import LinkedDecoder
from outrider.decoding.drivers.local_link import LocalLink
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.tuning import DEFAULT_TUNING
from outrider.models import ReferenceGenerator, load_model
from outrider.runtime.common.paths import models_folder
from outrider.runtime.datasets.held_out import held_out_prompts
from outrider.runtime.wiring.decoders import local_decoder

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
NUM_TEXTS = 4
TOKENS = 8
LIKENESS = {"fp32": 0.9998, "bf16": 0.9998, "int8": 0.9995, "int4": 0.93}
"""By precision, the least cosine between a token's logits and those of transformers in bfloat16."""


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


@pytest.mark.parametrize("drafts_too", [False, True])
def test_a_draft_in_a_thread_of_its_own_changes_no_text(requests, drafts_too):
    """Its batches extend more positions than a block holds, so steps are captured while the target runs."""
    folder, places = models_folder(None), DEFAULT_TUNING.ahead_positions
    target = load_model(folder / "target", device="cuda")
    ahead = load_model(folder / "draft", role="draft", device="cuda", sessions=places)
    edge = load_model(folder / "draft", role="draft") if drafts_too else None

    def texts(service: VerifierService, config: DecodingConfig) -> list[tuple[int, ...]]:
        mine = edge if config.needs_model else None
        decoder = LinkedDecoder(LocalLink(service), mine, target.tokenizer, config, 1, "here")
        return [decoder.decode(request).token_ids for request in requests]

    drafters = ("model",) if drafts_too else ("suffix",)
    for temperature in (0.0, 0.8):
        alone = texts(VerifierService(target), DecodingConfig("ar", temperature=temperature))
        service = VerifierService(target, draft=ahead, draft_apart=True)
        assert texts(service, DecodingConfig(drafters=drafters, temperature=temperature)) == alone
        assert service.stats.failed_jobs == 0


@pytest.mark.parametrize("name", PUBLISHED)
def test_at_published_widths_every_precision_says_what_transformers_does(name, tmp_path):
    folder, prompt = build_published(tmp_path / "target", name), random_prompt(1)
    session = load_model(folder).open_session()
    token_ids = [int(session.prefill(prompt).argmax())]
    while len(token_ids) < TOKENS:
        token_ids.append(int(session.forward(token_ids[-1:])[0].argmax()))
    wanted = ReferenceGenerator(folder, dtype=torch.bfloat16).rows(prompt, token_ids)
    for precision, least in LIKENESS.items():
        session = load_model(folder, precision=precision, device="cuda").open_session()
        rows = torch.cat([session.prefill(prompt)[None], session.forward(token_ids)]).cpu()
        assert torch.cosine_similarity(rows, wanted).min() > least, precision


def test_a_model_of_full_depth_writes_the_same_in_chunks(tmp_path):
    folder = build_published(tmp_path / "target", "Qwen2-VL-2B", layers=28)
    requests = [DecodeRequest(random_prompt(number), 16, 600.0) for number in range(2)]
    for precision in ("bf16", "int4"):
        target = load_model(folder, precision=precision, device="cuda")
        alone = written(target, None, DecodingConfig(strategy="ar"), requests)
        assert written(target, target, DecodingConfig(strategy="sd"), requests) == alone
        assert written(target, target, DecodingConfig(strategy="outrider"), requests) == alone
