"""Answers from private and public documents, by a model that quotes the one with the question's words."""

from __future__ import annotations

import json

import pytest
from support.memories import WordEmbedder

from outrider.core.errors import ConfigError
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.evaluation.weights import documents
from outrider.runtime.datasets.two_sided_questions import holds, two_sided_questions
from outrider.runtime.wiring.knowledge import load_reader

PREFILL_S, TOKEN_S = 0.7, 0.16


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict:
    file = tmp_path_factory.mktemp("documents") / "documents.json"
    with pytest.MonkeyPatch.context() as patch:
        compute = ComputeProfile(draft_prefill_s=PREFILL_S, draft_token_s=TOKEN_S)
        patch.setattr(documents, "measure_compute", lambda *_: compute)
        model, embedder = load_reader("quotes"), WordEmbedder()
        figures = documents.evaluate_documents(4, "0.5b", "bf16", file, model, embedder, answer_tokens=96)
    assert json.loads(file.read_text()) == json.loads(json.dumps(figures))
    return figures


@pytest.mark.lengthy
def test_each_side_alone_holds_its_own_facts(told: dict) -> None:
    rows = {row["documents"]: row for row in told["answers"]}
    robot, cloud = rows["the robot's"], rows["the cloud's"]
    assert robot["private"] > 0.0 == robot["public"] and cloud["public"] > 0.0 == cloud["private"]
    assert all(row["both"] <= min(row["private"], row["public"]) for row in rows.values())
    masked, aggregated = rows["both, aggregated, the robot's masked"], rows["both, aggregated"]
    assert masked["perplexity"] is None and masked["private"] > 0.0, "slots are filled in"
    assert aggregated["private"] + aggregated["public"] >= max(robot["private"], cloud["public"])


@pytest.mark.lengthy
def test_what_waits_for_the_link_takes_longer_with_it(told: dict) -> None:
    near, far = (
        {row["method"]: row for row in told["latencies"] if row["one_way_ms"] == ms} for ms in (20, 100)
    )
    assert near["device"]["token_ms"] == pytest.approx(far["device"]["token_ms"])
    assert near["token"]["token_ms"] + 100.0 < far["token"]["token_ms"]
    assert near["device"]["bytes_up_per_token"] == 0.0 < near["dragon"]["bytes_up_per_token"]


def test_every_right_answer_holds_both_facts() -> None:
    for entry in two_sided_questions(8):
        assert holds(entry.answer, entry.private) and holds(entry.answer, entry.public)
        assert holds(entry.told, entry.private) and not holds(entry.told, entry.public)
        assert holds(entry.known, entry.public) and not holds(entry.known, entry.private)
        assert not holds(entry.question, entry.private) and not holds(entry.question, entry.public)
    with pytest.raises(ConfigError, match="choose 1 to 8"):
        two_sided_questions(9)
