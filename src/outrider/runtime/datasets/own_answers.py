# SPDX-License-Identifier: Apache-2.0
"""What a language model itself answers, as training data for its early exits: resumable shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from outrider.core.files.writing import checked_folder, replace_file
from outrider.core.language.endings import has_ended
from outrider.core.ports import Chunk, LanguageModel
from outrider.core.training_data import Example, Query, Shard
from outrider.core.values import Prompt
from outrider.runtime.datasets.real_prompts import asked

TOGETHER = 8
"""Questions of a shard, which are answered as one batch: it takes little longer than one of them."""


def write_answers(
    folder: Path, model: LanguageModel, questions: Sequence[str], tokens: int
) -> Iterator[Path]:
    """Write what is missing of the shards, yielding each as it is done. Raises ConfigError."""
    checked_folder(folder)
    for index, start in enumerate(range(0, len(questions), TOGETHER)):
        path = folder / f"shard-{index:04d}.msgpack"
        if not path.exists():
            some = questions[start : start + TOGETHER]
            answers = greedy_answers(model, some, tokens)
            examples = [
                Example(b"", b"", [Query(question, answer)])
                for question, answer in zip(some, answers, strict=True)
            ]
            replace_file(path, msgspec.msgpack.encode(Shard(examples)))
        yield path


def greedy_answers(model: LanguageModel, questions: Sequence[str], tokens: int) -> list[str]:
    """The likeliest answers, without their end token, of so many tokens at most."""
    answers = greedy_ids(model, [asked(question) for question in questions], tokens)
    kept = [[token for token in answer if token not in model.end_ids] for answer in answers]
    return [model.tokenizer.decode(answer) for answer in kept]


def greedy_ids(model: LanguageModel, prompts: Sequence[Prompt], tokens: int) -> list[list[int]]:
    """The likeliest texts as one batch, each up to its end token or so many tokens."""
    sessions = [model.open_session() for _ in prompts]
    texts = [
        [int(session.prefill(prompt).argmax())] for session, prompt in zip(sessions, prompts, strict=True)
    ]
    for _ in range(tokens - 1):
        open_ones = [n for n, text in enumerate(texts) if not has_ended(text, model.end_ids)]
        chunks = [Chunk(sessions[n], texts[n][-1:]) for n in open_ones]
        for n, rows in zip(open_ones, model.forward_together(chunks) if chunks else [], strict=True):
            texts[n].append(int(rows[-1].argmax()))
    return texts
