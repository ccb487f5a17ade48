"""The channel model: when frames arrive, and when the link is down."""

from __future__ import annotations

import math
import random

import pytest

from outrider.core.errors import ConfigError
from outrider.core.link_profile import (
    Blackout,
    Channel,
    LinkProfile,
    Network,
    NetworkDescription,
    Outage,
    is_up,
)


def channel(seed: int = 0, **profile) -> Channel:
    return Channel(LinkProfile(**profile), random.Random(seed))


def test_a_frame_takes_the_delay_and_its_time_on_the_wire():
    slow = channel(delay_s=0.1, bytes_per_s=1000.0)
    assert slow.arrival_s(2.0, 50) == pytest.approx(2.0 + 0.05 + 0.1)


def test_frames_queue_at_the_links_rate_and_an_idle_link_has_no_queue():
    slow = channel(bytes_per_s=1000.0)
    assert [slow.arrival_s(0.0, 100) for _ in range(3)] == pytest.approx([0.1, 0.2, 0.3])
    assert slow.arrival_s(5.0, 100) == pytest.approx(5.1)


def test_jitter_is_bounded_and_overtakes_only_where_the_link_is_not_ordered():
    times = [index * 0.01 for index in range(200)]
    for ordered in (True, False):
        jittery = channel(jitter_s=0.1, ordered=ordered)
        arrivals = [jittery.arrival_s(time_s, 1) for time_s in times]
        assert (arrivals == sorted(arrivals)) is ordered
        assert all(sent <= got <= max(times) + 0.1 for sent, got in zip(times, arrivals, strict=True))


def test_a_lost_frame_is_late_where_it_is_retransmitted_and_holds_up_those_behind_it():
    lossy = channel(seed=1, loss=0.5, retransmit_s=1.0)
    arrivals = [lossy.arrival_s(index * 0.1, 1) for index in range(50)]
    assert arrivals == sorted(arrivals)
    assert any(got - index * 0.1 >= 1.0 for index, got in enumerate(arrivals))


def test_without_retransmission_the_share_of_lost_frames_is_the_profiles():
    lossy = channel(loss=0.3)
    lost = sum(lossy.arrival_s(float(index), 1) is None for index in range(4000))
    assert lost / 4000 == pytest.approx(0.3, abs=0.03)
    assert channel(loss=1.0).arrival_s(0.0, 1) is None


def test_the_same_seed_gives_the_same_arrivals():
    one, two, other = (channel(seed, jitter_s=1.0, loss=0.2) for seed in (4, 4, 5))
    runs = [[c.arrival_s(float(index), 1) for index in range(20)] for c in (one, two, other)]
    assert runs[0] == runs[1] != runs[2]


def test_an_outage_touches_whatever_is_in_flight():
    outages = (Outage(1.0, 2.0),)
    assert is_up(outages, 0.0, 0.9) and is_up(outages, 2.0, 3.0)
    assert not is_up(outages, 0.5, 1.5) and not is_up(outages, 1.2, 1.2) and not is_up(outages, 0.0, 9.0)


def test_repeated_outages_come_back_and_are_counted():
    network = Network(outages=(Outage(1.0, 2.0),), repeat_s=10.0)
    assert [network.is_up(s, s) for s in (0.0, 1.5, 2.0, 10.5, 11.5, 12.0)] == [1, 0, 1, 1, 0, 1]
    assert not network.is_up(8.0, 11.2) and network.is_up(8.0, 10.8)
    assert [network.outages_over(s) for s in (0.0, 1.9, 2.0, 11.9, 12.0, 102.0)] == [0, 0, 1, 1, 2, 11]
    once = Network(outages=(Outage(1.0, 2.0),))
    assert [once.outages_over(s) for s in (1.9, 2.0, 102.0)] == [0, 1, 1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: LinkProfile(delay_s=-0.1),
        lambda: LinkProfile(jitter_s=math.nan),
        lambda: LinkProfile(retransmit_s=math.inf),
        lambda: LinkProfile(bytes_per_s=0.0),
        lambda: LinkProfile(loss=1.1),
        lambda: LinkProfile(loss=1.0, retransmit_s=0.1),
        lambda: LinkProfile(loss=math.nan),
        lambda: Outage(2.0, 1.0),
        lambda: Network(outages=(Outage(1.0, 2.0),), repeat_s=1.5),
        lambda: Network(repeat_s=0.0),
    ],
)
def test_impossible_networks_are_refused(make):
    with pytest.raises(ConfigError):
        make()


def test_a_description_in_report_units_becomes_a_network():
    description = NetworkDescription(
        "measured", 80.0, 8.0, 16.0, 5.0, 0.1, 200.0, False, (Blackout(3.0, 2.0),), 30.0
    )
    network = description.network("lab")
    assert network.name == "lab"
    assert network.uplink == LinkProfile(0.04, 0.005, 0.1, 0.2, 1e6, False)
    assert network.downlink.bytes_per_s == 2e6
    assert network.outages == (Outage(3.0, 5.0),) and network.repeat_s == 30.0


def test_in_a_burst_everything_waits_for_its_end_and_their_share_is_the_profiles():
    burst = channel(seed=2, burst_s=0.5, burst_every_s=2.0)
    times = [index * 0.01 for index in range(100_000)]
    late_s = [burst.arrival_s(time_s, 1) - time_s for time_s in times]
    held = sum(wait_s > 1e-9 for wait_s in late_s) / len(late_s)
    assert held == pytest.approx(0.5 / 2.5, abs=0.03)
    assert max(late_s) > 1.0, "they are of any length"


@pytest.mark.parametrize("profile", [{"burst_s": -1.0}, {"burst_s": math.nan}, {"burst_every_s": 0.0}])
def test_impossible_bursts_are_refused(profile):
    with pytest.raises(ConfigError, match="bursts"):
        LinkProfile(**profile)
