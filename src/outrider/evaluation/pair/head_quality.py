# SPDX-License-Identifier: Apache-2.0
"""`outrider eval head`: a robot without a draft model, served by drafts made in the cloud.

Texts are really decoded, prompts included, alternately by each way. Seconds are this thread's processor
time, which other programs hardly lengthen.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from outrider.core.errors import OutriderError
from outrider.core.files.terminal import tracked
from outrider.core.ports import DraftHead, LanguageModel
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.linked_decoder import LinkedDecoder
from outrider.decoding.drivers.local_link import LocalLink
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.evaluation.common.intervals import Interval, speedup_interval
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.ratios import cpu_seconds, forward_seconds
from outrider.evaluation.common.tables import interval_text, print_results, results_table
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.paths import models_folder
from outrider.runtime.datasets.held_out import check_frames, held_out_prompts, load_pair

ALONE, LOOKUP_ONLY, HEAD, MODEL = "ar", "nothing", "the target's head", "the draft model"
TEXT_S = 600.0
PRACTICE = 1
"""Texts before those that count, from which a way learns."""
TIMED_TOKENS = 200


@dataclass(frozen=True)
class Drafting:
    """The figures of one way over all texts that count. `over_ar`: its speed over `ar`.

    `token_share`: the time of a token of its draft, as a share of a step of the target.
    """

    over_ar: float
    interval: Interval
    tokens_per_pass: float
    token_share: float | None


class DraftingSetup:
    """A verifier with or without a draft, and the decoder of a robot without one."""

    def __init__(self, service: VerifierService, target: LanguageModel, config: DecodingConfig) -> None:
        self.service = service
        self._decoder = LinkedDecoder(LocalLink(service), None, target.tokenizer, config, 1, target.name)
        self.texts: list[tuple[float, float]] = []
        """For each text its tokens and their seconds."""

    def decode(self, prompt: Prompt) -> tuple[int, ...]:
        """Decode and time the answer to a prompt; return its tokens."""
        begun_s = time.thread_time()
        text = self._decoder.decode(DecodeRequest(prompt, deadline_s=TEXT_S))
        self.texts.append((len(text.token_ids), time.thread_time() - begun_s))
        return text.token_ids

    def drafting(self, ar: DraftingSetup, token_share: float | None) -> Drafting:
        """Return this way's figures over those of `ar`."""
        texts, base = self.texts[PRACTICE:], ar.texts[PRACTICE:]
        speeds = [
            sum(n for n, _ in timed_texts) / sum(s for _, s in timed_texts) for timed_texts in (texts, base)
        ]
        stats = self.service.stats
        return Drafting(
            speeds[0] / speeds[1],
            speedup_interval(texts, base),
            stats.tokens / stats.batched,
            token_share,
        )


Loaded = tuple[LanguageModel, LanguageModel, DraftHead]
"""A target, a draft model and the target's head."""


def drafting_setups(load: Callable[[], Loaded]) -> dict[str, DraftingSetup]:
    """Return the ways by name, each with its own models, because a target reuses a prompt that it has seen.

    The robot copies from earlier texts, except under `ar`.
    """
    copies, setups = DecodingConfig(drafters=("lookup",)), {}
    for name in (ALONE, LOOKUP_ONLY, HEAD, MODEL):
        target, draft, head = load()
        service = VerifierService(
            target, draft=draft if name == MODEL else None, head=head if name == HEAD else None
        )
        setups[name] = DraftingSetup(service, target, DecodingConfig("ar") if name == ALONE else copies)
    return setups


def token_shares(
    target: LanguageModel, draft: LanguageModel, head: DraftHead, prompt: Prompt
) -> dict[str, float]:
    """Return the time of a token of each draft, as a share of a target's step: medians, timed alternately."""
    sessions = [model.open_session() for model in (target, draft)]
    row, _ = (session.prefill(prompt) for session in sessions)
    states = head.begin(row)[None]
    times: list[tuple[float, ...]] = []
    for _ in range(TIMED_TOKENS):
        drafted_s = cpu_seconds(partial(_head_token, head, states, row.argmax()[None]))
        times.append((*(forward_seconds(session, 1) for session in sessions), drafted_s))
    step_s, model_s, head_s = (statistics.median(column) for column in zip(*times, strict=True))
    return {HEAD: head_s / step_s, MODEL: model_s / step_s}


@torch.inference_mode()
def _head_token(head: DraftHead, states: torch.Tensor, token: torch.Tensor) -> None:
    head.logits(head.advance(states, token))


def evaluate_head(
    frames: int, seed: int, models: Path | None = None, json_file: Path | None = None
) -> dict[str, Any]:
    """Measure, print a table, write JSON.

    Raises ModelError if the target has no head, OutriderError if a text is not the target's own.
    """
    from outrider.models import QwenModel, load_head  # takes seconds to import

    def load() -> Loaded:
        pair = load_pair(models)
        assert isinstance(pair.target, QwenModel)
        return pair.target, pair.draft, load_head(models_folder(models) / "target", pair.target)

    check_frames(frames, seed)
    return measure_head(load, list(held_out_prompts(frames + PRACTICE, seed)), json_file)


def measure_head(
    load: Callable[[], Loaded], prompts: Sequence[Prompt], json_file: Path | None = None
) -> dict[str, Any]:
    """Measure as `evaluate_head` does, with given models; the first prompts are for practice."""
    setups = drafting_setups(load)
    for prompt in tracked(prompts, "frames"):
        if len({setup.decode(prompt) for setup in setups.values()}) > 1:
            raise OutriderError("a draft has changed a text: this is a fault, please report it")
    shares = token_shares(*load(), prompts[0])
    rows = {name: setup.drafting(setups[ALONE], shares.get(name)) for name, setup in setups.items()}
    figures = {"frames": len(prompts) - PRACTICE, "drafts": {name: asdict(row) for name, row in rows.items()}}
    cells = (
        (
            name,
            f"{row.over_ar:.2f} ({interval_text(row.interval)})",
            f"{row.tokens_per_pass:.2f}",
            "-" if row.token_share is None else f"{100 * row.token_share:.0f} %",
        )
        for name, row in rows.items()
    )
    table = results_table("a robot without a draft model", *LEGENDS["eval head"], rows=cells)
    print_results(table, f"{figures['frames']} frames; all texts are the target's own")
    write_figures(json_file, figures)
    return figures
