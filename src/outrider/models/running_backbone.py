# SPDX-License-Identifier: Apache-2.0
"""A target of any width for training its exits, frame by frame, with the forward pass that will run them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from outrider.core.language.prompt import END_OF_TEXT, INSTRUCTED_PREFIX, PROMPT_SUFFIX, TEXT_PREFIX
from outrider.core.training_data import NO_TOKEN, Example
from outrider.core.values import Prompt
from outrider.models.backbone.text_stack import RmsNorm, TextStack
from outrider.models.session import QwenModel

COMMON_TOKENS = 8192
"""The tokens of most texts: in byte-level BPE the lowest ids are the earliest, most frequent merges."""


class LastNorm:
    """The final norm with the interface of transformers' modules, on the host, where exits are fitted."""

    def __init__(self, norm: RmsNorm) -> None:
        norm, size = norm.to(torch.device("cpu")), len(norm.gain)
        self.weight = norm.gain / size**0.5
        self.variance_epsilon = float(norm.floor) ** 2 / size
        self._norm = norm

    def __call__(self, hidden: Tensor) -> Tensor:
        return self._norm(hidden)


class HeadRows:
    """The LM head, of which only the requested rows are dequantized, on the host."""

    def __init__(self, text: TextStack) -> None:
        self._text = text

    def __getitem__(self, token_ids: Tensor) -> Tensor:
        return self._text.head.columns(token_ids).t().cpu().contiguous()


class RunningBackbone:
    """The target's side of `outrider.training`: reads examples' answers as a verification reads drafts.

    It holds the states of one forward pass at a time. `prefix` is the part of the prompt before its image,
    or for a language model all before the question.
    """

    def __init__(self, model: QwenModel, prefix: str | None = None) -> None:
        sees = model.vision is not None
        self.tokenizer: Any = self._tokenize
        self.norm: Any = LastNorm(model.text.final_norm)
        self.head: Any = HeadRows(model.text)
        self.num_layers = model.text.shape.num_layers
        self.vocab_size = model.vocab_size
        self._model = model
        self.common_tokens = 0 if sees else min(COMMON_TOKENS, model.vocab_size)
        self._prefix = prefix or (INSTRUCTED_PREFIX if sees else TEXT_PREFIX)
        self._session = model.open_session()

    def _tokenize(self, texts: Sequence[str], **_: object) -> dict[str, list[list[int]]]:
        return {"input_ids": [self._model.tokenizer.encode(text) for text in texts]}

    def states(self, examples: Sequence[Example], layers: tuple[int, ...]) -> Tensor:
        """Return outputs (E + 1, K, width) of `layers` and the last one at K answer tokens, on the host."""
        queries = [
            (prompt, self._model.tokenizer.encode(answer)) for prompt, answer in self._queries(examples)
        ]
        num_tokens, width = sum(len(answer) for _, answer in queries), self._model.text.embeddings.shape[1]
        states, end = torch.empty(len(layers) + 1, num_tokens, width, dtype=torch.float32), 0
        for prompt, answer in queries:
            self._session.prefill(prompt)
            begin, end = end, end + len(answer)
            states[:, begin:end] = self._session.layer_outputs(answer, {*layers, self.num_layers})
        return states

    def answers(self, examples: Sequence[Example]) -> Tensor:
        """Return the answers' tokens (K,), as `training.frozen.backbone.Backbone.answers`."""
        tokens = [self._model.tokenizer.encode(answer) for _, answer in self._queries(examples)]
        return torch.tensor([token for answer in tokens for token in (*answer[1:], NO_TOKEN)])

    def embed(self, token_ids: Tensor) -> Tensor:
        """Return the target's embeddings of tokens: (..., width), on the host."""
        return self._model.text.embeddings[token_ids.to(self._model.text.embeddings.device)].float().cpu()

    def choices(self, last: Tensor) -> Tensor:
        """Return the likeliest token of each hidden row."""
        text = self._model.text
        return text.logits(last.to(text.embeddings.device)).argmax(-1).cpu()

    def _queries(self, examples: Sequence[Example]) -> Iterator[tuple[Prompt, str]]:
        for example in examples:
            for query in example.queries:
                text = self._prefix + query.user_text + PROMPT_SUFFIX
                yield Prompt(text, example.jpeg), query.answer + END_OF_TEXT
