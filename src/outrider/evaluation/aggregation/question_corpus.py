# SPDX-License-Identifier: Apache-2.0
"""Measures what documents on both sides are worth, by a small synthetic question-answering corpus.

Thirty people like one of twelve things each: private facts, on the device. Each thing is sold at one of
twelve places: general facts, in the cloud. A question needs one of each. The model's training sentences are
about other people in another town, so that they teach it how answers read and no answer. Everything is
drawn from a seed. Both sides keep their facts in a memory store, and retrieve them by the question.

The same is asked of a trained reader (`training.readers`), in its own words and with its own prompt. Its
training was of this kind; the facts that a question joins are drawn anew.
"""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean

from outrider.core.frames import FULL_SHARE, LOG_WEIGHT_UNIT
from outrider.core.language.prompt import END_OF_TEXT
from outrider.core.language.questions import question_of, question_prompt
from outrider.core.ports import Embedder, LanguageModel, PrivateMemory
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.aggregation.config import AggregationConfig
from outrider.decoding.aggregation.rule import device_share, log_sum_exp
from outrider.decoding.aggregation.virtual import PeerWorld, VirtualPeers
from outrider.decoding.aggregation.worker import Context, DocumentWorker, Retrieve, log_weight
from outrider.decoding.fakes.cache_lm import END, SEPARATOR, CacheModel, WordTokenizer
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.memory.embedding import MiniLmEmbedder
from outrider.memory.store.store import MemoryStore
from outrider.training import household
from outrider.wire.codec import frame_bytes

NUM_PEOPLE, NUM_LESSONS = 30, 400
NUM_TOWNS = 4
"""The number of corpora that a reader is asked about."""
ANSWER_TOKENS = 24
_THINGS = "mango pear tea chess jazz tennis honey tulips bread cheese novels kites"
_PLACES = "harbour station library bakery museum theatre castle mill school bridge garden tower"
_NAMES = """
    anna bram cleo dirk ella finn greta hugo ida joost karin lars mina nils olga piet quinn rosa sven tessa
    umar vera wout xena yara zeno adam bella cas dora emil fleur gijs hanna ivo jana kees lotte max noor otto
    pip rik sara tom ulla vince willa yves zita
"""
THINGS, PLACES = tuple(_THINGS.split()), tuple(_PLACES.split())


@dataclass(frozen=True)
class Corpus:
    """The facts of each side, questions with their answers, and the model's training sentences."""

    device_facts: tuple[str, ...]
    cloud_facts: tuple[str, ...]
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    lessons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Form:
    """How a model is asked.

    `prompt` makes the prompt of a question with documents, `question` extracts the question of a prompt
    without documents, `end` ends an answer. `device_documents` and `cloud_documents` are numbers per
    prompt.
    """

    prompt: Callable[[str, Sequence[str]], str]
    question: Callable[[str], str]
    end: str
    device_documents: int
    cloud_documents: int


COUNTED = Form(lambda question, facts: f" {SEPARATOR} ".join((*facts, question)), str, f" {END}", 3, 12)
READ = Form(question_prompt, question_of, END_OF_TEXT, 2, household.NUM_TREATS)


@dataclass(frozen=True)
class GainFigures:
    """Figures with one set of documents: share of exactly right answers, perplexity of right answers."""

    exact_match: float
    perplexity: float


def make_corpus(seed: int) -> Corpus:
    """Make the corpus described at the head of the module."""
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
        tuple(f"{likes[person]} sold at {sold[likes[person]]}" for person in people),
        tuple(
            f"{rng.choice(strangers)} likes {rng.choice(THINGS)} sold at {rng.choice(PLACES)} {END}"
            for _ in range(NUM_LESSONS)
        ),
    )


def make_readers_corpus(seed: int) -> Corpus:
    """Make such a corpus in the words that readers know."""
    rng = random.Random(seed)
    treats = rng.sample(household.TREATS, household.NUM_TREATS)
    sold = dict(zip(treats, rng.sample(household.SHOPS, household.NUM_TREATS), strict=True))
    likes = {person: rng.choice(treats) for person in household.PEOPLE}
    return Corpus(
        tuple(household.likes_fact(person, treat) for person, treat in likes.items()),
        tuple(household.sold_fact(treat, shop) for treat, shop in sold.items()),
        tuple(household.shopping_question(person) for person in likes),
        tuple(f" {household.shopping_answer(person, treat, sold[treat])}" for person, treat in likes.items()),
    )


def recalled_documents(form: Form, *memories: tuple[PrivateMemory, int]) -> Retrieve:
    """Return a retrieval that puts the facts recalled for a question into one context.

    Each memory comes with its maximum number of facts. The context is weighted by their scores.
    """

    @cache
    def retrieve(question: Prompt) -> Sequence[Context]:
        query = form.question(question.text)
        hits = [record_hit for memory, limit in memories for record_hit in memory.recall(query, limit)]
        if not hits:
            return (Context(question),)
        text = form.prompt(query, [record_hit.record.text for record_hit in hits])
        return (Context(Prompt(text, question.jpeg), log_sum_exp([record_hit.score for record_hit in hits])),)

    return retrieve


def measure_gain(seed: int = 0, embedder: Embedder | None = None) -> dict[str, GainFigures]:
    """Measure with the count model. Raises MemoryStoreError if the disk cannot be used."""
    corpus = make_corpus(seed)
    words = " ".join(
        (*corpus.device_facts, *corpus.cloud_facts, *corpus.questions, *corpus.answers, *corpus.lessons)
    )
    model = CacheModel(WordTokenizer(words.split()), corpus.lessons)
    return _compare(model, COUNTED, corpus, embedder)


def measure_readers_gain(
    reader: LanguageModel, seed: int = 0, embedder: Embedder | None = None, num_towns: int = NUM_TOWNS
) -> dict[str, GainFigures]:
    """Measure with a trained reader, over `num_towns` corpora. Raises MemoryStoreError without a disk."""
    towns = [
        _compare(reader, READ, make_readers_corpus(num_towns * seed + town), embedder)
        for town in range(num_towns)
    ]
    return {name: _mean([town[name] for town in towns]) for name in towns[0]}


def _mean(figures: Sequence[GainFigures]) -> GainFigures:
    logs = [math.log(row.perplexity) for row in figures]
    return GainFigures(fmean(row.exact_match for row in figures), math.exp(fmean(logs)))


def _compare(
    model: LanguageModel, form: Form, corpus: Corpus, embedder: Embedder | None
) -> dict[str, GainFigures]:
    """Compare either side alone, both aggregated, and all documents on one side."""
    embedder = embedder or MiniLmEmbedder()
    with (
        tempfile.TemporaryDirectory() as folder,
        MemoryStore(Path(folder) / "device.db", embedder) as private_store,
        MemoryStore(Path(folder) / "cloud.db", embedder) as public_store,
    ):
        for store, facts in ((private_store, corpus.device_facts), (public_store, corpus.cloud_facts)):
            for fact in facts:
                store.add(fact)
        of_device, of_cloud = (private_store, form.device_documents), (public_store, form.cloud_documents)
        device, cloud = recalled_documents(form, of_device), recalled_documents(form, of_cloud)
        both = recalled_documents(form, of_device, of_cloud)
        return {
            "the device alone": _measure(model, form, corpus, device, device, "alone"),
            "the cloud alone": _measure(model, form, corpus, cloud, cloud, "alone"),
            "both, aggregated": _measure(model, form, corpus, device, cloud, "speculative"),
            "both in one place": _measure(model, form, corpus, both, cloud, "alone"),
        }


def _measure(
    model: LanguageModel, form: Form, corpus: Corpus, device: Retrieve, cloud: Retrieve, sync: str
) -> GainFigures:
    config = AggregationConfig("alone") if sync == "alone" else AggregationConfig()
    num_right, log_probs = 0, []
    for question, answer in zip(corpus.questions, corpus.answers, strict=True):
        prompt = Prompt(form.prompt(question, ()), b"")
        peers = VirtualPeers(model, model, config, PeerWorld(frame_bytes), device, cloud)
        text = peers.decode(DecodeRequest(prompt, ANSWER_TOKENS, 100.0)).text
        num_right += text == answer
        log_probs += log_probabilities(model, prompt, answer + form.end, device, cloud, sync == "alone")
    return GainFigures(num_right / len(corpus.answers), math.exp(-sum(log_probs) / len(log_probs)))


def log_probabilities(
    model: LanguageModel, prompt: Prompt, answer: str, device: Retrieve, cloud: Retrieve, alone: bool
) -> list[float]:
    """Return the log of the mixture's probability of each token of the right answer."""
    tokens = tuple(model.tokenizer.encode(answer))
    worker = DocumentWorker(model)
    contexts = {"device": device(prompt), "cloud": cloud(prompt)}
    for side, documents in contexts.items():
        worker.prefill(side, documents, len(tokens))
    weights = [log_weight(contexts[side]) * LOG_WEIGHT_UNIT for side in ("device", "cloud")]
    share = 1.0 if alone else device_share(weights[0], weights[1]) / FULL_SHARE
    result = []
    for position, token in enumerate(tokens):
        of_device, of_cloud = (
            float(worker.distribution(side, tokens[:position], Sampling(1.0))[token]) for side in contexts
        )
        result.append(math.log(share * of_device + (1.0 - share) * of_cloud))
    return result
