"""The papers' regimes: what their file must satisfy, and the errors for a wrong one."""

from pathlib import Path

import pytest

from outrider.core.errors import ConfigError
from outrider.evaluation.decoding.regimes import load_regimes, varied, with_separate_exit_times, without_exits

ENTRY = """
one:
  source: a table
  draft_token_ms: 10
  step_ms: 50
  verify_ms: 60
  num_draft_tokens: 4
  temperature: 0
  exits: {number: 8, miss_rate: 0.3, average: 3, workers: 2}
  layers: {draft: 4, target: 9}
  models: {draft: vicuna-68m, target: vicuna-7b}
  vocab_size: 100
  measured: {}
"""


def test_every_regime_of_the_papers_is_there() -> None:
    names = set(load_regimes())
    assert {"fsd-go2", "fsd-go2-cheap-exits", "lan", "wifi6", "lte", "satellite"} <= names
    for start, count in (("fsd-jetson-", 3), ("fsd-rtx-", 3), ("picospec-", 4), ("dssd-", 3)):
        assert sum(name.startswith(start) for name in names) >= count


def test_go2_implies_the_autoregressive_step() -> None:
    """FSD Table 8: 0.90x of autoregressive decoding at 2.92 tokens a round of 2 x 120 + 288 + 620 ms."""
    regime = load_regimes(["fsd-go2"])["fsd-go2"]
    round_s = regime.round_trip_s + regime.draft_s + regime.verify_s()
    assert round_s == pytest.approx(1.148)
    assert regime.expected_tokens * regime.step_s / round_s == pytest.approx(0.90, abs=2e-3)


def test_exits_add_to_what_is_not_printed_with_them() -> None:
    regimes = load_regimes()
    go2, cheap = regimes["fsd-go2"], regimes["fsd-go2-cheap-exits"]
    assert go2.verify_s() == go2.verify_s(reads_exits=False) == 0.62
    assert cheap.verify_s(reads_exits=False) == cheap.step_s == 0.354
    assert cheap.verify_s() == pytest.approx((1.0 + 27 / 28 * 0.072) * cheap.step_s)
    assert cheap.compute().step_exit_s == pytest.approx(1 / 28 * 0.072 * cheap.step_s)
    seven = regimes["dssd-ntt20-100mbps"]
    assert seven.compute().verify_exit_s == pytest.approx(1 / 32 * 0.072 * seven.step_s)


def test_exits_take_as_long_in_a_step_as_in_a_verification() -> None:
    """Also in FSD's verifications, whose own heads make them long; with and without costs per row."""
    for variant in (None, "rows"):
        for regime in varied(load_regimes(), variant).values():
            compute, plain = regime.compute(), without_exits(regime).compute()
            drafted = regime.num_draft_tokens * compute.verify_token_s
            heard_s = regime.verify_s() - drafted - plain.verify_s
            assert heard_s == pytest.approx(regime.exits.number * compute.step_exit_s)


def test_without_exits_each_row_still_adds_to_a_step() -> None:
    dear = varied(load_regimes(["fsd-go2"]), "rows")["fsd-go2, rows"]
    for regime in (without_exits(dear), with_separate_exit_times(dear)):
        compute = regime.compute()
        assert compute.verify_s == pytest.approx(dear.step_s)
        assert compute.verify_token_s == pytest.approx(0.1 * dear.step_s)


def test_a_forward_that_is_left_runs_on_for_a_part_of_a_layer() -> None:
    """It runs on to the end of a part of a layer, or as long as its host needs.

    A layer takes 3.9 ms in the draft of `lan`, and 0.6 ms in its target.
    """
    regimes = load_regimes()
    go2, lan = regimes["fsd-go2"].compute(), regimes["lan"].compute()
    assert go2.target_queue.left_s(0.354 / 28, 0.354) == pytest.approx(1.5 * 0.354 / 28)
    assert go2.draft_queue.left_s(0.001, 0.072) == pytest.approx(0.072 / 28)
    assert lan.target_queue.left_s(0.0, lan.verify_s) == pytest.approx(lan.verify_s / 28)
    assert lan.draft_queue.left_s(0.0, lan.draft_token_s) == pytest.approx(lan.draft_token_s / 4)
    for regime in regimes.values():
        assert regime.exits.number < regime.layers.target


def test_acceptance_gives_the_papers_length() -> None:
    for regime in load_regimes().values():
        if regime.tokens_per_round is not None:
            assert regime.expected_tokens == pytest.approx(regime.tokens_per_round, abs=1e-6)


def test_round_trip_alone_changes() -> None:
    regime = load_regimes(["dssd-ntt50-10mbps"])["dssd-ntt50-10mbps"]
    there = regime.at_round_trip(300.0)
    assert there.round_trip_s == pytest.approx(0.3)
    assert (there.verify_s(), there.draft_s) == (regime.verify_s(), regime.draft_s)
    assert there.distribution_up_s() == 0.0 < regime.distribution_up_s()


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("", "either tokens_per_round or acceptance_rate"),
        ("  tokens_per_round: 2\n  acceptance_rate: 0.5\n", "either tokens_per_round or acceptance_rate"),
        ("  tokens_per_round: 7\n", "not within 1 and 5"),
        ("  tokens_per_round: 2\n  gamma: 4\n", "gamma"),
    ],
)
def test_wrong_entry_is_refused(tmp_path: Path, extra: str, message: str) -> None:
    file = tmp_path / "regimes.yaml"
    file.write_text(ENTRY + extra)
    with pytest.raises(ConfigError, match=message):
        load_regimes(file=file)


def test_exits_within_a_verification_shorter_than_a_step_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "regimes.yaml"
    within = ENTRY.replace("workers: 2}", "workers: 2, in_verification: true}") + "  tokens_per_round: 2\n"
    file.write_text(within.replace("verify_ms: 60", "verify_ms: 40"))
    with pytest.raises(ConfigError, match="no exits fit into verify_ms=40 beside step_ms=50"):
        load_regimes(file=file)


def test_unknown_regime_names_the_known() -> None:
    with pytest.raises(ConfigError, match="fsd-go2"):
        load_regimes(["no-such-regime"])
