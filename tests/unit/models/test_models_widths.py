"""The published checkpoints' settings and widths, against transformers' own modules for the same folder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.published_models import PUBLISHED, VOCABULARY, build_published
from support.tiny_models import random_prompt
from torch import Tensor

from outrider.models import ReferenceGenerator, load_graph_model, load_model
from outrider.models.onnx.model import GraphModel
from outrider.models.session import QwenModel

TOKENS = 8
LIKENESS = {"bf16": 0.9998, "int8": 0.9995, "int4": 0.97, "graphs": 0.97}
"""By precision: the least cosine of a token's logits with those of transformers in bfloat16."""
LIKENESS_OF_QWEN3 = LIKENESS | {"int4": 0.93, "graphs": 0.93}
"""Lower: the integers of its random weights reach only 0.95, even if all arithmetic is float32.

Gains of 1 in the norms of its heads do not change that.
"""


def greedy(model: QwenModel | GraphModel) -> tuple[list[int], Tensor]:
    """Return the tokens, and the logits by which they and one more were chosen."""
    session = model.open_session()
    rows, token_ids = [session.prefill(random_prompt(1))], []
    while len(token_ids) < TOKENS:
        token_ids.append(int(rows[-1].argmax()))
        rows.append(session.forward(token_ids[-1:])[0])
    return token_ids, torch.stack(rows)


@pytest.mark.lengthy
@pytest.mark.parametrize("name", ["Qwen2-VL-2B", "Qwen2.5-VL-3B", "Qwen3-VL-2B", "Qwen3-VL-4B"])
def test_at_full_width_the_logits_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    """With few words, and one layer after two of vision; the first of these has windows in Qwen2.5-VL."""
    folder = build_published(tmp_path / "target", name, layers=1)
    token_ids, rows = greedy(load_model(folder))
    wanted = ReferenceGenerator(folder).rows(random_prompt(1), token_ids)
    assert torch.allclose(rows, wanted, atol=1e-4)
    assert wanted.argmax(-1)[:TOKENS].tolist() == token_ids


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", PUBLISHED)
def test_with_all_words_every_precision_says_what_transformers_does(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "cache"))
    folder, prompt = build_published(tmp_path / "target", name, whole_vocabulary=True), random_prompt(1)
    token_ids, rows = greedy(load_model(folder, max_length=1024))
    assert torch.allclose(rows, ReferenceGenerator(folder).rows(prompt, token_ids), atol=1e-4)
    wanted = ReferenceGenerator(folder, dtype=torch.bfloat16).rows(prompt, token_ids)
    assert wanted.shape == (1 + TOKENS, VOCABULARY)
    for how, least in (LIKENESS_OF_QWEN3 if name.startswith("Qwen3") else LIKENESS).items():
        session = load(folder, how).open_session()
        rows = torch.cat([session.prefill(prompt)[None], session.forward(token_ids)])
        assert torch.cosine_similarity(rows, wanted).min() > least, how


def load(folder: Path, how: str) -> QwenModel | GraphModel:
    if how == "graphs":
        return load_graph_model(folder, max_length=1024)
    return load_model(folder, precision=how, max_length=1024)  # type: ignore[arg-type]
