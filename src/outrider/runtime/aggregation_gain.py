"""What documents on both sides are worth: a small question-answering corpus, made here, and its measurement.

Thirty people like one of twelve things each: private facts, on the device. Each thing is sold at one of
twelve places: general facts, in the cloud. A question needs one of each. The model's own training sentences
are of other people in another town, so that they teach it how answers read and no answer. Everything is drawn
from a seed; both sides keep their facts in a memory store and find them by the question.
"""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from outrider.core.frames import FULL_SHARE, LOG_WEIGHT_UNIT
from outrider.core.ports import Embedder, PrivateMemory
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.aggregation.config import AggregationConfig
from outrider.decoding.aggregation.rule import device_share, log_sum_exp
from outrider.decoding.aggregation.virtual import PeerWorld, VirtualPeers
from outrider.decoding.aggregation.worker import Context, DocumentWorker, Retrieve, log_weight
from outrider.decoding.cache_lm import END, SEPARATOR, CacheModel, WordTokenizer
from outrider.decoding.sampling import Sampling
from outrider.memory.embedding import MiniLmEmbedder
from outrider.memory.store import MemoryStore
from outrider.runtime.aggregation_regimes import frame_bytes

NUM_PEOPLE, NUM_LESSONS = 30, 400
DEVICE_DOCUMENTS, CLOUD_DOCUMENTS = 3, 12
_THINGS = "mango pear tea chess jazz tennis honey tulips bread cheese novels kites"
_PLACES = "harbour station library bakery museum theatre castle mill school bridge garden tower"
_NAMES = """
    anna bram cleo dirk ella finn greta hugo ida joost karin lars mina nils olga piet quinn rosa sven tessa
    umar vera wout xena yara zeno adam bella cas dora emil fleur gijs hanna ivo jana kees lotte max noor otto
    pip rik sara tom ulla vince willa yves zita
"""
THINGS, PLACES = tuple(_THINGS.split()), tuple(_PLACES.split())
_JPEG = b"\xff\xd8"


@dataclass(frozen=True)
class Corpus:
    """Facts of each side, questions with their answers, and what the model has read before."""

    device_facts: tuple[str, ...]
    cloud_facts: tuple[str, ...]
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    lessons: tuple[str, ...]


@dataclass(frozen=True)
class GainFigures:
    """With one body of documents: the share of answers wholly right, the perplexity of the right ones."""

    exact_match: float
    perplexity: float


def make_corpus(seed: int) -> Corpus:
    """Described at the head of the module."""
    rng = random.Random(seed)
    names = _NAMES.split()
    rng.shuffle(names)
    people, strangers = names[:NUM_PEOPLE], names[NUM_PEOPLE:]
    likes = {person: rng.choice(THINGS) for person in people}
    sold = dict(zip(THINGS, rng.sample(PLACES, len(PLACES)), strict=True))
    return Corpus(
        tuple(f"{person} likes {likes[person]}" for person in people),
        tuple(f"{thing} sold at {place}" for thing, place in sold.items()),
        tuple(f"{person} likes what sold where {SEPARATOR} {person} likes" for person in people),
        tuple(f"{likes[person]} sold at {sold[likes[person]]} {END}" for person in people),
        tuple(
            f"{rng.choice(strangers)} likes {rng.choice(THINGS)} sold at {rng.choice(PLACES)} {END}"
            for _ in range(NUM_LESSONS)
        ),
    )


def recalled_documents(memory: PrivateMemory, limit: int) -> Retrieve:
    """A side's documents: what its memory recalls for the question, in one context, weighed by its scores."""

    @cache
    def retrieve(question: Prompt) -> Sequence[Context]:
        found = memory.recall(question.text, limit)
        if not found:
            return (Context(question),)
        text = f" {SEPARATOR} ".join((*(one.record.text for one in found), question.text))
        relevance = log_sum_exp([one.score for one in found])
        return (Context(Prompt(text, question.jpeg), relevance),)

    return retrieve


def both_documents(first: Retrieve, second: Retrieve) -> Retrieve:
    """All documents in one place and one context, which privacy forbids: centralised context aggregation."""

    def retrieve(question: Prompt) -> Sequence[Context]:
        (one,), (other,) = first(question), second(question)
        facts = one.prompt.text.removesuffix(question.text)
        return (Context(Prompt(facts + other.prompt.text, question.jpeg)),)

    return retrieve


def measure_gain(seed: int = 0, embedder: Embedder | None = None) -> dict[str, GainFigures]:
    """Either side alone, both aggregated, and all in one place. Raises MemoryStoreError without a disk."""
    corpus = make_corpus(seed)
    words = " ".join(
        (*corpus.device_facts, *corpus.cloud_facts, *corpus.questions, *corpus.answers, *corpus.lessons)
    )
    model = CacheModel(WordTokenizer(words.split()), corpus.lessons)
    embedder = embedder or MiniLmEmbedder()
    with (
        tempfile.TemporaryDirectory() as folder,
        MemoryStore(Path(folder) / "device.db", embedder) as own,
        MemoryStore(Path(folder) / "cloud.db", embedder) as general,
    ):
        for store, facts in ((own, corpus.device_facts), (general, corpus.cloud_facts)):
            for fact in facts:
                store.add(fact)
        device = recalled_documents(own, DEVICE_DOCUMENTS)
        cloud = recalled_documents(general, CLOUD_DOCUMENTS)
        return {
            "the device alone": _measure(model, corpus, device, device, "alone"),
            "the cloud alone": _measure(model, corpus, cloud, cloud, "alone"),
            "both, aggregated": _measure(model, corpus, device, cloud, "speculative"),
            "both in one place": _measure(model, corpus, both_documents(device, cloud), cloud, "alone"),
        }


def _measure(model: CacheModel, corpus: Corpus, device: Retrieve, cloud: Retrieve, sync: str) -> GainFigures:
    config = AggregationConfig("alone") if sync == "alone" else AggregationConfig()
    right, log_probs = 0, []
    for question, answer in zip(corpus.questions, corpus.answers, strict=True):
        prompt = Prompt(question, _JPEG)
        peers = VirtualPeers(model, model, config, PeerWorld(frame_bytes), device, cloud)
        text = peers.decode(DecodeRequest(prompt, 12, 100.0)).text
        right += text == answer.removesuffix(f" {END}")
        log_probs += _log_probs(model, prompt, answer, device, cloud, sync == "alone")
    return GainFigures(right / len(corpus.answers), math.exp(-sum(log_probs) / len(log_probs)))


def _log_probs(
    model: CacheModel, prompt: Prompt, answer: str, device: Retrieve, cloud: Retrieve, alone: bool
) -> list[float]:
    """log of the mixture's probability of each token of the right answer."""
    tokens = tuple(model.tokenizer.encode(answer))
    worker = DocumentWorker(model)
    contexts = {"device": device(prompt), "cloud": cloud(prompt)}
    for side, documents in contexts.items():
        worker.prefill(side, documents, len(tokens))
    weights = [log_weight(contexts[side]) * LOG_WEIGHT_UNIT for side in ("device", "cloud")]
    share = 1.0 if alone else device_share(weights[0], weights[1]) / FULL_SHARE
    result = []
    for place, token in enumerate(tokens):
        of_device, of_cloud = (
            float(worker.distribution(side, tokens[:place], Sampling(1.0))[token]) for side in contexts
        )
        result.append(math.log(share * of_device + (1.0 - share) * of_cloud))
    return result
