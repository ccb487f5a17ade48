"""Qwen2 text models: transformers' own logits and texts, in every strategy, precision and runtime."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.text_models import PROMPT, build_text_model, write_gguf
from support.tiny_models import random_prompt

from outrider.core.errors import ConfigError, ModelError
from outrider.core.model_options import PRECISIONS, Precision
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.models import (
    QwenModel,
    ReferenceGenerator,
    load_exact_model,
    load_graph_model,
    load_model,
)
from outrider.runtime.wiring.decoders import local_decoder
from outrider.runtime.wiring.knowledge import load_reader
from outrider.runtime.wiring.robot_pair import EdgeSettings, open_edge

ASKED = Prompt(PROMPT, b"")
SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_text_model(tmp_path_factory.mktemp("text") / "target")


@pytest.fixture(scope="module")
def target(folder: Path) -> QwenModel:
    return load_model(folder)


@pytest.mark.parametrize("tied", [True, False])
def test_logits_and_texts_are_those_of_transformers(tmp_path: Path, tied: bool) -> None:
    rope = {"rope_type": "default", "rope_theta": 1e6}
    folder = build_text_model(tmp_path / "model", tie_word_embeddings=tied, rope_parameters=rope)
    session, reference = load_model(folder).open_session(), ReferenceGenerator(folder)
    text = reference.generate(ASKED, 20)
    rows = torch.cat([session.prefill(ASKED)[None], session.forward(text)])
    torch.testing.assert_close(rows, reference.rows(ASKED, text), rtol=1e-4, atol=1e-4)
    assert rows.argmax(-1)[:-1].tolist() == text


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_a_pair_of_a_folder_and_a_file_gives_the_targets_own_text(
    target: QwenModel, tmp_path: Path, strategy: str
) -> None:
    write_gguf(tmp_path / "draft.gguf", **SMALL)
    draft = load_model(tmp_path / "draft.gguf", "draft", sessions=2)
    own = local_decoder(target, None, DecodingConfig(strategy="ar"))
    config = DecodingConfig(strategy=strategy, workers=2)
    pair = local_decoder(target, None if strategy == "ar" else draft, config)
    asked = DecodeRequest(ASKED, 24)
    assert pair.decode(asked).token_ids == own.decode(asked).token_ids


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.usefixtures("graph_cache")
def test_static_graphs_compute_what_their_eager_twin_does(folder: Path, precision: Precision) -> None:
    graphs, exact = load_graph_model(folder, precision=precision), load_exact_model(folder, precision)
    rows = []
    for model in (graphs, exact):
        session = model.open_session()
        rows.append(torch.cat([session.prefill(ASKED)[None], session.forward([7, 8, 9])]))
    torch.testing.assert_close(*rows, rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("graph_cache")
def test_a_file_is_made_into_static_graphs(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf")
    graphs = load_graph_model(tmp_path / "model.gguf", precision="fp32")
    whole = load_model(tmp_path / "model.gguf")
    rows = [model.open_session().prefill(ASKED) for model in (graphs, whole)]
    torch.testing.assert_close(*rows, rtol=1e-3, atol=1e-3)


def test_a_text_model_answers_questions(folder: Path, tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf")
    for model in (folder, tmp_path / "model.gguf"):
        reader = load_reader(str(model))
        assert (
            local_decoder(reader, None, DecodingConfig(strategy="ar"))
            .decode(DecodeRequest(ASKED, 4))
            .token_ids
        )


def test_a_prompt_with_a_picture_is_refused(target: QwenModel) -> None:
    with pytest.raises(ConfigError, match="is a text model, and the prompt has a picture: choose a Qwen2-VL"):
        target.open_session().prefill(random_prompt(1))


@pytest.mark.parametrize("strategy", ["ar", "outrider"])
def test_a_navigator_refuses_a_text_model_at_its_start(folder: Path, strategy: str) -> None:
    settings = EdgeSettings("tcp://127.0.0.1:1", str(folder), DecodingConfig(strategy=strategy))
    with pytest.raises(ModelError, match=r"target is a text model \(qwen2\), which cannot navigate"):
        open_edge(settings)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}, "use_sliding_window"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        (
            {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}},
            "rope_type is 'yarn'; only 'default' can be run",
        ),
    ],
)
def test_what_the_runtime_does_not_compute_is_named(
    tmp_path: Path, settings: dict[str, object], reason: str
) -> None:
    with pytest.raises(ModelError, match=reason):
        load_model(build_text_model(tmp_path / "model", **settings))


def test_a_window_that_no_layer_has_changes_nothing(tmp_path: Path) -> None:
    window = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 2}
    folder = build_text_model(tmp_path / "model", **window)
    row = load_model(folder).open_session().prefill(ASKED)
    torch.testing.assert_close(row, ReferenceGenerator(folder).rows(ASKED, [])[0], rtol=1e-4, atol=1e-4)
