"""What the benchmark of a second verifier measures, on few texts."""

from __future__ import annotations

from itertools import pairwise

import pytest

from outrider.core.errors import ConfigError
from outrider.evaluation.decoding.comparison import configuration, synthetic_models, world_of
from outrider.evaluation.decoding.hedging import (
    BURSTS,
    DOWN_S,
    STRATEGY,
    bench_hedging,
    measure_hedging,
    measure_kills,
    with_kills,
    write_texts,
)
from outrider.evaluation.decoding.regimes import load_regimes

REGIME = load_regimes(["wifi6"])["wifi6"]
WORLD = world_of(REGIME, configuration(REGIME, STRATEGY).scheme, 0)


def test_kills_fall_on_both_verifiers_and_never_on_both_at_once() -> None:
    first, second = with_kills([WORLD] * 2, 40, seed=3)
    outages = sorted([*first.outages, *second.outages], key=lambda one: one.start_s)
    assert len(first.outages) == len(second.outages) == 20
    assert all(before.end_s <= after.start_s for before, after in pairwise(outages))


@pytest.mark.lengthy
def test_texts_are_written_until_every_kill_has_been() -> None:
    worlds = with_kills([WORLD] * 2, 2, seed=0)
    written = write_texts(synthetic_models(REGIME, 0), REGIME, worlds, texts=1)
    assert len(written.tokens) > 10, "texts of a tenth of a second, until the last kill after some seconds"


@pytest.mark.lengthy
def test_a_second_verifier_writes_the_same_texts_and_waits_less_where_verifiers_are_killed() -> None:
    one = measure_kills(REGIME, 1, seed=0, kills=3)
    assert one.same_texts and one.hedged_stand_ms < 0.5 * one.stand_ms
    assert one.stand_ms >= 1e3 * DOWN_S / 2 and one.prompts > 1.0


@pytest.mark.lengthy
def test_without_losses_little_more_work_is_done() -> None:
    one = measure_hedging(REGIME, "none", texts=15, seed=0)
    assert one.same_texts and one.work < 1.5 and BURSTS["none"][0] == 0.0


@pytest.mark.parametrize(("texts", "seed"), [(99, 0), (100_001, 0), (100, -1)])
def test_numbers_out_of_range_are_refused(texts: int, seed: int) -> None:
    with pytest.raises(ConfigError, match="from 100 to"):
        bench_hedging(texts, seed)
