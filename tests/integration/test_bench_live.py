"""The live benchmark and the measured engine overhead, over real sockets with toy models and short times."""

import msgspec
import pytest
from support.served_verifier import serving
from support.toys import JPEG

from outrider.core.values import Decoded, LinkState, Prompt, RoundStats, Verified
from outrider.evaluation.common.paced_models import PacedService
from outrider.evaluation.decoding import live, overhead
from outrider.evaluation.decoding.comparison import synthetic_models
from outrider.evaluation.decoding.regimes import Regime, load_regimes


@pytest.fixture
def quick() -> Regime:
    """Returns the `lan` regime with a tenth of its times."""
    regime = load_regimes(["lan"])["lan"]
    return msgspec.structs.replace(regime, draft_token_ms=0.8, step_ms=1.8, verify_ms=1.8)


def test_live_figures(quick: Regime) -> None:
    pair = synthetic_models(quick, seed=0)
    prompts = [Prompt("find the silver bottle", JPEG)]
    with serving(PacedService(pair.target, quick.compute())) as endpoint:
        alone, drafted = (
            live.measure_live(endpoint, quick, strategy, pair, pair, prompts) for strategy in ("ar", "sd")
        )
    assert 0.0 < alone.tokens_per_s <= 1.0 / quick.step_s
    assert 0.0 < alone.clock_tokens_per_s <= 1.001 / quick.step_s
    assert 0.0 < drafted.clock_tokens_per_s != alone.clock_tokens_per_s
    assert drafted.tokens_per_round > 1.5
    assert drafted.bytes_up_per_token > 0.0


def test_an_order_counts_where_the_clock_has_one() -> None:
    speeds = {"ar": (10.0, 10.0), "sd": (20.0, 30.0), "fsd": (15.0, 40.0), "outrider": (50.0, 41.0)}
    rows = {
        strategy: live.LiveFigures(in_real_time, on_the_clock, 1.0, 0.0, 0.0, 0.0)
        for strategy, (in_real_time, on_the_clock) in speeds.items()
    }
    assert live.in_order(rows) == (
        4,
        5,
    )  # in real time sd is faster than fsd; fsd and outrider tie on the clock


def test_stopwatch_leaves_out_the_first_tokens_of_each_text() -> None:
    watch = live.Stopwatch()
    for start_s in (1.0, 5.0):
        watch.on_verified(Verified((1, 2), "", start_s))
        watch.on_verified(Verified((3, 4, 5), "", start_s + 1.5))
        watch.end_text()
    assert watch.tokens_per_s == pytest.approx(6 / 3.0)


def test_overhead_of_rounds_over_sockets() -> None:
    with serving(overhead.synthetic_service()) as endpoint:
        waiting = overhead.measure_overhead(endpoint, "sd", texts=1)
        streaming = overhead.measure_overhead(endpoint, "outrider", texts=1)
        sampled = overhead.measure_overhead(endpoint, "dssd", texts=1, temperature=1.0)
    assert sampled.rounds >= 40 and sampled.median_ms > 0.0
    assert waiting.rounds >= 40 and waiting.p90_ms >= waiting.median_ms > 0.0
    assert streaming.rounds >= 40 and streaming.edge_cpu_ms > 0.0


def test_only_what_has_to_follow_one_another_is_taken_off_a_round() -> None:
    first, second = (
        RoundStats(index, 4, 3, 4, 0.02, 0.05, 0.06, index, index + 0.1, 40, 30) for index in range(2)
    )
    text = Decoded("", (), True, 1.0, 0.0, 2, (first, second), LinkState.CONNECTED)
    assert overhead.round_overheads_ms(text, waits=True) == pytest.approx([30.0])
    assert overhead.round_overheads_ms(text, waits=False) == pytest.approx([50.0])
