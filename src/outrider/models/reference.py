# SPDX-License-Identifier: Apache-2.0
"""transformers' own `generate` on the runtime's prompts: the reference for measurements and tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from transformers import GenerationConfig

from outrider.core.errors import ModelError
from outrider.core.model_options import DEFAULT_MAX_LENGTH
from outrider.core.values import Prompt
from outrider.models.checkpoint.preprocessor_config import read_preprocessing
from outrider.models.checkpoint.weights import read_checkpoint
from outrider.models.inputs.images import Preprocessing, decode_jpeg, fit_to_model, patchify
from outrider.models.text.tokenizer import load_tokenizer


class ReferenceGenerator:
    """A checkpoint's modules, run by transformers."""

    def __init__(
        self, folder: Path, max_length: int = DEFAULT_MAX_LENGTH, dtype: torch.dtype = torch.float32
    ) -> None:
        """`max_length` bounds a picture as in the runtime.

        Raises ModelError like `load_model`, and for a quantized checkpoint, which these modules do not run.
        """
        self._tokenizer = load_tokenizer(folder)
        checkpoint = read_checkpoint(folder, dtype)
        if checkpoint.layers is not None:
            raise ModelError(f"{folder} is quantized: generate with the checkpoint that is not")
        self._modules = checkpoint.modules
        # A folder's own configuration may penalise repetition, as Qwen2.5-VL's does, and suppress end tokens.
        self._modules.generation_config = GenerationConfig()
        self._how = read_preprocessing(folder, self._modules.config, max_length)

    @torch.inference_mode()
    def generate(self, prompt: Prompt, num_tokens: int) -> list[int]:
        """Return exactly `num_tokens` tokens, decoded greedily; an end token does not end them."""
        inputs = self._inputs(prompt)
        ids = self._modules.generate(
            **inputs, max_new_tokens=num_tokens, min_new_tokens=num_tokens, do_sample=False
        )
        new: list[int] = ids[0, inputs["input_ids"].shape[1] :].tolist()
        return new

    @torch.inference_mode()
    def rows(self, prompt: Prompt, token_ids: Sequence[int]) -> Tensor:
        """Return float32 logits (1 + n, V) after the prompt and after each of the n tokens that follow it."""
        output = self._modules(**self._inputs(prompt, token_ids), logits_to_keep=1 + len(token_ids))
        rows: Tensor = output.logits[0, :, : self._tokenizer.vocab_size]
        return rows.float()

    def _inputs(self, prompt: Prompt, following: Sequence[int] = ()) -> dict[str, Tensor]:
        token_ids = self._tokenizer.encode_prompt(prompt.text)
        pictures: dict[str, Tensor] = {}
        if self._how is not None:
            token_ids, pictures = self._with_picture(token_ids, prompt.jpeg, self._how)
        ids = torch.tensor([[*token_ids, *following]])
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if pictures:
            inputs["mm_token_type_ids"] = ids.eq(self._tokenizer.image_id or 0).int()
        return inputs | pictures

    def _with_picture(
        self, token_ids: list[int], jpeg: bytes, how: Preprocessing
    ) -> tuple[list[int], dict[str, Tensor]]:
        """Return a prompt's ids with those of its picture, and the inputs of the vision tower."""
        image_id = self._tokenizer.image_id
        assert image_id is not None
        rgb = fit_to_model(decode_jpeg(jpeg), how)
        rows, columns = (side // how.patch_px for side in rgb.shape[:2])
        at = token_ids.index(image_id)
        token_ids[at : at + 1] = [image_id] * (rows * columns // how.merge**2)
        return token_ids, {
            "pixel_values": torch.from_numpy(patchify(rgb, how)),
            "image_grid_thw": torch.tensor([[1, rows, columns]]),
        }
