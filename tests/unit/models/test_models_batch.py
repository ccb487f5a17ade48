"""Chunks of several sessions in one forward pass: each session gets the same bits as alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from support.tiny_models import TinySize, add_exits, build_tiny_model, random_prompt

from outrider.core.errors import ConfigError
from outrider.core.ports import Chunk, Reading, finish
from outrider.core.values import Prompt
from outrider.models import QwenModel, QwenSession, load_model
from outrider.models.backbone.batch import next_span
from outrider.models.session import PREFILL_ROWS

PROMPTS = [random_prompt(1), random_prompt(2), Prompt("find the cup", b""), random_prompt(3)]


@pytest.fixture(scope="module")
def pooled(tiny_model_folder: Path) -> QwenModel:
    return load_model(tiny_model_folder / "target", sessions=3)


def prefilled(model: QwenModel) -> list[QwenSession]:
    sessions = [model.open_session() for _ in PROMPTS]
    for session, prompt in zip(sessions, PROMPTS, strict=True):
        session.prefill(prompt)
    return sessions


def random_chunks(seed: int, vocab_size: int) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(vocab_size) for _ in range(rng.randrange(1, 20))] for _ in PROMPTS]


@pytest.mark.parametrize("seed", range(6))
def test_a_batch_gives_each_session_its_own_bits(pooled: QwenModel, seed: int) -> None:
    together, alone, spans = prefilled(pooled), prefilled(pooled), []
    for turn in range(5):
        texts = random_chunks(seed * 5 + turn, pooled.vocab_size)
        spans.append(len({next_span(session.length) for session in together}))
        rows = pooled.forward_together([Chunk(*pair) for pair in zip(together, texts, strict=True)])
        for session, other, text, batched in zip(together, alone, texts, rows, strict=True):
            assert torch.equal(batched, other.forward(text))
            assert session.length == other.length
    assert max(spans) == 2, "the batch is to hold two spans"


@pytest.mark.lengthy
@pytest.mark.parametrize("static_steps", [False, True])
def test_the_exits_of_a_batch_are_read_at_once_and_say_what_each_session_hears_alone(
    tmp_path: Path, static_steps: bool
) -> None:
    folder = build_tiny_model(tmp_path / "target", TinySize(layers=3))
    add_exits(folder, (1, 2), torch.arange(5, 60))
    pooled = load_model(folder, sessions=len(PROMPTS))
    parts = pooled.name, pooled.tokenizer, pooled.text, pooled.vision, pooled.max_length, pooled.card
    pooled = QwenModel(*parts, pooled.exit_heads, sessions=3, static_steps=static_steps)
    heard: dict[int, list[torch.Tensor]] = {number: [] for number in range(len(PROMPTS))}
    asked: list[int] = []
    together, alone = prefilled(pooled), prefilled(pooled)
    texts = random_chunks(7, pooled.vocab_size)

    def read(index: int, rows: Sequence[tuple[int, torch.Tensor]]) -> Reading:
        asked.append(len(rows))

        def observe(chosen: torch.Tensor) -> None:
            for (number, _), said in zip(rows, chosen.split([len(own) for _, own in rows]), strict=True):
                heard[number].append(said)

        return Reading(torch.cat([own for _, own in rows]), observe)

    pooled.forward_together([Chunk(session, texts[i]) for i, session in enumerate(together)], read)
    assert max(asked) > 1 or static_steps, "one product reads several texts"
    for number, said in heard.items():
        expected: list[torch.Tensor] = []
        alone[number].forward(texts[number], lambda _, exit_rows, to=expected: to.append(exit_rows))
        assert len(said) == len(expected) > 0
        assert all(torch.equal(a, b) for a, b in zip(said, expected, strict=True))


def test_a_batch_that_fails_changes_no_session(pooled: QwenModel) -> None:
    sessions = prefilled(pooled)
    lengths = [session.length for session in sessions]
    with pytest.raises(ConfigError, match="max_length"):
        pooled.forward_together([Chunk(sessions[0], [1]), Chunk(sessions[1], [1] * pooled.max_length)])
    with pytest.raises(ValueError, match="one chunk"):
        pooled.forward_together([Chunk(sessions[0], [1]), Chunk(sessions[0], [2])])
    assert [session.length for session in sessions] == lengths


def test_places_are_given_back_and_leave_no_trace(pooled: QwenModel) -> None:
    first = prefilled(pooled)
    expected = first[1].forward([3, 4, 5])
    location = first[1]._cache.location
    del first[1]
    again = pooled.open_session()
    assert again._cache.location == location
    again.prefill(PROMPTS[1])
    assert torch.equal(again.forward([3, 4, 5]), expected)


def test_a_long_prompt_runs_in_parts_between_which_others_go_on(pooled: QwenModel) -> None:
    prompt = Prompt("find the cup " * 100, b"")
    whole = pooled.open_session().prefill(prompt)
    session, other = pooled.open_session(), prefilled(pooled)[0]
    parts, turns = session.prefill_parts(prompt), 0
    try:
        while True:
            next(parts)
            other.forward([turns])
            turns += 1
    except StopIteration as end:
        logits = end.value
    assert turns > session.length // PREFILL_ROWS > 1
    assert torch.equal(logits, whole)


def test_a_frame_is_encoded_in_parts_between_which_others_go_on(tiny_model_folder: Path) -> None:
    frame = random_prompt(5)
    calm, model = (load_model(tiny_model_folder / "target", sessions=5) for _ in range(2))
    whole, expected = calm.open_session().prefill(frame), prefilled(calm)[0]
    session, other = model.open_session(), prefilled(model)[0]
    ran: list[int] = []
    for layer in model.vision._tower.blocks:
        layer.norm1.register_forward_hook(lambda *_: ran.append(1))
    parts, seen, logits = session.prefill_parts(frame), [], None
    while logits is None:
        try:
            next(parts)
        except StopIteration as end:
            logits = end.value
        seen.append(len(ran))
        assert torch.equal(other.forward([3]), expected.forward([3]))
    assert seen[:2] == [1, 2], "one of the two layers, then the other"
    assert torch.equal(logits, whole)


@pytest.mark.parametrize("after", [1, 2])
def test_a_prefill_that_is_abandoned_leaves_nothing(pooled: QwenModel, after: int) -> None:
    expected = pooled.open_session().prefill(random_prompt(2))
    session = pooled.open_session()
    session.prefill(random_prompt(1))
    abandoned = session.prefill_parts(random_prompt(3 + after))
    for _ in range(after):
        next(abandoned)
    abandoned.close()
    assert session.length == 0
    assert torch.equal(finish(session.prefill_parts(random_prompt(2))), expected)
