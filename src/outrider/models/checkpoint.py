"""A checkpoint folder into the runtime's weights: validate, read with transformers, fuse, drop the rest."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers import Qwen2_5_VLForConditionalGeneration, Qwen2VLForConditionalGeneration
from transformers.utils import logging as transformers_logging

from outrider.core.errors import ModelError
from outrider.core.model_options import Precision
from outrider.models.card import read_json
from outrider.models.images import PatchGeometry
from outrider.models.matrices import INT4_GROUP, DenseMatrix, ForeignMatrix, Matrix, pack, pack_exactly
from outrider.models.positions import RotaryTable
from outrider.models.text_stack import LayerWeights, RmsNorm, TextShape, TextStack
from outrider.models.vision import VisionEncoder

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
WEIGHTS_INDEX_FILE = "model.safetensors.index.json"
ARCHITECTURES: dict[str, Any] = {
    "qwen2_vl": Qwen2VLForConditionalGeneration,
    "qwen2_5_vl": Qwen2_5_VLForConditionalGeneration,
}
ALIGNMENT_BYTES = 64
Packer = Callable[[Tensor, Precision], Matrix]


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
    for path in weight_files(folder):
        _check_weight_file(path)


def read_config(folder: Path) -> Any:
    """transformers' configuration of the checked folder. Raises ModelError for values it does not take."""
    architecture = ARCHITECTURES[read_json(folder / CONFIG_FILE)["model_type"]]
    try:
        return architecture.config_class.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, TypeError, KeyError, StrictDataclassError) as error:
        raise ModelError(f"{folder / CONFIG_FILE} cannot be used ({error}): restore the file") from error


def read_checkpoint(folder: Path, dtype: torch.dtype | str, with_layers: bool = True) -> Any:
    """The checked folder's modules, every weight of them read; dtype "auto" is the file's own.

    Without layers the language half is left out but for its embeddings and head.
    Raises ModelError where a weight is missing.
    """
    config = read_config(folder)
    if not with_layers:
        config.text_config.num_hidden_layers, config.text_config.layer_types = 0, []
    try:
        with _quiet_transformers():
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
            "pip install 'outrider[quantized]', or choose the checkpoint that is not quantized"
        ) from error
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"{folder} cannot be loaded ({error}): restore the folder") from error
    missing = sorted(report["missing_keys"])
    if missing:
        raise ModelError(
            f"{folder} lacks {len(missing)} weights, the first {missing[0]}: restore {WEIGHTS_FILE}"
        )
    for weight in modules.parameters():
        weight.data = _aligned(weight.data)
    return modules.eval().requires_grad_(False)


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
    modules: Any,
    vocab_size: int,
    precision: Precision = "fp32",
    exact: bool = False,
) -> TextStack:
    """Fuse and pack the language half; its modules are emptied layer by layer, so that large ones fit.

    `exact`: integers stay integers, but all arithmetic is float32.
    """
    packer = pack_exactly if exact else pack
    language, config = modules.model.language_model, modules.config.text_config
    layers = []
    for index in range(len(language.layers)):
        layers.append(_fuse_layer(language.layers[index], config.rms_norm_eps, precision, packer))
        language.layers[index] = torch.nn.Identity()
    embeddings = language.embed_tokens.weight.detach().to(whole_dtype(precision))
    return TextStack(
        shape=text_shape(config),
        rotary=rotary_table(config),
        embeddings=embeddings,
        layers=tuple(layers),
        final_norm=RmsNorm.of(language.norm.weight.detach().float(), config.rms_norm_eps),
        head=_pack_head(_head_weight(modules, embeddings)[:vocab_size], precision, packer),
        cache_dtype=torch.float32 if exact else whole_dtype(precision),
    )


def build_vision_encoder(modules: Any, precision: Precision = "fp32") -> VisionEncoder:
    """The vision tower: whole in float32, in bfloat16 beside a language half that is anything less."""
    config = modules.config.vision_config
    geometry = PatchGeometry(config.patch_size, config.spatial_merge_size, config.temporal_patch_size)
    tower = modules.model.visual
    tower.patch_embed = _patches_as_matrix(tower.patch_embed.proj)
    tower.to(whole_dtype(precision))
    return VisionEncoder(tower, geometry)


def check_text_config(folder: Path, config: Any, vocab_size: int, precision: Precision = "fp32") -> None:
    """Raises ModelError for what the runtime's forward does not compute or a tokenizer too large for it."""
    if precision == "int4" and (config.hidden_size % INT4_GROUP or config.intermediate_size % INT4_GROUP):
        raise ModelError(
            f"{folder} is {config.hidden_size} and {config.intermediate_size} wide; precision int4 needs "
            f"multiples of {INT4_GROUP}: use int8"
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


def weight_files(folder: Path) -> list[Path]:
    """The single weight file, or the shards its index names."""
    index = folder / WEIGHTS_INDEX_FILE
    if not index.exists():
        return [folder / WEIGHTS_FILE]
    shards = read_json(index).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise ModelError(f"{index} names no weight files: restore the file")
    return [folder / str(name) for name in sorted(set(shards.values()))]


def _check_weight_file(path: Path) -> None:
    if not path.exists():
        raise ModelError(f"{path} is missing: restore the model folder or choose another with --model")
    try:
        with safe_open(path, framework="pt") as weights:
            count = len(weights.keys())
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path} is truncated or corrupt ({error}): restore the file") from error
    if count == 0:
        raise ModelError(f"{path} holds no weights: restore the file")


def _aligned(weight: Tensor) -> Tensor:
    """Weights mapped from a file may lie anywhere; a product's last bits change with their alignment."""
    return weight if weight.data_ptr() % ALIGNMENT_BYTES == 0 else weight.clone()


def _patches_as_matrix(convolution: Any) -> torch.nn.Linear:
    """The patch embedding as the matrix product it is (stride = kernel): a 3D convolution is slower."""
    weight = convolution.weight.flatten(1)
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


def _pack_head(weight: Tensor, precision: Precision, packer: Packer) -> Matrix:
    """The LM head (V, hidden), which may be the embeddings too: whole, it is not copied."""
    return packer(weight, precision) if precision in ("int8", "int4") else DenseMatrix(weight.t())


def _fuse_layer(layer: Any, eps: float, precision: Precision, packer: Packer) -> LayerWeights:
    attention, mlp = layer.self_attn, layer.mlp
    projections = [attention.q_proj, attention.k_proj, attention.v_proj]
    qkv = _joined(projections, precision, packer)
    foreign = isinstance(qkv, ForeignMatrix)
    bias = torch.zeros(qkv.shape[1]) if foreign else torch.cat([one.bias for one in projections])
    return LayerWeights(
        input_norm=RmsNorm.of(layer.input_layernorm.weight.detach().float(), eps),
        qkv=qkv,
        qkv_bias=bias.detach().float(),
        attention_out=_joined([attention.o_proj], precision, packer),
        mlp_norm=RmsNorm.of(layer.post_attention_layernorm.weight.detach().float(), eps),
        gate_up=_joined([mlp.gate_proj, mlp.up_proj], precision, packer),
        down=_joined([mlp.down_proj], precision, packer),
    )


def _joined(projections: list[Any], precision: Precision, packer: Packer) -> Matrix:
    """Projections of the same rows as one matrix; as they are where another package has quantized them."""
    if not all(_is_plain(projection) for projection in projections):
        return ForeignMatrix(tuple(projections), projections[0].in_features)
    weights = [projection.weight for projection in projections]
    return packer((torch.cat(weights) if len(weights) > 1 else weights[0]).detach(), precision)


def _is_plain(projection: Any) -> bool:
    if type(projection) is not torch.nn.Linear:
        return False
    return type(projection.weight.data) is Tensor and projection.weight.is_floating_point()


def text_shape(config: Any) -> TextShape:
    head_dim = config.hidden_size // config.num_attention_heads
    return TextShape(
        config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads, head_dim
    )


def rotary_table(config: Any) -> RotaryTable:
    parameters, head_dim = config.rope_parameters, text_shape(config).head_dim
    section = parameters.get("mrope_section", [16, 24, 24])
    return RotaryTable(head_dim, float(parameters["rope_theta"]), list(section))
