"""A target's draft head: what it computes, which state it starts from, and damaged files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from support.tiny_models import TinySize, build_tiny_model, random_head, random_prompt
from torch import Tensor

from outrider.core.errors import ModelError
from outrider.core.model_options import PRECISIONS, Precision
from outrider.models import load_head, load_model
from outrider.models.backbone.draft_head import HEAD_FILE, DraftHead, write_head

SIZE = TinySize(layers=2)
TOKENS = [9, 30, 31, 7]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = build_tiny_model(tmp_path_factory.mktemp("head") / "target", SIZE)
    text = load_model(made).text
    write_head(made, random_head(text), text)
    return made


def unit(rows: Tensor) -> Tensor:
    return torch.nn.functional.rms_norm(rows, rows.shape[-1:])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_row_tells_the_state_that_the_target_made_it_of(folder: Path, precision: Precision) -> None:
    model = load_model(folder, precision=precision)
    head, session = load_head(folder, model), model.open_session()
    session.prefill(random_prompt(1))
    states = unit(session.layer_outputs(TOKENS, {SIZE.layers})[-1])
    told = torch.stack([head.begin(row) for row in session.forward(TOKENS)])
    likeness = torch.cosine_similarity(told, states)
    assert likeness.min() > (0.9999 if precision == "fp32" else 0.99)


def test_a_state_goes_on_by_a_gated_layer_and_speaks_through_the_targets_own_head(folder: Path) -> None:
    model = load_model(folder)
    head, text = load_head(folder, model), model.text
    weights = random_head(text)
    keep, mix, out = (one.bfloat16().float() for one in (weights.keep, weights.mix, weights.out))
    states, tokens = unit(torch.randn(3, SIZE.hidden)), torch.tensor([5, 9, 5])
    gate, value = (torch.cat((states, unit(text.embeddings[tokens])), 1) @ mix).chunk(2, 1)
    wanted = unit(keep * states + (gate * gate.sigmoid() * value) @ out)
    after = head.advance(states, tokens)
    assert torch.allclose(after, wanted, atol=1e-5)
    rows = head.logits(after)
    assert rows.shape == (3, model.vocab_size)
    assert torch.allclose(rows[:, weights.token_ids], text.logits(after)[:, weights.token_ids], atol=1e-4)
    others = torch.ones(model.vocab_size, dtype=torch.bool)
    others[weights.token_ids] = False
    assert others.any() and (rows[:, others] == -torch.inf).all()


def test_a_target_without_a_head_says_what_to_do(tmp_path: Path) -> None:
    bare = build_tiny_model(tmp_path / "target", SIZE)
    with pytest.raises(ModelError, match=r"target has no draft head: run `outrider train head`"):
        load_head(bare, load_model(bare))


def test_the_head_of_another_target_is_refused(folder: Path, tmp_path: Path) -> None:
    other = build_tiny_model(tmp_path / "target", SIZE, seed=1)
    (other / HEAD_FILE).write_bytes((folder / HEAD_FILE).read_bytes())
    with pytest.raises(ModelError, match=r"head\.safetensors was trained for other weights"):
        load_head(other, load_model(other))


def edit(name: str, change: Callable[[Tensor], Tensor]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            tensors = {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118
        save_file(tensors | {name: change(tensors[name]).contiguous()}, path, metadata=metadata)

    return damage


DAMAGE = [
    (lambda path: path.write_bytes(path.read_bytes()[:-40]), "truncated or corrupt"),
    (edit("token_ids", lambda ids: ids.flip(0)), "not ascending"),
    (edit("token_ids", lambda ids: ids + 10_000), "not ascending ids below"),
    (edit("token_ids", lambda ids: ids[:5]), "5 token_ids are fewer than the model is wide"),
    (edit("keep", lambda keep: keep[:-1]), "do not fit the model"),
    (edit("out", lambda out: out[:, :-1]), "do not fit the model"),
    (edit("out", lambda out: out[0]), "do not fit the model"),
    (edit("mix", lambda mix: mix[:, :-1]), "mix .* does not fit the model"),
    (edit("mix", lambda mix: mix * torch.nan), "not finite"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGE)
def test_a_damaged_file_is_named(
    folder: Path, tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    made = build_tiny_model(tmp_path / "target", SIZE)
    (made / HEAD_FILE).write_bytes((folder / HEAD_FILE).read_bytes())
    damage(made / HEAD_FILE)
    with pytest.raises(ModelError, match=rf"head\.safetensors.*{message}.*outrider train head"):
        load_head(made, load_model(made))


def test_tensors_missing_from_the_file_are_noticed(folder: Path, tmp_path: Path) -> None:
    made = build_tiny_model(tmp_path / "target", SIZE)
    with safe_open(folder / HEAD_FILE, framework="pt") as file:
        save_file({"keep": file.get_tensor("keep").clone()}, made / HEAD_FILE, metadata=file.metadata())
    with pytest.raises(ModelError, match="holds keep"):
        load_head(made, load_model(made))


def test_a_head_is_named_after_its_target(folder: Path) -> None:
    head = load_head(folder, load_model(folder))
    assert isinstance(head, DraftHead) and head.name.startswith("the head of target:target@")
