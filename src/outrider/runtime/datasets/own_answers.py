# SPDX-License-Identifier: Apache-2.0
"""Writes a language model's own answers as training data for its early exits, in resumable shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from outrider.core.endings import has_ended
from outrider.core.files.writing import make_folder, replace_file
from outrider.core.ports import Array, Chunk, LanguageModel
from outrider.core.training_data import Example, Query, Shard
from outrider.core.values import Prompt
from outrider.decoding.acceptance.coupled import Draw, draws_on
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.runtime.datasets.real_prompts import asked

TOGETHER = 8
"""Questions of a shard. They are answered as one batch, which takes little longer than one question."""


def write_answers(
    folder: Path, model: LanguageModel, questions: Sequence[str], tokens: int
) -> Iterator[Path]:
    """Write the missing shards, and yield each path when it is done. Raises ConfigError."""
    make_folder(folder)
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
    """Returns the likeliest answers, without their end token, of at most `tokens` tokens."""
    answers = own_texts(model, [(asked(question), Sampling(0.0)) for question in questions], tokens)
    texts = [[token for token in answer if token not in model.end_ids] for answer in answers]
    return [model.tokenizer.decode(answer) for answer in texts]


def own_texts(
    model: LanguageModel, requests: Sequence[tuple[Prompt, Sampling]], tokens: int
) -> list[list[int]]:
    """Returns texts that the model decodes alone, in one batch, each to its end or to `tokens` tokens."""
    sessions = [model.open_session() for _ in requests]
    samplings = [sampling for _, sampling in requests]
    texts: list[list[int]] = [[] for _ in requests]
    for n, (prompt, sampling) in enumerate(requests):
        texts[n].append(_chosen(sessions[n].prefill(prompt), sampling, 0))
    for position in range(1, tokens):
        open_ones = [n for n, text in enumerate(texts) if not has_ended(text, model.end_ids)]
        chunks = [Chunk(sessions[n], texts[n][-1:]) for n in open_ones]
        for n, rows in zip(open_ones, model.forward_together(chunks) if chunks else [], strict=True):
            texts[n].append(_chosen(rows[-1], samplings[n], position))
    return texts


def _chosen(row: Array, sampling: Sampling, position: int) -> int:
    """Returns the coupled choice from a row of logits (V,)."""
    draws = draws_on(row.device, [Draw(sampling, position)], row.shape[-1])
    return int(draws.noisy(row.unsqueeze(0)).argmax())
