# SPDX-License-Identifier: Apache-2.0
"""A draft model on static graphs, behind `core.ports`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from weakref import WeakSet, WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from outrider.core.errors import ConfigError, OutOfMemoryError
from outrider.core.ports import Chunk, ExitReader, ModelSession, OnExit, Pause, finish
from outrider.core.values import Prompt, Successors
from outrider.models.backbone.mrope import text_positions
from outrider.models.backbone.out_of_memory import reporting_out_of_memory
from outrider.models.checkpoint.card import ModelCard
from outrider.models.inputs.vision import VisionEncoder
from outrider.models.onnx.blocks import GraphCache, Rows, Slots, Strand
from outrider.models.onnx.language import GraphLanguage
from outrider.models.onnx.slots import Node, SlotTree
from outrider.models.text.prompt_layout import PromptLayout, lay_out, require_room
from outrider.models.text.tokenizer import QwenTokenizer


@dataclass(frozen=True, eq=False)
class Prompted:
    """A prompt in a cache, with what sessions write after it.

    `rest`: its tokens after the image, in the slots from `image_end` on; their last layer's output is
    `hidden` (M, H). `row` (V,) are the logits after the prompt.
    """

    prompt: Prompt
    cache: GraphCache
    tree: SlotTree
    rest: tuple[Node, ...]
    image_end: int
    rope_delta: int
    hidden: Tensor
    row: Tensor
    sessions: WeakSet[GraphSession] = field(default_factory=WeakSet)

    def make_room(self, num_tokens: int) -> None:
        """Make room for `num_tokens`: if it is short, free the slots that no session uses.

        Raises OutOfMemoryError if that leaves too few.
        """
        if self.tree.num_free < num_tokens:
            self.tree.keep_only([self.rest, *(session.path for session in self.sessions)])
        if self.tree.num_free < num_tokens:
            raise OutOfMemoryError(
                f"branches of a text fill the {self.cache.keys.shape[2]} slots of static graphs: "
                "fewer of them, or a larger max_length"
            )


@dataclass(frozen=True, eq=False)
class Appended:
    """Tokens that a batch appends to a session's text, and their `nodes`."""

    session: GraphSession
    token_ids: Sequence[int]
    nodes: list[Node] = field(default_factory=list)


class GraphModel:
    """Implements `core.ports.LanguageModel`. Sessions of one prompt share its cache, and run together."""

    exits = None
    shares_prompts = True

    def __init__(
        self,
        name: str,
        tokenizer: QwenTokenizer,
        language: GraphLanguage,
        vision: VisionEncoder | None,
        max_length: int,
        card: ModelCard,
    ) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self.vocab_size = tokenizer.vocab_size
        self.end_ids = tokenizer.end_ids
        self.max_length = max_length
        self.card = card
        self.language = language
        self.vision = vision
        self.prompted: WeakValueDictionary[Prompt, Prompted] = WeakValueDictionary()

    def open_session(self) -> GraphSession:
        """Return a new session with an empty cache."""
        return GraphSession(self)

    @torch.inference_mode()
    def forward_together(
        self, chunks: Sequence[Chunk], read: ExitReader | None = None, pause: Pause | None = None
    ) -> list[Tensor]:
        """Run all chunks of one prompt together, with a pause between blocks; there are no exits to read.

        Raises ConfigError if a text outgrows its cache, OutOfMemoryError if its branches do; no session
        changes then.
        """
        if len({id(chunk.session) for chunk in chunks}) < len(chunks):
            raise ValueError("a batch takes one chunk of a session")
        appended: dict[Prompted, list[Appended]] = {}
        for chunk in chunks:
            session = self.own(chunk.session)
            require_room(session.length + len(chunk.token_ids), self.max_length)
            appended.setdefault(session.after, []).append(Appended(session, chunk.token_ids))
        logits: dict[GraphSession, Tensor] = {}
        for prompted, texts in appended.items():
            logits |= self._forward(prompted, texts, pause)
        for texts in appended.values():
            for text in texts:
                text.session.path += text.nodes
        return [logits[self.own(chunk.session)] for chunk in chunks]

    def own(self, session: ModelSession) -> GraphSession:
        """Return the session. Raises ValueError if it belongs to another model."""
        if not isinstance(session, GraphSession) or session.model is not self:
            raise ValueError("a batch takes sessions of one model")
        return session

    def _forward(
        self, prompted: Prompted, texts: Sequence[Appended], pause: Pause | None
    ) -> dict[GraphSession, Tensor]:
        """Return the logits (M, V) of each session's tokens."""
        prompted.make_room(sum(len(text.token_ids) for text in texts))
        for text in texts:
            text.nodes.extend(prompted.tree.extend(text.session.path, text.token_ids))
        hidden = self.language.forward(self._rows(prompted, texts), prompted.cache, pause)
        rows = self.language.logits(hidden).split([len(text.nodes) for text in texts])
        return {text.session: own for text, own in zip(texts, rows, strict=True)}

    def _rows(self, prompted: Prompted, texts: Sequence[Appended]) -> Rows:
        before = np.arange(prompted.image_end)
        ends = accumulate((len(text.nodes) for text in texts), initial=0)
        strands = tuple(
            Strand(begin, end, np.concatenate([before, _slots(text.session.path)]))
            for text, (begin, end) in zip(texts, pairwise(ends), strict=True)
        )
        positions = [
            text_positions(text.session.length + prompted.rope_delta, len(text.nodes)) for text in texts
        ]
        hidden = self.language.embed([token_id for text in texts for token_id in text.token_ids])
        slots = _slots([node for text in texts for node in text.nodes])
        return self.language.rows(hidden, torch.cat(positions, dim=-1), slots, strands)


class GraphSession:
    """Implements `core.ports.SharingSession`: a path through the texts written after a prompt."""

    def __init__(self, model: GraphModel) -> None:
        self._model = model
        self._after: Prompted | None = None
        self.path: list[Node] = []
        """The nodes of the tokens after the prompt's image."""

    @property
    def model(self) -> GraphModel:
        """The model of the session."""
        return self._model

    @property
    def after(self) -> Prompted:
        """The prompt of this session. Raises ConfigError before the first one."""
        if self._after is None:
            raise ConfigError("a draft on static graphs begins with a prompt")
        return self._after

    @property
    def length(self) -> int:
        """The number of tokens in the cache."""
        return 0 if self._after is None else self._after.image_end + len(self.path)

    def prefill(self, prompt: Prompt) -> Tensor:
        """Replace the cache by the prompt; return the logits (V,) of the first new token."""
        return finish(self.prefill_parts(prompt))

    @torch.inference_mode()
    def prefill_parts(self, prompt: Prompt) -> Generator[None, None, Tensor]:
        """Encode the frame, then run all rows; the graphs are switched meanwhile.

        A prompt that another session has is shared.
        """
        prompted = self._model.prompted.get(prompt)
        if prompted is None:
            cache = self._leave()
            layout = lay_out(self._model, prompt)
            yield
            prompted = self._run_prompt(prompt, layout, cache)
            self._model.prompted[prompt] = prompted
        self._follow(prompted, prompted.rest)
        return prompted.row

    @torch.inference_mode()
    def expected(self, count: int) -> Successors:
        """Return the `count` likeliest successors of each token after the image; none before a prefill."""
        if self._after is None:
            return Successors()
        best = self._model.language.logits(self._after.hidden).softmax(-1).topk(count)
        return Successors(best.indices.tolist(), best.values.tolist())

    def forward(self, token_ids: Sequence[int], on_exit: OnExit | None = None) -> Tensor:
        """Append tokens; return their logits (M, V). Raises ConfigError if the text outgrows the cache."""
        return self._model.forward_together([Chunk(self, token_ids)])[0]

    def truncate(self, length: int) -> None:
        """Drop everything beyond `length` tokens.

        Raises ValueError for a length above the current one, or one that cuts into the prompt's image.
        """
        shortest = self.length - len(self.path)
        if not shortest <= length <= self.length:
            raise ValueError(f"cannot truncate {self.length} tokens to {length}; at least {shortest}")
        del self.path[length - shortest :]

    def copy_from(self, other: ModelSession, start: int, length: int) -> None:
        """Follow another session's text; nothing is copied, because equal texts share slots."""
        other = self._model.own(other)
        self._follow(other.after, other.path[: length - other.after.image_end])

    def _leave(self) -> GraphCache:
        """Release the prompt; return its cache if no other session uses it, else a new one."""
        prompted, self._after, self.path = self._after, None, []
        if prompted is not None:
            prompted.sessions.discard(self)
            if not prompted.sessions:
                self._model.prompted.pop(prompted.prompt, None)
                return prompted.cache
        with reporting_out_of_memory("take in a prompt", "close other programs, or lower max_length"):
            return self._model.language.open_cache()

    def _follow(self, prompted: Prompted, path: Sequence[Node]) -> None:
        if self._after is not None:
            self._after.sessions.discard(self)
        prompted.sessions.add(self)
        self._after, self.path = prompted, list(path)

    def _run_prompt(self, prompt: Prompt, layout: PromptLayout, cache: GraphCache) -> Prompted:
        language = self._model.language
        embedded = language.embed(layout.token_ids)
        if layout.features is not None:
            embedded[layout.head_length : layout.image_end] = layout.features.tokens
        hidden = language.prefill(embedded, layout.positions, cache, layout.deep_rows())
        end, row = layout.image_end, language.logits(hidden[-1:])[0]
        tree = SlotTree(end, language.num_slots)
        rest = tuple(tree.extend((), layout.token_ids[end:]))
        return Prompted(prompt, cache, tree, rest, end, layout.rope_delta, hidden[end:], row)


def _slots(nodes: Sequence[Node]) -> Slots:
    return np.array([node.slot for node in nodes], dtype=np.int64)
