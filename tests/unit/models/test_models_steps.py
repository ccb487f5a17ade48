"""Steps of static shape against the forward pass of a batch; and that nothing is left on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support.captured import Event, Graph, stand_in_for_cuda
from support.tiny_models import TinySize, add_exits, build_tiny_model, random_prompt

from outrider.core.errors import ConfigError
from outrider.core.ports import Chunk, ExitReader, ModelSession, Reading
from outrider.models import QwenModel, load_model
from outrider.models.backbone import cuda_graph_steps
from outrider.models.backbone.attention import Segment
from outrider.models.backbone.batch import DECODE_ROWS, SPAN_STEP
from outrider.models.backbone.cuda_graph_steps import (
    STEP_ROWS,
    Fused,
    SegmentedStep,
    StepTokens,
    step_span,
)
from outrider.models.backbone.kv_cache import CachePool, CacheShape
from outrider.models.backbone.step_launchers import LOOKS_AT_WORK, MAX_AHEAD, GraphLauncher, Lead
from outrider.models.quantization.matrices import DenseMatrix


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = build_tiny_model(tmp_path_factory.mktemp("steps") / "target", TinySize(layers=4))
    add_exits(folder, (1, 3), torch.arange(5, 60))
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> QwenModel:
    return load_model(folder, sessions=2)


@pytest.fixture(scope="module")
def stepped(model: QwenModel) -> QwenModel:
    """Return the same weights, run as on a GPU."""
    return stepping(model)


def stepping(model: QwenModel) -> QwenModel:
    parts = model.name, model.tokenizer, model.text, model.vision, model.max_length, model.card
    return QwenModel(*parts, model.exit_heads, sessions=2, static_steps=True)


@pytest.mark.parametrize("count", [1, 5, STEP_ROWS, SPAN_STEP])
def test_steps_say_what_the_forward_says(model: QwenModel, stepped: QwenModel, count: int) -> None:
    token_ids = [7 + place % 50 for place in range(count)]
    said: list[list[tuple[int, torch.Tensor]]] = []
    rows = []
    for each in (model, stepped):
        first, session = each.open_session(), each.open_session()
        first.prefill(random_prompt(1))
        session.prefill(random_prompt(2))
        exits: list[tuple[int, torch.Tensor]] = []
        rows.append(
            session.forward(token_ids, lambda index, logits, exits=exits: exits.append((index, logits)))
        )
        rows[-1] = torch.cat([rows[-1], first.forward([9]), session.forward([9])])
        said.append(exits)
    assert torch.allclose(*rows, atol=1e-4, rtol=1e-4)
    assert [index for index, _ in said[1]] == [0, 1]
    for (_, one), (_, other) in zip(*said, strict=True):
        assert one.shape == (count, 55)
        assert torch.allclose(one, other, atol=1e-4, rtol=1e-4)


def test_one_token_and_a_chunk_give_the_same_bits(stepped: QwenModel) -> None:
    one, chunk = stepped.open_session(), stepped.open_session()
    for session in (one, chunk):
        session.prefill(random_prompt(3))
    token_ids = [11, 12, 13, 14, 15, 16]
    assert torch.equal(torch.cat([one.forward([token]) for token in token_ids]), chunk.forward(token_ids))


def test_a_hint_leaves_before_the_layers_behind_it_run(stepped: QwenModel) -> None:
    session = stepped.open_session()
    session.prefill(random_prompt(1))
    length = session.length

    def stop(index: int, logits: torch.Tensor) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        session.forward([7, 8], stop)
    assert session.length == length
    fresh = stepped.open_session()
    fresh.prefill(random_prompt(1))
    assert torch.equal(session.forward([7, 8]), fresh.forward([7, 8]))


def test_a_step_serves_several_sessions_each_with_its_own_bits(stepped: QwenModel) -> None:
    """Alone or with others, in one block or in two, with one token or with more than a step has rows."""
    together, alone = ([stepped.open_session() for _ in range(3)] for _ in range(2))
    for number, (one, other) in enumerate(zip(together, alone, strict=True)):
        one.prefill(random_prompt(number))
        other.prefill(random_prompt(number))
    for turn in range(3):
        texts = [[7 + turn, 8], [9] * (STEP_ROWS + 3), [10 + turn]]
        rows = stepped.forward_together([Chunk(*pair) for pair in zip(together, texts, strict=True)])
        for session, text, batched in zip(alone, texts, rows, strict=True):
            assert torch.equal(session.forward(text), batched)


def test_a_session_without_tokens_keeps_its_cache(stepped: QwenModel) -> None:
    """The rows of waiting sequences are written where no text reaches."""
    waiting, busy = stepped.open_session(), stepped.open_session()
    for session in (waiting, busy):
        session.prefill(random_prompt(4))
    rest = stepped.max_length - waiting.length
    waiting.forward([7] * (rest - 1))
    busy.forward([8] * rest)
    fresh = stepped.open_session()
    fresh.prefill(random_prompt(4))
    fresh.forward([7] * (rest - 1))
    assert torch.equal(waiting.forward([9]), fresh.forward([9]))


def test_a_span_holds_the_token_and_doubles() -> None:
    assert [step_span(slot, 5000) for slot in (0, 1023, 1024, 2047, 2048, 4096)] == [
        *(1024, 1024, 2048, 2048, 4096, 5000)
    ]
    assert step_span(100, 384) == 384


def test_nothing_of_a_forward_or_a_step_stays_on_the_host(model: QwenModel) -> None:
    """On the meta device an operation between the host and the device is an error, as on a GPU."""
    meta = torch.device("meta")
    assert model.exit_heads is not None
    text, heads = model.text.to(meta), model.exit_heads.to(meta, torch.bfloat16)
    text = replace(text, cache_dtype=torch.bfloat16, head=DenseMatrix(text.head.weight.bfloat16()))
    shape = CacheShape(text.shape.num_layers, SPAN_STEP, text.shape.num_kv_heads, text.shape.head_dim)
    cache = CachePool(shape, torch.bfloat16, 2, meta).take()
    runs = text.runs([Segment(cache, 3, 0, 5, SPAN_STEP, DECODE_ROWS)], DECODE_ROWS)
    hidden = text.forward(text.embed([7] * DECODE_ROWS), torch.arange(DECODE_ROWS).expand(3, -1), runs)
    assert text.logits(hidden).device == heads.logits(0, hidden).device == meta
    step = SegmentedStep(text, heads, cache.block, SPAN_STEP)
    logits = step.run({cache.index: StepTokens([7, 8], 3, 3)}, None)
    assert logits.device == meta and logits.shape == (2 * STEP_ROWS, model.vocab_size)
    assert [rows.device for rows in step.exit_rows] == [meta, meta]


def test_a_device_that_is_not_there_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="no CUDA device"):
        load_model(folder, device="cuda")
    with pytest.raises(ConfigError, match="none that torch knows"):
        load_model(folder, device="gpu")
    with pytest.raises(ConfigError, match="precision=bf16"):
        load_model(folder, precision="int8", device="meta")


def counted(compilations: list[object]) -> Callable[..., Any]:
    """Return a compiler that changes nothing, and records each compilation."""

    def compile_nothing(graph: Any, _: Any) -> Any:
        compilations.append(graph)
        return graph.forward

    return compile_nothing


@pytest.mark.lengthy
def test_one_compilation_serves_all_layers(model: QwenModel) -> None:
    """Fusing and CUDA graphs need this: no branch on the data, and no code for one layer only."""
    compilations: list[object] = []
    cache = model._pool.take()
    given = {cache.index: StepTokens([7, 8], 3, 3)}
    plain = SegmentedStep(model.text, model.exit_heads, cache.block, SPAN_STEP)
    expected = plain.run(given, None)
    fused = SegmentedStep(model.text, model.exit_heads, cache.block, SPAN_STEP)
    for name in ("_project", "_join"):
        function = getattr(plain, name)
        setattr(fused, name, Fused(function, backend=counted(compilations), fullgraph=True))
    assert torch.equal(fused.run(given, None), expected)
    assert len(compilations) == 2


@pytest.mark.lengthy
def test_where_fusing_fails_the_step_goes_on_without_it(
    model: QwenModel, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(graph: Any, _: Any) -> Any:
        raise RuntimeError("no compiler")

    cache = model._pool.take()
    given = {cache.index: StepTokens([7, 8], 3, 3)}
    plain = SegmentedStep(model.text, None, cache.block, SPAN_STEP)
    fused = SegmentedStep(model.text, None, cache.block, SPAN_STEP)
    fused._project = Fused(fused._project, backend=broken)
    assert torch.equal(fused.run(given, None), plain.run(given, None))
    assert "no compiler" in caplog.text


def test_captured_steps_say_what_direct_ones_say(model: QwenModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs are captured once and replayed for other tokens, positions, sequences and lengths."""
    direct = stepping(model)
    stand_in_for_cuda(monkeypatch)
    monkeypatch.setattr(cuda_graph_steps, "DirectLauncher", GraphLauncher)
    captured = stepping(model)
    said: list[list[torch.Tensor]] = []
    for each in (direct, captured):
        sessions = [each.open_session(), each.open_session()]
        rows: list[torch.Tensor] = []
        for seed, session in enumerate(sessions):
            session.prefill(random_prompt(seed))
        for texts in ([[7, 8], [9]], [[10], [11] * (STEP_ROWS + 2)], [[12, 13, 14], [15, 16]]):
            chunks = [Chunk(session, text) for session, text in zip(sessions, texts, strict=True)]
            rows += each.forward_together(chunks, reader_of_all(rows))
        sessions[0].truncate(sessions[0].length - 2)
        rows.append(sessions[0].forward([17], lambda index, logits, rows=rows: rows.append(logits)))
        said.append(rows)
    assert len(said[0]) == len(said[1]) > 12
    assert all(torch.equal(one, other) for one, other in zip(*said, strict=True))


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[Graph]:
    """Capture steps and record the segments that are launched; the device is never found idle."""
    launched: list[Graph] = []
    replay = Graph.replay
    stand_in_for_cuda(monkeypatch)
    monkeypatch.setattr(Event, "query", lambda event: False)
    monkeypatch.setattr(cuda_graph_steps, "DirectLauncher", GraphLauncher)
    monkeypatch.setattr(Graph, "replay", lambda graph: (launched.append(graph), replay(graph)))
    return launched


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> QwenModel:
    """Return a model whose step has twelve segments."""
    folder = build_tiny_model(tmp_path_factory.mktemp("deep") / "target", TinySize(layers=6))
    add_exits(folder, (1, 2, 3, 4, 5), torch.arange(5, 60))
    return load_model(folder, sessions=2)


def queued_past_exits(session: ModelSession, launches: list[Graph]) -> list[int]:
    """Return how many segments are queued past each exit, in a step over one token.

    Also checks that each segment is launched once.
    """
    launches.clear()
    ahead: list[int] = []
    session.forward([9], lambda index, logits: ahead.append(len(launches) - 2 * (index + 1)))
    assert len(launches) == len(set(map(id, launches))) == 12
    return ahead


def test_little_is_queued_past_the_exit_that_is_heard(deep: QwenModel, launches: list[Graph]) -> None:
    session = stepping(deep).open_session()
    session.prefill(random_prompt(1))
    session.forward([7, 8])
    for _ in range(2):
        assert queued_past_exits(session, launches) == [1] * 5


def test_a_device_that_is_found_idle_is_given_more(
    deep: QwenModel, launches: list[Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = stepping(deep).open_session()
    session.prefill(random_prompt(1))
    session.forward([7, 8])
    monkeypatch.setattr(Event, "query", lambda event: True)
    assert queued_past_exits(session, launches) == [1, 2, 3, 4, 2]
    monkeypatch.setattr(Event, "query", lambda event: False)
    assert queued_past_exits(session, launches) == [4, 4, 4, 4, 2]


@pytest.mark.lengthy
def test_where_all_is_queued_at_once_the_queue_grows_short_again(
    deep: QwenModel, launches: list[Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_graph_steps, "DirectLauncher", partial(GraphLauncher, looks_at_work=3))
    session = stepping(deep).open_session()
    session.prefill(random_prompt(1))
    session.forward([7, 8])
    monkeypatch.setattr(Event, "query", lambda event: True)
    while queued_past_exits(session, launches)[0] < 10:
        session.truncate(session.length - 1)
    monkeypatch.setattr(Event, "query", lambda event: False)
    for _ in range(30):
        session.truncate(session.length - 1)
        last = queued_past_exits(session, launches)
    assert last == [1] * 5


def test_a_queue_is_as_short_as_keeps_the_device_at_work() -> None:
    """The host of this one takes as long as three segments."""
    lead, idle = Lead(), 0
    for _ in range(10 * LOOKS_AT_WORK):
        idle += lead.segments < 3
        lead.on_look(idle=lead.segments < 3)
    assert lead.segments in (2, 3)
    assert idle <= 2 + 10
    for _ in range(100):
        lead.on_look(idle=True)
    assert lead.segments == MAX_AHEAD
    for _ in range(20 * LOOKS_AT_WORK):
        lead.on_look(idle=False)
    assert lead.segments == 1


@pytest.mark.parametrize("stops_at", range(5))
@pytest.mark.parametrize("when", ["read", "heard"])
def test_a_listener_that_raises_ends_a_captured_step(
    deep: QwenModel, launches: list[Graph], stops_at: int, when: str
) -> None:
    model = stepping(deep)
    session, fresh = model.open_session(), model.open_session()
    for one in (session, fresh):
        one.prefill(random_prompt(1))
        one.forward([7, 8])

    def stop(read: torch.Tensor) -> None:
        raise InterruptedError

    def reader(index: int, heard: Sequence[tuple[int, torch.Tensor]]) -> Reading | None:
        if index < stops_at:
            return None
        if when == "read":
            stop(heard[0][1])
        return Reading(heard[0][1], stop)

    launches.clear()
    with pytest.raises(InterruptedError):
        model.forward_together([Chunk(session, [9, 10, 11])], reader)
    assert len(launches) == 2 * (stops_at + 1) + 1
    assert session.length == fresh.length
    rows, expected = ([], [])
    for one, own in ((session, rows), (fresh, expected)):
        own += model.forward_together([Chunk(one, [9, 12])], reader_of_all(own))
    assert len(rows) == 6
    assert all(torch.equal(*pair) for pair in zip(rows, expected, strict=True))


def reader_of_all(rows: list[torch.Tensor]) -> ExitReader:
    """Return a reader that collects the logits of every exit in `rows`."""
    return lambda index, heard: Reading(torch.cat([logits for _, logits in heard]), rows.append)
