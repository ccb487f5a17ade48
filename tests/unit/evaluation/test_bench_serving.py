"""The parts of `outrider bench serving` that need no model weights."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from support.toys import JPEG, toy_pair

from outrider.core.link_profile import Network
from outrider.core.values import Prompt
from outrider.decoding.acceptance.schemes import GREEDY
from outrider.decoding.config import DecodingConfig
from outrider.decoding.jobs import SessionKey, Verify
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.fleet_world import CloudRecord, RobotRecord
from outrider.evaluation.decoding.published_server import (
    Batching,
    Served,
    capacity,
    published_fleet,
    published_server,
    served,
)
from outrider.evaluation.serving.api_cost import (
    PAPER_PASSES,
    PRICES,
    cloud_request_cost,
    cost_table,
    request_cost,
)
from outrider.evaluation.serving.bench import (
    PRINTED,
    ROBOTS,
    STRATEGIES,
    draw_throughput,
    fitted,
    limit_lines,
    measure_published,
    measure_sharing,
    published_lines,
    rows_table,
)
from outrider.evaluation.serving.fleets import BatchCost, real_world, row_of, run_fleet
from outrider.runtime.datasets.held_out import Pair

PROMPTS = [Prompt(f"text {index}", JPEG) for index in range(8)]


@pytest.mark.parametrize("price", PRICES, ids=lambda price: price.target)
def test_the_papers_costs_come_out_at_the_papers_passes(price) -> None:
    assert request_cost(price, 1.0) == pytest.approx(price.paper_ar, abs=1.0)
    assert request_cost(price, PAPER_PASSES) == pytest.approx(price.paper_edge_cloud, abs=1.0)
    assert cloud_request_cost(price, PAPER_PASSES) == pytest.approx(price.paper_cloud, abs=1.0)


def test_fewer_passes_cost_less() -> None:
    for costs in cost_table({"ar": 1.0, "sd": 0.3}).values():
        assert costs["sd"] < costs["csd"] < costs["ar"]


def verification(drafted: int) -> Verify:
    return Verify(SessionKey(None, 0), 1, (1,), (2,) * drafted, (), GREEDY, None, True, False)


def test_the_published_server_is_read_between_its_rows() -> None:
    assert published_server([verification(4)]) == pytest.approx(0.01794)
    six = published_server([verification(4)] * 6)
    assert six == pytest.approx((0.02463 + 0.03073) / 2)
    assert published_server([verification(4)] * 64) == pytest.approx(0.25879)


def test_a_verifier_is_fitted_by_the_batches_that_were_seen() -> None:
    sizes = [1, 2, 4, 8] * 5
    cost = fitted(CloudRecord(sizes, [0.001 + 0.0005 * size for size in sizes], [0.007] * 8, 2))
    assert cost([verification(4)] * 3) == pytest.approx(0.0025)
    assert (cost([]), cost.prompt_parts) == (0.007, 4)


@pytest.mark.lengthy
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_eight_robots_share_a_verifier_and_none_slows_the_others(strategy: str) -> None:
    pair = Pair(*toy_pair(3, 0.8))
    compute = ComputeProfile(draft_prefill_s=0.03, draft_token_s=0.01)
    cost = BatchCost(0.01, 0.0, 0.0005, 0.02)
    sharing = measure_sharing(strategy, pair, PROMPTS, compute, Network(), cost, fleet_s=3.0)
    assert 1.0 <= sharing.unfairness < 1.5
    assert all(share > 0.9 for share in sharing.beside.values())


def fleet(robots: int) -> tuple[list[RobotRecord], CloudRecord]:
    world = real_world(ComputeProfile(), Network(), robots, BatchCost(0.002, 0.0, 0.0001, 0.004))
    config = DecodingConfig(strategy="sd")
    return run_fleet(Pair(*toy_pair(3, 0.8)), PROMPTS, world, config, robots, 0.0)


@pytest.mark.lengthy
def test_the_throughput_of_fleets_is_drawn(tmp_path: Path) -> None:
    draw_throughput(tmp_path / "serving.png", {"sd, 0 s": [row_of(*fleet(robots)) for robots in ROBOTS]})
    assert (tmp_path / "serving.png").stat().st_size > 1000


@pytest.mark.lengthy
def test_a_row_tells_what_a_fleet_did() -> None:
    records, cloud = fleet(4)
    row = row_of(records, cloud)
    assert row.robots == 4
    assert 1.0 < row.batch <= 4.0
    assert 0.0 < row.token_s < row.round_s < row.text_s
    assert [len(record.texts) for record in records] == [2, 2, 2, 2], "each prompt once"
    assert row.prompt_model_s == pytest.approx(0.004), "one part a prompt"
    assert row.batch_model_s * len(PROMPTS) == pytest.approx(sum(cloud.batch_s))
    assert 0.2 < row.passes_per_token < 1.0


@pytest.mark.lengthy
def test_what_is_printed_is_read_whole_and_says_what_limits_a_fleet() -> None:
    one, eight = (row_of(*fleet(robots)) for robots in (1, 8))
    rows = {name: [one, eight] for name in ("outrider, 1 s", "outrider, 0 s")}
    console = Console(width=110, file=io.StringIO())
    console.print(rows_table(rows))
    console.print(*limit_lines(rows))
    printed = console.file.getvalue()
    most = one.text_s / (eight.prompt_model_s + eight.batch_model_s)
    assert "…" not in printed
    assert f"{eight.tokens_per_s:.0f} {eight.tokens_per_s / one.tokens_per_s:.2f}x" in printed
    assert " ".join(printed.split()).count(f"about {most:.1f} times") == 1


def test_batches_that_wait_to_be_filled_cost_one_robot_their_wait_and_no_more() -> None:
    config = DecodingConfig(strategy="sd")
    [waiting], [ready] = (published_fleet(config, 1, 40, 1, Batching(fill)) for fill in (4, 1))
    assert waiting.texts == ready.texts
    waited_s = waiting.finished_s[0] - ready.finished_s[0]
    assert waited_s == pytest.approx(waiting.rounds * 0.05, abs=0.05), (
        "while the prompt's frame waits it drafts"
    )


def test_eight_robots_fill_batches() -> None:
    waiting = published_fleet(DecodingConfig(strategy="sd"), 8, 40, 1, Batching(8))
    assert served(waiting, [10.0]).tokens_per_s > 150.0
    assert len({text for record in waiting for text in record.texts}) == 8


def test_a_fleet_is_served_where_nearly_all_of_its_texts_are_in_time() -> None:
    def record(took_s: float) -> RobotRecord:
        return RobotRecord([(1,) * 10, (2,) * 10], [(1.0, 5), (took_s, 15)], finished_s=[1.0, took_s])

    fleet = served([record(2.0), record(4.0)], [5.0, 2.5, 20.0])
    assert fleet.tokens_per_s == pytest.approx((20 + 5) / 2.0)
    assert fleet.kept == {5.0: 0.75, 2.5: 1.0, 20.0: 0.0}
    assert fleet.goodput == {5.0: 30 / 4.0, 2.5: 40 / 4.0, 20.0: 0.0}
    more = Served(4, 20.0, {5.0: 0.96, 2.5: 0.94, 20.0: 0.0}, {})
    assert [capacity([fleet, more], needed) for needed in (5.0, 2.5, 20.0)] == [4, 2, 0]


@pytest.mark.lengthy
def test_what_published_fleets_got_is_printed_beside_what_papers_print() -> None:
    fleets = measure_published((1, 2), tokens=20)
    printed = "\n".join(published_lines(fleets))
    ours, central = (max(one.tokens_per_s for one in fleets[name][1]) for name in ("outrider", "ar"))
    assert f"{ours / central:.2f}" in printed
    assert all(f"{gain:g}" in printed for gain in PRINTED.values())
