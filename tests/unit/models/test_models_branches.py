"""Branches drafted in one forward pass get the bits of each alone, and a prompt is computed once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.tiny_models import random_prompt

from outrider.core.ports import Chunk, Pause
from outrider.core.values import DecodeRequest
from outrider.decoding.acceptance.schemes import SCHEMES
from outrider.decoding.config import DecodingConfig
from outrider.decoding.execution.workers import DraftWorker
from outrider.decoding.jobs import DraftTokens, PrefillDraft
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.models import QwenModel, QwenSession, load_model, session
from outrider.runtime.wiring.decoders import local_decoder

SAMPLING = Sampling(1.0, 1.0, 3)


@pytest.fixture
def model(tiny_model_folder: Path) -> QwenModel:
    return load_model(tiny_model_folder / "target")


def job(*prefixes: tuple[int, ...]) -> DraftTokens:
    return DraftTokens(0, prefixes, 2, SCHEMES["coupled"], SAMPLING)


def test_branches_together_are_drafted_as_each_alone(
    model: QwenModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, alone = DraftWorker(model), DraftWorker(model)
    for worker in (together, alone):
        worker.run(PrefillDraft(0, random_prompt(1), 40))
    sizes: list[int] = []
    really = QwenModel.forward_together

    def counting(self: QwenModel, chunks: list[Chunk], pause: Pause | None = None) -> list[torch.Tensor]:
        sizes.append(len(chunks))
        return really(self, chunks, pause=pause)

    rounds = [
        ((7, 8), (9,), (7, 8, 10)),
        ((7, 8, 11), (9, 12), (7, 8, 10, 13), (14,)),
        ((7,), ()),
        ((7, 8, 11, 15),),
    ]
    for prefixes in rounds:
        monkeypatch.setattr(QwenModel, "forward_together", really)
        expected = tuple(alone.run(job(prefix))[0] for prefix in prefixes)
        monkeypatch.setattr(QwenModel, "forward_together", counting)
        assert together.run(job(*prefixes)) == expected
    assert sizes[:2] == [3, 4]


def test_a_prompt_that_another_session_has_is_copied(
    model: QwenModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = model.open_session(), model.open_session()
    row = first.prefill(random_prompt(1))
    first.forward([7, 8])

    def refused(*_: object) -> None:
        raise AssertionError("the prompt was computed again")

    monkeypatch.setattr(QwenSession, "_run_prompt", refused)
    assert torch.equal(second.prefill(random_prompt(1)), row)
    assert second.expected(2) == first.expected(2)
    assert torch.equal(second.forward([7, 8, 9]), torch.cat([rerun(first, [7, 8]), first.forward([9])]))


def rerun(one: QwenSession, token_ids: list[int]) -> torch.Tensor:
    one.truncate(one.length - len(token_ids))
    return one.forward(token_ids)


def test_a_prompt_that_was_cut_is_computed(model: QwenModel) -> None:
    first, second = model.open_session(), model.open_session()
    row = first.prefill(random_prompt(1))
    first.truncate(first.length - 3)
    first.forward([7, 8, 9])
    assert torch.equal(second.prefill(random_prompt(1)), row)
    third = model.open_session()
    second.prefill(random_prompt(2))
    assert torch.equal(third.prefill(random_prompt(1)), row)


@pytest.mark.lengthy
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_texts_do_not_depend_on_the_branches(tiny_model_folder: Path, temperature: float) -> None:
    target, draft = load_model(tiny_model_folder / "target"), load_model(tiny_model_folder / "draft")
    texts = set()
    for strategy, workers in (("ar", 1), ("outrider", 1), ("outrider", 4)):
        config = DecodingConfig(strategy=strategy, temperature=temperature, seed=5, workers=workers)
        decoder = local_decoder(target, draft if strategy != "ar" else None, config)
        texts.add(decoder.decode(DecodeRequest(random_prompt(3), 24)).token_ids)
    assert len(texts) == 1


def test_a_session_that_takes_over_anothers_text_goes_on_with_its_bits(model: QwenModel) -> None:
    first, second = model.open_session(), model.open_session()
    for prompt in (random_prompt(1), random_prompt(2)):
        first.prefill(prompt)
        start = first.length
        first.forward([7, 8, 9])
        second.copy_from(first, 0, start + 2)
        assert second.length == start + 2 and second.expected(2) == first.expected(2)
        expected = first.forward([10, 11])
        second.forward([9])
        assert torch.equal(second.forward([10, 11]), expected)
        first.truncate(start + 1)
        first.forward([12, 13])
        second.truncate(start + 1)
        second.copy_from(first, start + 1, start + 3)
        assert torch.equal(second.forward([14]), first.forward([14]))


def test_what_a_session_takes_over_is_the_others_no_more(model: QwenModel) -> None:
    first, second = model.open_session(), model.open_session()
    first.prefill(random_prompt(1))
    second.copy_from(first, 0, first.length)
    expected = first.forward([7, 8])
    assert torch.equal(second.forward([7, 8]), expected)
    first.prefill(random_prompt(3))
    second.truncate(second.length - 1)
    assert torch.equal(second.forward([8]), expected[1:])


def test_a_session_of_another_model_is_refused(model: QwenModel, tiny_model_folder: Path) -> None:
    other = load_model(tiny_model_folder / "draft").open_session()
    other.prefill(random_prompt(1))
    with pytest.raises(ValueError, match="one model"):
        model.open_session().copy_from(other, 0, other.length)


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory")])
def test_branches_without_memory_are_drafted_in_turn(
    error: Exception, model: QwenModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However a lack of memory is reported, in the middle of a forward pass."""
    worker, alone = DraftWorker(model), DraftWorker(model)
    for one in (worker, alone):
        one.run(PrefillDraft(0, random_prompt(1), 40))
    prefixes = ((7, 8), (9,), (7, 8, 10))
    expected = tuple(alone.run(job(prefix))[0] for prefix in prefixes)
    really = session.run_together

    def full(text: object, heads: object, texts: list[object], *rest: object) -> list[torch.Tensor]:
        if len(texts) > 1:
            raise error
        return really(text, heads, texts, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(session, "run_together", full)
    assert worker.run(job(*prefixes)) == expected
