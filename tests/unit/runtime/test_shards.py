"""Data sets: resumable, without held-out homes, and with the states into which a model itself drives."""

from itertools import cycle

import msgspec
import pytest

from outrider.core.errors import ConfigError
from outrider.core.language.actions import split_answer
from outrider.core.training_data import Shard
from outrider.core.values import Decoded, DecodeRequest, Verified
from outrider.runtime.datasets import shards
from outrider.runtime.datasets.dagger import DRIVEN_STEPS, driven_examples
from outrider.runtime.datasets.shards import NUM_SEEDS, ShardTask, write_dataset, write_shard


class Scripted:
    """Returns its texts in turn, again and again."""

    def __init__(self, *texts: str):
        self._texts = cycle(texts)
        self.asked: list[DecodeRequest] = []

    def decode(self, request, on_verified=lambda verified: None, cancelled=lambda: False) -> Decoded:
        self.asked.append(request)
        text = next(self._texts)
        on_verified(Verified((), text, 0.0))
        return Decoded(text, (), True, 0.0, 0.0, 0)

    def close(self) -> None: ...


@pytest.mark.lengthy
def test_the_models_own_steps_lead_to_the_states_that_the_expert_answers():
    spinner = Scripted("turn right small\nsearch: spinning")
    examples = list(driven_examples(8, spinner))
    assert len(examples) == DRIVEN_STEPS == len(spinner.asked)
    own = [example.queries[0] for example in examples]
    assert sum("search: turn right small" in query.user_text for query in own) > DRIVEN_STEPS / 2
    assert all(
        query.user_text in request.prompt.text for query, request in zip(own, spinner.asked, strict=True)
    )
    assert all(split_answer(query.answer).phase for query in own)


def test_a_model_that_would_stop_too_early_or_talks_nonsense_is_led_by_the_expert():
    examples = list(driven_examples(8, Scripted("stop\narrived: x", "jump")))
    actions = [split_answer(example.queries[0].answer).action for example in examples]
    assert actions[-1] == "stop" and "stop" not in actions[:-1] and len(actions) > 1


def test_held_out_homes_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="held out"):
        next(write_dataset(tmp_path, 1, NUM_SEEDS, 1))


def test_a_folder_that_cannot_be_made_is_found_out_before_anybody_drives(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot write .*file"):
        next(write_dataset(tmp_path / "file", 1, 0, 1, driver=tmp_path / "no-model"))


@pytest.mark.lengthy
def test_a_data_set_is_written_once_and_driven_shards_join_it(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "_decoder", lambda folder: Scripted("turn left large\nsearch: x"))
    (kept,) = write_dataset(tmp_path, 1, 0, 1, frames_per_shard=3)
    kept.write_bytes(b"kept")
    list(write_dataset(tmp_path, 1, 0, 1, frames_per_shard=3))
    list(write_dataset(tmp_path, 1, 0, 1, driver=tmp_path / "target", frames_per_shard=3))
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "shard-0000.msgpack",
        "shard-driven-0000.msgpack",
    ]
    assert kept.read_bytes() == b"kept"
    driven = msgspec.msgpack.decode((tmp_path / "shard-driven-0000.msgpack").read_bytes(), type=Shard)
    assert len(driven.examples) == 3 and "search: turn left large" in driven.examples[1].queries[0].user_text


@pytest.mark.lengthy
def test_a_shard_of_one_home_is_the_same_each_time(tmp_path):
    tasks = [ShardTask(tmp_path / f"shard-{name}.msgpack", 5, None, num_frames=2) for name in "ab"]
    one, two = map(write_shard, tasks)
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.lengthy
def test_a_full_disk_leaves_no_part_of_a_shard(tmp_path):
    task = ShardTask(tmp_path / "shard-a.msgpack", 5, None, num_frames=2)
    (tmp_path / "shard-a.msgpack.partial").symlink_to("/dev/full")
    with pytest.raises(ConfigError, match=r"cannot write .*shard-a\.msgpack \(No space left on device\)"):
        write_shard(task)
    assert list(tmp_path.iterdir()) == []
