"""Which tokens end a checkpoint's texts: those at which transformers' `generate` stops."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from support.tiny_models import build_tiny_model, build_tokenizer, random_prompt
from transformers import Qwen2VLForConditionalGeneration

from outrider.core.errors import ModelError
from outrider.core.values import DecodeRequest
from outrider.decoding.config import DecodingConfig
from outrider.models import load_model, load_tokenizer
from outrider.models.reference import ReferenceGenerator
from outrider.runtime.wiring.decoders import local_decoder

LENGTH = 24


def write(folder: Path, **named: object) -> None:
    """Write files by name with this `eos_token_id`; None: no such file, `...`: a file without the key."""
    for name, value in named.items():
        path = folder / f"{name}.json"
        content = json.loads(path.read_text()) if path.exists() else {}
        content.pop("eos_token_id", None)
        content.get("text_config", {}).pop("eos_token_id", None)
        if value is None:
            path.unlink(missing_ok=True)
            continue
        path.write_text(json.dumps(content | ({} if value is ... else {"eos_token_id": value})))


@pytest.mark.parametrize(
    ("generation", "config", "wanted"),
    [
        ([1, 5], 9, {1, 5}),
        (4, 9, {4}),
        (..., 9, {9}),
        (None, [9, 8], {9, 8}),
        (None, ..., {2}),
        ([5, 100_000], ..., {5}),
    ],
)
def test_the_nearest_file_that_names_end_tokens_decides(tmp_path, generation, config, wanted) -> None:
    build_tokenizer(tmp_path)
    write(tmp_path, generation_config=generation, config=config)
    assert load_tokenizer(tmp_path).end_ids == wanted


def test_a_models_text_part_may_name_them(tmp_path: Path) -> None:
    build_tokenizer(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"eos_token_id": [3, 4]}}))
    assert load_tokenizer(tmp_path).end_ids == {3, 4}


@pytest.mark.parametrize("value", ["<|im_end|>", [], [1.5], -1, True, [100_000], {"id": 1}])
def test_what_is_no_token_id_is_refused(tmp_path: Path, value: object) -> None:
    build_tokenizer(tmp_path)
    write(tmp_path, generation_config=value)
    with pytest.raises(ModelError, match=r"generation_config\.json: eos_token_id"):
        load_tokenizer(tmp_path)


@pytest.mark.lengthy
@pytest.mark.parametrize("strategy", ["ar", "sd", "outrider"])
def test_greedy_texts_are_those_of_transformers_to_the_end(tmp_path: Path, strategy: str) -> None:
    for name, seed in (("target", 1), ("draft", 2)):
        build_tiny_model(tmp_path / name, seed=seed)
    reference = ReferenceGenerator(tmp_path / "target")
    free = reference.generate(random_prompt(3), LENGTH)
    ends = [[free[7]], [free[3], free[7]], [free[12], free[5]]]
    for end_ids in ends:
        write(tmp_path / "target", generation_config=end_ids)
        theirs = _generate(reference, end_ids)
        target, draft = load_model(tmp_path / "target"), load_model(tmp_path / "draft", "draft")
        decoder = local_decoder(target, draft, DecodingConfig(strategy=strategy, num_draft_tokens=5))
        ours = decoder.decode(DecodeRequest(random_prompt(3), LENGTH, 600.0)).token_ids
        assert list(ours) == theirs and len(ours) < LENGTH


@torch.inference_mode()
def _generate(reference: ReferenceGenerator, end_ids: list[int]) -> list[int]:
    modules: Qwen2VLForConditionalGeneration = reference._modules
    inputs = reference._inputs(random_prompt(3))
    ids = modules.generate(**inputs, max_new_tokens=LENGTH, do_sample=False, eos_token_id=end_ids)
    return ids[0, inputs["input_ids"].shape[1] :].tolist()
