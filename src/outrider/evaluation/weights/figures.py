# SPDX-License-Identifier: Apache-2.0
"""Measures a pair in one process: acceptance, exits, times, and the best schedule that they allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from outrider.core.errors import ConfigError
from outrider.core.files.terminal import tracked
from outrider.core.ports import Array, ExitInfo, LanguageModel
from outrider.core.values import Prompt
from outrider.decoding.acceptance.coupled import Draw, Draws, draws_on
from outrider.decoding.config import DecodingConfig
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.theory import acceptance_rate
from outrider.evaluation.decoding.schedule_bound import Conditions, best_tokens_per_s
from outrider.evaluation.pair.exit_quality import share
from outrider.evaluation.pair.speculation import Verification, emitted_tokens, exit_result
from outrider.runtime.datasets.held_out import Pair
from outrider.runtime.datasets.own_answers import TOGETHER, own_texts

PADDED_ROWS = 8
"""A forward of up to this many rows takes as long as one of one row (`outrider.models.backbone.batch`)."""


@dataclass(frozen=True)
class Acceptance:
    """Acceptance of greedy drafts.

    `tokens_per_verification`: the mean. `by_position`: how often the draft token at each position is accepted
    where those before it are. `second_choice`: how often the draft's second choice is right where its first
    is not.
    """

    verifications: int
    tokens_per_verification: float
    by_position: tuple[float, ...]
    second_choice: float


@dataclass(frozen=True)
class ExitShares:
    """Quality of the exit after one layer, at this `depth` (a fraction of all layers).

    `agreement`: the share of the verdicts' tokens that are the exit's choice too. `hint_agreement`: the share
    of verdicts that equal the exit's hint.
    """

    layer: int
    depth: float
    agreement: float
    hint_agreement: float


@dataclass(frozen=True)
class ExitPrediction:
    """`miss_rate`: the share of verdicts that no exit predicts. `average`: the mean number of the first exit
    that does, counted from 1; None where none ever does.
    """

    miss_rate: float
    average: float | None


def acceptance_of(rounds: Sequence[Verification]) -> Acceptance:
    """Returns the acceptance over some verifications; a draft that ends its text has fewer positions."""
    reached: Counter[int] = Counter()
    accepted: Counter[int] = Counter()
    second_right: list[bool] = []
    for verification in rounds:
        for position, (token, choice) in enumerate(
            zip(verification.draft, verification.choices, strict=False)
        ):
            reached[position] += 1
            if token != choice:
                second_right.append(verification.runners_up[position] == choice)
                break
            accepted[position] += 1
    emitted = sum(len(verification.emitted) for verification in rounds)
    shares = tuple(accepted[position] / reached[position] for position in sorted(reached))
    return Acceptance(len(rounds), emitted / len(rounds), shares, share(second_right))


def exit_shares(rounds: Sequence[Verification], exits: ExitInfo) -> list[ExitShares]:
    """Returns the quality of each exit."""
    return [
        _of_exit(rounds, index, layer / exits.num_layers, layer) for index, layer in enumerate(exits.layers)
    ]


def _of_exit(rounds: Sequence[Verification], index: int, depth: float, layer: int) -> ExitShares:
    right = [
        choice == token
        for verification in rounds
        for choice, token in zip(verification.exits[index].choices, verification.emitted, strict=False)
    ]
    hints = [verification.exits[index].hint == verification.emitted for verification in rounds]
    return ExitShares(layer, depth, share(right), share(hints))


def exit_prediction(rounds: Iterable[Verification]) -> ExitPrediction:
    """Returns how often, and by which exit, verdicts are predicted; any of the exits may predict one."""
    firsts = [_first_right(verification) for verification in rounds]
    hits = [first for first in firsts if first is not None]
    return ExitPrediction(1.0 - len(hits) / len(firsts), sum(hits) / len(hits) if hits else None)


def _first_right(verification: Verification) -> int | None:
    return next(
        (n for n, result in enumerate(verification.exits, start=1) if result.hint == verification.emitted),
        None,
    )


@dataclass(frozen=True)
class PairFigures:
    """Figures of a pair. Shares are those of the coupled choice, which is greedy at temperature 0.

    Times are in seconds. Without exits `exits` is empty and no verdict is predicted.
    """

    acceptance: Acceptance
    exits: list[ExitShares]
    exit_prediction: ExitPrediction
    compute: ComputeProfile
    num_draft_tokens: int

    def conditions(self, one_way_s: float) -> Conditions:
        """Returns the conditions for the best schedule over a link with this one-way delay."""
        compute, before, chances = self.compute, 0.0, []
        for one in self.exits:
            chances.append(max(0.0, one.hint_agreement - before))
            before = max(before, one.hint_agreement)
        return Conditions(
            draft_token_s=compute.draft_token_s,
            step_s=compute.step_s or compute.verify_s,
            verify_s=compute.verify_s + self.num_draft_tokens * compute.verify_token_s,
            round_trip_s=2.0 * one_way_s,
            acceptance_rate=acceptance_rate(self.acceptance.tokens_per_verification, self.num_draft_tokens),
            second_choice=self.acceptance.second_choice,
            predicted=tuple(chances),
            exit_fractions=tuple(one.depth for one in self.exits),
        )

    def bound(self, one_way_s: float) -> float:
        """Returns the speedup over `ar` of the best schedule that finishes verifications, over this delay."""
        conditions = self.conditions(one_way_s)
        return best_tokens_per_s(conditions, PADDED_ROWS - 1) * conditions.step_s


def measure_pair(
    pair: Pair, texts: Sequence[tuple[Prompt, Sequence[int]]], config: DecodingConfig, compute: ComputeProfile
) -> PairFigures:
    """Returns the figures of the verifications that write the target's own texts.

    Raises ConfigError where no text is long enough for one.
    """
    rounds = [
        verification
        for prompt, text in tracked(texts, "prompts")
        for verification in verifications_of(pair, prompt, text, config)
    ]
    if not rounds:
        raise ConfigError(
            f"no text holds {config.num_draft_tokens} drafts and what follows them: ask for more tokens"
        )
    info = pair.target.exits
    return PairFigures(
        acceptance=acceptance_of(rounds),
        exits=[] if info is None else exit_shares(rounds, info),
        exit_prediction=exit_prediction(rounds),
        compute=compute,
        num_draft_tokens=config.num_draft_tokens,
    )


def target_texts(
    target: LanguageModel, prompts: Sequence[Prompt], config: DecodingConfig, tokens: int
) -> list[list[int]]:
    """Returns the text that the target alone writes after each prompt; TOGETHER of them run as one batch."""
    requests = [(prompt, config.sampling_for(prompt)) for prompt in prompts]
    return [
        text
        for start in tracked(range(0, len(requests), TOGETHER), f"texts of {target.name}")
        for text in own_texts(target, requests[start : start + TOGETHER], tokens)
    ]


def verifications_of(
    pair: Pair, prompt: Prompt, text: Sequence[int], config: DecodingConfig
) -> Iterator[Verification]:
    """Yields the verifications through which drafts, by the coupled choice, become the target's text.

    A draft ends with its first rejected token. Rounds that the end of `text` would cut short are omitted.
    """
    info, count, position = pair.target.exits, config.num_draft_tokens, 1
    if position + count >= len(text):
        return
    draft_rows, _ = _rows_over(pair.draft, prompt, text)
    _, exit_rows = _rows_over(pair.target, prompt, text)
    draws = _draws(prompt, text, config, draft_rows)
    first, second = _two_choices(draws.noisy(draft_rows))
    shortlist = None if info is None else info.token_ids
    exits = [draws.part([range(len(rows))], shortlist).noisy(rows) for rows in exit_rows]
    while position + count < len(text):
        drafts, runners_up = first[position - 1 :][:count], second[position - 1 :][:count]
        target_tokens = list(text[position : position + count + 1])
        emitted = emitted_tokens(drafts, target_tokens, pair.target.end_ids)
        drafts, verified_rows = (
            drafts[: len(emitted)],
            slice(position - 1, position + min(count, len(emitted))),
        )
        exit_results = [
            exit_result(drafts, rows[verified_rows], shortlist, pair.target.end_ids) for rows in exits
        ]
        yield Verification(drafts, runners_up, target_tokens, emitted, exit_results)
        position += len(emitted)


def _rows_over(model: LanguageModel, prompt: Prompt, text: Sequence[int]) -> tuple[Array, list[Array]]:
    """Returns the logits (N - 1, V) for the tokens of a text after its first, and those of each exit."""
    session, exit_rows = model.open_session(), list[Array]()
    session.prefill(prompt)
    return session.forward(text[:-1], lambda _, rows: exit_rows.append(rows)), exit_rows


def _draws(prompt: Prompt, text: Sequence[int], config: DecodingConfig, rows: Array) -> Draws:
    sampling = config.sampling_for(prompt)
    return draws_on(rows.device, [Draw(sampling, n) for n in range(1, len(text))], rows.shape[-1])


def _two_choices(noisy: Array) -> tuple[list[int], list[int]]:
    """Returns the likeliest token of each row, and the second likeliest."""
    first = noisy.argmax(-1, keepdim=True)
    second = noisy.scatter(-1, first, -torch.inf).argmax(-1)
    return first.squeeze(-1).tolist(), second.tolist()
