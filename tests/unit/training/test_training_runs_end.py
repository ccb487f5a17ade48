"""What a training run does on finding another run, too many processes, damaged files, or no room."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.training_frames import example

from outrider.core.errors import ConfigError
from outrider.core.training_data import shard_paths
from outrider.training.export import save_weights
from outrider.training.imitation import Trainer, TrainingConfig
from outrider.training.parallel import train
from outrider.training.tokenizer import read_tokenizer, train_tokenizer

CONFIG = TrainingConfig("draft", vision_steps=0, steps=2, batch_frames=2, vision_batch_frames=2)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    train_tokenizer([query.user_text + query.answer for query in example(0).queries], folder, vocab_size=320)
    return folder


@pytest.fixture(scope="module")
def done(data: Path, tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a finished run."""
    folder = tmp_path_factory.mktemp("done")
    train(CONFIG, tokenizer, data, folder, 1)
    return folder


@pytest.fixture
def run(done: Path, tmp_path: Path) -> Path:
    """Returns a copy of that folder, to be resumed."""
    return shutil.copytree(done, tmp_path / "run")


@pytest.mark.lengthy
def test_a_run_that_is_done_goes_on_where_more_steps_are_asked_for(
    run: Path, data: Path, tokenizer: Path
) -> None:
    trainer = Trainer(replace(CONFIG, steps=3), read_tokenizer(tokenizer), data, run)
    assert [figures["step"] for figures in trainer.run()] == [3]
    assert trainer.progressed.phase == "done"


def test_a_run_that_is_done_does_not_pass_for_a_shorter_one(run: Path, data: Path, tokenizer: Path) -> None:
    with pytest.raises(ConfigError, match="has 2 steps already"):
        train(replace(CONFIG, steps=1), tokenizer, data, run, 1)


def test_a_run_that_is_done_does_not_pass_for_one_with_another_start(
    run: Path, data: Path, tokenizer: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"is of a run that is done: to begin a new one with .*first"):
        train(replace(CONFIG, steps=3), tokenizer, data, run, 1, tmp_path / "first.pt")


def test_a_checkpoint_of_another_tokenizer_is_refused(run: Path, data: Path, tmp_path: Path) -> None:
    train_tokenizer(["a"], tmp_path / "other", vocab_size=280)
    with pytest.raises(ConfigError, match=r"is no readable checkpoint of a draft with this tokenizer"):
        train(CONFIG, tmp_path / "other", data, run, 1)


def test_more_processes_than_frames_are_refused(data: Path, tokenizer: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="processes=3 share batches of 2 frames: use 2 at most"):
        train(CONFIG, tokenizer, data, tmp_path, 3)


@pytest.mark.lengthy
@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_of_a_process_is_that_of_the_run(
    processes: int, data: Path, tokenizer: Path, tmp_path: Path
) -> None:
    damaged = shutil.copytree(data, tmp_path / "data")
    for path in shard_paths(damaged):
        path.write_bytes(b"no shard")
    with pytest.raises(ConfigError, match="is no readable shard"):
        train(CONFIG, tokenizer, damaged, tmp_path / "run", processes)


def test_a_damaged_tokenizer_is_named(data: Path, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ConfigError, match="holds no tokenizer that can be read"):
        train(CONFIG, tmp_path, data, tmp_path / "run", 1)


@pytest.mark.lengthy
def test_weights_that_cannot_be_written_are_named(tokenizer: Path, data: Path, tmp_path: Path) -> None:
    model = Trainer(CONFIG, read_tokenizer(tokenizer), data, tmp_path / "run").network.model
    (tmp_path / "draft" / "model.safetensors" / "in_the_way").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"cannot write .*draft \(.*\): make room"):
        save_weights(model, tmp_path / "draft")
