"""The drafting benchmark: its texts are the target's own, and its figures are the counted ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.toy_models import ToyModel, ToySettings

from outrider.core.errors import ConfigError
from outrider.core.values import Prompt
from outrider.evaluation.pair import drafting as bench
from outrider.evaluation.pair.retrieval_yield import Drafting, TreeDrafting
from outrider.runtime.datasets.held_out import Pair

TARGET = ToyModel(ToySettings(seed=1, vocab_size=12, eos_bias=-9.0))
DRAFT = ToyModel(ToySettings(seed=1, vocab_size=12, eos_bias=-9.0, agreement=0.8))
PROMPTS = [Prompt(f"w{index} w3 w4 w5", b"\xff\xd8") for index in range(6)]
LENGTH = 30


def greedy_text(prompt: Prompt) -> tuple[int, ...]:
    session = TARGET.open_session()
    text = [int(session.prefill(prompt).argmax())]
    while len(text) < LENGTH and text[-1] not in TARGET.end_ids:
        text.append(int(session.forward(text[-1:])[0].argmax()))
    return tuple(text)


@pytest.mark.parametrize("sources", bench.SOURCE_SETS)
def test_whatever_is_drafted_the_text_is_the_targets_own(sources: tuple[str, ...]):
    total = Drafting(TARGET, DRAFT, sources, 4, LENGTH).run(PROMPTS, keep_history=True)
    assert [text[:LENGTH] for text in total.texts] == [greedy_text(prompt) for prompt in PROMPTS]
    assert total.emitted >= total.verifications and total.drafted <= 4 * total.verifications


def test_a_text_seen_before_is_drafted_from_history_where_it_is_kept():
    again = [PROMPTS[0]] * 5
    kept = Drafting(TARGET, None, ("suffix",), 8, LENGTH).run(again, keep_history=True)
    dropped = Drafting(TARGET, None, ("suffix",), 8, LENGTH).run(again, keep_history=False)
    assert kept.acceptance_length > 2 * dropped.acceptance_length


def test_the_draft_model_is_spared_where_retrieval_is_surer():
    again = [PROMPTS[0]] * 8
    alone = Drafting(TARGET, DRAFT, ("model",), 4, LENGTH).run(again, keep_history=True)
    joined = Drafting(TARGET, DRAFT, ("model", "suffix"), 4, LENGTH).run(again, keep_history=True)
    assert joined.model_tokens < alone.model_tokens / 2
    assert joined.acceptance_length >= alone.acceptance_length


@pytest.mark.lengthy
def test_the_benchmark_runs_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = Pair(TARGET, DRAFT)
    texts = bench.TextSet("toys", "toys in order", tuple(PROMPTS), True, TARGET, DRAFT, tokens=LENGTH)
    answers = ("w1", *(TARGET.tokenizer.decode(greedy_text(prompt)).strip() for prompt in PROMPTS[1:]))
    asked = bench.TextSet("asked", "questions", tuple(PROMPTS), False, TARGET, answers=answers, tokens=LENGTH)
    monkeypatch.setattr(bench, "load_pair", lambda _: pair)
    monkeypatch.setattr(bench, "load_reader_model", lambda _: TARGET)
    monkeypatch.setattr(bench, "text_sets", lambda *_: iter([texts]))
    monkeypatch.setattr(bench, "question_sets", lambda *_: iter([asked]))
    figures = bench.bench_drafting(1, 1, 1, 4, json_file=tmp_path / "out" / "drafting.json", plots=tmp_path)
    assert json.loads((tmp_path / "out" / "drafting.json").read_text()) == figures
    rows = figures["texts"]["toys in order"]
    trees = [(*sources, "tree") for sources in bench.BY_TREE]
    wanted = [*bench.SOURCE_SETS, *trees, ("suffix", "long")]
    assert set(rows) == {"+".join(sources) for sources in wanted}
    assert 1.0 <= rows["suffix"]["acceptance_length"] <= 5.0 and rows["suffix"]["model_share"] == 0.0
    assert (tmp_path / "drafting_toys.png").stat().st_size > 10_000
    told = capsys.readouterr().out
    assert (
        "model + suffix" in told and told.count("calibration and reuse over the suffix automaton alone") == 2
    )
    assert told.count("sd.npu: ") == 2 and told.count("in chains with the draft model") == 1
    gain = bench.gain(
        {tuple(name.split("+")): bench.DraftingFigures(**row) for name, row in rows.items()}, "tree", "long"
    )
    both = (rows["suffix+calibration+reuse+tree"], rows["suffix+long"])
    assert gain == both[0]["acceptance_length"] / both[1]["acceptance_length"]
    assert f"{gain:.2f} as a tree over a chain of 32" in told
    assert told.count("right, word for word: 0.83") == 1


def test_an_empty_measurement_is_refused():
    with pytest.raises(ConfigError, match="at least 1"):
        bench.bench_drafting(episodes=0)


@pytest.mark.parametrize("sources", bench.BY_TREE)
def test_trees_change_no_text_and_yield_more_than_the_chain_in_them(sources: tuple[str, ...]):
    chains = Drafting(TARGET, None, ("suffix",), 8, LENGTH).run(PROMPTS, keep_history=True)
    trees = TreeDrafting(TARGET, None, sources, 24, LENGTH).run(PROMPTS, keep_history=True)
    assert [text[:LENGTH] for text in trees.texts] == [greedy_text(prompt) for prompt in PROMPTS]
    assert trees.acceptance_length >= chains.acceptance_length
    assert trees.drafted <= 24 * trees.verifications
