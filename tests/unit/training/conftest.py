"""A data set of two shards, and a random target of two layers."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
import torch
from support.training_frames import example

from outrider.core.language.actions import ACTION_TEXTS
from outrider.core.training_data import Shard
from outrider.training.architecture import build_model
from outrider.training.tokenizer import train_tokenizer


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for index in range(2):
        shard = Shard([example(10 * index + frame) for frame in range(4)])
        (folder / f"shard-{index:04d}.msgpack").write_bytes(msgspec.msgpack.encode(shard))
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Returns the folder of a random model of two layers, with its tokenizer in the same parent folder."""
    torch.manual_seed(0)
    actions = [f"{action}\n" for action in ACTION_TEXTS]
    texts = [query.user_text + query.answer for query in example(0).queries]
    tokenizer = train_tokenizer(texts + actions, tmp_path / "tokenizer", vocab_size=330)
    model = build_model("draft", tokenizer)
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.data.normal_(std=0.15)
    model.save_pretrained(tmp_path / "target")
    (tmp_path / "target" / "card.json").write_text(
        json.dumps({"slots": {"colour": ["red"], "kind": ["ball"]}})
    )
    return tmp_path / "target"
