"""What one peer may use: rates, sessions and time to reconnect. Pure, so that the test sets the time."""

from __future__ import annotations

import math

import pytest

from outrider.core.errors import ConfigError
from outrider.core.frames import Cancel, Close, Open, Peer
from outrider.wire.gate import GateLimits, PeerGate, TokenBucket

ALICE, BOB = Peer("", b"alice"), Peer("", b"bob")
LIMITS = GateLimits(units_per_s=10.0, burst_units=20.0, malformed_units=5.0, sessions_per_peer=2, num_peers=3)


def opening(session: int, epoch: int = 1) -> Open:
    return Open(session, epoch, 0, "", b"", (), 1, "wait", "")


def num_admitted(gate: PeerGate, peer: Peer, num_frames: int, now_s: float, num_bytes: int = 0) -> int:
    return sum(gate.admits(peer, num_bytes, now_s) for _ in range(num_frames))


def test_a_bucket_gives_its_burst_then_its_rate_and_never_more_than_the_burst():
    bucket = TokenBucket(10.0, 20.0, now_s=0.0)
    assert sum(bucket.take(1.0, 0.0) for _ in range(100)) == 20
    assert sum(bucket.take(1.0, 1.0) for _ in range(100)) == 10
    assert sum(bucket.take(1.0, 1e6) for _ in range(100)) == 20


def test_refunded_units_can_be_spent_again():
    bucket = TokenBucket(10.0, 20.0, now_s=0.0)
    assert bucket.take(25.0, 0.0) and not bucket.take(1.0, 0.1)
    bucket.give_back(25.0)
    assert bucket.ready_s(0.1) == 0.1
    bucket.give_back(1000.0)
    assert bucket.take(20.0, 0.2) and not bucket.take(1.0, 0.2), "never more than the burst"


def test_a_debt_is_paid_before_more_is_given():
    bucket = TokenBucket(10.0, 20.0, now_s=0.0)
    assert bucket.take(50.0, 0.0)
    assert not bucket.take(1.0, 3.0)
    assert bucket.take(1.0, 3.1)


def test_only_frames_of_a_flooding_peer_are_dropped():
    gate = PeerGate(LIMITS)
    assert num_admitted(gate, ALICE, 1000, 0.0) == 20
    assert num_admitted(gate, BOB, 15, 0.0) == 15
    assert num_admitted(gate, ALICE, 1000, 1.0) == 10


def test_large_and_malformed_frames_cost_more():
    gate = PeerGate(LIMITS)
    assert num_admitted(gate, ALICE, 1000, 0.0, num_bytes=4096 * 4) == 4
    gate.on_malformed(BOB, 0.0)
    assert num_admitted(gate, BOB, 1000, 0.0) == 15


def test_one_key_has_one_budget_over_all_its_connections():
    gate = PeerGate(LIMITS)
    connections = [Peer("robot-key", b"%d" % number) for number in range(50)]
    assert sum(gate.admits(peer, 0, 0.0) for peer in connections) == 20


def test_a_peer_with_too_many_sessions_loses_its_oldest():
    gate = PeerGate(LIMITS)
    assert gate.on_frame(BOB, opening(9), 0.0) == []
    for session in (1, 2):
        assert gate.on_frame(ALICE, opening(session, epoch=7), 0.0) == []
    assert gate.on_frame(ALICE, opening(3), 0.0) == [(ALICE, Close(1, 7))]
    assert gate.on_frame(ALICE, opening(3, epoch=2), 0.0) == []
    assert gate.on_frame(ALICE, Close(2, 8), 0.0) == []
    assert gate.on_frame(ALICE, opening(4), 0.0) == []


def test_a_new_connection_of_a_key_replaces_sessions_of_its_old_ones():
    gate = PeerGate(LIMITS)
    old, new = Peer("robot-key", b"old"), Peer("robot-key", b"new")
    for session in (1, 2):
        gate.on_frame(old, opening(session), 0.0)
    assert gate.on_frame(new, opening(3), 0.0) == [(old, Close(1, 1))]


def test_frames_of_an_older_epoch_are_stale():
    gate = PeerGate(LIMITS)
    gate.on_frame(ALICE, opening(1, epoch=5), 0.0)
    gate.on_frame(ALICE, Cancel(1, 6), 0.0)
    assert gate.is_stale(ALICE, opening(1, epoch=5)) and not gate.is_stale(ALICE, Cancel(1, 6))
    assert not gate.is_stale(ALICE, Close(1, 0)) and not gate.is_stale(ALICE, Cancel(2, 0))
    assert not gate.is_stale(BOB, Cancel(1, 0))


def test_a_vanished_peer_loses_its_sessions_unless_it_returns_in_time():
    gate = PeerGate(GateLimits(vanished_s=10.0))
    for peer in (ALICE, BOB):
        gate.admits(peer, 0, 0.0)
        gate.on_frame(peer, opening(1, epoch=4), 0.0)
        gate.on_unreachable(peer, 1.0)
    gate.on_unreachable(ALICE, 10.0)
    assert gate.evict(10.0) == []
    gate.admits(BOB, 0, 10.0)
    assert gate.evict(11.5) == [(ALICE, [Close(1, 4)])]
    assert gate.evict(1e6) == []


def test_remembered_peers_are_bounded_in_time_and_number():
    gate = PeerGate(LIMITS)
    for number in range(100):
        gate.admits(Peer("", b"%d" % number), 0, float(number))
        gate.evict(float(number))
    assert len(gate._owners) == 3
    gate.evict(1000.0)
    assert len(gate._owners) == 0


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_impossible_limits_are_refused(value):
    with pytest.raises(ConfigError, match="units_per_s"):
        GateLimits(units_per_s=value)
