# SPDX-License-Identifier: Apache-2.0
"""Turns a checkpoint folder into the runtime's weights: validates, reads with transformers, and fuses."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers.utils import logging as transformers_logging

from outrider.core.errors import ModelError
from outrider.core.model_options import Precision
from outrider.models.backbone.out_of_memory import give_back_freed, is_out_of_memory
from outrider.models.backbone.text_stack import LayerWeights, RmsNorm, TextShape, TextStack
from outrider.models.checkpoint.absent import WEIGHTS_FILE
from outrider.models.checkpoint.architectures import ARCHITECTURES, Architecture
from outrider.models.checkpoint.awq_gptq import StoredLayers, StoredPart, read_format
from outrider.models.checkpoint.configuration import (
    architecture_of,
    read_config,
    rotary_table,
    text_shape,
)
from outrider.models.checkpoint.files import weight_files
from outrider.models.checkpoint.headers import (
    Shape,
    check_finite,
    check_fit,
    check_no_more_layers,
    file_dtype,
)
from outrider.models.checkpoint.settings import config_file
from outrider.models.checkpoint.torchao_format import foreign_projections, is_plain
from outrider.models.gguf.file import gguf_of, open_gguf
from outrider.models.gguf.weights import own_dtype, read_tensors
from outrider.models.inputs.images import Preprocessing
from outrider.models.inputs.vision import VisionEncoder
from outrider.models.quantization.matrices import DenseMatrix, ForeignMatrix, Matrix
from outrider.models.quantization.matrix_choice import Packer, pack, pack_exactly, pack_stored

ALIGNMENT_BYTES = 64
_ONE_READER = Lock()
"""One reader at a time: while it reads, transformers replaces functions of its own and of torch globally."""


@dataclass(frozen=True)
class Checkpoint:
    """A folder's `modules`; its language half's `layers` are separate if AWQ or GPTQ quantized them."""

    modules: Any
    text_config: Any
    layers: StoredLayers | None


def read_checkpoint(folder: Path, dtype: torch.dtype | str, with_layers: bool = True) -> Checkpoint:
    """Read all weights of the checked folder; dtype "auto" is the file's own.

    Weights quantized by torchao keep their type. Without layers, only embeddings and head of the language
    half are read. Only one thread reads at a time. Raises ModelError if a weight is missing, has another
    shape, or belongs to a layer that is not configured.
    """
    with _ONE_READER:
        return _read_checkpoint(folder, dtype, with_layers)


def _read_checkpoint(folder: Path, dtype: torch.dtype | str, with_layers: bool) -> Checkpoint:
    config, layout = read_config(folder), read_format(config_file(folder))
    if layout is not None:
        del config.quantization_config
    elif getattr(config, "quantization_config", None) is not None:
        dtype = "auto"
    if layout is not None or not with_layers:
        config.get_text_config().num_hidden_layers, config.get_text_config().layer_types = 0, []
    modules = _read_modules(folder, config, dtype)
    whole, layers = read_config(folder), None
    if layout is not None and with_layers:
        layers = StoredLayers(weight_files(folder), layout, _configured_shapes(whole))
    return Checkpoint(modules, whole.get_text_config(), layers)


def _read_modules(folder: Path, config: Any, dtype: torch.dtype | str) -> Any:
    try:
        with _quiet_transformers():
            check_no_more_layers(config_file(folder), weight_files(folder), read_config(folder))
            if getattr(config, "quantization_config", None) is None:
                check_fit(config_file(folder), weight_files(folder), _configured_shapes(config))
            modules, report = ARCHITECTURES[config.model_type].modules.from_pretrained(
                **_source(folder, config, dtype),
                config=config,
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
    for name, weight in modules.named_parameters():
        check_finite(folder, name, weight.data)
        weight.data = _aligned(weight.data)
    return modules.eval().requires_grad_(False)


def _source(model: Path, config: Any, dtype: torch.dtype | str) -> dict[str, Any]:
    """Return transformers' source of the weights: the folder, or a GGUF file's tensors as numbers."""
    path = gguf_of(model)
    if path is None:
        if isinstance(dtype, str) and getattr(config, "quantization_config", None) is None:
            dtype = file_dtype(weight_files(model))
        return {"pretrained_model_name_or_path": model, "dtype": dtype}
    file = open_gguf(path)
    dtype = own_dtype(file) if isinstance(dtype, str) else dtype
    tensors = read_tensors(file, dtype, with_layers=config.get_text_config().num_hidden_layers > 0)
    return {"pretrained_model_name_or_path": None, "dtype": dtype, "state_dict": tensors}


def _configured_shapes(config: Any) -> dict[str, Shape]:
    """Return each weight's shape by its name, without allocating it."""
    with torch.device("meta"):
        modules = ARCHITECTURES[config.model_type].modules(config)
    return {name: tuple(weight.shape) for name, weight in modules.state_dict().items()}


@contextlib.contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Silence transformers' messages about missing and extra weights, which are checked here."""
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
    device: torch.device | None = None,
) -> TextStack:
    """Fuse and pack the language half; its modules are freed layer by layer, so that large ones fit.

    `exact`: integers stay integers, but all arithmetic is float32. `device`: the device that will run it;
    its integers are packed there, and `TextStack.to` must move the rest.
    """
    packer = pack_exactly if exact else partial(pack, device=device)
    language, config = _language(checkpoint), checkpoint.text_config
    form = LayerForm(architecture_of(config), text_shape(config), config.rms_norm_eps)
    layers = []
    for index in range(config.num_hidden_layers):
        if checkpoint.layers is not None:
            part: PartOf = partial(checkpoint.layers.part, index)
        else:
            part, language.layers[index] = language.layers[index].get_submodule, torch.nn.Identity()
        layers.append(_fuse_layer(part, form, precision, packer))
        del part
        give_back_freed()
    embeddings = language.embed_tokens.weight.detach().to(whole_dtype(precision))
    head = _head_weight(checkpoint, embeddings)[:vocab_size]
    packs_head = checkpoint.layers is None and precision in ("int8", "int4")
    return TextStack(
        shape=form.shape,
        rotary=rotary_table(config),
        embeddings=embeddings,
        layers=tuple(layers),
        final_norm=RmsNorm.of(language.norm.weight.detach().float(), config.rms_norm_eps),
        head=packer(head, precision) if packs_head else _whole_head(head, exact),
        cache_dtype=torch.float32 if exact else whole_dtype(precision),
    )


def _language(checkpoint: Checkpoint) -> Any:
    """Return the modules of the language half."""
    return checkpoint.modules.get_submodule(architecture_of(checkpoint.text_config).language)


def build_vision_encoder(
    checkpoint: Checkpoint, how: Preprocessing | None, precision: Precision
) -> VisionEncoder | None:
    """Return the vision tower: in float32 with a float32 language half, else in bfloat16.

    A tower quantized by torchao keeps its type. A text model has none.
    """
    if how is None:
        return None
    tower = checkpoint.modules.model.visual
    own = tower.patch_embed.proj.weight.dtype
    tower.patch_embed = _patches_as_matrix(tower.patch_embed.proj)
    tower.to(own if foreign_projections(tower) else whole_dtype(precision))
    return VisionEncoder(tower, replace(how, temporal=1))


def _aligned(weight: Tensor) -> Tensor:
    """Return an aligned weight: mapped ones may be anywhere, and a product's last bits depend on that."""
    return weight if weight.data_ptr() % ALIGNMENT_BYTES == 0 else weight.clone()


def _patches_as_matrix(convolution: Any) -> torch.nn.Linear:
    """Return the patch embedding as a matrix product (stride = kernel): a 3D convolution is slower.

    A still fills all frames of a patch's time span, so their weights are added up.
    """
    weight = convolution.weight.float().sum(dim=2).flatten(1)
    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    linear.weight = torch.nn.Parameter(weight, requires_grad=False)
    if convolution.bias is not None:
        linear.bias = torch.nn.Parameter(convolution.bias.float(), requires_grad=False)
    return linear


def whole_dtype(precision: Precision) -> torch.dtype:
    """Return the type of what is not packed: vision, embeddings, keys and values."""
    return torch.float32 if precision == "fp32" else torch.bfloat16


def _head_weight(checkpoint: Checkpoint, embeddings: Tensor) -> Tensor:
    """Return the LM head (V, hidden): the embeddings themselves if they are tied."""
    head = checkpoint.modules.lm_head.weight
    tied = head.data_ptr() == _language(checkpoint).embed_tokens.weight.data_ptr()
    return embeddings if tied else head.detach().to(embeddings.dtype)


def _whole_head(weight: Tensor, exact: bool) -> DenseMatrix:
    """Return the LM head (V, hidden) without copying it, because it may be the embeddings too."""
    return DenseMatrix(weight.float().t() if exact else weight.t())


PartOf = Callable[[str], Any]
"""Returns a layer's norms and projections by name: modules, or parts of a quantized checkpoint."""


@dataclass(frozen=True)
class LayerForm:
    """The common form of a checkpoint's decoder layers."""

    architecture: Architecture
    shape: TextShape
    eps: float

    def norm(self, weight: Tensor) -> RmsNorm:
        """Return the norm with a weight (hidden,) and the checkpoint's epsilon."""
        return RmsNorm.of(weight.detach().float(), self.eps)


def _fuse_layer(part: PartOf, form: LayerForm, precision: Precision, packer: Packer) -> LayerWeights:
    named = (f"self_attn.{name}_proj" for name in "qkv")
    projections = [part(name) if form.architecture.has_qkv_bias else _unbiased(part, name) for name in named]
    qkv = _joined(projections, precision, packer)
    return LayerWeights(
        input_norm=form.norm(part("input_layernorm").weight),
        qkv=qkv,
        qkv_bias=_qkv_bias(projections, qkv, form.architecture),
        attention_out=_joined([_unbiased(part, "self_attn.o_proj")], precision, packer),
        mlp_norm=form.norm(part("post_attention_layernorm").weight),
        gate_up=_joined([_unbiased(part, f"mlp.{name}_proj") for name in ("gate", "up")], precision, packer),
        down=_joined([_unbiased(part, "mlp.down_proj")], precision, packer),
        head_norm=_head_norm(part, form) if form.architecture.has_head_norms else None,
    )


def _qkv_bias(projections: list[Any], qkv: Matrix, architecture: Architecture) -> Tensor:
    """Return the bias, or zeros if the projections add it or have none.

    Raises ModelError if it is missing.
    """
    if isinstance(qkv, ForeignMatrix) or not architecture.has_qkv_bias:
        return torch.zeros(qkv.shape[1], dtype=torch.float32)
    if any(one.bias is None for one in projections):
        raise ModelError(
            f"a q, k or v projection has no bias, which {architecture.family} has: choose another checkpoint"
        )
    return torch.cat([one.bias for one in projections]).detach().float()


def _head_norm(part: PartOf, form: LayerForm) -> RmsNorm:
    """Return the norm of all query heads, followed by all key heads."""
    counts = {"q": form.shape.num_heads, "k": form.shape.num_kv_heads}
    gains = [part(f"self_attn.{name}_norm").weight.expand(count, -1) for name, count in counts.items()]
    return form.norm(torch.cat(gains))


def _unbiased(part: PartOf, name: str) -> Any:
    """Return a projection without a bias, or with zeros of a quantizer. Raises ModelError for a real bias."""
    projection = part(name)
    if isinstance(projection, StoredPart) and projection.bias is not None and projection.bias.any():
        raise ModelError(f"{name} has a bias, which its architecture has not: choose another checkpoint")
    return projection


def _joined(projections: list[Any], precision: Precision, packer: Packer) -> Matrix:
    """Return projections of the same input as one matrix; unchanged if another package quantized them."""
    if isinstance(projections[0], StoredPart):
        return pack_stored([one.weight for one in projections], precision, packer)
    if not all(is_plain(projection) for projection in projections):
        return ForeignMatrix(tuple(projections), projections[0].in_features)
    weights = [projection.weight for projection in projections]
    return packer((torch.cat(weights) if len(weights) > 1 else weights[0]).detach(), precision)
