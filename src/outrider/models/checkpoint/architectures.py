# SPDX-License-Identifier: Apache-2.0
"""The supported architectures, and their differences beyond what a configuration says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from transformers import (
    Qwen2_5_VLForConditionalGeneration,
    Qwen2ForCausalLM,
    Qwen2VLForConditionalGeneration,
    Qwen3VLForConditionalGeneration,
)

from outrider.models.inputs.images import Preprocessing

HALF = (0.5, 0.5, 0.5)
QWEN2_PICTURES = Preprocessing()


@dataclass(frozen=True)
class Architecture:
    """`family`: its name in messages. `modules`: transformers' class for it.

    `has_qkv_bias`: q, k and v have biases. `has_head_norms`: each head of q and of k is normalised.
    `mrope_section`: pairs of a head that rotate by time, row and column, if a configuration does not say;
    `interleaves_axes`: whether the axes alternate along the pairs or follow each other. `pictures`: the
    settings of its published files; None for a text model. `language`: the path of the language half in its
    modules.
    """

    family: str
    modules: Any
    has_qkv_bias: bool = True
    has_head_norms: bool = False
    mrope_section: tuple[int, int, int] = (16, 24, 24)
    interleaves_axes: bool = False
    pictures: Preprocessing | None = QWEN2_PICTURES
    language: str = "model.language_model"


ARCHITECTURES = {
    "qwen2": Architecture("Qwen2", Qwen2ForCausalLM, pictures=None, language="model"),
    "qwen2_vl": Architecture("Qwen2-VL", Qwen2VLForConditionalGeneration),
    "qwen2_5_vl": Architecture("Qwen2.5-VL", Qwen2_5_VLForConditionalGeneration),
    "qwen3_vl": Architecture(
        "Qwen3-VL",
        Qwen3VLForConditionalGeneration,
        has_qkv_bias=False,
        has_head_norms=True,
        mrope_section=(24, 20, 20),
        interleaves_axes=True,
        pictures=Preprocessing(patch_px=16, min_pixels=256**2, max_pixels=4096**2, mean=HALF, std=HALF),
    ),
}
"""The architectures, by the `model_type` of config.json."""


def families(with_pictures: bool = False) -> str:
    """Return the names of all families, or of those that read pictures, as a list for messages."""
    known = [one for one in ARCHITECTURES.values() if one.pictures is not None or not with_pictures]
    *most, last = (architecture.family for architecture in known)
    return f"{', '.join(most)} or {last}"


SEEING = f"choose a {families(with_pictures=True)} checkpoint"
"""Advice for a task with pictures that is given to a text model."""
