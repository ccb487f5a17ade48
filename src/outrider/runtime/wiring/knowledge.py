# SPDX-License-Identifier: Apache-2.0
"""The cloud's general knowledge: the model that reads it, and the documents that go into a prompt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from outrider.core.language.questions import QUOTES, question_of, question_prompt
from outrider.core.ports import Corpus, LanguageModel
from outrider.core.values import Prompt
from outrider.decoding.aggregation.quoting import QuotingModel
from outrider.decoding.aggregation.rule import log_sum_exp
from outrider.decoding.aggregation.worker import Context, Retrieve
from outrider.runtime.common.paths import model_folder, models_folder
from outrider.runtime.wiring.corpora import open_corpus

MAX_DOCUMENTS = 3
ANSWER_TOKENS = 96
ANSWER_CONTEXT_TOKENS = 1024


@dataclass(frozen=True, eq=False)
class Knowledge:
    """The sources of a cloud's answers: a corpus, and the model that reads it."""

    corpus: Corpus
    model: LanguageModel

    def __str__(self) -> str:
        count = self.corpus.count()
        passages = f"{count} {'passage' if count == 1 else 'passages'}"
        return f", answering by {self.model.name} from {passages} in {self.corpus.where}"

    def documents(self) -> Retrieve:
        """Returns the function that retrieves documents for a question."""
        return corpus_documents(self.corpus, self.model)


def open_knowledge(corpus: str, answer_model: str, threads: int = 1) -> Knowledge:
    """Open a corpus and load the model that answers. Raises MemoryStoreError and ModelError."""
    return Knowledge(open_corpus(corpus), load_reader(answer_model, threads))


def load_reader(answer_model: str, threads: int = 1) -> LanguageModel:
    """Returns the model that answers questions from documents: QUOTES, or a model folder.

    Its context has room for the documents. Raises ModelError.
    """
    from outrider.models import load_model, load_tokenizer  # takes seconds to import

    if answer_model == QUOTES:
        return QuotingModel(load_tokenizer(models_folder() / "tokenizer"))
    return load_model(model_folder(answer_model), threads=threads, max_length=ANSWER_CONTEXT_TOKENS)


def corpus_documents(corpus: Corpus, model: LanguageModel) -> Retrieve:
    """Returns a function that recalls at most MAX_DOCUMENTS documents for a question to `model`."""

    def retrieve(question: Prompt) -> tuple[Context, ...]:
        asked = question_of(question.text)
        found = [(recalled.record.text, recalled.score) for recalled in corpus.recall(asked, MAX_DOCUMENTS)]
        return (fitting_context(asked, found, model, question.jpeg),)

    return retrieve


def fitting_context(
    question: str, documents: Iterable[tuple[str, float]], model: LanguageModel, jpeg: bytes = b""
) -> Context:
    """Returns a question with as many documents as leave the model room for an answer.

    `documents` are texts with their relevance, best first. The context's relevance is the log of the sum of
    the exponentials of those that it includes, or 0 without documents.
    """
    kept: list[tuple[str, float]] = []
    for document in documents:
        prompt = question_prompt(question, [text for text, _ in (*kept, document)])
        if len(model.tokenizer.encode_prompt(prompt)) + ANSWER_TOKENS > model.max_length:
            break
        kept.append(document)
    prompt = question_prompt(question, [text for text, _ in kept])
    return Context(Prompt(prompt, jpeg), log_sum_exp([score for _, score in kept]) if kept else 0.0)
