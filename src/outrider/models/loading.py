# SPDX-License-Identifier: Apache-2.0
"""Loads checked model folders as `LanguageModel`s; see `load_model`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch

from outrider.core.errors import ConfigError
from outrider.core.model_options import DEFAULT_MAX_LENGTH, MAX_THREADS, PRECISIONS, Precision
from outrider.core.pairs import marked
from outrider.models.backbone.batch import DECODE_ROWS, next_span
from outrider.models.backbone.draft_head import HEAD_FILE, DraftHead, HeadWeights, read_head, write_head
from outrider.models.backbone.early_exits import (
    EXITS_FILE,
    ExitAdapters,
    is_made_for,
    read_exits,
    write_exits,
)
from outrider.models.backbone.kv_cache import CacheShape
from outrider.models.backbone.out_of_memory import give_back_freed, reports_out_of_memory
from outrider.models.backbone.text_stack import TextStack
from outrider.models.checkpoint.card import ModelCard, read_card, write_figures
from outrider.models.checkpoint.configuration import (
    check_checkpoint,
    check_text_config,
    read_config,
    rotary_table,
    text_shape,
)
from outrider.models.checkpoint.files import weight_files, weights_mark
from outrider.models.checkpoint.hub import model_name
from outrider.models.checkpoint.preprocessor_config import read_preprocessing
from outrider.models.checkpoint.torchao_format import check_products
from outrider.models.checkpoint.weights import (
    build_text_stack,
    build_vision_encoder,
    read_checkpoint,
    whole_dtype,
)
from outrider.models.footprint.footprint import SessionBytes, check_graph_memory, check_memory
from outrider.models.footprint.step_footprint import StepWidths, choice_bytes, steps_bytes
from outrider.models.inputs.images import Preprocessing
from outrider.models.onnx.language import GraphLanguage
from outrider.models.onnx.model import GraphModel
from outrider.models.onnx.providers import find_provider
from outrider.models.onnx.slots import BRANCH_SLOTS
from outrider.models.onnx.store import GraphRequest, are_built, find_graphs
from outrider.models.quantization.int4_tiles import MIN_CAPABILITY
from outrider.models.session import QwenModel, plan_caches
from outrider.models.text.tokenizer import QwenTokenizer, check_markup, load_tokenizer

Role = Literal["target", "draft"]


@reports_out_of_memory
def load_model(
    folder: Path,
    role: Role = "target",
    *,
    threads: int = 1,
    tokenizer_folder: Path | None = None,
    max_length: int = DEFAULT_MAX_LENGTH,
    precision: Precision = "fp32",
    sessions: int = 1,
    device: str = "cpu",
) -> QwenModel:
    """Load a checkpoint of one of `ARCHITECTURES` for a `device`; the CPU uses `threads` threads.

    `precision` is that of the language half's weights; below fp32 the vision tower and the cache are bf16.
    On a GPU, int8 and int4 are packed for its 4-bit product. For a checkpoint quantized by AWQ or GPTQ,
    int4 keeps 4-bit integers and unquantized weights; otherwise integers are dequantized first.

    `max_length` bounds a prompt and its text, image tokens included, and so the picture size that a
    folder's processor asks for. Caches are allocated for up to `sessions` sessions at a time, within which
    batches run best. `role` only names the model in logs. Early exits are read if the folder has them. The
    tokenizer is in `tokenizer_folder`, in the folder itself, or in `tokenizer/` next to it.

    Raises ModelError naming a missing, corrupt or wrong file, OutOfMemoryError if it does not fit.
    """
    folder = Path(folder)
    torch_device, card, tokenizer, how = _checked(
        folder, threads, tokenizer_folder, max_length, precision, sessions, device
    )
    torch.set_num_threads(threads)
    checkpoint = read_checkpoint(folder, torch.float32 if precision == "fp32" else "auto")
    check_products(folder, checkpoint.modules, torch_device)
    text = build_text_stack(checkpoint, tokenizer.vocab_size, precision, device=torch_device)
    vision = build_vision_encoder(checkpoint, how, precision)
    del checkpoint
    give_back_freed()
    exit_heads = read_exits(folder, text, expected="exits" in card.figures)
    name = marked(f"{role}:{model_name(folder)}", weights_mark(folder, precision))
    if torch_device.type != "cpu":
        text = text.to(torch_device)
        exit_heads = None if exit_heads is None else exit_heads.to(torch_device, text.embeddings.dtype)
        if vision is not None:
            vision.to(torch_device)
    on_gpu = torch_device.type == "cuda"
    return QwenModel(name, tokenizer, text, vision, max_length, card, exit_heads, sessions, on_gpu)


@reports_out_of_memory
def check_model(
    folder: Path,
    *,
    threads: int = 1,
    max_length: int = DEFAULT_MAX_LENGTH,
    precision: Precision = "fp32",
    sessions: int = 1,
    device: str = "cpu",
    copies: int = 1,
) -> None:
    """Raise what `load_model` would raise before it reads a weight, for `copies` copies on this machine.

    With 0 copies the machine's memory and devices are not checked.
    """
    _checked(folder, threads, None, max_length, precision, sessions, device if copies else "cpu", copies)


def _checked(
    folder: Path,
    threads: int,
    tokenizer_folder: Path | None,
    max_length: int,
    precision: Precision,
    sessions: int,
    device: str,
    copies: int = 1,
) -> tuple[torch.device, ModelCard, QwenTokenizer, Preprocessing | None]:
    _check_options(threads, precision, max_length)
    if sessions < 1:
        raise ConfigError(f"sessions must be at least 1, got {sessions}")
    torch_device = find_device(device)
    _check_product(torch_device, precision)
    check_checkpoint(folder)
    card = read_card(folder)
    tokenizer = load_tokenizer(folder, tokenizer_folder)
    config = read_config(folder)
    text_config = config.get_text_config()
    check_text_config(folder, text_config, tokenizer.vocab_size, precision, torch_device.type == "cuda")
    how = read_preprocessing(folder, config, max_length)
    check_markup(folder, tokenizer, None if how is None else config.image_token_id)
    widths = StepWidths(
        text_shape(text_config),
        text_config.hidden_size,
        text_config.intermediate_size,
        tokenizer.vocab_size,
    )
    caches = session_bytes(widths, max_length, precision, sessions, torch_device.type == "cuda")
    check_memory(folder, weight_files(folder), precision, caches, torch_device, copies)
    return torch_device, card, tokenizer, how


def _check_options(threads: int, precision: Precision, max_length: int) -> None:
    """Raise ConfigError for an option out of range."""
    if threads < 1:
        raise ConfigError(f"threads must be at least 1, got {threads}")
    if threads > MAX_THREADS:
        raise ConfigError(f"threads must be at most {MAX_THREADS}, got {threads}")
    if precision not in PRECISIONS:
        raise ConfigError(f"precision={precision!r} must be one of {', '.join(PRECISIONS)}")
    if max_length < 1:
        raise ConfigError(f"max_length must be at least 1 token, got {max_length}")


def session_bytes(
    widths: StepWidths, max_length: int, precision: Precision, sessions: int, on_gpu: bool
) -> SessionBytes:
    """Return the memory for sessions: their caches, and on a GPU the buffers for steps and for choices."""
    cache, block_size = plan_caches(widths.shape, max_length, sessions, on_gpu)
    blocks, dtype = -(-sessions // block_size), whole_dtype(precision)
    num_bytes = blocks * block_size * cache.num_bytes(dtype)
    if not on_gpu:
        return SessionBytes(sessions, max_length, num_bytes)
    steps = steps_bytes(widths, dtype, cache.num_slots, block_size, blocks)
    return SessionBytes(sessions, max_length, num_bytes, steps, choice_bytes(widths.vocab_size, sessions))


def find_device(name: str) -> torch.device:
    """Return the device. Raises ConfigError if torch does not know it or it is not available."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"device={name!r} is none that torch knows: use cpu or cuda") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device={name}: this torch finds no CUDA device; install one for it, or use cpu")
    return device


def _check_product(torch_device: torch.device, precision: Precision) -> None:
    """Raise ConfigError for a GPU that has no product of 4-bit weights."""
    if torch_device.type != "cuda" or precision not in ("int8", "int4"):
        return
    capability = torch.cuda.get_device_capability(torch_device)
    if torch.version.cuda is None or capability < MIN_CAPABILITY:
        raise ConfigError(
            f"device={torch_device} has compute capability {capability[0]}.{capability[1]}, and "
            f"{precision} is multiplied by NVIDIA GPUs from {MIN_CAPABILITY[0]}.{MIN_CAPABILITY[1]} on: "
            "use precision=bf16"
        )


@reports_out_of_memory
def load_graph_model(
    folder: Path,
    *,
    threads: int = 1,
    max_length: int = DEFAULT_MAX_LENGTH,
    precision: Precision = "int4",
    provider: str = "cpu",
) -> GraphModel:
    """Load a draft model that runs as static graphs on an execution provider of onnxruntime.

    The graphs are built and profiled on first use, with a progress bar, and cached in a folder
    (`OUTRIDER_CACHE`). Raises ModelError and OutOfMemoryError like `load_model`, ConfigError for an
    unavailable provider.
    """
    _check_options(threads, precision, max_length)
    provider_spec = find_provider(provider)
    folder = Path(folder)
    check_checkpoint(folder)
    card, tokenizer = read_card(folder), load_tokenizer(folder)
    torch.set_num_threads(threads)
    config = read_config(folder)
    how = read_preprocessing(folder, config, max_length)
    check_markup(folder, tokenizer, None if how is None else config.image_token_id)
    config = config.get_text_config()
    check_text_config(folder, config, tokenizer.vocab_size, precision)
    num_slots = next_span(max_length - 1) + BRANCH_SLOTS
    packs = provider_spec.packs
    request = GraphRequest(folder, tokenizer.vocab_size, precision, packs, num_slots, DECODE_ROWS)
    shape, rotary = text_shape(config), rotary_table(config)
    cache = CacheShape(shape.num_layers, num_slots, shape.num_kv_heads, shape.head_dim)
    session_size = SessionBytes(1, max_length, cache.num_bytes(torch.float32))
    check_graph_memory(folder, weight_files(folder), precision, session_size, building=not are_built(request))
    graphs, sizes = find_graphs(request)
    language = GraphLanguage(graphs, sizes, shape, rotary, num_slots, provider, threads)
    vision = build_vision_encoder(read_checkpoint(folder, "auto", with_layers=False), how, precision)
    return GraphModel(f"draft:{model_name(folder)}", tokenizer, language, vision, max_length, card)


@reports_out_of_memory
def load_exact_model(folder: Path, precision: Precision) -> QwenModel:
    """Load the eager twin of static graphs: the same integers, all arithmetic in float32.

    Raises ModelError.
    """
    check_checkpoint(folder)
    tokenizer = load_tokenizer(folder)
    checkpoint = read_checkpoint(folder, torch.float32 if precision == "fp32" else "auto")
    check_text_config(folder, checkpoint.text_config, tokenizer.vocab_size, precision)
    text = build_text_stack(checkpoint, tokenizer.vocab_size, precision, exact=True)
    how = read_preprocessing(folder, checkpoint.modules.config, DEFAULT_MAX_LENGTH)
    vision = build_vision_encoder(checkpoint, how, precision)
    return QwenModel(f"exact:{folder.name}", tokenizer, text, vision, DEFAULT_MAX_LENGTH, read_card(folder))


def install_exits(
    folder: Path, adapters: ExitAdapters, figures: dict[str, Any], text: TextStack | None = None
) -> None:
    """Write exits into the folder of the model that they were trained for, and their figures into its card.

    `text` is that model's, if it is loaded. Existing exits are replaced. Raises ModelError if the folder
    holds no sound model.
    """
    write_exits(folder, adapters, text or _whole_text(folder))
    write_figures(folder, "exits", figures)


def install_head(
    folder: Path, weights: HeadWeights, figures: dict[str, Any], text: TextStack | None = None
) -> None:
    """Write a draft head into its target's folder, and its figures into the card, like `install_exits`."""
    write_head(folder, weights, text or _whole_text(folder))
    write_figures(folder, "head", figures)


def remove_outdated(folder: Path) -> None:
    """Remove exits and a draft head that were trained for other weights than the folder has now.

    Raises ModelError if the folder holds no sound model.
    """
    extras = [folder / name for name in (EXITS_FILE, HEAD_FILE) if (folder / name).exists()]
    if not extras:
        return
    text = _whole_text(folder)
    for path in extras:
        if not is_made_for(path, text):
            path.unlink()


def _whole_text(folder: Path) -> TextStack:
    check_checkpoint(folder)
    vocab_size = load_tokenizer(folder).vocab_size
    return build_text_stack(read_checkpoint(folder, torch.float32), vocab_size)


@reports_out_of_memory
def load_head(folder: Path, target: QwenModel) -> DraftHead:
    """Load the draft head in a target's folder. Raises ModelError if there is none."""
    return read_head(folder, f"the head of {target.name}", target.text)
