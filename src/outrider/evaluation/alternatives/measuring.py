# SPDX-License-Identifier: Apache-2.0
"""Measures the speed of every alternative in one condition, each at its best settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from outrider.core.values import Decoded, DecodeRequest
from outrider.decoding.config import DecodingConfig
from outrider.decoding.simulation.timeline import TimelineEvent
from outrider.evaluation.alternatives.colocated import CloudCosts, CloudRun, csd_run, draft_ranks, ssd_run
from outrider.evaluation.decoding.comparison import configuration, decode_all, world_of
from outrider.evaluation.decoding.regimes import BRANCH_COST, Regime, with_separate_exit_times, without_exits
from outrider.runtime.datasets.held_out import Pair

PAPERS = ("sd", "dssd", "fsd", "picospec")
PAPER_LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
CLOUD_LENGTHS = (*range(1, 25), 28, 32, 40, 48, 64)
"""The longest is the engine's own limit, so that drafting in the cloud is limited no more than `outrider`."""
FAN_OUTS = (1, 2, 3, 4, 6, 8, 12)
CLOUD_SHARES = {"5%": 0.05, "10%": 0.10}
"""Costs of a draft token in the cloud, as shares of a step, besides what a paper prints or sizes imply."""
SHIPPED_SHARE = 0.12
"""The shipped draft's parameters over the target's, with vision encoders: 0.57 of 5.1 million, rounded."""


@dataclass(frozen=True)
class Condition:
    """A regime with the texts that are decoded in it. `bare`: the same pair with a target without exits.

    `cloud_shares`: costs of a draft token in the cloud, as shares of a step, by name.
    """

    regime: Regime
    pair: Pair
    bare: Pair
    requests: Sequence[DecodeRequest]
    seed: int
    cloud_shares: dict[str, float]


@dataclass(frozen=True)
class Standing:
    """The figures of one way to decode the texts.

    `gpu_ms_per_token`: working time of the cloud's devices per token, drafts there included. `settings`:
    the best ones, if there is a choice.
    """

    speedup_vs_ar: float
    gpu_ms_per_token: float
    settings: str = ""


class TargetTime:
    """An observer that sums up the working time in the cloud: verifications, steps and drafts."""

    def __init__(self) -> None:
        self.busy_s = 0.0

    def __call__(self, event: TimelineEvent) -> None:
        if event.kind in ("verify", "step", "draft_cloud"):
            self.busy_s += event.end_s - event.start_s


def engine_run(
    regime: Regime,
    pair: Pair,
    condition: Condition,
    config: DecodingConfig,
    cloud_draft_s: float | None = None,
    apart: bool = False,
) -> tuple[CloudRun, list[Decoded]]:
    """Decode all texts by a strategy of the engine, on the virtual clock.

    `cloud_draft_s`: the time per token of the same draft in the cloud, None if it runs only on the robot.
    `apart`: it has a device of its own there, instead of the target's.
    """
    target, world = TargetTime(), world_of(regime, config.scheme, condition.seed)
    draft = None if cloud_draft_s is None else pair.draft
    if cloud_draft_s is not None:
        cloud = replace(
            world.compute,
            cloud_draft_token_s=cloud_draft_s,
            cloud_draft_branch_s=BRANCH_COST * cloud_draft_s,
            cloud_draft_apart=apart,
        )
        world = replace(world, compute=cloud)
    texts = decode_all(config, pair, world, condition.requests, target, draft)
    tokens = sum(len(text.token_ids) for text in texts)
    return CloudRun(tokens, sum(text.elapsed_s for text in texts), target.busy_s), texts


def measure(condition: Condition) -> dict[str, Standing]:
    """Measure every alternative against `ar`: `ar` first, `outrider` last."""
    bare = without_exits(condition.regime)
    ar, texts = engine_run(bare, condition.bare, condition, configuration(bare, "ar"))
    standings = {"ar": _standing(ar, ar)}
    for paper in papers_of(condition.regime):
        standings[paper] = _best(_paper_runs(condition, paper), ar)
    ranks, crossing_s = _ranks(condition, texts), link_s(bare, texts)
    for name, share in condition.cloud_shares.items():
        costs = cloud_costs(bare, share)
        standings[f"csd {name}"] = _best(_csd_runs(ranks, costs, crossing_s), ar)
        standings[f"ssd {name}"] = _best(_ssd_runs(ranks, costs, crossing_s), ar)
        standings.update(both_ends(condition, name, costs.draft_token_s, ar))
        standings.update(both_ends(condition, name, costs.draft_token_s, ar, apart=True))
    plain, _ = engine_run(bare, condition.bare, condition, configuration(bare, "outrider"))
    standings["outrider without exits"] = _standing(plain, ar)
    full, _ = engine_run(
        condition.regime, condition.pair, condition, configuration(condition.regime, "outrider")
    )
    standings["outrider"] = _standing(full, ar)
    return standings


def both_ends(
    condition: Condition, name: str, draft_token_s: float, ar: CloudRun, apart: bool = False
) -> dict[str, Standing]:
    """Measure `outrider` with drafts on the robot and in the cloud, with exits and without.

    `apart`: the cloud has two devices, one of them for drafts.
    """
    bare, full = without_exits(condition.regime), with_separate_exit_times(condition.regime)
    runs = {
        " without exits": engine_run(
            bare, condition.bare, condition, configuration(bare, "outrider"), draft_token_s, apart
        ),
        "": engine_run(
            full, condition.pair, condition, configuration(full, "outrider"), draft_token_s, apart
        ),
    }
    kind = "apart" if apart else "both"
    return {f"{kind} {name}{exits}": _standing(run, ar) for exits, (run, _) in runs.items()}


def papers_of(regime: Regime) -> tuple[str, ...]:
    """Return the papers' strategies that differ: at temperature 0 `dssd` is `sd`."""
    return tuple(paper for paper in PAPERS if paper != "dssd" or regime.temperature > 0.0)


def cloud_costs(bare: Regime, share: float) -> CloudCosts:
    """Return the costs in the cloud of a regime without exits."""
    compute, token_s = bare.compute(), bare.cloud_token_s(share)
    return CloudCosts(
        step_s=bare.step_s,
        verify_s=compute.verify_s,
        verify_token_s=compute.verify_token_s,
        draft_token_s=token_s,
        draft_branch_s=BRANCH_COST * token_s,
    )


def _paper_runs(condition: Condition, paper: str) -> Iterator[tuple[str, CloudRun]]:
    """Yield the runs of a paper's strategy. Only `fsd` uses exits; for the others the target has none."""
    uses_exits = paper == "fsd"
    regime = condition.regime if uses_exits else without_exits(condition.regime)
    pair = condition.pair if uses_exits else condition.bare
    for length in sorted({*PAPER_LENGTHS, regime.num_draft_tokens}):
        config = replace(configuration(regime, paper), num_draft_tokens=length)
        yield f"{length} drafts", engine_run(regime, pair, condition, config)[0]


def _ranks(condition: Condition, texts: Sequence[Decoded]) -> list[tuple[int, ...]]:
    config = configuration(condition.regime, "outrider")
    return [
        draft_ranks(condition.pair.draft, request.prompt, text.token_ids, config.sampling_for(request.prompt))
        for request, text in zip(condition.requests, texts, strict=True)
    ]


def link_s(bare: Regime, texts: Sequence[Decoded]) -> float:
    """Return the seconds that texts of `ar` spent on the link. The first token comes with the prefill."""
    return sum(text.elapsed_s - (len(text.token_ids) - 1) * bare.step_s for text in texts)


def _csd_runs(
    ranks: Sequence[Sequence[int]], costs: CloudCosts, crossing_s: float
) -> Iterator[tuple[str, CloudRun]]:
    for length in CLOUD_LENGTHS:
        yield f"{length} drafts", _total(ranks, partial(csd_run, costs=costs, length=length), crossing_s)


def _ssd_runs(
    ranks: Sequence[Sequence[int]], costs: CloudCosts, crossing_s: float
) -> Iterator[tuple[str, CloudRun]]:
    for length, fan_out in product(CLOUD_LENGTHS, FAN_OUTS):
        total = _total(ranks, partial(ssd_run, costs=costs, length=length, fan_out=fan_out), crossing_s)
        yield f"{length} drafts, {fan_out} outcomes a place", total


def _total(
    ranks: Sequence[Sequence[int]], run: Callable[[Sequence[int]], CloudRun], crossing_s: float
) -> CloudRun:
    """Sum up the runs of all texts. Each text crosses the link once each way: `crossing_s` in all."""
    runs = [run(text_ranks) for text_ranks in ranks]
    tokens, elapsed_s, device_s = (sum(column) for column in zip(*runs, strict=True))
    return CloudRun(int(tokens), elapsed_s + crossing_s, device_s)


def _best(runs: Iterable[tuple[str, CloudRun]], ar: CloudRun) -> Standing:
    return max(
        (_standing(run, ar, settings) for settings, run in runs), key=lambda standing: standing.speedup_vs_ar
    )


def _standing(run: CloudRun, ar: CloudRun, settings: str = "") -> Standing:
    speedup = run.tokens / run.elapsed_s * ar.elapsed_s / ar.tokens
    return Standing(speedup, 1e3 * run.device_s / run.tokens, settings)
