# SPDX-License-Identifier: Apache-2.0
"""Every strategy on the same texts in one regime, on the virtual clock."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from outrider.core.frames import Frame, Open, Proposal, Unsettled
from outrider.core.ports import LanguageModel
from outrider.core.values import Decoded, DecodeRequest, Prompt
from outrider.decoding.acceptance.schemes import AcceptanceScheme
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.decoding.drafting.retrieval.drafts import MODEL
from outrider.decoding.fakes.replay import ReplayModel
from outrider.decoding.fakes.synthetic import SyntheticSettings, synthetic_pair
from outrider.decoding.fakes.synthetic_fit import draft_confidence, exit_agreement, second_choice_rate
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.timeline import Observer
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning
from outrider.evaluation.common.intervals import Interval, speedup_interval
from outrider.evaluation.decoding.expectations import (
    completed_formula_tokens_per_s,
    formula_tokens_per_s,
    limit_of,
)
from outrider.evaluation.decoding.regimes import Regime
from outrider.evaluation.decoding.schedule_bound import Conditions, best_tokens_per_s
from outrider.runtime.datasets.held_out import Pair, held_out_prompts
from outrider.wire.codec import frame_bytes

TEXT_TOKENS = 200
"""As in FSD, section 4."""
LONGEST_CHUNK = 24
"""The most drafts per verification of the bound: more are all right too rarely to matter."""
DEADLINE_S = 1e6
SPARSE_BYTES = 190
"""Bytes of the answer to a rejection if the target has a tail: 32 tokens and 4 draws, some 5 bytes each."""
_JPEG = b"\xff\xd8"


@dataclass(frozen=True)
class Figures:
    """One strategy in one regime.

    Speeds leave out the prompt; None is for what is not known or does not apply. `fraction_of_limit`: the
    speed as a share of the tokens per round of `sd` / max(verification, drafts of a round).
    `formula_tokens_per_s`: by the paper's formula, at the regime's acceptance and misses.
    `ratio_to_mended`: the speed over that formula, completed by what it leaves out
    (`completed_formula_tokens_per_s`).
    `paper_speedup`: what the paper measured. `speedup_interval`: a 95 % interval by a bootstrap over the
    texts.
    """

    tokens_per_s: float
    speedup_vs_ar: float
    tokens_per_round: float
    cache_miss_rate: float | None
    avg_exit: float | None
    target_passes_per_token: float
    bytes_up_per_token: float
    bytes_down_per_token: float
    fraction_of_limit: float
    formula_tokens_per_s: float | None
    ratio_to_formula: float | None
    ratio_to_mended: float | None
    paper_speedup: float | None
    speedup_interval: Interval | None = None


def synthetic_settings(regime: Regime, seed: int) -> SyntheticSettings:
    """Return the settings with the regime's acceptance and exits."""
    rate, exits = regime.rate, regime.exits
    confidence = draft_confidence(rate, regime.second_choice, sampled=regime.temperature > 0.0)
    chances: tuple[float, ...] = ()
    if exits.number:
        chances = exit_agreement(rate, regime.num_draft_tokens, exits.number, exits.miss_rate, exits.average)
    return SyntheticSettings(seed, confidence, regime.second_choice, chances)


def synthetic_models(regime: Regime, seed: int) -> Pair:
    """Return a synthetic pair with the regime's acceptance and exits."""
    return Pair(*synthetic_pair(synthetic_settings(regime, seed)))


def schedule_bound(regime: Regime) -> float:
    """Return tokens per second of the best schedule that finishes its verifications (`schedule_bound`).

    The schedule reads exits at no cost, or at the cost of always reading them, whichever is faster.
    """
    settings = synthetic_settings(regime, seed=0)
    chances, sampled = settings.exit_agreement, regime.temperature > 0.0
    predicted = tuple(chance - before for before, chance in zip((0.0, *chances[:-1]), chances, strict=True))
    conditions = [
        Conditions(
            draft_token_s=regime.draft_token_ms / 1e3,
            step_s=regime.step_s,
            verify_s=regime.verify_s(reads_exits),
            round_trip_s=regime.round_trip_s,
            acceptance_rate=regime.rate,
            second_choice=second_choice_rate(settings.confidence, settings.second_choice, sampled),
            predicted=predicted,
            exit_fractions=tuple((number + 1) / (len(chances) + 1) for number in range(len(chances))),
        )
        for reads_exits in (False, True)  # a longer verification gives the robot more time to draft
    ]
    return max(best_tokens_per_s(condition, LONGEST_CHUNK) for condition in conditions)


def synthetic_requests(texts: int, tokens: int = TEXT_TOKENS) -> list[DecodeRequest]:
    """Return requests for synthetic texts of `tokens` tokens."""
    return [DecodeRequest(Prompt(f"text {index}", _JPEG), tokens, DEADLINE_S) for index in range(texts)]


def replayed_requests(frames: int, seed: int) -> list[DecodeRequest]:
    """Return requests for the texts of held-out frames."""
    return [DecodeRequest(prompt, deadline_s=DEADLINE_S) for prompt in held_out_prompts(frames, seed)]


def replayed(pair: Pair, prompt_parts: int = 1) -> Pair:
    """Return a pair that computes each text once and replays it at any cost.

    The target's prompts come in `prompt_parts` parts.
    """
    return Pair(ReplayModel(pair.target, prompt_parts), ReplayModel(pair.draft))


def size_of(regime: Regime, scheme: AcceptanceScheme) -> Callable[[Frame], int]:
    """Return a function that gives a frame's bytes on the wire, with the papers' full distributions.

    Distributions are over the regime's vocabulary; greedy decoding needs none. The prompt counts as 0
    bytes.
    """
    full_row = regime.vocab_size * regime.bytes_per_probability

    def size(frame: Frame) -> int:
        if isinstance(frame, Open):
            return 0
        num_bytes = frame_bytes(frame)
        if regime.temperature == 0.0:
            return num_bytes
        if isinstance(frame, Proposal) and scheme.sends_draft_rows:
            return num_bytes - len(frame.evidence) + len(frame.tokens) * full_row
        if isinstance(frame, Unsettled):
            residue = full_row if scheme.sends_target_row else max(len(frame.residue), SPARSE_BYTES)
            return num_bytes - len(frame.residue) + residue
        return num_bytes

    return size


def configuration(
    regime: Regime,
    strategy: str,
    drafters: Sequence[str] = (MODEL,),
    tuning: AdaptiveTuning = DEFAULT_TUNING,
) -> DecodingConfig:
    """Return the regime's configuration; as many branches are drafted at once as the paper's edge could."""
    return DecodingConfig(
        strategy=strategy,
        num_draft_tokens=regime.num_draft_tokens,
        drafters=tuple(drafters),
        temperature=regime.temperature,
        workers=regime.exits.workers,
        silence_s=DEADLINE_S,
        tuning=tuning,
    )


def world_of(regime: Regime, scheme: AcceptanceScheme, seed: int) -> VirtualWorld:
    """Return the regime's machines and network; exits are at the depths of the target's own."""
    uplink, downlink = regime.directions()
    return VirtualWorld(size_of(regime, scheme), regime.compute(), uplink, downlink, seed=seed)


def decode_all(
    config: DecodingConfig,
    pair: Pair,
    world: VirtualWorld,
    requests: Iterable[DecodeRequest],
    observer: Observer | None = None,
    cloud_draft: LanguageModel | None = None,
) -> list[Decoded]:
    """Decode every text with one strategy, one after the other on one clock.

    `cloud_draft` runs in the cloud.
    """
    draft: LanguageModel | None = pair.draft if config.needs_model else None
    decoder = VirtualDecoder(pair.target, draft, config, world, observer, cloud_draft)
    return [decoder.decode(request) for request in requests]


def figures_of(
    regime: Regime, strategy: str, texts: Sequence[Decoded], before: Mapping[str, Figures]
) -> Figures:
    """Return the figures of decoded texts, without an interval.

    `before`: the figures of `ar` and `sd` on the same texts, unless this is one of them.
    """
    tokens = sum(len(text.token_ids) for text in texts)
    rounds = [round_stats for text in texts for round_stats in text.rounds]
    speculations = [text.speculation for text in texts]
    misses = sum(round_stats.misses for round_stats in speculations)
    judged = misses + sum(round_stats.hint_hits + round_stats.guess_hits for round_stats in speculations)
    exits = [exit_index + 1 for round_stats in speculations for exit_index in round_stats.hit_exits]
    tokens_per_s = tokens / sum(text.elapsed_s for text in texts)
    tokens_per_round = sum(round_stats.emitted for round_stats in rounds) / len(rounds)
    tokens_per_chunk = before["sd"].tokens_per_round if "sd" in before else tokens_per_round
    formula = formula_tokens_per_s(regime, strategy)
    return Figures(
        tokens_per_s=tokens_per_s,
        speedup_vs_ar=tokens_per_s / before["ar"].tokens_per_s if "ar" in before else 1.0,
        tokens_per_round=tokens_per_round,
        cache_miss_rate=misses / judged if judged else None,
        avg_exit=statistics.mean(exits) if exits else None,
        target_passes_per_token=sum(text.target_passes for text in texts) / tokens,
        bytes_up_per_token=sum(round_stats.bytes_up for round_stats in speculations) / tokens,
        bytes_down_per_token=sum(round_stats.bytes_down for round_stats in speculations) / tokens,
        fraction_of_limit=tokens_per_s / limit_of(regime, strategy, tokens_per_chunk),
        formula_tokens_per_s=formula,
        ratio_to_formula=_ratio(tokens_per_s, formula),
        ratio_to_mended=_ratio(tokens_per_s, completed_formula_tokens_per_s(regime, strategy)),
        paper_speedup=regime.measured.get(strategy),
    )


def _tokens_and_seconds(texts: Sequence[Decoded]) -> list[tuple[float, float]]:
    return [(float(len(text.token_ids)), text.elapsed_s) for text in texts]


def _ratio(value: float, to: float | None) -> float | None:
    return None if to is None else value / to


def measure_regime(
    regime: Regime,
    pair: Pair,
    requests: Sequence[DecodeRequest],
    seed: int,
    drafters: Sequence[str] = (MODEL,),
) -> dict[str, Figures]:
    """Measure all strategies, `ar` and `sd` first, on the same texts."""
    figures: dict[str, Figures] = {}
    ar_texts: list[Decoded] = []
    for strategy in STRATEGIES:
        config = configuration(regime, strategy, drafters)
        texts = decode_all(config, pair, world_of(regime, config.scheme, seed), requests)
        ar_texts = ar_texts or texts
        interval = speedup_interval(_tokens_and_seconds(texts), _tokens_and_seconds(ar_texts))
        figures[strategy] = replace(figures_of(regime, strategy, texts, figures), speedup_interval=interval)
    return figures
