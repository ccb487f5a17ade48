"""Looks: the tower learns them from its features of the plain view, the text model stays, a run resumes."""

import json
from pathlib import Path

import cv2
import msgspec
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from outrider.core.errors import ConfigError
from outrider.core.training_data import Example, Query, Shard
from outrider.runtime.datasets.training_runs import make_looks
from outrider.training.looks import LANDMARK_WEIGHT, LooksConfig, LooksTrainer, features_missed
from outrider.training.network import PackedModel

CONFIG = LooksConfig(steps=30, batch_frames=4, learning_rate=2e-3, warmup_steps=2)


def jpeg(picture: np.ndarray) -> bytes:
    return cv2.imencode(".jpg", picture)[1].tobytes()


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Views with a washed-out picture beside the plain one, and some plain ones."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    examples = []
    for index in range(8):
        blocks = rng.integers(0, 256, (5, 9, 3), dtype=np.uint8)
        plain = np.kron(blocks, np.ones((28, 28, 1), np.uint8))
        washed = (128 + plain / 4).astype(np.uint8)
        cells = rng.integers(0, 9, (5, 9, 3)).astype(np.int16).tobytes()
        twin = jpeg(plain) if index % 4 else b""
        examples.append(Example(jpeg(washed if twin else plain), cells, [Query("task", "stop")], twin))
    (folder / "shard-0000.msgpack").write_bytes(msgspec.msgpack.encode(Shard(examples)))
    return folder


@pytest.fixture
def model(tiny_model_folder, tmp_path) -> Path:
    """A copy of a tiny model that may be written to."""
    folder = tmp_path / "draft"
    folder.mkdir()
    for path in (tiny_model_folder / "draft").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_the_tower_comes_to_see_a_look_as_it_sees_plain(model, data, tmp_path):
    losses = list(LooksTrainer(CONFIG, model, data, tmp_path / "run.pt").run())
    assert len(losses) == CONFIG.steps
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])


def test_only_the_towers_weights_change_and_the_card_says_how_long_it_was_taught(model, data, tmp_path):
    before, config = load_file(model / "model.safetensors"), (model / "config.json").read_text()
    figures = make_looks(CONFIG, data, model, tmp_path / "run")
    after = load_file(model / "model.safetensors")
    changed = {name for name in before if not torch.equal(before[name].bfloat16(), after[name])}
    assert changed and all(".visual." in name or name.startswith("visual.") for name in changed)
    assert (model / "config.json").read_text() == config
    assert json.loads((model / "card.json").read_text())["figures"]["looks"] == figures
    assert figures["steps"] == CONFIG.steps and figures["features_missed"] > 0.0


def test_a_run_that_was_cut_off_goes_on_and_a_finished_one_learns_no_more(model, data, tmp_path):
    checkpoint = tmp_path / "run.pt"
    cut = LooksTrainer(CONFIG, model, data, checkpoint).run()
    for _ in range(25):  # the checkpoint is that of step 20
        next(cut)
    again = LooksTrainer(CONFIG, model, data, checkpoint)
    assert again.step == 20 and len(list(again.run())) == CONFIG.steps - 20
    finished = LooksTrainer(CONFIG, model, data, checkpoint)
    assert list(finished.run()) == [] and finished.figures == again.figures


def test_a_damaged_checkpoint_is_named_and_left_alone(model, data, tmp_path):
    checkpoint = tmp_path / "run.pt"
    checkpoint.write_bytes(b"damaged")
    with pytest.raises(ConfigError, match=r"run\.pt is no checkpoint of this model; delete it"):
        LooksTrainer(CONFIG, model, data, checkpoint)
    assert checkpoint.read_bytes() == b"damaged"


def test_what_is_missed_counts_more_where_an_object_or_a_door_is():
    taught = torch.randn(1, 4, 6, generator=torch.Generator().manual_seed(0))
    kinds = torch.tensor([[0, 4, 1, 7]])
    missed = []
    for token in range(4):
        seen = taught.clone()
        seen[0, token] += 1.0
        missed.append(float(features_missed(seen, taught, kinds)))
    assert float(features_missed(taught, taught, kinds)) == 0.0
    assert missed[1] == pytest.approx(missed[0])
    assert missed[2] == missed[3] == pytest.approx(LANDMARK_WEIGHT * missed[0])
    weights = 2 + 2 * LANDMARK_WEIGHT
    assert missed[0] == pytest.approx(1.0 / float(taught.var()) / weights)


def test_a_trainer_begins_where_its_model_stands(model, data, tmp_path):
    trainer = LooksTrainer(CONFIG, model, data, tmp_path / "run.pt")
    assert isinstance(trainer.network, PackedModel) and trainer.step == 0
    before = load_file(model / "model.safetensors")
    trainer.write(model)
    after = load_file(model / "model.safetensors")
    assert all(torch.equal(before[name].bfloat16(), after[name]) for name in before)
