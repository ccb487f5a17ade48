# SPDX-License-Identifier: Apache-2.0
"""`outrider eval documents`: a published model answers from private and public documents, in one text.

Two peers with the same model write it (`decoding.aggregation`), on the virtual clock with processor times
measured here. Their answers are compared with those of either side alone, and of one that has both sides'
documents in its prompt.
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
"""Of each side in a prompt."""
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
class Asked:
    """A question with what was found for it: `contexts` of the `device`, the `cloud`, and `both` in one. Its
    answer has at most so many `tokens`.

    `masked`: the private documents as `ask` shows them to a model, with slots that only the robot fills in.
    """

    entry: TwoSided
    slots: Slots
    contexts: Mapping[str, Context]
    tokens: int

    def documents(self, name: str) -> Retrieve:
        """What a side with one of the contexts retrieves."""
        return lambda _: (self.contexts[name],)

    @property
    def request(self) -> DecodeRequest:
        """The question without documents."""
        return DecodeRequest(Prompt(question_prompt(self.entry.question), b""), self.tokens, DEADLINE_S)


@dataclass(frozen=True)
class Answers:
    """Of one body of documents: shares of answers that hold the private fact, the public one, and both; the
    perplexity of the right answers, where they can be said without slots.
    """

    documents: str
    private: float
    public: float
    both: float
    perplexity: float | None


@dataclass(frozen=True)
class Latency:
    """Of a way to write one text, over a link with this delay. `token_ms`: a token, prompts left out."""

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
    asked = retrieve_all(entries, model, embedder or MiniLmEmbedder(), answer_tokens)
    prompts = [one.contexts["device"].prompt for one in asked]
    compute = measure_compute(Pair(model, model), prompts[:TIMED_FORWARDS], TIMED_FORWARDS)
    peer = PeerCompute(compute.draft_prefill_s, compute.draft_token_s)
    remembered = ReplayModel(model)
    answers = [answers_of(remembered, asked, *one) for one in tracked(BODIES.items(), "documents")]
    latencies = [
        latency_of(remembered, asked, name, delay_ms, peer)
        for delay_ms in ONE_WAY_MS
        for name in tracked(METHODS, f"{delay_ms} ms", total=len(METHODS))
    ]
    figures = {
        "questions": questions,
        "model": f"{size} {precision}",
        "compute": asdict(peer),
        "answers": [asdict(one) for one in answers],
        "latencies": [asdict(one) for one in latencies],
    }
    table = results_table(
        "answers that hold both facts, greedy", *LEGENDS["eval documents"], rows=map(_cells, answers)
    )
    print_results(table, *map(_latency_line, latencies))
    write_figures(json_file, figures)
    return figures


def retrieve_all(
    entries: Sequence[TwoSided], model: LanguageModel, embedder: Embedder, tokens: int
) -> list[Asked]:
    """Each side searches its own documents, those of all entries. Raises MemoryStoreError without a disk."""
    with (
        tempfile.TemporaryDirectory() as folder,
        MemoryStore(Path(folder) / "device.db", embedder) as own,
        MemoryStore(Path(folder) / "cloud.db", embedder) as general,
    ):
        for entry in entries:
            own.add(entry.told)
            general.add(entry.known)
        return [
            _asked(
                entry,
                own.recall(entry.question, DOCUMENTS),
                general.recall(entry.question, DOCUMENTS),
                model,
                tokens,
            )
            for entry in entries
        ]


def _asked(
    entry: TwoSided,
    private: Sequence[Recalled],
    public: Sequence[Recalled],
    model: LanguageModel,
    tokens: int,
) -> Asked:
    slots = Slots(entry.question)
    told = [(one.record.text, one.score) for one in private]
    known = [(one.record.text, one.score) for one in public]
    masked = [(slots.mask(text), score) for text, score in told]
    found = {"device": told, "masked": masked, "cloud": known, "both": told + known}
    contexts = {name: fitting_context(entry.question, some, model) for name, some in found.items()}
    return Asked(entry, slots, contexts, tokens)


BODIES: dict[str, tuple[str, str, AggregationConfig]] = {
    "the robot's": ("device", "cloud", ALONE),
    "the cloud's": ("cloud", "cloud", ALONE),
    "both, aggregated": ("device", "cloud", TOGETHER),
    "both, aggregated, the robot's masked": ("masked", "cloud", TOGETHER),
    "both in one prompt": ("both", "cloud", ALONE),
}
"""Which documents the device and the cloud have, and how they write."""


def answers_of(
    model: LanguageModel, asked: Sequence[Asked], name: str, body: tuple[str, str, AggregationConfig]
) -> Answers:
    """What answers from one of BODIES hold."""
    world, texts = PeerWorld(frame_bytes), list[str]()
    for one in asked:
        [(decoded, _)] = _decode(model, [one], body, world)
        texts.append(one.slots.fill(decoded.text))
    private = [holds(text, one.entry.private) for text, one in zip(texts, asked, strict=True)]
    public = [holds(text, one.entry.public) for text, one in zip(texts, asked, strict=True)]
    both = [first and second for first, second in zip(private, public, strict=True)]
    perplexity = None if "masked" in body else _perplexity(model, asked, body)
    return Answers(name, fmean(private), fmean(public), fmean(both), perplexity)


def _perplexity(
    model: LanguageModel, asked: Sequence[Asked], body: tuple[str, str, AggregationConfig]
) -> float:
    """Of the right answers, by the mixture of both sides or by the one that writes alone."""
    device, cloud, config = body
    log_probs: list[float] = []
    for one in asked:
        answer = one.entry.answer + END_OF_TEXT
        for name in {device, cloud}:
            session = model.open_session()
            session.prefill(one.contexts[name].prompt)
            session.forward(model.tokenizer.encode(answer))  # one forward, remembered, for all its tokens
        sides = one.documents(device), one.documents(cloud)
        log_probs += log_probabilities(model, one.request.prompt, answer, *sides, config is ALONE)
    return math.exp(-fmean(log_probs))


def latency_of(
    model: LanguageModel, asked: Sequence[Asked], method: str, one_way_ms: int, compute: PeerCompute
) -> Latency:
    """What the answers to all questions take; the cloud has a processor like the robot's."""
    link = LinkProfile(delay_s=one_way_ms / 1e3)
    world = PeerWorld(frame_bytes, compute, compute, link, link)
    texts = _decode(model, asked, ("device", "cloud", METHODS[method]), world)
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
    asked: Sequence[Asked],
    body: tuple[str, str, AggregationConfig],
    world: PeerWorld,
) -> list[tuple[Decoded, float]]:
    """The answers, each with the seconds to its first token."""
    device, cloud, config = body
    answers = []
    for one in asked:
        first: list[Verified] = []
        peers = VirtualPeers(model, model, config, world, one.documents(device), one.documents(cloud))
        decoded = peers.decode(one.request, first.append)
        answers.append((decoded, first[0].elapsed_s))
    return answers


def _cells(one: Answers) -> tuple[str, ...]:
    shares = (f"{share:.2f}" for share in (one.both, one.private, one.public))
    return (one.documents, *shares, optional(one.perplexity, ".2f"))


def _latency_line(one: Latency) -> str:
    return (
        f"{one.method}, {one.one_way_ms} ms one way: {one.token_ms:.0f} ms a token, the first after "
        f"{one.first_token_ms:.0f} ms, {one.bytes_up_per_token:.0f} B up and "
        f"{one.bytes_down_per_token:.0f} B down a token"
    )
