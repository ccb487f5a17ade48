"""A language model's own answers are the training data of its exits, and its exits learn them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from support.text_models import build_text_model, write_gguf
from support.tiny_models import build_tiny_model

from outrider.core.errors import ConfigError
from outrider.core.ports import Chunk
from outrider.core.training_data import Example, Shard
from outrider.models import load_model
from outrider.runtime.datasets import training_runs
from outrider.runtime.datasets.own_answers import TOGETHER, greedy_answers, write_answers
from outrider.runtime.datasets.real_prompts import asked
from outrider.runtime.datasets.training_runs import make_answers, make_exits, make_head
from outrider.training.batches import read_shard
from outrider.training.frozen.draft_head import HeadConfig
from outrider.training.frozen.exits import ExitsConfig

QUESTIONS = tuple(
    f"find the {colour} {what}" for colour in ("red", "blue") for what in ("cup", "ball", "box")
)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_text_model(tmp_path_factory.mktemp("models") / "text", num_hidden_layers=3)


def test_answers_in_a_batch_are_those_of_each_alone(target: Path) -> None:
    model = load_model(target, max_length=256, sessions=len(QUESTIONS))
    together = greedy_answers(model, QUESTIONS, 9)
    for question, answer in zip(QUESTIONS, together, strict=True):
        session = model.open_session()
        ids = [int(session.prefill(asked(question)).argmax())]
        while len(ids) < 9 and ids[-1] not in model.end_ids:
            ids.append(int(model.forward_together([Chunk(session, ids[-1:])])[0][-1].argmax()))
        assert answer == model.tokenizer.decode([one for one in ids if one not in model.end_ids])


def test_answers_that_are_there_are_kept(target: Path, tmp_path: Path) -> None:
    model, questions = load_model(target, max_length=256, sessions=TOGETHER), QUESTIONS * 2
    first, second = write_answers(tmp_path, model, questions, 5)
    queries = [example.queries[0].user_text for path in (first, second) for example in read_shard(path)]
    assert queries == list(questions)
    kept = first.stat().st_mtime_ns
    second.unlink()
    assert list(write_answers(tmp_path, model, questions, 5)) == [first, second]
    assert first.stat().st_mtime_ns == kept and second.exists()


@pytest.mark.lengthy
def test_exits_of_a_language_model_are_trained_on_its_answers_and_run(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_runs, "training_questions", lambda: QUESTIONS * 2)
    make_answers(tmp_path, target, 6, "fp32", "cpu")
    figures = make_exits(ExitsConfig((1, 2), rank=4, frames=8), tmp_path, target)
    exits = load_model(target, max_length=256).exits
    assert figures["layers"] == [1, 2] and exits is not None
    assert len(exits.token_ids) == figures["shortlist"]
    assert figures["coverage"] == 1.0


def test_data_of_the_other_kind_of_model_is_refused(target: Path, data: Path, tmp_path: Path) -> None:
    seeing = build_tiny_model(tmp_path / "seeing")
    model = load_model(target, max_length=256, sessions=TOGETHER)
    list(write_answers(tmp_path / "answers", model, QUESTIONS, 2))
    for make, config in ((make_exits, ExitsConfig()), (make_head, HeadConfig())):
        with pytest.raises(ConfigError, match=r"answers has no pictures, which .*seeing reads"):
            make(config, tmp_path / "answers", seeing)
        with pytest.raises(ConfigError, match=r"has pictures, and .*text is a text model"):
            make(config, data, target)


def test_data_without_questions_is_refused(target: Path, tmp_path: Path) -> None:
    (tmp_path / "shard-0000.msgpack").write_bytes(msgspec.msgpack.encode(Shard([Example(b"", b"", [])])))
    with pytest.raises(ConfigError, match="holds no questions"):
        make_exits(ExitsConfig(), tmp_path, target)


def test_exits_lie_in_the_folder_of_a_gguf_file(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(path)
    with pytest.raises(ConfigError, match="give its folder"):
        make_exits(ExitsConfig(), tmp_path, path)
