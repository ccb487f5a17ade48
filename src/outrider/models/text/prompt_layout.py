# SPDX-License-Identifier: Apache-2.0
"""Lays out a prompt as the rows that the language half reads."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

import torch.nn.functional as F
from torch import Tensor

from outrider.core.errors import ConfigError, FrameError, RoomError
from outrider.core.ports import finish
from outrider.core.values import Prompt
from outrider.models.backbone.mrope import prompt_positions
from outrider.models.backbone.vision_tower import Features
from outrider.models.checkpoint.architectures import SEEING
from outrider.models.inputs.vision import VisionEncoder
from outrider.models.text.tokenizer import IMAGE_TOKEN, QwenTokenizer


class PromptReader(Protocol):
    """A reader of prompts: a tokenizer, room for `max_length` tokens, and a vision tower if it sees."""

    name: str
    tokenizer: QwenTokenizer
    vision: VisionEncoder | None
    max_length: int


@dataclass(frozen=True)
class PromptLayout:
    """A prompt as rows: ids and positions (3, L) with the image's tokens expanded, and its features."""

    token_ids: tuple[int, ...]
    positions: Tensor
    head_length: int
    features: Features | None

    @property
    def length(self) -> int:
        """The number of rows, image tokens included."""
        return len(self.token_ids)

    @property
    def image_end(self) -> int:
        """The index of the first row after the image."""
        return self.head_length + (0 if self.features is None else len(self.features.tokens))

    def deep_rows(self) -> list[Tensor]:
        """Return what is added to all rows (L, hidden) after each of the first layers;
        0 outside the image.
        """
        after = self.length - self.image_end
        deep = () if self.features is None else self.features.deep
        return [F.pad(one, (0, 0, self.head_length, after)) for one in deep]

    @property
    def rope_delta(self) -> int:
        """What is added to a row's index after the prompt to get its position."""
        return int(self.positions.max()) + 1 - self.length


def lay_out(model: PromptReader, prompt: Prompt) -> PromptLayout:
    """Lay out a prompt like `lay_out_parts`, without pauses."""
    return finish(lay_out_parts(model, prompt))


def lay_out_parts(model: PromptReader, prompt: Prompt) -> Generator[None, None, PromptLayout]:
    """Lay out a prompt. The frame is encoded in parts, between which other work may run.

    Raises FrameError for a bad JPEG, ConfigError for a prompt whose form or length cannot be run.
    """
    vision, image_id = model.vision, model.tokenizer.image_id
    if vision is None and IMAGE_TOKEN in prompt.text:
        raise ConfigError(f"{model.name} is a text model, and the prompt has a picture: {SEEING}")
    token_ids = tuple(model.tokenizer.encode_prompt(prompt.text))
    num_placeholders = 0 if image_id is None or vision is None else token_ids.count(image_id)
    if not token_ids or num_placeholders > 1:
        raise ConfigError(f"a prompt needs text and at most one {IMAGE_TOKEN}, got {num_placeholders}")
    if vision is None or image_id is None or num_placeholders == 0:
        require_room(len(token_ids), model.max_length)
        return PromptLayout(token_ids, prompt_positions(0, 0, 0, len(token_ids)), 0, None)
    if not prompt.jpeg:
        raise FrameError("the prompt asks for a frame but has none: wait for the camera's first frame")
    require_room(len(token_ids) - 1 + vision.count_tokens(prompt.jpeg), model.max_length)
    image = yield from vision.encode_parts(prompt.jpeg)
    at = token_ids.index(image_id)
    expanded = token_ids[:at] + (image_id,) * (image.rows * image.columns) + token_ids[at + 1 :]
    positions = prompt_positions(at, image.rows, image.columns, len(token_ids) - at - 1)
    return PromptLayout(expanded, positions, at, image.features)


def require_room(num_tokens: int, max_length: int) -> None:
    """Raise RoomError if `num_tokens` tokens do not fit."""
    if num_tokens > max_length:
        raise RoomError(
            f"{num_tokens} tokens do not fit a cache of max_length {max_length}: shorten the instruction or "
            "the memories, send a smaller frame, or load the model with a larger max_length"
        )
