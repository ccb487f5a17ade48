"""Static graphs draft several branches in one forward pass and cache, as the eager model does each alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny_models import TinySize, build_tiny_model, random_prompt

from outrider.core.errors import ConfigError, OutOfMemoryError
from outrider.core.ports import Chunk
from outrider.core.values import DecodeRequest
from outrider.decoding.acceptance.schemes import SCHEMES
from outrider.decoding.config import DecodingConfig
from outrider.decoding.execution.workers import DraftWorker
from outrider.decoding.jobs import DraftTokens, PrefillDraft
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.models import QwenModel, load_exact_model, load_graph_model, load_model
from outrider.models.onnx import blocks
from outrider.models.onnx.model import GraphModel
from outrider.models.onnx.slots import BRANCH_SLOTS, Node, SlotTree
from outrider.runtime.wiring.decoders import local_decoder

LAYERS = 2
LENGTH = 512
SESSIONS = 4
Act = tuple[str, tuple[tuple[int, tuple[int, ...]], ...]]

chunks = st.dictionaries(
    st.integers(0, SESSIONS - 1), st.lists(st.integers(5, 8), min_size=1, max_size=11).map(tuple), min_size=1
)
acts = st.one_of(
    chunks.map(lambda some: ("forward", tuple(some.items()))),
    st.tuples(st.integers(0, SESSIONS - 1), st.integers(0, 9)).map(
        lambda cut: ("cut", ((cut[0], (cut[1],)),))
    ),
    st.permutations(range(SESSIONS)).map(lambda order: ("copy", ((order[0], (order[1],)),))),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, graph_cache: None) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models") / "draft", TinySize(layers=LAYERS))


@pytest.fixture(scope="module")
def graphs(folder: Path) -> GraphModel:
    return load_graph_model(folder, precision="fp32", max_length=LENGTH)


@pytest.fixture(scope="module")
def exact(folder: Path, graphs: GraphModel) -> QwenModel:
    model = load_exact_model(folder, "fp32")
    model.vision = graphs.vision
    return model


def job(*prefixes: tuple[int, ...]) -> DraftTokens:
    return DraftTokens(0, prefixes, 2, SCHEMES["coupled"], Sampling(1.0, 1.0, 3))


def worker_of(model: GraphModel, seed: int = 1) -> DraftWorker:
    worker = DraftWorker(model)
    worker.run(PrefillDraft(0, random_prompt(seed), 400))
    return worker


@pytest.mark.lengthy
@settings(max_examples=25, deadline=None)
@given(st.lists(acts, min_size=1, max_size=12))
def test_whatever_sessions_do_they_say_what_eager_ones_say(
    graphs: GraphModel, exact: QwenModel, course: list[Act]
) -> None:
    ours, theirs = ([model.open_session() for _ in range(SESSIONS)] for model in (graphs, exact))
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one.prefill(random_prompt(1)), other.prefill(random_prompt(1)), atol=1e-4)
    start = theirs[0].length
    for kind, some in course:
        if kind == "forward":
            rows = [
                model.forward_together([Chunk(sessions[index], token_ids) for index, token_ids in some])
                for model, sessions in ((graphs, ours), (exact, theirs))
            ]
            for one, other in zip(*rows, strict=True):
                assert torch.allclose(one, other, atol=1e-3, rtol=1e-3)
            continue
        [(index, (value,))] = some
        for sessions in (ours, theirs):
            if kind == "cut":
                sessions[index].truncate(max(start - 2, sessions[index].length - value))
            else:
                sessions[index].copy_from(sessions[value], 0, sessions[value].length)
        assert [one.length for one in ours] == [other.length for other in theirs]


def test_branches_are_drafted_in_one_forward(graphs: GraphModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph of each block runs once, and so does the graph of the head."""
    together, alone = worker_of(graphs), worker_of(graphs)
    runs: list[None] = []
    really = blocks.run_graph

    def counting(*args: object) -> object:
        runs.append(None)
        return really(*args)  # type: ignore[arg-type]

    rounds = [((7, 8), (9,), (7, 8, 10)), ((7, 8, 11), (9, 12), (7, 8, 10, 13), (14,)), ((7, 8, 11, 15),)]
    for prefixes in rounds:
        expected = tuple(alone.run(job(prefix))[0] for prefix in prefixes)
        with monkeypatch.context() as patch:
            patch.setattr(blocks, "run_graph", counting)
            choices = together.run(job(*prefixes))
        for one, other in zip(choices, expected, strict=True):
            assert one.tokens == other.tokens
        assert len(runs) == LAYERS + 1
        runs.clear()


def test_a_prompt_is_computed_once_and_kept_for_who_has_it(
    graphs: GraphModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = graphs.open_session(), graphs.open_session()
    row = first.prefill(random_prompt(1))
    first.truncate(first.length - 3)
    first.forward([7, 8, 9, 10])

    def refused(*_: object) -> None:
        raise AssertionError("the prompt was computed again")

    with monkeypatch.context() as patch:
        patch.setattr(graphs.language, "prefill", refused)
        assert torch.equal(second.prefill(random_prompt(1)), row)
    assert second.expected(2) == first.expected(2)
    expected = second.forward([7, 8])
    second.truncate(second.length - 2)
    first.prefill(random_prompt(2))
    assert torch.allclose(second.forward([7, 8]), expected, atol=1e-5)


def test_a_session_alone_on_a_prompt_takes_the_next_one_into_its_cache(graphs: GraphModel) -> None:
    session = graphs.open_session()
    session.prefill(random_prompt(11))
    cache = session.after.cache
    expected = session.prefill(random_prompt(12))
    assert session.after.cache is cache
    del session
    assert torch.allclose(graphs.open_session().prefill(random_prompt(12)), expected, atol=1e-5)


def test_a_worker_takes_the_next_prompt_into_its_cache(
    graphs: GraphModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = worker_of(graphs, seed=13)
    worker.run(job((7,), (8,), (9,)))

    def refused() -> None:
        raise AssertionError("another cache was opened")

    monkeypatch.setattr(graphs.language, "open_cache", refused)
    worker.run(PrefillDraft(0, random_prompt(14), 40))
    assert len(worker.run(job((7,), (8,)))) == 2


def test_branches_without_room_are_refused_and_change_nothing(graphs: GraphModel) -> None:
    sessions = [graphs.open_session() for _ in range(4)]
    for session in sessions:
        session.prefill(random_prompt(1))
    length, long = sessions[0].length, 300
    sessions[0].forward([5] * long)
    expected = sessions[1].forward([7, 8, 9])
    sessions[1].truncate(length)
    with pytest.raises(OutOfMemoryError, match=f"branches of a text fill the {LENGTH + BRANCH_SLOTS} slots"):
        graphs.forward_together([Chunk(one, [token] * long) for token, one in enumerate(sessions[1:], 6)])
    assert [one.length for one in sessions] == [length + long, length, length, length]
    assert torch.allclose(sessions[1].forward([7, 8, 9]), expected, atol=1e-5)
    with pytest.raises(ConfigError, match="max_length"):
        sessions[0].forward([5] * LENGTH)


def test_a_worker_without_room_for_its_branches_drafts_that_text_in_turn(graphs: GraphModel) -> None:
    together, alone = worker_of(graphs), worker_of(graphs)
    prefixes = tuple((token,) * 200 for token in range(5, 11))
    expected = tuple(alone.run(job(prefix))[0] for prefix in prefixes)
    assert [one.tokens for one in together.run(job(*prefixes))] == [one.tokens for one in expected]
    assert len(together.run(job((5,), (6,)))) == 2 and len(together._sequences) == 1
    together.run(PrefillDraft(0, random_prompt(2), 400))
    assert len(together.run(job((5,), (6,)))) == len(together._sequences) == 2


def test_sessions_of_another_model_are_refused(graphs: GraphModel, folder: Path) -> None:
    other = load_graph_model(folder, precision="fp32", max_length=LENGTH).open_session()
    other.prefill(random_prompt(1))
    for act in (
        lambda: graphs.forward_together([Chunk(other, [7])]),
        lambda: graphs.open_session().copy_from(other, 0, other.length),
    ):
        with pytest.raises(ValueError, match="one model"):
            act()
    with pytest.raises(ValueError, match="one chunk of a session"):
        other.model.forward_together([Chunk(other, [7]), Chunk(other, [8])])


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_texts_are_the_targets_own(graphs: GraphModel, folder: Path, temperature: float) -> None:
    target, texts = load_model(folder), set()
    for strategy, workers in (("ar", 1), ("outrider", 1), ("outrider", 4), ("fsd", 4)):
        if strategy == "fsd" and temperature:
            continue  # its noise differs: only its distribution is the target's
        config = DecodingConfig(strategy=strategy, temperature=temperature, seed=5, workers=workers)
        decoder = local_decoder(target, graphs if strategy != "ar" else None, config)
        texts.add(decoder.decode(DecodeRequest(random_prompt(3), 24)).token_ids)
    assert len(texts) == 1


@pytest.mark.lengthy
@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.lists(st.integers(0, 2), max_size=6), st.integers(0, 6)), max_size=12))
def test_a_slot_is_one_tokens_and_freed_when_no_text_has_it(course: list[tuple[list[int], int]]) -> None:
    first, end = 3, 80
    tree, paths, texts = SlotTree(first, end), [], []
    for token_ids, kept in course:
        paths.append(tree.extend((), token_ids))
        texts.append(token_ids)
        paths[0], texts[0] = paths[0][:kept], texts[0][:kept]
        paths[0] = paths[0] + tree.extend(paths[0], token_ids[:1])
        texts[0] = texts[0] + token_ids[:1]
        tree.keep_only(paths)
        prefixes = {tuple(text[: n + 1]) for text in texts for n in range(len(text))}
        slots = {
            tuple(text[: n + 1]): node.slot
            for text, path in zip(texts, paths, strict=True)
            for n, node in enumerate(path)
        }
        assert len(set(slots.values())) == len(slots) == len(prefixes)
        assert all(first <= slot < end for slot in slots.values())
        assert tree.num_free == end - first - len(prefixes)


def test_a_node_goes_with_all_that_came_after_it() -> None:
    tree = SlotTree(0, 8)
    path: list[Node] = tree.extend((), [1, 2, 3, 4])
    tree.keep_only([path[:1]])
    assert tree.num_free == 7
    assert tree.extend(path[:1], [2])[0] not in path
