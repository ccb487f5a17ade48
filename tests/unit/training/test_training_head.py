"""A draft head learns what the frozen target writes next, and runs as it was trained."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
import torch
from support.training_frames import backbone_of, example

from outrider.cli import app
from outrider.core.errors import ConfigError
from outrider.core.language.prompt import END_OF_TEXT, PROMPT_PREFIX, PROMPT_SUFFIX
from outrider.core.model_options import Precision
from outrider.core.training_data import NO_TOKEN, Example, Query, Shard
from outrider.core.values import Prompt
from outrider.models import load_head, load_model
from outrider.models.running_backbone import RunningBackbone
from outrider.runtime.datasets.training_runs import make_head
from outrider.training.frozen.draft_head import (
    DEPTH,
    HeadConfig,
    HeadNetwork,
    train_head,
    trainable_positions,
)
from outrider.training.frozen.fitting import Fit


@pytest.mark.lengthy
def test_fitting_brings_a_head_to_what_the_target_writes(target: Path) -> None:
    backbone = backbone_of(target)
    torch.manual_seed(1)
    shown = [example(1), example(2)]
    states, tokens = backbone.states(shown, ())[-1], backbone.answers(shown)
    positions, ids = trainable_positions(tokens), torch.arange(330)
    network = HeadNetwork(backbone, ids, rank=16)
    ahead = positions[:, None] + torch.arange(DEPTH)
    wanted = backbone.choices(states)[ahead + 1]

    def share_right() -> torch.Tensor:
        rows = network(states[positions], tokens[ahead])
        return (torch.stack([row.argmax(-1) for row in rows], 1) == wanted).float().mean()

    before, fit = share_right(), Fit(network, 120, 1e-2)
    for _ in range(120):
        fit.step(lambda: network.loss(states, tokens, positions))
    assert share_right() > before + 0.4, (before, share_right())


@pytest.mark.lengthy
def test_a_trained_head_runs_as_it_was_trained(target: Path, data: Path) -> None:
    config = HeadConfig(rank=4, frames=8, round_steps=3)
    figures = make_head(config, data, target)
    assert figures == json.loads((target / "card.json").read_text())["figures"]["head"]
    model, backbone, shown = load_model(target), backbone_of(target), example(5)
    head, trained = load_head(target, model), train_head(backbone, data, config)
    assert figures["shortlist"] == len(trained.token_ids) >= len(trained.keep)
    network = HeadNetwork(backbone, trained.token_ids, 4)
    network.load_state_dict({"keep": trained.keep, "mix": trained.mix, "out": trained.out})
    one = [Example(shown.jpeg, shown.cells, shown.queries[:1])]
    states, tokens = backbone.states(one, ())[-1], backbone.answers(one)
    expected = torch.stack(network(states[:1], tokens[None, :4]))[:, 0].detach()
    session = model.open_session()
    state = head.begin(
        session.prefill(Prompt(PROMPT_PREFIX + one[0].queries[0].user_text + PROMPT_SUFFIX, shown.jpeg))
    )
    for row, token in zip(expected, tokens[:4], strict=True):
        [state] = head.advance(state[None], token[None])
        said = head.logits(state[None])[0, trained.token_ids]
        torch.testing.assert_close(said, row, atol=0.1, rtol=0.1)


def test_an_answers_tokens_stand_where_states_predict_them(target: Path) -> None:
    packed, running = backbone_of(target), RunningBackbone(load_model(target), PROMPT_PREFIX)
    encode = running._model.tokenizer.encode
    shown = [example(1), example(2)]
    queries = [query for one in shown for query in one.queries]
    ids = [encode(query.answer + END_OF_TEXT) for query in queries]
    assert packed.answers(shown).tolist() == [token for one in ids for token in (*one[:-1], NO_TOKEN)]
    assert running.answers(shown).tolist() == [token for one in ids for token in (*one[1:], NO_TOKEN)]
    assert len(packed.answers(shown)) == packed.states(shown, ()).shape[1]
    assert len(running.answers(shown)) == running.states(shown, ()).shape[1]
    some = torch.tensor([[3, 4], [5, 6]])
    torch.testing.assert_close(packed.embed(some), running.embed(some))


def test_training_positions_never_cross_from_one_answer_into_another() -> None:
    tokens = torch.tensor([*range(DEPTH + 1), NO_TOKEN, *range(DEPTH), NO_TOKEN, 1, 2, NO_TOKEN])
    assert trainable_positions(tokens).tolist() == [0, 1, DEPTH + 2]


@pytest.mark.parametrize("tokens", [[], [1], [1, NO_TOKEN] * 20])
def test_answers_that_are_too_short_are_refused(tokens: list[int]) -> None:
    with pytest.raises(ConfigError, match=f"no answer in the data has more than {DEPTH} tokens"):
        trainable_positions(torch.tensor(tokens, dtype=torch.int64))


def test_data_of_short_answers_trains_no_head(target: Path, tmp_path: Path) -> None:
    one = example(0)
    short = Example(one.jpeg, one.cells, [Query(one.queries[0].user_text, "stop")])
    for index in range(2):
        path = tmp_path / f"shard-{index:04d}.msgpack"
        path.write_bytes(msgspec.msgpack.encode(Shard([short])))
    with pytest.raises(ConfigError, match="a draft head needs"):
        make_head(HeadConfig(rank=4, frames=1, round_steps=1), tmp_path, target)
    assert not (target / "head.safetensors").exists()


def test_one_shard_is_too_little(target: Path, tmp_path: Path) -> None:
    (tmp_path / "shard-0000.msgpack").write_bytes(msgspec.msgpack.encode(Shard([example(0)])))
    with pytest.raises(ConfigError, match="a second is needed to judge"):
        train_head(backbone_of(target), tmp_path, HeadConfig())


@pytest.mark.parametrize("given", [{"rank": 0}, {"frames": 0}])
def test_sizes_are_checked(given: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="must be at least 1"):
        HeadConfig(**given)


@pytest.mark.lengthy
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_general_checkpoint_gets_a_head_in_the_precision_it_runs_in(
    target: Path, data: Path, precision: Precision
) -> None:
    (target / "card.json").unlink()
    config = HeadConfig(rank=4, frames=4, memory_mb=1, round_steps=3)
    assert make_head(config, data, target, precision)["training_frames"] >= 4
    model = load_model(target, precision=precision)
    row = model.open_session().prefill(Prompt(PROMPT_PREFIX + "find it" + PROMPT_SUFFIX, example(1).jpeg))
    head = load_head(target, model)
    [state] = head.advance(head.begin(row)[None], row.argmax()[None])
    assert head.logits(state[None]).isfinite().any()


@pytest.mark.lengthy
def test_the_command_puts_the_head_beside_the_target(
    target: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "head", str(data), "--target", str(target), "--rank", "4", "--frames", "2"]
    app(command, standalone_mode=False)
    assert "accepted_of_4" in capsys.readouterr().out
    assert (target / "head.safetensors").exists()
