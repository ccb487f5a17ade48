"""Exits learn the frozen target's choices, are written into its folder, and run there as trained."""

from __future__ import annotations

import json
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from support.training_frames import ANSWERS, backbone_of, example
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from outrider.cli import app
from outrider.core.errors import ConfigError
from outrider.core.language.actions import ACTION_TEXTS
from outrider.core.language.prompt import (
    END_OF_TEXT,
    PROMPT_PREFIX,
    PROMPT_SUFFIX,
)
from outrider.core.model_options import Precision
from outrider.core.training_data import Example, Query, Shard
from outrider.core.values import Prompt
from outrider.models import load_model
from outrider.models.running_backbone import RunningBackbone
from outrider.runtime.datasets.training_runs import make_exits
from outrider.training.frozen.exits import ExitNetwork, ExitsConfig, train_exits
from outrider.training.frozen.fitting import FRAME_TOKENS, ROUND_FRAMES, Fit
from outrider.training.frozen.shortlist import choose_shortlist, most_frequent


@pytest.mark.lengthy
def test_the_shortlist_holds_actions_and_what_is_frequent(target: Path) -> None:
    tokenizer = backbone_of(target).tokenizer
    rare = Query("task: find it", "stop\nreach: Ω")
    chosen = choose_shortlist(
        tokenizer, [query for _ in range(1000) for query in example(0).queries] + [rare]
    )
    assert chosen == sorted(set(chosen))
    for text in [action + "\n" for action in ACTION_TEXTS] + [
        END_OF_TEXT,
        *ANSWERS,
        "task: find the red cup",
    ]:
        assert set(tokenizer(text)["input_ids"]) <= set(chosen)
    assert not set(tokenizer("Ω")["input_ids"]) <= set(chosen)


def test_most_frequent_takes_no_more_than_it_needs() -> None:
    counts = Counter({1: 90, 2: 9, 3: 1})
    assert most_frequent(counts, 0.9) == {1}
    assert most_frequent(counts, 0.95) == {1, 2}
    assert most_frequent(counts, 1.0) == {1, 2, 3}


def test_fitting_brings_an_exit_to_the_targets_choices(target: Path) -> None:
    backbone = backbone_of(target)
    torch.manual_seed(1)
    states = backbone.states([example(1), example(2)], (1,))
    before = {name: weight.clone() for name, weight in backbone._network.named_parameters()}
    token_ids = torch.arange(0, 330, 2)
    network = ExitNetwork(backbone, token_ids, num_exits=1, rank=16)
    wanted = (backbone.norm(states[-1]) @ backbone.head[token_ids].T).argmax(-1)
    lens = (backbone.norm(states[0]) @ backbone.head[token_ids].T).argmax(-1)
    assert torch.equal(network(states[:-1])[0].argmax(-1), lens), "an untrained exit is the plain LM head"
    fit = Fit(network, 80, 1e-2)
    for _ in range(80):
        fit.step(lambda: network.loss(states))
    right = (network(states[:-1])[0].argmax(-1) == wanted).float().mean()
    before_fit = (lens == wanted).float().mean()
    assert right > before_fit + 0.4, (right, before_fit)
    for name, weight in backbone._network.named_parameters():
        assert torch.equal(weight, before[name])


@pytest.mark.lengthy
def test_trained_exits_run_as_they_were_trained(target: Path, data: Path) -> None:
    config = ExitsConfig(rank=4, frames=8, round_steps=3)
    figures = make_exits(config, data, target)
    assert figures == json.loads((target / "card.json").read_text())["figures"]["exits"]
    assert (figures["layers"], figures["rank"], figures["coverage"] <= 1.0) == ([1], 4, True)
    model, backbone, shown = load_model(target), backbone_of(target), example(5)
    assert model.exits is not None and figures["shortlist"] == len(model.exits.token_ids)
    prompt = Prompt(PROMPT_PREFIX + shown.queries[0].user_text + PROMPT_SUFFIX, shown.jpeg)
    answer = model.tokenizer.encode(ANSWERS[0])
    session, said = model.open_session(), []
    session.prefill(prompt)
    session.forward(answer, lambda index, logits: said.append(logits))
    trained = train_exits(backbone_of(target), data, config)
    network = ExitNetwork(backbone, trained.token_ids, 1, 4)
    network.load_state_dict({"down": trained.down, "up": trained.up}, strict=False)
    states = backbone.states([Example(shown.jpeg, shown.cells, shown.queries[:1])], (1,))
    expected = network(states[:-1])[0, 1:].detach()
    torch.testing.assert_close(said[0], expected, atol=0.02, rtol=0.02)


@pytest.mark.parametrize("layers", [(0,), (2,), (1, 5)])
def test_layers_that_are_no_exits_are_refused(target: Path, data: Path, layers: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="the model has 2, the last is no exit"):
        train_exits(backbone_of(target), data, ExitsConfig(layers=layers))


def test_a_rank_above_the_width_is_refused(target: Path, data: Path) -> None:
    backbone = backbone_of(target)
    width = backbone.head.shape[1]
    with pytest.raises(ConfigError, match=f"rank={width + 1} is above the model's width"):
        train_exits(backbone, data, ExitsConfig(rank=width + 1))


@pytest.mark.parametrize("name", ["exits.safetensors", "card.json"])
def test_a_full_disk_leaves_the_target_sound(target: Path, data: Path, name: str) -> None:
    card = (target / "card.json").read_bytes()
    (target / f"{name}.partial").symlink_to("/dev/full")
    with pytest.raises(ConfigError, match=r"cannot write .* \(No space left on device\)"):
        make_exits(ExitsConfig(rank=4, frames=4, round_steps=1), data, target)
    assert (target / "card.json").read_bytes() == card
    load_model(target)


def test_one_shard_is_too_little(target: Path, tmp_path: Path) -> None:
    (tmp_path / "shard-0000.msgpack").write_bytes(msgspec.msgpack.encode(Shard([example(0)])))
    with pytest.raises(ConfigError, match="a second is needed to judge"):
        train_exits(backbone_of(target), tmp_path, ExitsConfig())


def test_a_run_that_diverges_says_so(target: Path) -> None:
    backbone = backbone_of(target)
    states = backbone.states([example(1)], (1,))
    network = ExitNetwork(backbone, torch.arange(330), 1, 4)
    with pytest.raises(ConfigError, match="diverged at step 0"):
        Fit(network, 10, 1e-2).step(lambda: network.loss(states * float("inf")))


def test_sizes_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"rank \(0\)"):
        ExitsConfig(rank=0)


def test_a_running_target_shows_what_the_packed_one_shows(target: Path) -> None:
    packed, running = backbone_of(target), RunningBackbone(load_model(target), PROMPT_PREFIX)
    shown = [Example(one.jpeg, one.cells, one.queries[:1]) for one in (example(1), example(2))]
    expected, states = packed.states(shown, (1,)), running.states(shown, (1,))
    # The packed one also has the prompt's last position, which predicts the answer's first token.
    starts = [0, expected.shape[1] // 2]
    kept = [row for row in range(expected.shape[1]) if row not in starts]
    ends = [states.shape[1] // 2 - 1, states.shape[1] - 1]
    seen = [row for row in range(states.shape[1]) if row not in ends]
    torch.testing.assert_close(states[:, seen], expected[:, kept], atol=1e-3, rtol=1e-3)
    assert torch.equal(running.choices(states[-1, seen]), packed.choices(expected[-1, kept]))
    ids = torch.tensor([3, 200])
    torch.testing.assert_close(running.head[ids], packed.head[ids])
    torch.testing.assert_close(running.norm.weight, packed.norm.weight.data)


@pytest.mark.lengthy
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_general_checkpoint_gets_exits_in_the_precision_it_runs_in(
    target: Path, data: Path, precision: Precision
) -> None:
    (target / "card.json").unlink()
    config = ExitsConfig(rank=4, frames=4, memory_mb=1, round_steps=3)
    figures = make_exits(config, data, target, precision)
    assert figures["training_frames"] >= 4
    model = load_model(target, precision=precision)
    assert model.exits is not None and model.exits.layers == (1,)


def test_the_commands_device_is_where_the_target_runs(
    target: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "auto")  # torch decides, as on a cluster that may have a GPU
    command = ["train", "exits", str(data), "--target", str(target), "--device", "cuda"]
    with pytest.raises(ConfigError, match="trained on the cpu"):
        app(command, standalone_mode=False)
    (target / "card.json").unlink()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="device=cuda: this torch finds no CUDA device"):
        app(command, standalone_mode=False)


class _Made(TorchDispatchMode):
    """Records the storages of at least `num_bytes` that operations create."""

    def __init__(self, num_bytes: int) -> None:
        super().__init__()
        self._num_bytes, self.held = num_bytes, dict[int, torch.UntypedStorage]()

    def __torch_dispatch__(self, operation: Any, types: Any, given: Any = (), options: Any = None) -> Any:
        made = operation(*given, **(options or {}))
        for one in tree_leaves(made):
            if isinstance(one, torch.Tensor) and one.untyped_storage().nbytes() >= self._num_bytes:
                self.held[one.untyped_storage().data_ptr()] = one.untyped_storage()
        return made


@pytest.mark.lengthy
def test_a_rounds_states_are_held_once(target: Path) -> None:
    running = RunningBackbone(load_model(target), PROMPT_PREFIX)
    shown = [example(seed) for seed in range(12)]
    expected = running.states(shown, (1,))
    with _Made(expected.nbytes) as made:
        states = running.states(shown, (1,))
    assert torch.equal(states, expected)
    assert [storage.data_ptr() for storage in made.held.values()] == [states.untyped_storage().data_ptr()]


@pytest.mark.lengthy
def test_a_rounds_states_are_gone_before_the_next_are_gathered(
    target: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone, given, alive = backbone_of(target), [], []
    gather = backbone.states

    def watched(*what: Any) -> torch.Tensor:
        alive.append(sum(one() is not None for one in given))
        states = gather(*what)
        given.append(weakref.ref(states))
        return states

    monkeypatch.setattr(backbone, "states", watched)
    train_exits(backbone, data, ExitsConfig(rank=4, frames=12, memory_mb=1, round_steps=2))
    assert len(alive) > 2 and set(alive) == {0}


def test_the_states_of_a_round_keep_to_the_memory() -> None:
    config = ExitsConfig(memory_mb=1024)
    assert config.round_frames(5, 192) == ROUND_FRAMES
    frames = config.round_frames(8, 3584)
    assert 4 * 9 * 3584 * FRAME_TOKENS * frames <= 2**30 < 4 * 9 * 3584 * FRAME_TOKENS * (frames + 1)
