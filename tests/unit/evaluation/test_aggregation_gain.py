"""Documents on both sides answer what neither side can alone; none of the device's leave it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.memories import WordEmbedder

from outrider.core.frames import Behind, Cancel, Join, Settled
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.aggregation.config import AggregationConfig
from outrider.decoding.aggregation.service import AggregationService
from outrider.decoding.aggregation.virtual import PeerWorld, VirtualPeers
from outrider.decoding.fakes.cache_lm import CacheModel, WordTokenizer
from outrider.evaluation.aggregation.question_corpus import (
    COUNTED,
    make_corpus,
    measure_gain,
    recalled_documents,
)
from outrider.memory.store.store import MemoryStore
from outrider.wire.codec import encode, frame_bytes


@pytest.fixture(scope="module")
def gain():
    return measure_gain(3, WordEmbedder())


@pytest.mark.lengthy
def test_both_sides_together_answer_what_neither_can(gain) -> None:
    together = gain["both, aggregated"]
    for alone in (gain["the device alone"], gain["the cloud alone"]):
        assert alone.exact_match < 0.4
        assert together.exact_match > alone.exact_match + 0.4
        assert together.perplexity < alone.perplexity
    assert gain["both in one place"].exact_match >= together.exact_match


def test_a_corpus_is_its_seeds() -> None:
    assert make_corpus(5) == make_corpus(5) != make_corpus(6)
    corpus = make_corpus(5)
    assert len(corpus.questions) == len(corpus.answers) == len(set(corpus.questions))
    names = {fact.split()[0] for fact in corpus.device_facts}
    assert not names & {word for lesson in corpus.lessons for word in lesson.split()}


def test_no_document_of_the_device_reaches_the_cloud(tmp_path: Path, monkeypatch) -> None:
    """The device aggregates: it sends the question, then the text as it becomes final."""
    corpus, heard = make_corpus(5), []
    receive = AggregationService.receive

    def listen(self, peer, frame):
        heard.append(frame)
        return receive(self, peer, frame)

    monkeypatch.setattr(AggregationService, "receive", listen)
    texts = (*corpus.device_facts, *corpus.cloud_facts, *corpus.questions, *corpus.answers, *corpus.lessons)
    model = CacheModel(WordTokenizer(" ".join(texts).split()), corpus.lessons)
    with (
        MemoryStore(tmp_path / "device.db", WordEmbedder()) as own,
        MemoryStore(tmp_path / "cloud.db", WordEmbedder()) as general,
    ):
        for store, facts in ((own, corpus.device_facts), (general, corpus.cloud_facts)):
            for fact in facts:
                store.add(fact)
        sides = recalled_documents(COUNTED, (own, 3)), recalled_documents(COUNTED, (general, 12))
        config = AggregationConfig(aggregator="device")
        peers = VirtualPeers(model, model, config, PeerWorld(frame_bytes), *sides)
        for question in corpus.questions[:10]:
            decoded = peers.decode(DecodeRequest(Prompt(question, b"\xff\xd8"), 12, 100.0))
            assert {type(frame) for frame in heard} <= {Join, Settled, Behind, Cancel}
            said = [token for frame in heard if isinstance(frame, Settled) for token in frame.tokens]
            assert tuple(said) == decoded.token_ids[: len(said)]
            assert not any(fact.encode() in encode(frame) for frame in heard for fact in corpus.device_facts)
            heard.clear()
