# SPDX-License-Identifier: Apache-2.0
"""A checkpoint folder into the runtime's weights: validate, read with transformers, fuse, drop the rest."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from torch import Tensor
from transformers import Qwen2_5_VLForConditionalGeneration, Qwen2VLForConditionalGeneration
from transformers.utils import logging as transformers_logging

from outrider.core.errors import ModelError
from outrider.core.model_options import Precision
from outrider.models.backbone.mrope import RotaryTable
from outrider.models.backbone.out_of_memory import is_out_of_memory
from outrider.models.backbone.text_stack import LayerWeights, RmsNorm, TextShape, TextStack
from outrider.models.checkpoint.awq_gptq import StoredLayers, StoredPart, read_format
from outrider.models.checkpoint.card import read_json
from outrider.models.checkpoint.files import WEIGHTS_FILE, check_weight_files, weight_files
from outrider.models.checkpoint.headers import Shape, check_fit
from outrider.models.checkpoint.torchao_format import foreign_projections, is_plain
from outrider.models.inputs.images import Preprocessing
from outrider.models.inputs.vision import VisionEncoder
from outrider.models.quantization.integers import INT4_GROUP
from outrider.models.quantization.matrices import DenseMatrix, ForeignMatrix, Matrix
from outrider.models.quantization.matrix_choice import Packer, pack, pack_exactly, pack_stored

CONFIG_FILE = "config.json"
ARCHITECTURES: dict[str, Any] = {
    "qwen2_vl": Qwen2VLForConditionalGeneration,
    "qwen2_5_vl": Qwen2_5_VLForConditionalGeneration,
}
SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
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
"""Of a configuration's text and vision parts: each has some of these."""
SHARED_SIZES = (("hidden_size", "num_attention_heads"), ("num_attention_heads", "num_key_value_heads"))
ALIGNMENT_BYTES = 64


@dataclass(frozen=True)
class Checkpoint:
    """A folder's `modules`, and its language half's `layers` apart where AWQ or GPTQ have quantized them."""

    modules: Any
    text_config: Any
    layers: StoredLayers | None


def check_checkpoint(folder: Path) -> None:
    """Raises ModelError naming the file that is missing, corrupt or of another architecture."""
    if not folder.is_dir():
        raise ModelError(f"{folder} is no folder: give a model folder with {CONFIG_FILE} and {WEIGHTS_FILE}")
    architecture = read_json(folder / CONFIG_FILE).get("model_type")
    if architecture not in ARCHITECTURES:
        raise ModelError(
            f"{folder / CONFIG_FILE} is of model_type {architecture!r}, not one of "
            f"{', '.join(map(repr, ARCHITECTURES))}: choose a Qwen2-VL or Qwen2.5-VL checkpoint"
        )
    read_format(folder / CONFIG_FILE)
    check_weight_files(folder)


def read_config(folder: Path) -> Any:
    """transformers' configuration of the checked folder. Raises ModelError for values it does not take."""
    architecture = ARCHITECTURES[read_json(folder / CONFIG_FILE)["model_type"]]
    try:
        config = architecture.config_class.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, TypeError, KeyError, StrictDataclassError) as error:
        raise ModelError(f"{folder / CONFIG_FILE} cannot be used ({error}): restore the file") from error
    for part in ("text_config", "vision_config"):
        _check_sizes(f"{folder / CONFIG_FILE}: {part}", getattr(config, part).to_dict())
    return config


def _check_sizes(where: str, sizes: dict[str, Any]) -> None:
    """Raises ModelError where there is none of something, or heads do not share a width evenly."""
    for name in SIZES:
        size = sizes.get(name, 1)
        if isinstance(size, int) and size < 1:
            raise ModelError(f"{where}.{name} is {size}, and must be at least 1: restore the file")
    for whole, part in SHARED_SIZES:
        if whole in sizes and part in sizes and sizes[whole] % (sizes[part] or 1):
            raise ModelError(
                f"{where}.{whole} is {sizes[whole]}, which {part}={sizes[part]} does not divide: "
                "restore the file"
            )


def read_checkpoint(folder: Path, dtype: torch.dtype | str, with_layers: bool = True) -> Checkpoint:
    """The checked folder's weights, every one of them read; dtype "auto" is the file's own.

    What torchao has quantized keeps its own, which its integers stand for.
    Without layers the language half is left out but for its embeddings and head.
    Raises ModelError where a weight is missing or of another shape.
    """
    config, layout = read_config(folder), read_format(folder / CONFIG_FILE)
    if layout is not None:
        del config.quantization_config
    elif getattr(config, "quantization_config", None) is not None:
        dtype = "auto"
    if layout is not None or not with_layers:
        config.text_config.num_hidden_layers, config.text_config.layer_types = 0, []
    modules = _read_modules(folder, config, dtype)
    layers = StoredLayers(weight_files(folder), layout) if layout is not None and with_layers else None
    return Checkpoint(modules, read_config(folder).text_config, layers)


def _read_modules(folder: Path, config: Any, dtype: torch.dtype | str) -> Any:
    try:
        with _quiet_transformers():
            if getattr(config, "quantization_config", None) is None:
                check_fit(folder / CONFIG_FILE, weight_files(folder), _configured_shapes(config))
            modules, report = ARCHITECTURES[config.model_type].from_pretrained(
                folder,
                config=config,
                dtype=dtype,
                local_files_only=True,
                use_safetensors=True,
                output_loading_info=True,
            )
    except ImportError as error:
        raise ModelError(
            f"{folder} is quantized in a form whose package is missing ({error}): "
            "install it (torchao: pip install 'outrider[quantized]'), or choose the checkpoint that is not "
            "quantized"
        ) from error
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, SafetensorError) as error:
        if is_out_of_memory(error):
            raise
        raise ModelError(f"{folder} cannot be loaded ({error}): restore the folder") from error
    missing = sorted(report["missing_keys"])
    if missing:
        raise ModelError(
            f"{folder} lacks {len(missing)} weights, the first {missing[0]}: restore {WEIGHTS_FILE}"
        )
    for weight in modules.parameters():
        weight.data = _aligned(weight.data)
    return modules.eval().requires_grad_(False)


def _configured_shapes(config: Any) -> dict[str, Shape]:
    """Of each weight, by its name: known without room for one."""
    with torch.device("meta"):
        modules = ARCHITECTURES[config.model_type](config)
    return {name: tuple(weight.shape) for name, weight in modules.state_dict().items()}


@contextlib.contextmanager
def _quiet_transformers() -> Iterator[None]:
    """What it would print of missing and of spare weights is judged here."""
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)


def build_text_stack(
    checkpoint: Checkpoint,
    vocab_size: int,
    precision: Precision = "fp32",
    exact: bool = False,
    place: torch.device | None = None,
) -> TextStack:
    """Fuse and pack the language half; its modules are emptied layer by layer, so that large ones fit.

    `exact`: integers stay integers, but all arithmetic is float32. `place`: where it is to run; its integers
    are packed there, and the rest is to follow by `TextStack.to`.
    """
    packer = pack_exactly if exact else partial(pack, place=place)
    language, config = checkpoint.modules.model.language_model, checkpoint.text_config
    layers = []
    for index in range(config.num_hidden_layers):
        if checkpoint.layers is not None:
            part: PartOf = partial(checkpoint.layers.part, index)
        else:
            part, language.layers[index] = language.layers[index].get_submodule, torch.nn.Identity()
        layers.append(_fuse_layer(part, config.rms_norm_eps, precision, packer))
        del part
    embeddings = language.embed_tokens.weight.detach().to(whole_dtype(precision))
    head = _head_weight(checkpoint.modules, embeddings)[:vocab_size]
    packs_head = checkpoint.layers is None and precision in ("int8", "int4")
    return TextStack(
        shape=text_shape(config),
        rotary=rotary_table(config),
        embeddings=embeddings,
        layers=tuple(layers),
        final_norm=RmsNorm.of(language.norm.weight.detach().float(), config.rms_norm_eps),
        head=packer(head, precision) if packs_head else _whole_head(head, exact),
        cache_dtype=torch.float32 if exact else whole_dtype(precision),
    )


def build_vision_encoder(checkpoint: Checkpoint, how: Preprocessing, precision: Precision) -> VisionEncoder:
    """The vision tower: whole in float32, in bfloat16 beside a language half that is anything less.

    Where torchao has quantized it, it stays of the type that its integers stand for.
    """
    tower = checkpoint.modules.model.visual
    own = tower.patch_embed.proj.weight.dtype
    tower.patch_embed = _patches_as_matrix(tower.patch_embed.proj)
    tower.to(own if foreign_projections(tower) else whole_dtype(precision))
    return VisionEncoder(tower, replace(how, temporal=1))


def check_text_config(
    folder: Path, config: Any, vocab_size: int, precision: Precision = "fp32", on_gpu: bool = False
) -> None:
    """Raises ModelError for what the runtime's forward does not compute or a tokenizer too large for it."""
    in_groups = precision == "int4" or (precision == "int8" and on_gpu)
    if in_groups and (config.hidden_size % INT4_GROUP or config.intermediate_size % INT4_GROUP):
        raise ModelError(
            f"{folder} is {config.hidden_size} and {config.intermediate_size} wide; precision {precision} "
            f"needs multiples of {INT4_GROUP}: use {'bf16' if on_gpu else 'int8'}"
        )
    rope_type = config.rope_parameters.get("rope_type", "default")
    wrong = {
        "hidden_act": (config.hidden_act, "silu"),
        "rope_type": (rope_type, "default"),
        "use_sliding_window": (bool(config.use_sliding_window), False),
    }
    for name, (found, wanted) in wrong.items():
        if found != wanted:
            raise ModelError(f"{folder / CONFIG_FILE}: {name} is {found!r}; only {wanted!r} can be run")
    if vocab_size > config.vocab_size:
        raise ModelError(
            f"{folder} has {config.vocab_size} token rows but its tokenizer {vocab_size}: "
            "use the tokenizer it was trained with"
        )


def _aligned(weight: Tensor) -> Tensor:
    """Weights mapped from a file may lie anywhere; a product's last bits change with their alignment."""
    return weight if weight.data_ptr() % ALIGNMENT_BYTES == 0 else weight.clone()


def _patches_as_matrix(convolution: Any) -> torch.nn.Linear:
    """The patch embedding as the matrix product it is (stride = kernel): a 3D convolution is slower.

    A still fills all frames of a patch's span, so that their weights add up.
    """
    weight = convolution.weight.float().sum(dim=2).flatten(1)
    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    linear.weight = torch.nn.Parameter(weight, requires_grad=False)
    return linear


def whole_dtype(precision: Precision) -> torch.dtype:
    """Of what is not packed: vision, embeddings, keys and values."""
    return torch.float32 if precision == "fp32" else torch.bfloat16


def _head_weight(modules: Any, embeddings: Tensor) -> Tensor:
    """The LM head (V, hidden): the embeddings themselves where they are tied."""
    tied = modules.lm_head.weight.data_ptr() == modules.model.language_model.embed_tokens.weight.data_ptr()
    return embeddings if tied else modules.lm_head.weight.detach().to(embeddings.dtype)


def _whole_head(weight: Tensor, exact: bool) -> DenseMatrix:
    """The LM head (V, hidden), which may be the embeddings too: it is not copied."""
    return DenseMatrix(weight.float().t() if exact else weight.t())


PartOf = Callable[[str], Any]
"""A layer's norms and projections by name: modules, or parts of a quantized checkpoint."""


def _fuse_layer(part: PartOf, eps: float, precision: Precision, packer: Packer) -> LayerWeights:
    projections = [part(f"self_attn.{name}_proj") for name in "qkv"]
    qkv = _joined(projections, precision, packer)
    foreign = isinstance(qkv, ForeignMatrix)
    if not foreign and any(one.bias is None for one in projections):
        raise ModelError("a q, k or v projection has no bias: choose a Qwen2-VL or Qwen2.5-VL checkpoint")
    bias = torch.zeros(qkv.shape[1]) if foreign else torch.cat([one.bias for one in projections])
    return LayerWeights(
        input_norm=RmsNorm.of(part("input_layernorm").weight.detach().float(), eps),
        qkv=qkv,
        qkv_bias=bias.detach().float(),
        attention_out=_joined([_unbiased(part, "self_attn.o_proj")], precision, packer),
        mlp_norm=RmsNorm.of(part("post_attention_layernorm").weight.detach().float(), eps),
        gate_up=_joined([_unbiased(part, f"mlp.{name}_proj") for name in ("gate", "up")], precision, packer),
        down=_joined([_unbiased(part, "mlp.down_proj")], precision, packer),
    )


def _unbiased(part: PartOf, name: str) -> Any:
    """Some quantizers write a bias of zeros where the architecture has none. Raises ModelError for others."""
    projection = part(name)
    if isinstance(projection, StoredPart) and projection.bias is not None and projection.bias.any():
        raise ModelError(f"{name} has a bias, which Qwen2-VL has not: choose another checkpoint")
    return projection


def _joined(projections: list[Any], precision: Precision, packer: Packer) -> Matrix:
    """Projections of the same rows as one matrix; as they are where another package has quantized them."""
    if isinstance(projections[0], StoredPart):
        return pack_stored([one.weight for one in projections], precision, packer)
    if not all(is_plain(projection) for projection in projections):
        return ForeignMatrix(tuple(projections), projections[0].in_features)
    weights = [projection.weight for projection in projections]
    return packer((torch.cat(weights) if len(weights) > 1 else weights[0]).detach(), precision)


def text_shape(config: Any) -> TextShape:
    """Returns the layers, heads and head size of a configuration's text model."""
    head_dim = config.hidden_size // config.num_attention_heads
    return TextShape(
        config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads, head_dim
    )


def rotary_table(config: Any) -> RotaryTable:
    """Raises ModelError where its sections, of time, height and width, are not as wide as a head."""
    parameters, head_dim = config.rope_parameters, text_shape(config).head_dim
    section = parameters.get("mrope_section", [16, 24, 24])
    if not _is_section(section, head_dim // 2):
        raise ModelError(
            f"{CONFIG_FILE}: mrope_section is {section!r}, and must be three numbers that add up to "
            f"{head_dim // 2}, half of a head's width: restore the model folder"
        )
    return RotaryTable(head_dim, float(parameters["rope_theta"]), list(section))


def _is_section(section: Any, pairs: int) -> bool:
    if not isinstance(section, (list, tuple)) or len(section) != 3:
        return False
    return all(isinstance(one, int) and one >= 0 for one in section) and sum(section) == pairs
