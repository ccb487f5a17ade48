"""The quality of exits, measured on toys of known agreement, and end to end on tiny models."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from support.tiny_models import TinySize, add_exits, build_tiny_model, random_prompt
from support.toy_models import ToyModel, ToySettings

from outrider.core.errors import ModelError
from outrider.core.values import Prompt
from outrider.evaluation.pair import exit_quality
from outrider.evaluation.pair.exit_quality import auc, calibration_error, evaluate_exits, judge_exit
from outrider.evaluation.pair.speculation import emitted_tokens, verifications
from outrider.runtime.datasets.held_out import Pair, load_pair

END = 0
TARGET = ToyModel(ToySettings(seed=1, exit_agreement=(0.5, 1.0), eos_bias=0.0))
PAIR = Pair(TARGET, ToyModel(ToySettings(seed=1, agreement=0.6, eos_bias=0.0)))
PROMPTS = [Prompt(f"w{index}", b"\xff\xd8") for index in range(30)]


def test_a_verdict_by_hand():
    assert emitted_tokens([3, 4], [3, 4, 5], {END}) == [3, 4, 5]
    assert emitted_tokens([3, 4], [3, 9, 5], {END}) == [3, 9]
    assert emitted_tokens([3, 4], [8, 4, 5], {END}) == [8]
    assert emitted_tokens([3, END], [3, END, 5], {END}) == [3, END]
    assert emitted_tokens([END], [7, 5], {END}) == [7]


def test_verdicts_add_up_to_the_greedy_text():
    for prompt in PROMPTS[:8]:
        session = TARGET.open_session()
        text = [int(session.prefill(prompt).argmax())]
        while text[-1] != END and len(text) < 60:
            text.append(int(session.forward(text[-1:])[0].argmax()))
        emitted = [t for one in verifications(PAIR, TARGET.exits, prompt, 4, 60) for t in one.emitted]
        assert [text[0], *emitted][: len(text)] == text
        assert len(text) == 60 or len(emitted) == len(text) - 1


def test_figures_are_the_toys_settings():
    rounds = [one for prompt in PROMPTS for one in verifications(PAIR, TARGET.exits, prompt, 4, 60)]
    half, perfect = (judge_exit(index, index + 1, rounds, 0.01) for index in range(2))
    assert half.agreement == pytest.approx(0.5, abs=0.07)
    assert half.contested_agreement == pytest.approx(0.5, abs=0.1)
    assert half.hint_agreement < half.agreement and half.auc > 0.6
    assert (perfect.agreement, perfect.contested_agreement, perfect.hint_agreement) == (1.0, 1.0, 1.0)
    assert math.isnan(perfect.auc)
    assert (half.layer, half.cost) == (1, 0.01)


def test_scores_of_confidence_by_hand():
    hints = [(0.9, True), (0.8, False), (0.3, False), (0.3, True)]
    assert auc(hints) == pytest.approx((1 + 1 + 0 + 0.5) / 4)
    assert calibration_error([(0.95, True), (1.0, True), (0.2, False)]) == pytest.approx((0.05 + 0.2) / 3)


@pytest.fixture(scope="module")
def pair(tiny_model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Returns a tiny pair whose target has four layers, with exits after two of them."""
    folder = tmp_path_factory.mktemp("pair")
    add_exits(build_tiny_model(folder / "target", TinySize(layers=4)), (1, 3), torch.arange(0, 200, 2))
    shutil.copytree(tiny_model_folder / "draft", folder / "draft")
    return load_pair(folder)


@pytest.mark.lengthy
def test_real_models_are_measured_to_the_end(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        exit_quality, "held_out_prompts", lambda number, seed: map(random_prompt, range(number))
    )
    figures = evaluate_exits(2, 0, None, tmp_path / "out" / "exits.json", pair, timed_forwards=3)
    assert [one["layer"] for one in figures["exits"]] == [1, 3]
    assert figures["tokens"] > 50 and figures["shortlist"] == 100
    assert json.loads((tmp_path / "out" / "exits.json").read_text())["tokens"] == figures["tokens"]
    assert "3 of 4" in capsys.readouterr().out


def test_a_target_without_exits_is_named(tiny_model_folder: Path) -> None:
    with pytest.raises(ModelError, match="has no early exits"):
        evaluate_exits(1, 0, models=tiny_model_folder)
