# SPDX-License-Identifier: Apache-2.0
"""`outrider bench latency`: the time from the frame to the verified action, and to the end of the text.

Models really decode held-out frames on the virtual clock; their times are processor times measured here.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from outrider.core.files.terminal import tracked
from outrider.core.link_profile import LinkProfile
from outrider.core.ports import ModelSession
from outrider.core.values import Decoded, DecodeRequest, Prompt, Verified
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.evaluation.common.intervals import Interval, median_interval, percentile
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.ratios import branch_seconds, cpu_seconds, forward_seconds
from outrider.evaluation.common.tables import print_results, results_table
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.datasets.held_out import Pair, check_frames, held_out_prompts, load_pair
from outrider.wire.codec import frame_bytes

ONE_WAY_DELAYS_S = (0.0, 0.02, 0.1)
REPEATS = 15


@dataclass(frozen=True)
class LatencyRow:
    """Medians over the frames of one strategy at one delay, in seconds from the frame's stamp.

    The intervals are 95 % intervals by a bootstrap over the frames.
    """

    strategy: str
    one_way_s: float
    decision_s: float
    decision_p90_s: float
    decision_interval_s: Interval
    finish_s: float
    finish_interval_s: Interval
    tokens_per_s: float
    tokens_per_round: float
    target_passes_per_token: float


def measure_compute(pair: Pair, prompts: Sequence[Prompt], num_draft_tokens: int) -> ComputeProfile:
    """Return the times of this machine's models, in processor time of this thread.

    Other programs hardly lengthen it. Prefills are of prompts not seen before.
    """
    branch_s = branch_seconds(pair.draft, prompts[0], REPEATS)
    target, draft = pair.target.open_session(), pair.draft.open_session()
    target_prefill_s, draft_prefill_s = _prefill_s(target, prompts), _prefill_s(draft, prompts)
    one_s, chunk_s = _forward_s(target, 1), _forward_s(target, num_draft_tokens + 1)
    one_with_exits_s, chunk_with_exits_s = (
        _forward_s(target, count, exits=True) for count in (1, num_draft_tokens + 1)
    )
    num_exits = 1 if pair.target.exits is None else len(pair.target.exits.layers)
    return ComputeProfile(
        draft_prefill_s=draft_prefill_s,
        draft_token_s=_forward_s(draft, 1),
        draft_branch_s=branch_s,
        target_prefill_s=target_prefill_s,
        verify_s=one_s,
        verify_token_s=max(0.0, chunk_s - one_s) / num_draft_tokens,
        step_s=one_s,
        verify_exit_s=max(0.0, chunk_with_exits_s - chunk_s) / num_exits,
        step_exit_s=max(0.0, one_with_exits_s - one_s) / num_exits,
    )


def _prefill_s(session: ModelSession, prompts: Sequence[Prompt]) -> float:
    """Return the median seconds of a new prompt's prefill."""
    return statistics.median([cpu_seconds(partial(session.prefill, prompt)) for prompt in prompts])


def _forward_s(session: ModelSession, num_tokens: int, exits: bool = False) -> float:
    """Return the median seconds of a forward of `num_tokens` tokens after the session's prompt."""
    return statistics.median(forward_seconds(session, num_tokens, exits) for _ in range(REPEATS))


def measure_row(
    pair: Pair, prompts: Sequence[Prompt], strategy: str, one_way_s: float, compute: ComputeProfile
) -> LatencyRow:
    """Decode every prompt with one strategy over a link of one delay; return the figures."""
    link = LinkProfile(delay_s=one_way_s)
    world = VirtualWorld(frame_bytes, compute=compute, uplink=link, downlink=link)
    draft = pair.draft if strategy != "ar" else None
    decoder = VirtualDecoder(pair.target, draft, DecodingConfig(strategy=strategy), world)
    runs = [_decode(decoder, prompt) for prompt in prompts]
    decisions = [decision_s for decision_s, _ in runs]
    texts = [decoded for _, decoded in runs]
    return LatencyRow(
        strategy=strategy,
        one_way_s=one_way_s,
        decision_s=statistics.median(decisions),
        decision_p90_s=percentile(decisions, 0.9),
        decision_interval_s=median_interval(decisions),
        finish_s=statistics.median(text.elapsed_s for text in texts),
        finish_interval_s=median_interval([text.elapsed_s for text in texts]),
        tokens_per_s=sum(len(text.token_ids) for text in texts) / sum(text.elapsed_s for text in texts),
        tokens_per_round=statistics.mean(text.tokens_per_round for text in texts),
        target_passes_per_token=sum(t.target_passes for t in texts) / sum(len(t.token_ids) for t in texts),
    )


def _decode(decoder: VirtualDecoder, prompt: Prompt) -> tuple[float, Decoded]:
    """Return the seconds until the action line was verified, and the finished text."""
    decisions: list[float] = []

    def on_verified(verified: Verified) -> None:
        if not decisions and "\n" in verified.text:
            decisions.append(verified.elapsed_s)

    decoded = decoder.decode(DecodeRequest(prompt), on_verified)
    return (decisions or [decoded.elapsed_s])[0], decoded


def bench_latency(
    frames: int,
    seed: int,
    models: Path | None = None,
    json_file: Path | None = None,
    pair: Pair | None = None,
) -> dict[str, Any]:
    """Measure, print a table, write JSON. Raises ModelError without models."""
    check_frames(frames, seed)
    pair = pair or load_pair(models)
    prompts = list(held_out_prompts(frames, seed))
    compute = measure_compute(pair, prompts, DecodingConfig().num_draft_tokens)
    cases = [(strategy, delay_s) for delay_s in ONE_WAY_DELAYS_S for strategy in STRATEGIES]
    progress = tracked(cases, "cases")
    rows = [measure_row(pair, prompts, strategy, delay_s, compute) for strategy, delay_s in progress]
    title = f"latency over {frames} frames; this machine's compute, a virtual network"
    print_results(results_table(title, *LEGENDS["bench latency"], rows=map(_cells, rows)))
    figures = {
        "frames": frames,
        "seed": seed,
        "compute": asdict(compute),
        "rows": [asdict(row) for row in rows],
    }
    write_figures(json_file, figures)
    return figures


def _cells(row: LatencyRow) -> tuple[str, ...]:
    low_s, high_s = row.decision_interval_s
    return (
        f"{row.one_way_s * 1e3:.0f} ms",
        row.strategy,
        f"{row.decision_s * 1e3:.0f} ms",
        f"{low_s * 1e3:.0f} to {high_s * 1e3:.0f}",
        *(f"{value * 1e3:.0f} ms" for value in (row.decision_p90_s, row.finish_s)),
        f"{row.tokens_per_s:.1f}",
        f"{row.tokens_per_round:.2f}",
        f"{row.target_passes_per_token:.2f}",
    )
