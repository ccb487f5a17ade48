"""Pauses in a forward pass, for every kind of model: how many, and that an abort there changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support.captured import Event, Graph, stand_in_for_cuda
from support.tiny_models import TinySize, build_tiny_model, random_prompt

from outrider.core.ports import Chunk, LanguageModel
from outrider.models import QwenModel, load_graph_model, load_model
from outrider.models.backbone import cuda_graph_steps
from outrider.models.backbone.step_launchers import GraphLauncher
from outrider.models.constrained import constrain

LAYERS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("pauses") / "draft", TinySize(layers=LAYERS))


def eager(folder: Path) -> QwenModel:
    return load_model(folder, sessions=2)


def stepped(folder: Path) -> QwenModel:
    model = eager(folder)
    parts = model.name, model.tokenizer, model.text, model.vision, model.max_length, model.card
    return QwenModel(*parts, sessions=2, static_steps=True)


PAUSES = LAYERS - 1
KINDS: dict[str, tuple[Callable[[Path], LanguageModel], int, float]] = {
    "eager": (eager, PAUSES, 0.0),
    "constrained": (lambda folder: constrain(eager(folder)), PAUSES, 0.0),
    "steps": (stepped, 2 * LAYERS - 1, 0.0),
    "graphs": (load_graph_model, PAUSES, 1e-5),
}
"""The loader, the number of pauses, and the tolerance for a prompt in whose middle graphs switch."""


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", KINDS)
def test_a_forward_broken_off_at_any_pause_leaves_the_session_as_it_was(
    folder: Path, graph_cache: None, kind: str
) -> None:
    load, pauses, tolerance = KINDS[kind]
    model = load(folder)
    session, fresh = model.open_session(), model.open_session()
    for one in (session, fresh):
        one.prefill(random_prompt(1))
        model.forward_together([Chunk(one, [7, 8])])
    heard: list[None] = []
    [expected] = model.forward_together([Chunk(fresh, [9, 10])], pause=lambda: heard.append(None))
    assert len(heard) == pauses
    for last in range(pauses):
        left = [last]

        def stop(left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise InterruptedError

        length = session.length
        with pytest.raises(InterruptedError):
            model.forward_together([Chunk(session, [11, 12, 13])], pause=stop)
        assert session.length == length
    [rows] = model.forward_together([Chunk(session, [9, 10])])
    assert torch.allclose(rows, expected, rtol=0.0, atol=tolerance)


def test_on_static_graphs_no_session_of_a_batch_has_changed(folder: Path, graph_cache: None) -> None:
    """After different prompts the sessions run in turn: the first has ended when the second is aborted."""
    model = load_graph_model(folder)
    sessions = [model.open_session(), model.open_session()]
    lengths = []
    for seed, session in enumerate(sessions):
        session.prefill(random_prompt(seed))
        lengths.append(session.length)
    left = [LAYERS]

    def stop() -> None:
        left[0] -= 1
        if not left[0]:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        model.forward_together([Chunk(session, [7]) for session in sessions], pause=stop)
    assert [session.length for session in sessions] == lengths


@pytest.mark.lengthy
def test_little_of_a_captured_step_runs_on_past_the_pause_that_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[Graph] = []
    replay = Graph.replay
    stand_in_for_cuda(monkeypatch)
    monkeypatch.setattr(Event, "query", lambda event: False)
    monkeypatch.setattr(cuda_graph_steps, "DirectLauncher", GraphLauncher)
    monkeypatch.setattr(Graph, "replay", lambda graph: (launched.append(graph), replay(graph)))
    model = stepped(build_tiny_model(tmp_path / "draft", TinySize(layers=16)))
    session = model.open_session()
    session.prefill(random_prompt(1))
    model.forward_together([Chunk(session, [7])])
    launched.clear()
    heard: list[None] = []
    model.forward_together([Chunk(session, [8])], pause=lambda: heard.append(None))
    assert len(launched) == 32
    assert len(heard) == 30, "no pauses once there is nothing to be saved"

    def stop() -> None:
        raise InterruptedError

    launched.clear()
    with pytest.raises(InterruptedError):
        model.forward_together([Chunk(session, [9])], pause=stop)
    assert len(launched) == 2
