"""`outrider bench fleets`: the rival in the cloud works as described, and all ways write the same texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.core.errors import ConfigError
from outrider.decoding.config import DecodingConfig
from outrider.evaluation.decoding.published_server import (
    ONE_WAY_S,
    Batching,
    published_fleet,
    served,
    server_s,
)
from outrider.evaluation.serving.fleets_bench import LENGTHS, bench_fleets, csd_fleet, fleet_ranks

RIGHT, WRONG = 0, 1


def test_one_text_takes_its_drafts_its_verifications_and_one_round_trip() -> None:
    ranks = [RIGHT, RIGHT, RIGHT, RIGHT, RIGHT, WRONG]
    [record] = csd_fleet([[ranks]], 0.1, 2, 4)
    rounds = (2 + 0.1 * (2 + 1)) * server_s(1)  # the target adds the last token itself
    assert record.finished_s == pytest.approx([2 * ONE_WAY_S + rounds])
    assert [count for _, count in record.commits] == [1, 3, 2]


def test_no_more_texts_than_asked_for_are_served_at_a_time() -> None:
    texts = [[[RIGHT] * 4] for _ in range(4)]
    together, apart = (csd_fleet(texts, 0.05, 2, most) for most in (4, 2))
    assert len({record.finished_s[0] for record in together}) == 1
    assert len({record.finished_s[0] for record in apart}) == 2
    assert all(sum(count for _, count in record.commits) == 4 for record in (*together, *apart))


def test_the_rival_writes_the_same_texts() -> None:
    ranks = fleet_ranks(2, 20, 1, seed=3)
    records = published_fleet(DecodingConfig("sd"), 2, 20, 1, Batching(), seed=3)
    assert [len(one[0]) for one in ranks] == [len(record.texts[0]) for record in records]
    assert 0.4 < sum(rank == RIGHT for one in ranks for rank in one[0]) / 40 < 0.9


@pytest.mark.lengthy
def test_every_fleet_is_compared_with_the_best_alternative(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench_fleets((1, 4), 2, tmp_path / "fleets.json", tokens=30, lengths=(4,))
    figures = json.loads((tmp_path / "fleets.json").read_text())
    for share in ("5%", "10%"):
        others = ("sd", "sd, filled", f"csd {share}")
        best = max(figures["fleets"][name][1]["tokens_per_s"] for name in others)
        ours = figures["fleets"][f"both {share}"][1]["tokens_per_s"]
        assert figures["over_best"][share][1] == pytest.approx(ours / best)
        assert ours > 0.9 * best > figures["fleets"]["sd"][1]["tokens_per_s"]
    assert "robots served" in capsys.readouterr().out


def test_a_robot_alone_is_faster_with_shorter_chunks_and_they_are_tried() -> None:
    """On a Jetson as slow as FSD's, four drafts take longer than a verification."""
    speeds = {}
    for length in LENGTHS:
        config = DecodingConfig("sd", num_draft_tokens=length)
        records = published_fleet(config, 1, 60, 1, Batching(), seed=2)
        speeds[length] = served(records, ()).tokens_per_s
    best = max(speeds, key=lambda length: speeds[length])
    assert best < 4


def test_a_fleet_has_a_robot() -> None:
    with pytest.raises(ConfigError, match="robots must be at least 1"):
        bench_fleets((), 0)
