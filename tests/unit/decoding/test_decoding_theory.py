"""The papers' formulas against numbers that the papers print."""

from itertools import pairwise

import pytest
from support.closed_forms import round_sd_s

from outrider.core.errors import ConfigError
from outrider.decoding.theory import (
    acceptance_rate,
    distribution_s,
    expected_tokens,
    fast_verified_tokens_per_s,
    limit_tokens_per_s,
    round_dsd_s,
    round_dssd_s,
    round_fsd_s,
    round_picospec_s,
    unfinished_drafts_s,
)


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.61, 0.99, 1.0])
@pytest.mark.parametrize("num_draft_tokens", [1, 4, 8])
def test_acceptance_rate_inverts_expected_tokens(rate: float, num_draft_tokens: int) -> None:
    tokens = expected_tokens(rate, num_draft_tokens)
    assert acceptance_rate(tokens, num_draft_tokens) == pytest.approx(rate, abs=1e-9)


def test_expected_tokens_is_the_truncated_geometric_series() -> None:
    assert expected_tokens(0.5, 4) == pytest.approx((1 - 0.5**5) / (1 - 0.5))
    assert expected_tokens(0.8, 4) == pytest.approx((1 - 0.8**5) / (1 - 0.8))
    assert expected_tokens(0.5, 3) == 1.875
    assert expected_tokens(1.0, 4) == 5.0
    assert expected_tokens(1.0 - 2.0**-53, 4) == pytest.approx(5.0, rel=1e-15)
    assert expected_tokens(0.0, 4) == expected_tokens(0.7, 0) == 1.0


def test_a_mean_number_of_drafts_need_not_be_whole() -> None:
    for rate in (0.2, 0.7, 1.0):
        tokens = [expected_tokens(rate, 0.5 * number) for number in range(12)]
        gains = [after - before for before, after in pairwise(tokens)]
        assert all(gain > 0.0 for gain in gains) and gains == sorted(gains, reverse=rate < 1.0)


@pytest.mark.parametrize("tokens_per_round", [0.9, 5.1])
def test_impossible_acceptance_length_is_refused(tokens_per_round: float) -> None:
    with pytest.raises(ConfigError, match="tokens_per_round"):
        acceptance_rate(tokens_per_round, 4)


def test_fsd_go2_implies_the_autoregressive_step_of_354_ms() -> None:
    """Table 8: 0.90x of cloud AR at 2.92 tokens a round."""
    tokens_per_s = 2.92 / round_sd_s(0.288, 0.620, 0.120)
    assert 0.90 / tokens_per_s == pytest.approx(0.354, abs=5e-4)


def test_fsd_go2_bound_at_gamma_4_is_1_67() -> None:
    assert limit_tokens_per_s(2.92, 0.288, 0.620) * 0.354 == pytest.approx(1.67, abs=5e-3)


def test_fsd_table_8_speedup_of_1_34_needs_a_miss_rate_of_zero() -> None:
    serial_s = round_sd_s(0.288, 0.620, 0.120)
    at_printed_rate = serial_s / round_fsd_s(0.288, 0.620, 0.120, 0.5563, 0.0)
    without_misses = serial_s / round_fsd_s(0.288, 0.620, 0.120, 0.0, 0.0)
    assert (at_printed_rate, without_misses) == pytest.approx((1.125, 1.335), abs=5e-4)


def test_a_hit_costs_the_synchronisation() -> None:
    assert round_fsd_s(0.3, 0.6, 0.1, 0.0, 0.05) == pytest.approx(0.2 + 0.05 + 0.6)
    assert round_fsd_s(0.3, 0.6, 0.1, 1.0, 0.05) == pytest.approx(round_sd_s(0.3, 0.6, 0.1))


@pytest.mark.parametrize(
    ("num_draft_tokens", "rate", "printed_ms"),
    [(2, 0.5, 26.00), (4, 0.5, 27.50), (4, 0.9, 22.75), (6, 0.6, 27.63), (8, 0.7, 27.54), (8, 0.99, 20.62)],
)
def test_dssd_table_1(num_draft_tokens: int, rate: float, printed_ms: float) -> None:
    """NTT 20 ms and 8 ms on the air: a fp16 row over 50,000 tokens at 100 Mbit/s."""
    downlink_s = distribution_s(1, 50_000, 2, 100e6 / 8)
    assert downlink_s == pytest.approx(0.008)
    communication_s = round_dssd_s(0.0, 0.0, 0.020, downlink_s, rate, num_draft_tokens)
    assert communication_s * 1e3 == pytest.approx(printed_ms, abs=0.01)


def test_dsd_sends_a_row_for_every_draft() -> None:
    uplink_s = distribution_s(8, 50_000, 2, 100e6 / 8)
    assert round_dsd_s(0.12, 0.15, 0.02, uplink_s) == pytest.approx(0.12 + 0.15 + 0.02 + 0.064)


def test_picospec_between_serial_and_hidden() -> None:
    serial_s = 0.1 + 0.05 + 0.04
    assert round_picospec_s(0.1, 0.05, 0.04, 0.0, 4) == pytest.approx(serial_s)
    assert round_picospec_s(0.1, 0.05, 0.04, 1.0, 4) == pytest.approx(0.1)
    assert round_picospec_s(0.04, 0.05, 0.04, 1.0, 4) == pytest.approx(0.09)


def test_picospec_table_2_serial_round() -> None:
    """At GSM8K, without parallel drafting, Qwen takes 251.8 ms a round: 123.9 to draft, 119.8 remotely."""
    round_s = round_picospec_s(0.12391, 0.0720, 0.0478, 0.0, 4)
    assert round_s == pytest.approx(0.25176, rel=0.04)


def test_unfinished_drafts_explain_fsd_on_the_jetson_with_13b() -> None:
    """Table 6 prints 1.05x over vanilla; with its misses, Table 4 gives 1.34x if hits are free.

    It gives 1.08x if hits wait for the 1596 ms of drafting that an exit starts after a fifth of 616 ms.
    """
    unfinished_s = unfinished_drafts_s(1.596, 0.616, 8 / 40)
    serial_s = round_sd_s(1.596, 0.616, 0.091)
    assert serial_s / round_fsd_s(1.596, 0.616, 0.091, 0.6205, unfinished_s) == pytest.approx(1.085, abs=1e-3)
    assert unfinished_drafts_s(0.288, 0.620, 8 / 28) == 0.0


def test_fast_verification_lies_between_the_serial_loop_and_the_slower_machine() -> None:
    drafting, verifying = (0.05, 0.02), (0.02, 0.05)
    for draft_token_s, verify_s in (drafting, verifying):
        slower_s = max(draft_token_s, verify_s / 4)
        perfect = fast_verified_tokens_per_s(draft_token_s, verify_s, 0.1, 1.0, 4)
        assert perfect == pytest.approx(1.0 / slower_s)
        nearly = fast_verified_tokens_per_s(draft_token_s, verify_s, 0.1, 1.0 - 1e-9, 4)
        assert nearly == pytest.approx(perfect, rel=1e-6)
        hopeless = fast_verified_tokens_per_s(draft_token_s, verify_s, 0.1, 0.0, 4)
        assert hopeless == pytest.approx(1.0 / (draft_token_s + verify_s + 0.1))


@pytest.mark.parametrize(
    ("draft_token_s", "verify_s", "round_trip_s", "tokens", "gain"),
    [
        (0.02437, 0.0720, 0.0478, 2.50, 20.19 / 17.87),
        (0.02429, 0.0705, 0.0485, 1.88, 16.04 / 13.86),
        (0.04276, 0.1456, 0.0491, 4.29, 17.22 / 16.64),
    ],
)
def test_fast_verification_gains_what_picospec_tables_2_and_3_print(
    draft_token_s: float, verify_s: float, round_trip_s: float, tokens: float, gain: float
) -> None:
    """Compared with eq. 8 without the tokens it counts twice: the tables' row without Fast Verification."""
    rate = acceptance_rate(tokens, 4)
    whole = (tokens - rate**4) / round_picospec_s(4 * draft_token_s, verify_s, round_trip_s, rate, 4)
    parts = fast_verified_tokens_per_s(draft_token_s, verify_s, round_trip_s, rate, 4)
    assert parts / whole == pytest.approx(gain, rel=0.1)
