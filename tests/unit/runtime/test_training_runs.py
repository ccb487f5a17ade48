"""A training that could not write its result does not start."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from outrider.core.errors import ConfigError
from outrider.runtime.datasets.training_runs import (
    make_answers,
    make_exits,
    make_model,
    make_reader,
    make_tokenizer,
    run_folder,
)
from outrider.training.frozen.exits import ExitsConfig
from outrider.training.imitation import TrainingConfig

DAMAGED = b"whoever reads this has begun"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Returns a data set that exists but cannot be read."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "shard-0000.msgpack").write_bytes(DAMAGED)
    return tmp_path / "data"


@pytest.fixture
def taken(tmp_path: Path) -> Path:
    """Returns a file, at a path where a folder is to be made."""
    (tmp_path / "taken").write_text("")
    return tmp_path / "taken"


def test_a_tokenizer_is_not_learnt(data: Path, taken: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot write .*taken"):
        make_tokenizer(data, taken / "tokenizer")


@pytest.mark.parametrize("role", ["target", "draft"])
def test_a_model_is_not_trained(role: str, data: Path, tmp_path: Path) -> None:
    models = tmp_path / "models"
    (models / "tokenizer").mkdir(parents=True)
    (models / "tokenizer" / "tokenizer.json").write_bytes(DAMAGED)
    (models / role).write_text("")
    with pytest.raises(ConfigError, match=rf"cannot write .*{role}"):
        make_model(TrainingConfig(role), data, tmp_path / "run", models, 1)


def test_a_reader_is_not_trained(tmp_path: Path, taken: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot write .*taken"):
        make_reader(taken, tmp_path / "models", 1, 0)
    assert not (tmp_path / "models").exists()


def test_exits_are_not_trained(data: Path, tiny_model_folder: Path, tmp_path: Path) -> None:
    target = shutil.copytree(tiny_model_folder / "target", tmp_path / "target")
    target.chmod(0o500)
    if os.access(target, os.W_OK):
        pytest.skip("root may write everywhere")
    with pytest.raises(ConfigError, match=r"cannot write .*target"):
        make_exits(ExitsConfig(), data, target)


def test_two_trainings_do_not_share_a_folder(data: Path, tiny_model_folder: Path, tmp_path: Path) -> None:
    run, models = tmp_path / "run", tmp_path / "models"
    shutil.copytree(tiny_model_folder / "tokenizer", models / "tokenizer")
    with run_folder(run):
        (run / "checkpoint").write_bytes(DAMAGED)
        with pytest.raises(ConfigError, match=r"another command trains in .*run: wait"):
            make_reader(run, models, 1, 0)
        with pytest.raises(ConfigError, match=r"another command trains in .*run: wait"):
            make_model(TrainingConfig("draft"), data, run, models, 1)
        with pytest.raises(ConfigError, match=r"another command trains in .*run: wait"):
            make_answers(run, tiny_model_folder / "target", 1, "fp32", "cpu")
        assert (run / "checkpoint").read_bytes() == DAMAGED
    with run_folder(run):
        pass
