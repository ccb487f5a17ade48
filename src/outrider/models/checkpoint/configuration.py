# SPDX-License-Identifier: Apache-2.0
"""Checks a checkpoint's configuration: the sizes, positions and heads of its weights."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from huggingface_hub.errors import StrictDataclassError

from outrider.core.errors import ConfigError, ModelError
from outrider.core.files.given_file import cause_of
from outrider.core.model_options import Precision
from outrider.models.backbone.mrope import RotaryTable, axes_in_sections, axes_in_turn
from outrider.models.backbone.text_stack import TextShape
from outrider.models.checkpoint.absent import CONFIG_FILE, WEIGHTS_FILE, no_config
from outrider.models.checkpoint.architectures import ARCHITECTURES, SEEING, Architecture, families
from outrider.models.checkpoint.awq_gptq import read_format
from outrider.models.checkpoint.files import check_weight_files, weight_files
from outrider.models.checkpoint.headers import check_layer_count
from outrider.models.checkpoint.settings import config_file, read_settings
from outrider.models.gguf.file import gguf_of, is_gguf
from outrider.models.quantization.integers import INT4_GROUP

SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "depth",
    "embed_dim",
    "out_hidden_size",
    "num_heads",
    "mlp_ratio",
    "in_channels",
    "patch_size",
    "spatial_merge_size",
    "temporal_patch_size",
)
"""Sizes in a configuration's text and vision parts; each part has some of these."""
TYPES = ("bfloat16", "float16", "float32", "float64")
SHARED_SIZES = (("hidden_size", "num_attention_heads"), ("num_attention_heads", "num_key_value_heads"))


def check_checkpoint(folder: Path) -> None:
    """Raise ConfigError without a folder; ModelError names a file that is missing, corrupt or unsupported."""
    if gguf_of(folder) is None and not folder.is_dir():
        raise ConfigError(
            f"{folder} is no folder: give a model folder with {CONFIG_FILE} and {WEIGHTS_FILE}, or a GGUF"
        )
    path = config_file(folder)
    if not path.exists() and not is_gguf(path):
        raise no_config(folder)
    settings = read_settings(path)
    model_type = settings.get("model_type")
    if not isinstance(model_type, str) or model_type not in ARCHITECTURES:
        raise ModelError(
            f"{path} is of model_type {model_type!r}, not one of "
            f"{', '.join(map(repr, ARCHITECTURES))}: choose a {families()} checkpoint"
        )
    _check_class(path, settings.get("architectures"), ARCHITECTURES[model_type])
    _check_types(path, settings)
    read_format(path)
    check_weight_files(folder)
    check_layer_count(path, weight_files(folder), settings)


def _check_class(path: Path, named: Any, architecture: Architecture) -> None:
    """Raise ModelError for a model with the same layers that writes no text: a classifier or an embedder."""
    wanted = architecture.modules.__name__
    if named and (not isinstance(named, list) or wanted not in named):
        raise ModelError(
            f"{path}: architectures is {named!r}, and of {architecture.family} only {wanted} is "
            "run: choose a checkpoint that writes text, or restore the file"
        )


def _check_types(path: Path, settings: dict[str, Any]) -> None:
    """Raise ModelError for a number type that weights cannot have."""
    parts = [settings, settings.get("text_config"), settings.get("vision_config")]
    for key in ("dtype", "torch_dtype"):
        for name in (part.get(key) for part in parts if isinstance(part, dict)):
            if name is not None and name not in TYPES:
                raise ModelError(
                    f"{path}: {key} is {name!r}, and must be one of {', '.join(TYPES)}: correct it, or leave "
                    "it out"
                )


def reads_pictures(folder: Path) -> bool:
    """Return whether the model of a checked folder or file reads pictures."""
    return ARCHITECTURES[read_settings(config_file(folder))["model_type"]].pictures is not None


def check_sees(folder: Path) -> None:
    """Raise ModelError if the model of a folder or file reads no pictures."""
    path = config_file(folder)
    kind = read_settings(path).get("model_type") if path.exists() else None
    if kind in ARCHITECTURES and ARCHITECTURES[kind].pictures is None:
        raise ModelError(f"{folder} is a text model ({kind}), which cannot navigate by a camera: {SEEING}")


def read_config(folder: Path) -> Any:
    """Return transformers' configuration of the checked folder.

    Raises ModelError for values that it rejects.
    """
    path = config_file(folder)
    architecture = ARCHITECTURES[read_settings(path)["model_type"]]
    kind = architecture.modules.config_class
    try:
        if is_gguf(path):
            config = kind(**read_settings(path))
        else:
            config = kind.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, TypeError, KeyError, StrictDataclassError) as error:
        raise ModelError(f"{path} cannot be used ({cause_of(error)}): restore the file") from error
    text = config.get_text_config()
    text.model_type = type(text).model_type  # transformers runs this class, whatever the file says
    if architecture.pictures is None:
        _check_sizes(f"{path}: ", config.to_dict())
    else:
        for part in ("text_config", "vision_config"):
            _check_sizes(f"{path}: {part}.", getattr(config, part).to_dict())
        _check_tower(path, config.vision_config)
        layers = getattr(config.vision_config, "deepstack_visual_indexes", ())
        if len(set(layers)) < len(layers):
            raise ModelError(
                f"{path}: deepstack_visual_indexes, {layers}, names a layer twice: restore the file"
            )
    return config


def _check_tower(path: Path, vision: Any) -> None:
    """Raise ModelError for heads whose pairs cannot rotate by rows and columns in equal parts."""
    width = getattr(vision, "embed_dim", vision.hidden_size)
    if width % (4 * vision.num_heads):
        raise ModelError(
            f"{path}: vision_config.num_heads is {vision.num_heads}, which does not part {width} into heads "
            "whose width is a multiple of 4: restore the file"
        )


def architecture_of(text_config: Any) -> Architecture:
    """Return the architecture of a language half's configuration."""
    return ARCHITECTURES[text_config.model_type.removesuffix("_text")]


def _check_sizes(where: str, sizes: dict[str, Any]) -> None:
    """Raise ModelError for a size below 1, or heads that do not divide a width evenly."""
    for name in SIZES:
        size = sizes.get(name, 1)
        if isinstance(size, list | tuple):
            raise ModelError(f"{where}{name} is {size}, and must be one number: restore the file")
        if isinstance(size, int) and size < 1:
            raise ModelError(f"{where}{name} is {size}, and must be at least 1: restore the file")
    for whole, part in SHARED_SIZES:
        if whole == "hidden_size" and "head_dim" in sizes:
            continue
        if whole in sizes and part in sizes and sizes[whole] % (sizes[part] or 1):
            raise ModelError(
                f"{where}{whole} is {sizes[whole]}, which {part}={sizes[part]} does not divide: "
                "restore the file"
            )


def check_text_config(
    folder: Path, config: Any, vocab_size: int, precision: Precision = "fp32", on_gpu: bool = False
) -> None:
    """Raise ModelError for what the forward pass cannot compute, or a tokenizer that is too large."""
    in_groups = precision == "int4" or (precision == "int8" and on_gpu)
    widths = config.hidden_size, config.intermediate_size, text_shape(config).attention_width
    if in_groups and any(width % INT4_GROUP for width in widths):
        raise ModelError(
            f"{folder} is {' and '.join(map(str, dict.fromkeys(widths)))} wide; precision {precision} "
            f"needs multiples of {INT4_GROUP}: use {'bf16' if on_gpu else 'int8'}"
        )
    rope_type = config.rope_parameters.get("rope_type", "default")
    wrong = {
        "hidden_act": (config.hidden_act, "silu"),
        "rope_type": (rope_type, "default"),
        "use_sliding_window": (_slides(config), False),
        "attention_bias": (bool(getattr(config, "attention_bias", False)), False),
        "is_causal": (getattr(config, "is_causal", None) is not False, True),
    }
    for name, (found, wanted) in wrong.items():
        if found != wanted:
            raise ModelError(
                f"{config_file(folder)}: {name} is {found!r}; only {wanted!r} can be run: choose another "
                "checkpoint, or take out what you have added yourself"
            )
    if vocab_size > config.vocab_size:
        raise ModelError(
            f"{folder} has {config.vocab_size} token rows but its tokenizer {vocab_size}: "
            "use the tokenizer it was trained with"
        )
    rotary_table(config)


def _slides(config: Any) -> bool:
    """Return whether any layer attends only to a window of the text."""
    kinds = getattr(config, "layer_types", None) or ()
    return bool(getattr(config, "use_sliding_window", False)) and "sliding_attention" in kinds


def text_shape(config: Any) -> TextShape:
    """Return layers, heads and head size of a text model; by default heads divide the hidden width."""
    shared = config.hidden_size // config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or shared
    return TextShape(
        config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads, head_dim
    )


def num_deep_layers(config: Any) -> int:
    """Return after how many of the first decoder layers a picture's deep features are added."""
    return len(getattr(getattr(config, "vision_config", None), "deepstack_visual_indexes", ()))


def rotary_table(config: Any) -> RotaryTable:
    """Return the rotary table. All pairs of a text model rotate by time.

    Raises ModelError if its base is not a number above 0, or its sections of time, height and width do not
    add up to half a head's width.
    """
    parameters, head_dim = config.rope_parameters, text_shape(config).head_dim
    architecture, theta = architecture_of(config), parameters.get("rope_theta")
    if not isinstance(theta, int | float) or not 0.0 < theta < math.inf:
        raise ModelError(
            f"{CONFIG_FILE}: rope_theta is {theta!r}, and must be a number above 0: restore the model folder"
        )
    if architecture.pictures is None:
        return RotaryTable(head_dim, float(theta), axes_in_sections((head_dim // 2, 0, 0)))
    section = parameters.get("mrope_section", architecture.mrope_section)
    if not _is_section(section, head_dim // 2):
        raise ModelError(
            f"{CONFIG_FILE}: mrope_section is {section!r}, and must be three numbers that add up to "
            f"{head_dim // 2}, half of a head's width: restore the model folder"
        )
    axes = axes_in_turn(section) if architecture.interleaves_axes else axes_in_sections(section)
    return RotaryTable(head_dim, float(theta), axes)


def _is_section(section: Any, pairs: int) -> bool:
    if not isinstance(section, (list, tuple)) or len(section) != 3:
        return False
    return all(isinstance(one, int) and one >= 0 for one in section) and sum(section) == pairs
