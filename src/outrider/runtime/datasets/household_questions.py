# SPDX-License-Identifier: Apache-2.0
"""Questions about households outside the training data, each with the records that memory recalls."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from outrider.core.ports import Embedder
from outrider.core.values import Prompt
from outrider.memory.embedding import MiniLmEmbedder
from outrider.memory.store.store import MemoryStore
from outrider.training.household import ASKS, MAX_FACTS, make_facts

NUM_RECALLED = 2


@dataclass(frozen=True)
class Asked:
    """The prompt of a question with the records recalled for it, and the answer that follows from them."""

    prompt: Prompt
    answer: str


def household_questions(seed: int, embedder: Embedder | None = None) -> Iterator[Asked]:
    """Yields questions to one household after the other, without end.

    Each household has MAX_FACTS memories and a question about each. A question that the recalled records
    do not answer is left out, and none is repeated. Raises MemoryStoreError if a store cannot be written.
    """
    rng, embedder = random.Random(f"household {seed}"), embedder or MiniLmEmbedder()
    while True:
        yield from _asked(rng, embedder)


def _asked(rng: random.Random, embedder: Embedder) -> Iterator[Asked]:
    facts = make_facts(rng, MAX_FACTS)
    by_text = {fact.told: fact for fact in facts}
    with (
        tempfile.TemporaryDirectory() as folder,
        MemoryStore(Path(folder) / "memory.db", embedder) as memory,
    ):
        with memory.batch():
            for fact in facts:
                memory.add(fact.told)
        questions = [rng.choice(ASKS)(fact) for fact in rng.sample(facts, len(facts))]
        for question in {question.text: question for question in questions}.values():
            found = memory.recall(question.text, NUM_RECALLED)
            lesson = question.lesson([by_text[recalled.record.text] for recalled in found])
            if lesson.answer:
                yield Asked(Prompt(lesson.prompt, b""), lesson.answer)
