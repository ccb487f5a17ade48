# SPDX-License-Identifier: Apache-2.0
"""`outrider eval documents`: a published model answers from private and public documents, in one text.

Two peers with the same model write it (`decoding.aggregation`), on the virtual clock with processor times
measured here. Their answers are compared with the answers of each side alone, and with those of one side that
has the documents of both in its prompt.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from outrider.core.files.terminal import tracked
from outrider.core.language.prompt import END_OF_TEXT
from outrider.core.language.questions import Slots, question_prompt
from outrider.core.link_profile import LinkProfile
from outrider.core.model_options import Precision
from outrider.core.ports import Embedder, LanguageModel
from outrider.core.values import Decoded, DecodeRequest, Prompt, Recalled, Verified
from outrider.decoding.aggregation.config import AggregationConfig
from outrider.decoding.aggregation.virtual import PeerCompute, PeerWorld, VirtualPeers
from outrider.decoding.aggregation.worker import Context, Retrieve
from outrider.decoding.fakes.replay import ReplayModel
from outrider.evaluation.aggregation.question_corpus import log_probabilities
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.tables import optional, print_results, results_table
from outrider.evaluation.pair.latency import measure_compute
from outrider.evaluation.weights.published_pair import load_target
from outrider.memory.embedding import MiniLmEmbedder
from outrider.memory.store.store import MemoryStore
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.datasets.held_out import Pair
from outrider.runtime.datasets.published_weights import Size
from outrider.runtime.datasets.two_sided_questions import TwoSided, holds, two_sided_questions
from outrider.runtime.wiring.knowledge import fitting_context
from outrider.wire.codec import frame_bytes

ANSWER_TOKENS = 32
DOCUMENTS = 2
"""Documents that each side puts into a prompt."""
ONE_WAY_MS = (20, 100)
ALONE, TOGETHER = AggregationConfig("alone"), AggregationConfig()
METHODS = {
    "device": ALONE,
    "sequence": AggregationConfig("sequence"),
    "token": AggregationConfig("token"),
    "dragon": TOGETHER,
}
DEADLINE_S = 1e6
TIMED_FORWARDS = 4


@dataclass(frozen=True)
class Question:
    """A question with the documents retrieved for it. Its answer has at most `tokens` tokens.

    `contexts`: those of the `device` and of the `cloud`, and `both` in one prompt. `masked` has the private
    documents as `ask` shows them to a model, with slots that only the robot fills in.
    """

    entry: TwoSided
    slots: Slots
    contexts: Mapping[str, Context]
    tokens: int

    def documents(self, name: str) -> Retrieve:
        """Returns a retrieval function that always gives the context of this name."""
        return lambda _: (self.contexts[name],)

    @property
    def request(self) -> DecodeRequest:
        """The request for the question without documents."""
        return DecodeRequest(Prompt(question_prompt(self.entry.question), b""), self.tokens, DEADLINE_S)


@dataclass(frozen=True)
class Answers:
    """Answers from one of BODIES: the shares that hold the private fact, the public one, and both.

    `perplexity`: that of the right answers; None where documents are masked.
    """

    documents: str
    private: float
    public: float
    both: float
    perplexity: float | None


@dataclass(frozen=True)
class Latency:
    """Times and traffic of one method over a link with this delay. `token_ms`: per token, without prompts."""

    method: str
    one_way_ms: int
    token_ms: float
    first_token_ms: float
    bytes_up_per_token: float
    bytes_down_per_token: float


def evaluate_documents(
    questions: int,
    size: Size = "0.5b",
    precision: Precision = "bf16",
    json_file: Path | None = None,
    model: LanguageModel | None = None,
    embedder: Embedder | None = None,
    answer_tokens: int = ANSWER_TOKENS,
) -> dict[str, Any]:
    """Measure, print tables, write JSON. Raises ModelError without weights, and ConfigError."""
    entries = two_sided_questions(questions)
    model = model or load_target(size, precision)
    retrieved = retrieve_all(entries, model, embedder or MiniLmEmbedder(), answer_tokens)
    prompts = [item.contexts["device"].prompt for item in retrieved]
    compute = measure_compute(Pair(model, model), prompts[:TIMED_FORWARDS], TIMED_FORWARDS)
    peer = PeerCompute(compute.draft_prefill_s, compute.draft_token_s)
    replayed_model = ReplayModel(model)
    answers = [answers_of(replayed_model, retrieved, *item) for item in tracked(BODIES.items(), "documents")]
    latencies = [
        latency_of(replayed_model, retrieved, name, delay_ms, peer)
        for delay_ms in ONE_WAY_MS
        for name in tracked(METHODS, f"{delay_ms} ms", total=len(METHODS))
    ]
    figures = {
        "questions": questions,
        "model": f"{size} {precision}",
        "compute": asdict(peer),
        "answers": [asdict(item) for item in answers],
        "latencies": [asdict(item) for item in latencies],
    }
    table = results_table(
        "answers that hold both facts, greedy", *LEGENDS["eval documents"], rows=map(_cells, answers)
    )
    print_results(table, *map(_latency_line, latencies))
    write_figures(json_file, figures)
    return figures


def retrieve_all(
    entries: Sequence[TwoSided], model: LanguageModel, embedder: Embedder, tokens: int
) -> list[Question]:
    """Returns the questions with documents; each side searches its own documents, of all entries together.

    Raises MemoryStoreError without a disk.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        MemoryStore(Path(folder) / "device.db", embedder) as private_store,
        MemoryStore(Path(folder) / "cloud.db", embedder) as public_store,
    ):
        for entry in entries:
            private_store.add(entry.told)
            public_store.add(entry.known)
        return [
            _question_with_documents(
                entry,
                private_store.recall(entry.question, DOCUMENTS),
                public_store.recall(entry.question, DOCUMENTS),
                model,
                tokens,
            )
            for entry in entries
        ]


def _question_with_documents(
    entry: TwoSided,
    private: Sequence[Recalled],
    public: Sequence[Recalled],
    model: LanguageModel,
    tokens: int,
) -> Question:
    slots = Slots(entry.question)
    private_texts = [(one.record.text, one.score) for one in private]
    public_texts = [(one.record.text, one.score) for one in public]
    masked = [(slots.mask(text), score) for text, score in private_texts]
    by_name = {
        "device": private_texts,
        "masked": masked,
        "cloud": public_texts,
        "both": private_texts + public_texts,
    }
    contexts = {name: fitting_context(entry.question, texts, model) for name, texts in by_name.items()}
    return Question(entry, slots, contexts, tokens)


BODIES: dict[str, tuple[str, str, AggregationConfig]] = {
    "the robot's": ("device", "cloud", ALONE),
    "the cloud's": ("cloud", "cloud", ALONE),
    "both, aggregated": ("device", "cloud", TOGETHER),
    "both, aggregated, the robot's masked": ("masked", "cloud", TOGETHER),
    "both in one prompt": ("both", "cloud", ALONE),
}
"""For each comparison: the context of the device, that of the cloud, and how the two write."""


def answers_of(
    model: LanguageModel, retrieved: Sequence[Question], name: str, body: tuple[str, str, AggregationConfig]
) -> Answers:
    """Returns how often answers from one of BODIES hold the private and the public fact."""
    world, texts = PeerWorld(frame_bytes), list[str]()
    for question in retrieved:
        [(decoded, _)] = _decode(model, [question], body, world)
        texts.append(question.slots.fill(decoded.text))
    private = [holds(text, question.entry.private) for text, question in zip(texts, retrieved, strict=True)]
    public = [holds(text, question.entry.public) for text, question in zip(texts, retrieved, strict=True)]
    both = [first and second for first, second in zip(private, public, strict=True)]
    perplexity = None if "masked" in body else _perplexity(model, retrieved, body)
    return Answers(name, fmean(private), fmean(public), fmean(both), perplexity)


def _perplexity(
    model: LanguageModel, retrieved: Sequence[Question], body: tuple[str, str, AggregationConfig]
) -> float:
    """The perplexity of the right answers, by the mixture of both sides or by the one side that writes."""
    device, cloud, config = body
    log_probs: list[float] = []
    for question in retrieved:
        answer = question.entry.answer + END_OF_TEXT
        for name in {device, cloud}:
            session = model.open_session()
            session.prefill(question.contexts[name].prompt)
            session.forward(model.tokenizer.encode(answer))  # now the replay has all the answer's tokens
        sides = question.documents(device), question.documents(cloud)
        log_probs += log_probabilities(model, question.request.prompt, answer, *sides, config is ALONE)
    return math.exp(-fmean(log_probs))


def latency_of(
    model: LanguageModel, retrieved: Sequence[Question], method: str, one_way_ms: int, compute: PeerCompute
) -> Latency:
    """Returns the mean latency and traffic of all answers; the cloud has the same processor as the robot."""
    link = LinkProfile(delay_s=one_way_ms / 1e3)
    world = PeerWorld(frame_bytes, compute, compute, link, link)
    texts = _decode(model, retrieved, ("device", "cloud", METHODS[method]), world)
    tokens = sum(len(text.token_ids) for text, _ in texts)
    return Latency(
        method=method,
        one_way_ms=one_way_ms,
        token_ms=1e3 * sum(text.elapsed_s - compute.prefill_s for text, _ in texts) / tokens,
        first_token_ms=1e3 * fmean(first_s for _, first_s in texts),
        bytes_up_per_token=sum(text.speculation.bytes_up for text, _ in texts) / tokens,
        bytes_down_per_token=sum(text.speculation.bytes_down for text, _ in texts) / tokens,
    )


def _decode(
    model: LanguageModel,
    retrieved: Sequence[Question],
    body: tuple[str, str, AggregationConfig],
    world: PeerWorld,
) -> list[tuple[Decoded, float]]:
    """The answers, each with the seconds to its first token."""
    device, cloud, config = body
    answers = []
    for question in retrieved:
        first: list[Verified] = []
        peers = VirtualPeers(
            model, model, config, world, question.documents(device), question.documents(cloud)
        )
        decoded = peers.decode(question.request, first.append)
        answers.append((decoded, first[0].elapsed_s))
    return answers


def _cells(answers: Answers) -> tuple[str, ...]:
    shares = (f"{share:.2f}" for share in (answers.both, answers.private, answers.public))
    return (answers.documents, *shares, optional(answers.perplexity, ".2f"))


def _latency_line(latency: Latency) -> str:
    return (
        f"{latency.method}, {latency.one_way_ms} ms one way: {latency.token_ms:.0f} ms a token, "
        f"the first after {latency.first_token_ms:.0f} ms, {latency.bytes_up_per_token:.0f} B up and "
        f"{latency.bytes_down_per_token:.0f} B down a token"
    )
