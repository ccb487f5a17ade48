# SPDX-License-Identifier: Apache-2.0
"""Verifications of texts that the target has written: each model runs once over a text, not once a round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from outrider.core.files.terminal import tracked
from outrider.core.ports import Array, LanguageModel
from outrider.core.values import Prompt
from outrider.decoding.acceptance.coupled import Draw, Draws, draws_on
from outrider.decoding.config import DecodingConfig
from outrider.evaluation.pair.speculation import Verification, emitted_tokens, exit_word
from outrider.runtime.datasets.held_out import Pair
from outrider.runtime.datasets.own_answers import TOGETHER, own_texts


def target_texts(
    target: LanguageModel, prompts: Sequence[Prompt], config: DecodingConfig, tokens: int
) -> list[list[int]]:
    """What the target alone writes after each prompt, some of them as one batch."""
    requests = [(prompt, config.sampling_for(prompt)) for prompt in prompts]
    return [
        text
        for start in tracked(range(0, len(requests), TOGETHER), f"texts of {target.name}")
        for text in own_texts(target, requests[start : start + TOGETHER], tokens)
    ]


def verifications_of(
    pair: Pair, prompt: Prompt, text: Sequence[int], config: DecodingConfig
) -> Iterator[Verification]:
    """Those in which drafts, by the coupled choice, become a text of the target.

    A draft ends with its first rejected token. Rounds that the end of the text would cut short are left out.
    """
    info, count, place = pair.target.exits, config.num_draft_tokens, 1
    if place + count >= len(text):
        return
    draft_rows, _ = _rows_over(pair.draft, prompt, text)
    _, said = _rows_over(pair.target, prompt, text)
    draws = _draws(prompt, text, config, draft_rows)
    first, second = _two_choices(draws.noisy(draft_rows))
    shortlist = None if info is None else info.token_ids
    exits = [draws.part([range(len(rows))], shortlist).noisy(rows) for rows in said]
    while place + count < len(text):
        drafts, runners_up = first[place - 1 :][:count], second[place - 1 :][:count]
        wrote = list(text[place : place + count + 1])
        emitted = emitted_tokens(drafts, wrote, pair.target.end_ids)
        drafts, judged = drafts[: len(emitted)], slice(place - 1, place + min(count, len(emitted)))
        words = [exit_word(drafts, rows[judged], shortlist, pair.target.end_ids) for rows in exits]
        yield Verification(drafts, runners_up, wrote, emitted, words)
        place += len(emitted)


def _rows_over(model: LanguageModel, prompt: Prompt, text: Sequence[int]) -> tuple[Array, list[Array]]:
    """Logits (N - 1, V) of the tokens of a text after its first, and those of each exit."""
    session, said = model.open_session(), list[Array]()
    session.prefill(prompt)
    return session.forward(text[:-1], lambda _, rows: said.append(rows)), said


def _draws(prompt: Prompt, text: Sequence[int], config: DecodingConfig, rows: Array) -> Draws:
    sampling = config.sampling_for(prompt)
    return draws_on(rows.device, [Draw(sampling, n) for n in range(1, len(text))], rows.shape[-1])


def _two_choices(noisy: Array) -> tuple[list[int], list[int]]:
    """The likeliest tokens of each row, and the next ones."""
    first = noisy.argmax(-1, keepdim=True)
    second = noisy.scatter(-1, first, -torch.inf).argmax(-1)
    return first.squeeze(-1).tolist(), second.tolist()
