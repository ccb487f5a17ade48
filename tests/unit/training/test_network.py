"""The packed, batched training view computes what transformers computes; a run resumes where it stopped."""

import json
import subprocess
import sys
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from outrider.core.errors import ConfigError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.prompt import PromptContext, Step, render_user_text
from outrider.core.training_data import Example, Query, Shard, shard_paths
from outrider.simulation.homes.vocabulary import COLOURS, KINDS
from outrider.simulation.perception import BACKGROUNDS
from outrider.training.architecture import build_model
from outrider.training.batches import SHARDS_AT_ONCE, Packer, Source, examples_forever, patchify
from outrider.training.export import export
from outrider.training.imitation import Trainer, TrainingConfig, learning_rate
from outrider.training.network import NUM_COLOURS, NUM_KINDS, PackedModel
from outrider.training.tokenizer import train_tokenizer

WORDS = Vocabulary({"colour": ("red",), "kind": ("ball", "cup")})


def _examples(count):
    import cv2

    rng = np.random.default_rng(0)
    texts = ("move forward large\napproach: the red cup is ahead.", "stop\narrived: here.")
    contexts = (
        PromptContext("find the red cup"),
        PromptContext("go on", (Step("search", "turn left large"),), 45),
    )
    examples = []
    for _ in range(count):
        jpeg = cv2.imencode(".jpg", rng.integers(0, 255, (140, 252, 3), dtype=np.uint8))[1].tobytes()
        queries = [Query(render_user_text(c), t) for c, t in zip(contexts, texts, strict=True)]
        cells = rng.integers(0, 9, (5, 9, 3)).astype(np.int16)
        examples.append(Example(jpeg, cells.tobytes(), queries))
    return examples


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    texts = [q.user_text + q.answer for e in _examples(2) for q in e.queries]
    return train_tokenizer(texts, tmp_path_factory.mktemp("tokenizer"), vocab_size=320)


def test_packed_logits_equal_transformers(tokenizer):
    torch.manual_seed(0)
    packer = Packer(tokenizer)
    batch = packer.pack(examples := _examples(2))
    model = build_model("draft", tokenizer).eval()
    network = PackedModel(model, packer.image_start)
    with torch.no_grad():
        logits = network.read(network.see(batch.pixels), batch)
        done = 0
        for frame, example in enumerate(examples):
            for query in example.queries:
                task = packer._task(query)
                ids = torch.tensor([[*batch.prefix_ids.tolist(), *task.ids]])
                expected = model(
                    input_ids=ids,
                    pixel_values=patchify(batch.pixels)[frame],
                    image_grid_thw=torch.tensor([[1, 10, 18]]),
                    mm_token_type_ids=(ids == model.config.image_token_id).int(),
                ).logits[0, len(batch.prefix_ids) :][torch.tensor(task.targets) >= 0]
                torch.testing.assert_close(
                    logits[done : done + len(expected)], expected, atol=1e-4, rtol=1e-4
                )
                done += len(expected)
    assert done == len(logits)


@pytest.mark.lengthy
def test_a_run_resumes_and_exports(tokenizer, tmp_path):
    import msgspec

    data, run = tmp_path / "data", tmp_path / "run"
    data.mkdir()
    shard = Shard(_examples(8))
    (data / "shard-0000.msgpack").write_bytes(msgspec.msgpack.encode(shard))
    config = TrainingConfig("draft", vision_steps=1, steps=2, batch_frames=2, vision_batch_frames=2)
    list(Trainer(config, tokenizer, data, run).run())
    again = Trainer(config, tokenizer, data, run)
    assert again.progressed.phase == "done" and again.progressed.frames == 6
    assert list(again.run()) == []
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    export("draft", run / "draft.checkpoint.pt", tmp_path / "tokenizer", tmp_path / "draft", WORDS)
    card = json.loads((tmp_path / "draft" / "card.json").read_text())
    assert (
        card["slots"] == {"colour": ["red"], "kind": ["ball", "cup"]}
        and card["figures"]["training_frames"] == 6
    )
    with pytest.raises(ConfigError, match="not a target"):
        export("target", run / "draft.checkpoint.pt", tmp_path / "tokenizer", tmp_path / "x", WORDS)


ENDED = """
import multiprocessing, os, signal, sys, threading
from pathlib import Path
from outrider.training.imitation import TrainingConfig
from outrider.training.parallel import train

def end_once_it_trains():
    while not any(Path("run").glob("*.checkpoint.pt")):
        threading.Event().wait(0.05)
    Path("ranks").write_text(" ".join(str(rank.pid) for rank in multiprocessing.active_children()))
    os.kill(os.getpid(), signal.SIGINT)

if __name__ == "__main__":
    threading.Thread(target=end_once_it_trains, daemon=True).start()
    config = TrainingConfig("draft", vision_steps=1, steps=10**6, batch_frames=2, vision_batch_frames=2)
    try:
        train(config, Path("tokenizer"), Path("data"), Path("run"), 2)
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.mark.lengthy
def test_a_training_that_is_told_to_end_leaves_no_process(tokenizer, tmp_path):
    _data(tmp_path / "data")
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    (tmp_path / "ended.py").write_text(ENDED)
    command = [sys.executable, "ended.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 130 and "Traceback" not in done.stderr
    ranks = (tmp_path / "ranks").read_text().split()
    assert len(ranks) == 2 and not any(Path("/proc", rank).exists() for rank in ranks)


def test_a_run_begins_with_the_weights_of_another(tokenizer, tmp_path):
    config = TrainingConfig("draft", steps=2, seed=1)
    other = Trainer(config, tokenizer, tmp_path, tmp_path / "first")
    other._save()
    start = tmp_path / "first" / "draft.checkpoint.pt"
    trainer = Trainer(TrainingConfig("draft", steps=2, seed=2), tokenizer, tmp_path, tmp_path / "run", start)
    weights = trainer.network.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in other.network.state_dict().items())
    assert trainer.progressed.step == 0
    with pytest.raises(ConfigError, match="no weights of a target"):
        Trainer(TrainingConfig("target"), tokenizer, tmp_path, tmp_path / "run", start)


def test_a_run_begins_with_the_weights_of_a_models_folder(tokenizer, tmp_path):
    shipped = build_model("draft", tokenizer)
    shipped.save_pretrained(tmp_path / "draft")
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    start = tmp_path / "draft"
    trainer = Trainer(TrainingConfig("draft", steps=2), tokenizer, tmp_path, tmp_path / "run", start)
    weights = trainer.network.model.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in shipped.state_dict().items())
    with pytest.raises(ConfigError, match=r"no weights of a target .* or a model's folder"):
        Trainer(TrainingConfig("target"), tokenizer, tmp_path, tmp_path / "run", start)


def test_every_shard_is_read_before_any_twice_and_a_new_one_comes_next(tmp_path):
    import msgspec

    def write(name):
        examples = [replace_jpeg(example, name) for example in _examples(3)]
        (tmp_path / f"shard-{name}.msgpack").write_bytes(msgspec.msgpack.encode(Shard(examples)))

    def replace_jpeg(example, name):
        return Example(name.encode(), example.cells, example.queries)

    for number in range(SHARDS_AT_ONCE + 1):
        write(str(number))
    examples = examples_forever(tmp_path, seed=0)
    first = Counter(next(examples).jpeg for _ in range(3 * SHARDS_AT_ONCE))
    assert set(first.values()) == {3} and len(first) == SHARDS_AT_ONCE
    write("new")
    second = {next(examples).jpeg for _ in range(3 * SHARDS_AT_ONCE)}
    assert b"new" in second and second | set(first) == {b"0", b"1", b"2", b"3", b"4", b"new"}


def test_missing_data_is_named(tmp_path):
    with pytest.raises(ConfigError, match="outrider train data"):
        shard_paths(tmp_path)


def test_learning_rate_warms_up_and_falls():
    rates = [learning_rate(step, 100, 10, 1.0) for step in range(100)]
    assert rates[9] == 1.0 and rates[0] == 0.1
    assert all(a >= b for a, b in pairwise(rates[10:])) and rates[-1] < 0.06


def test_the_heads_read_every_label_that_homes_give_a_cell():
    assert len(BACKGROUNDS) + len(KINDS) == NUM_KINDS
    assert 1 + len(COLOURS) + 1 == NUM_COLOURS, "none, each colour, and plain furniture"


def _data(folder):
    folder.mkdir()
    (folder / "shard-0000.msgpack").write_bytes(msgspec.msgpack.encode(Shard(_examples(6))))
    return folder


def test_a_run_that_diverges_ends_before_its_weights_are_touched(tokenizer, tmp_path):
    config = TrainingConfig("draft", vision_steps=2, steps=2, batch_frames=2, vision_batch_frames=2)
    trainer = Trainer(config, tokenizer, _data(tmp_path / "data"), tmp_path / "run")
    before = {name: value.clone() for name, value in trainer.network.state_dict().items()}
    next(trainer.network.heads.parameters()).register_hook(lambda gradient: gradient * float("nan"))
    with pytest.raises(ConfigError, match="diverged at step 0; lower learning_rate"):
        list(trainer.run())
    assert all(torch.equal(value, before[name]) for name, value in trainer.network.state_dict().items())


def test_a_run_takes_what_another_tokenizer_knows_of_its_words(tokenizer, tmp_path):
    shipped = build_model("draft", tokenizer)
    shipped.save_pretrained(tmp_path / "draft")
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    other = train_tokenizer(["move ahead to the yellow cup: stop"] * 9, tmp_path / "other", vocab_size=300)
    trainer = Trainer(TrainingConfig("draft"), other, tmp_path, tmp_path / "run", tmp_path / "draft")
    taken = trainer.network.model.state_dict()
    old, new = tokenizer.get_vocab(), other.get_vocab()
    name = "model.language_model.embed_tokens.weight"
    both = sorted(old.keys() & new.keys())
    assert len(both) > 256 and new.keys() - old.keys()
    for token in both:
        assert torch.equal(taken[name][new[token]], shipped.state_dict()[name][old[token]])
    assert torch.equal(
        taken["model.visual.patch_embed.proj.weight"],
        shipped.state_dict()["model.visual.patch_embed.proj.weight"],
    )


def test_batches_of_several_processes_hold_the_examples_of_the_data(tokenizer, tmp_path):
    source, packer = Source(_data(tmp_path / "data"), seed=3, frames=2), Packer(tokenizer)
    known = {frame.numpy().tobytes() for frame in packer.pack(_examples(6)).pixels}
    for processes in (0, 2):
        batches = islice(source.batches(packer, processes), 6)
        seen = {frame.numpy().tobytes() for batch in batches for frame in batch.pixels}
        assert len(seen) > 3 and seen <= known
