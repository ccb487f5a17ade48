"""The robot's half of the pair from its settings: which model drafts, and how."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.tiny_models import random_prompt

from outrider.core.errors import ConfigError
from outrider.core.language.actions import ACTION_TEXTS
from outrider.core.values import DecodeRequest
from outrider.decoding.config import DecodingConfig
from outrider.models import ConstrainedModel, QwenModel, load_model
from outrider.models.onnx.model import GraphModel
from outrider.runtime.wiring.decoders import local_decoder
from outrider.runtime.wiring.robot_pair import EdgeSettings, load_draft

ANYWHERE = "tcp://127.0.0.1:1"


def settings(folder: Path, **options: object) -> EdgeSettings:
    return EdgeSettings(ANYWHERE, str(folder), DecodingConfig(), **options)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path))


@pytest.mark.lengthy
@pytest.mark.parametrize("options", [{}, {"precision": "int8"}, {"runtime": "graphs", "precision": "int8"}])
@pytest.mark.parametrize("constrained", [False, True])
def test_every_kind_of_draft_leaves_the_text_as_it_is(
    tiny_model_folder: Path, options: dict[str, object], constrained: bool
) -> None:
    folder = tiny_model_folder / "draft"
    draft = load_draft(folder, settings(folder, constrained=constrained, **options))
    inner = draft._model if isinstance(draft, ConstrainedModel) else draft
    assert isinstance(draft, ConstrainedModel) == constrained
    assert isinstance(inner, GraphModel if options.get("runtime") == "graphs" else QwenModel)
    target = load_model(tiny_model_folder / "target")
    own = local_decoder(target, None, DecodingConfig(strategy="ar"))
    pair = local_decoder(target, draft, DecodingConfig(workers=2))
    request = DecodeRequest(random_prompt(1), 16)
    assert pair.decode(request).token_ids == own.decode(request).token_ids


def test_a_constrained_draft_begins_with_an_action(tiny_model_folder: Path) -> None:
    folder = tiny_model_folder / "draft"
    draft = load_draft(folder, settings(folder, constrained=True))
    alone = local_decoder(draft, None, DecodingConfig(strategy="ar"))
    text = alone.decode(DecodeRequest(random_prompt(2), 24)).text
    assert text.partition("\n")[0] in ACTION_TEXTS


def test_a_provider_that_is_not_there_is_named(tiny_model_folder: Path) -> None:
    folder = tiny_model_folder / "draft"
    with pytest.raises(ConfigError, match="provider=openvino"):
        load_draft(folder, settings(folder, runtime="graphs", provider="openvino"))


def test_static_graphs_take_a_provider_and_no_device(tiny_model_folder: Path) -> None:
    folder = tiny_model_folder / "draft"
    with pytest.raises(ConfigError, match=r"device=cuda.*provider=cuda"):
        load_draft(folder, settings(folder, runtime="graphs", device="cuda"))
