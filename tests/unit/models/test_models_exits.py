"""Early exits: what they compute, when they report, that they change nothing, and damaged files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from support.tiny_models import TinySize, add_exits, build_tiny_model, random_head, random_prompt
from transformers import Qwen2VLForConditionalGeneration

from outrider.core.errors import ModelError
from outrider.models import QwenModel, QwenSession, load_model
from outrider.models.backbone.batch import DECODE_ROWS, SPAN_STEP, decode_slices
from outrider.models.backbone.draft_head import HEAD_FILE, write_head
from outrider.models.backbone.early_exits import EXITS_FILE, ExitAdapters, write_exits
from outrider.models.inputs.images import Preprocessing, decode_jpeg, patchify
from outrider.models.loading import remove_outdated

LAYERS = (1, 3)
TOKEN_IDS = torch.arange(3, 150, 4)
TOKENS = [9, 30, 31, 7, 55]


@pytest.fixture(scope="module")
def plain_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("plain") / "target", TinySize(layers=4))


@pytest.fixture(scope="module")
def with_exits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ExitAdapters]:
    folder = build_tiny_model(tmp_path_factory.mktemp("exits") / "target", TinySize(layers=4))
    return folder, add_exits(folder, LAYERS, TOKEN_IDS)


@pytest.fixture(scope="module")
def model(with_exits: tuple[Path, ExitAdapters]) -> QwenModel:
    return load_model(with_exits[0])


def prefilled(model: QwenModel, before: int = 0) -> QwenSession:
    """Return a session with `before` text tokens after its prompt."""
    session = model.open_session()
    session.prefill(random_prompt(1))
    if before:
        session.forward([11] * before)
    return session


def spoken(session: QwenSession, token_ids: list[int]) -> list[tuple[int, torch.Tensor]]:
    """Return what the exits report during a forward pass, in order."""
    said: list[tuple[int, torch.Tensor]] = []
    session.forward(token_ids, lambda index, logits: said.append((index, logits)))
    return said


def test_exits_are_adapters_into_the_frozen_norm_and_head(
    model: QwenModel, with_exits: tuple[Path, ExitAdapters]
) -> None:
    """Compared with transformers' own hidden states."""
    folder, adapters = with_exits
    reference = Qwen2VLForConditionalGeneration.from_pretrained(folder).eval()
    prompt, image_id = random_prompt(1), model.tokenizer.image_id
    ids = model.tokenizer.encode(prompt.text)
    at = ids.index(image_id)
    rgb = decode_jpeg(prompt.jpeg)
    rows, columns = rgb.shape[0] // 14, rgb.shape[1] // 14
    ids[at : at + 1] = [image_id] * (rows * columns // 4)
    all_ids = torch.tensor([ids + TOKENS])
    with torch.no_grad():
        states = reference(
            all_ids,
            mm_token_type_ids=(all_ids == image_id).int(),
            use_cache=False,
            output_hidden_states=True,
            pixel_values=torch.from_numpy(patchify(rgb, Preprocessing())),
            image_grid_thw=torch.tensor([[1, rows, columns]]),
        ).hidden_states
    said = spoken(prefilled(model), TOKENS)
    norm, head = reference.model.language_model.norm, reference.lm_head.weight.detach()
    for index, layer in enumerate(LAYERS):
        hidden = states[layer][0, len(ids) :]
        unit = hidden * torch.rsqrt(hidden.square().mean(-1, keepdim=True) + norm.variance_epsilon)
        adapted = unit * norm.weight + unit @ adapters.down[index] @ adapters.up[index]
        expected = adapted @ head[TOKEN_IDS].T
        assert said[index][0] == index
        torch.testing.assert_close(said[index][1], expected, atol=2e-3, rtol=1e-3)


def test_exits_are_described(model: QwenModel) -> None:
    assert model.exits is not None
    assert (model.exits.layers, model.exits.num_layers) == (LAYERS, 4)
    assert torch.equal(model.exits.token_ids, TOKEN_IDS)


@pytest.mark.parametrize("count", [1, 5, DECODE_ROWS, 2 * DECODE_ROWS + 3])
def test_logits_are_the_same_bits_with_and_without_exits(
    model: QwenModel, plain_folder: Path, count: int
) -> None:
    plain = load_model(plain_folder)
    assert plain.exits is None
    token_ids = [(7 * i) % 200 for i in range(count)]
    ignored = prefilled(plain).forward(token_ids, lambda index, logits: pytest.fail("called"))
    listened = prefilled(model).forward(token_ids, lambda index, logits: None)
    silent = prefilled(model).forward(token_ids)
    assert torch.equal(listened, silent) and torch.equal(listened, ignored)


def test_nothing_of_the_exits_is_computed_unasked(model: QwenModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(model.exit_heads), "logits", lambda *_: pytest.fail("computed"))
    prefilled(model).forward(TOKENS)


def test_an_exit_speaks_before_the_deeper_layers_run(
    model: QwenModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    from outrider.models.backbone import text_stack

    session, order = prefilled(model), []
    transform = text_stack.transform

    def counting(hidden: torch.Tensor, layer: text_stack.LayerWeights) -> torch.Tensor:
        order.append("layer")
        return transform(hidden, layer)

    monkeypatch.setattr(text_stack, "transform", counting)
    session.forward(TOKENS, lambda index, logits: order.append(f"exit {index}"))
    assert order == ["layer", "exit 0", "layer", "layer", "exit 1", "layer"]


def test_a_forward_in_slices_speaks_once_per_exit_with_all_rows(model: QwenModel) -> None:
    long = [(5 * i) % 200 for i in range(2 * DECODE_ROWS + 3)]
    whole = spoken(prefilled(model), long)
    assert [(index, len(logits)) for index, logits in whole] == [(0, len(long)), (1, len(long))]
    session = prefilled(model)
    one_by_one = [spoken(session, [token_id]) for token_id in long]
    for index in range(len(LAYERS)):
        assert torch.equal(whole[index][1], torch.cat([said[index][1] for said in one_by_one]))


def test_slices_at_a_spans_end_speak_once(model: QwenModel) -> None:
    before = SPAN_STEP - prefilled(model).length % SPAN_STEP - 2
    session = prefilled(model, before)
    assert len(decode_slices(session.length, len(TOKENS))) == 2
    assert [len(logits) for _, logits in spoken(session, TOKENS)] == [len(TOKENS)] * 2


def test_an_exception_leaves_the_session_as_it_was(model: QwenModel) -> None:
    session, expected = prefilled(model), prefilled(model).forward(TOKENS)

    def interrupt(index: int, logits: torch.Tensor) -> None:
        raise InterruptedError

    length = session.length
    with pytest.raises(InterruptedError):
        session.forward([3] * (DECODE_ROWS + 1), interrupt)
    assert session.length == length
    assert torch.equal(session.forward(TOKENS), expected)


def edit(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            tensors = {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118
        tensors[name] = change(tensors[name]).contiguous()
        save_file(tensors, path, metadata=metadata)

    return damage


def spoil(tensor: torch.Tensor) -> torch.Tensor:
    tensor.view(-1)[0] = float("nan")
    return tensor


DAMAGE: list[tuple[Callable[[Path], None], str]] = [
    (lambda path: path.write_bytes(path.read_bytes()[:-50]), "truncated or corrupt"),
    (lambda path: path.write_bytes(b"<html>"), "truncated or corrupt"),
    (lambda path: save_file({"layers": torch.tensor([1])}, path), "other weights"),
    (edit("layers", lambda layers: layers + 1), r"layers \[2, 4\] are not ascending numbers below 4"),
    (edit("layers", lambda layers: layers.flip(0)), "not ascending"),
    (edit("layers", lambda layers: layers.float()), "not ascending"),
    (edit("token_ids", lambda ids: ids + 10_000), "not ascending ids below"),
    (edit("token_ids", lambda ids: ids[:0]), "not ascending ids below"),
    (edit("down", lambda down: down[:, :5]), "do not fit the model"),
    (edit("up", lambda up: up[:1]), "do not fit the model"),
    (edit("up", spoil), "not finite"),
]


@pytest.mark.lengthy
@pytest.mark.parametrize(("damage", "message"), DAMAGE)
def test_a_damaged_file_is_named(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    folder = build_tiny_model(tmp_path / "target", TinySize(layers=4))
    add_exits(folder, LAYERS, TOKEN_IDS)
    damage(folder / EXITS_FILE)
    with pytest.raises(ModelError, match=rf"exits\.safetensors.*{message}.*outrider train exits"):
        load_model(folder)


def test_tensors_missing_from_the_file_are_noticed(tmp_path: Path) -> None:
    folder = build_tiny_model(tmp_path / "target", TinySize(layers=4))
    add_exits(folder, LAYERS, TOKEN_IDS)
    path = folder / EXITS_FILE
    with safe_open(path, framework="pt") as file:
        metadata, layers = file.metadata(), file.get_tensor("layers").clone()
    save_file({"layers": layers}, path, metadata=metadata)
    with pytest.raises(ModelError, match="holds layers"):
        load_model(folder)


def test_exits_of_other_weights_are_refused(tmp_path: Path, with_exits: tuple[Path, ExitAdapters]) -> None:
    other = build_tiny_model(tmp_path / "target", TinySize(layers=4), seed=1)
    write_exits(other, with_exits[1], load_model(with_exits[0]).text)
    with pytest.raises(ModelError, match="trained for other weights"):
        load_model(other)


@pytest.mark.lengthy
def test_what_was_trained_for_weights_goes_with_them(tmp_path: Path) -> None:
    """Exits and a head of other weights would keep the folder from being loaded."""
    folder = build_tiny_model(tmp_path / "target")
    add_exits(folder, (1,), torch.arange(40))
    write_head(folder, random_head(load_model(folder).text), load_model(folder).text)
    remove_outdated(folder)
    assert (folder / EXITS_FILE).exists() and (folder / HEAD_FILE).exists()
    build_tiny_model(folder, seed=1)
    remove_outdated(folder)
    assert not (folder / EXITS_FILE).exists() and not (folder / HEAD_FILE).exists()
    assert load_model(folder).exits is None


def test_exits_that_may_not_be_read_are_not_called_corrupt(tmp_path: Path) -> None:
    folder = build_tiny_model(tmp_path / "target")
    add_exits(folder, (1,), torch.arange(40))
    for name in (EXITS_FILE, "model.safetensors"):
        (folder / name).chmod(0o000)
        if os.access(folder / name, os.R_OK):
            pytest.skip("root may read everything")
        with pytest.raises(ModelError, match=rf"{name} may not be read \(Permission denied\)"):
            load_model(folder)


def test_exits_that_the_card_lists_must_be_there(tmp_path: Path) -> None:
    folder = build_tiny_model(tmp_path / "target")
    card = json.loads((folder / "card.json").read_text())
    card["figures"]["exits"] = {"layers": [1]}
    (folder / "card.json").write_text(json.dumps(card))
    with pytest.raises(ModelError, match="is missing though the card lists early exits"):
        load_model(folder)
