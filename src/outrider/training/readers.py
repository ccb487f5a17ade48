# SPDX-License-Identifier: Apache-2.0
"""A tiny language model that answers questions from the memories in its prompt, and its tokenizer.

It first learns to copy: sequences of random tokens that occur twice. Heads that find what followed an
earlier occurrence form within a few hundred steps of copying, and hardly ever from questions alone. Then
come the questions of `household`, trained on every token, as language models are: so its prefill predicts
the prompt, too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as functional
from transformers import PreTrainedTokenizerFast, Qwen2VLForConditionalGeneration

from outrider.core.errors import ConfigError
from outrider.core.language.prompt import END_OF_TEXT
from outrider.training.architecture import build_model
from outrider.training.export import save_weights, write_card
from outrider.training.household import Lesson, make_lesson
from outrider.training.imitation import learning_rate, save_checkpoint
from outrider.training.tokenizer import read_tokenizer, train_tokenizer

ROLE = "reader"
TOKENIZER_LESSONS, VOCABULARY = 4000, 768
FAST_ANGLES, SHARPNESS = 6, 6.0
"""The number of fast rotary angles that locate a near distance, and the size of a head's biases."""
PROMPT_WEIGHT = 0.2
"""The loss weight of a prompt token; a token of the answer weighs 1."""
COPYING_STEPS, COPYING_SHARE = 400, 0.1
"""Steps of copying alone, then the share of copying, so that words the lessons lack can be copied too."""
RUN_TOKENS, GAP_TOKENS, COPYING_ROWS = (6, 24), (0, 8), 32
BATCH, BATCHES_SORTED = 16, 8
"""Lessons per step, and how many steps' lessons are sorted by length, for less padding."""
LEARNING_RATE, WARMUP = 2e-3, 50
SAVED_EVERY = 200


@dataclass(frozen=True)
class Rows:
    """Token ids (B, T) and their weights in the loss (B, T); padding and given tokens weigh 0."""

    ids: torch.Tensor
    weights: torch.Tensor


def train_reader(
    folder: Path,
    run: Path,
    steps: int,
    seed: int = 0,
    copying_steps: int = COPYING_STEPS,
    saved_every: int = SAVED_EVERY,
) -> Iterator[float]:
    """Train a reader and write it to `folder`; yield the loss of each step.

    The tokenizer is made first if `folder` has none. A run resumes from its checkpoint in `run`, which is
    written every `saved_every` steps. The first `copying_steps` steps only copy. Raises ConfigError for a
    checkpoint that cannot be read, is of another seed, or has more steps.
    """
    tokenizer = readers_tokenizer(folder)
    torch.manual_seed(seed)
    model = build_model(ROLE, tokenizer)
    look_back(model)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.02)
    checkpoint = run / "reader.checkpoint.pt"
    first = _resume(checkpoint, model, optimizer, seed)
    if first > steps:
        raise ConfigError(f"{checkpoint} has {first} steps already: ask for more, or for another run folder")
    for step in range(first, steps):
        loss = _loss(model, _rows(tokenizer, step, seed, copying_steps))
        optimizer.param_groups[0]["lr"] = learning_rate(step, steps, WARMUP, LEARNING_RATE)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % saved_every == 0 or step + 1 == steps:
            _save(checkpoint, model, optimizer, step + 1, seed)
        yield float(loss.detach())
    _write(model, folder, steps)


def look_back(model: Qwen2VLForConditionalGeneration) -> None:
    """Initialise head h of the first layer to attend to the token h + 1 positions back, whatever it is.

    Copying from a context is then one step away for the second layer: n-gram heads (Akyurek et al.,
    "In-Context Language Learning", ICML 2024). Biases of queries and keys that are rotated against each
    other by the rotary angle of a distance have their greatest product at that distance.
    """
    config, attention = model.config.text_config, model.model.language_model.layers[0].self_attn
    size = config.hidden_size // config.num_attention_heads
    angles = config.rope_parameters["rope_theta"] ** (-2.0 * torch.arange(FAST_ANGLES) / size)
    with torch.no_grad():
        for head in range(config.num_attention_heads):
            first = head * size + torch.arange(FAST_ANGLES)
            attention.k_proj.bias[first] = SHARPNESS
            attention.q_proj.bias[first] = SHARPNESS * torch.cos((head + 1) * angles)
            attention.q_proj.bias[first + size // 2] = -SHARPNESS * torch.sin((head + 1) * angles)


def copying_rows(rng: random.Random, first_id: int, end_id: int) -> Rows:
    """Return random tokens that occur twice; of the second occurrence, all but the first token count."""
    run, gap = rng.randint(*RUN_TOKENS), rng.randint(*GAP_TOKENS)
    tokens = torch.tensor(
        [[rng.randrange(first_id, end_id) for _ in range(run + gap)] for _ in range(COPYING_ROWS)]
    )
    ids = torch.cat([tokens, tokens[:, :run]], dim=1)
    weights = torch.zeros(ids.shape)
    weights[:, run + gap + 1 :] = 1.0
    return Rows(ids, weights)


def lesson_rows(tokenizer: PreTrainedTokenizerFast, lessons: Sequence[Lesson]) -> Rows:
    """Return lessons as rows, padded at their ends.

    A blank before the answer makes its first word a token of the prompt, where words follow blanks.
    """
    prompts = [tokenizer.encode(one.prompt) for one in lessons]
    answers = [tokenizer.encode(f" {one.answer}{END_OF_TEXT}") for one in lessons]
    width = max(len(prompt) + len(answer) for prompt, answer in zip(prompts, answers, strict=True))
    ids = torch.full((len(lessons), width), tokenizer.pad_token_id)
    weights = torch.zeros(ids.shape)
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        cut, end = len(prompt), len(prompt) + len(answer)
        ids[row, :end] = torch.tensor(prompt + answer)
        weights[row, 1:cut], weights[row, cut:end] = PROMPT_WEIGHT, 1.0
    return Rows(ids, weights)


def _rows(tokenizer: PreTrainedTokenizerFast, step: int, seed: int, copying_steps: int) -> Rows:
    """Return what a step learns from, a function of the step: so a resumed run is the same run."""
    rng = random.Random(f"{seed} {step}")
    if step < copying_steps or rng.random() < COPYING_SHARE:
        return copying_rows(rng, len(tokenizer.all_special_ids), len(tokenizer))
    pool = random.Random(f"{seed} {step // BATCHES_SORTED} pool")
    lessons = [make_lesson(pool) for _ in range(BATCH * BATCHES_SORTED)]
    lessons.sort(key=lambda one: len(one.prompt) + len(one.answer))
    first = step % BATCHES_SORTED * BATCH
    return lesson_rows(tokenizer, lessons[first : first + BATCH])


def _loss(model: Qwen2VLForConditionalGeneration, rows: Rows) -> torch.Tensor:
    """Return the weighted mean of the cross-entropy."""
    positions = torch.arange(rows.ids.shape[1]).expand(3, rows.ids.shape[0], -1)
    logits = model(input_ids=rows.ids, position_ids=positions).logits[:, :-1]
    losses = functional.cross_entropy(logits.flatten(0, 1), rows.ids[:, 1:].flatten(), reduction="none")
    weights = rows.weights[:, 1:].flatten()
    return (losses * weights).sum() / weights.sum()


def readers_tokenizer(folder: Path, num_lessons: int = TOKENIZER_LESSONS) -> PreTrainedTokenizerFast:
    """Return the tokenizer in a folder; if there is none, train one on `num_lessons` lessons."""
    if (folder / "tokenizer.json").exists():
        return read_tokenizer(folder)
    rng = random.Random(0)
    lessons = (make_lesson(rng) for _ in range(num_lessons))
    return train_tokenizer((f"{one.prompt} {one.answer}" for one in lessons), folder, VOCABULARY)


def _save(path: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int, seed: int) -> None:
    state = {"step": step, "seed": seed, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    save_checkpoint(path, state)


def _resume(path: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> int:
    """Load a checkpoint, if there is one; return the step to continue with."""
    if not path.exists():
        return 0
    try:
        state: dict[str, Any] = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step, own_seed = int(state["step"]), int(state.get("seed", seed))
    except Exception as error:
        raise ConfigError(f"{path} is no readable checkpoint; delete it to start anew") from error
    if own_seed != seed:
        raise ConfigError(
            f"{path} is of seed {own_seed}, not {seed}: ask for that, or for another run folder"
        )
    return step


def _write(model: Qwen2VLForConditionalGeneration, folder: Path, steps: int) -> None:
    save_weights(model, folder)
    parameters = sum(part.numel() for part in model.parameters())
    figures = {"parameters": parameters, "steps": steps}
    write_card(folder, {"name": "outrider-reader", "figures": figures})
