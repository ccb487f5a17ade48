"""The emulated link: its directions stepped by hand, and its thread over a link that the test controls."""

from __future__ import annotations

import queue

import pytest

from outrider.core.frames import Cancel, EdgeFrame, Opened, PrefillAgain
from outrider.core.link_profile import LinkProfile, Network, Outage
from outrider.core.values import LinkState
from outrider.wire.codec import encode, wire_bytes
from outrider.wire.emulator import Direction, EmulatedLink

TIMEOUT_S = 20.0
"""How long a test waits for another thread before it fails; no test that passes waits so long."""
DELAYED = LinkProfile(delay_s=0.1)


def arrivals(direction: Direction, times: list[float]) -> list[list]:
    """Return what has arrived at each time."""
    found = []
    for now_s in times:
        arrived = []
        while (item := direction.take(now_s)) is not None:
            arrived.append(item)
        found.append(arrived)
    return found


def test_frames_arrive_after_the_delay_and_not_before():
    direction: Direction[str] = Direction(DELAYED, Network(), "0")
    assert direction.put("a", 10, 0.0) and direction.put("b", 10, 0.05)
    assert direction.next_s == pytest.approx(0.1)
    assert arrivals(direction, [0.09, 0.11, 0.16]) == [[], ["a"], ["b"]]
    assert direction.next_s == float("inf")


def test_a_narrow_link_holds_frames_back():
    direction: Direction[str] = Direction(LinkProfile(bytes_per_s=100.0), Network(), "0")
    for name in "abc":
        direction.put(name, 50, 0.0)
    assert arrivals(direction, [0.4, 0.6, 1.1, 1.6]) == [[], ["a"], ["b"], ["c"]]


def test_frames_overtake_each_other_only_where_the_link_is_not_ordered():
    for ordered in (True, False):
        profile = LinkProfile(jitter_s=1.0, ordered=ordered)
        direction: Direction[int] = Direction(profile, Network(), "0")
        for number in range(20):
            direction.put(number, 10, number * 0.01)
        (arrived,) = arrivals(direction, [5.0])
        assert sorted(arrived) == list(range(20))
        assert (arrived == list(range(20))) is ordered


def test_an_outage_accepts_no_frames_and_loses_those_in_flight():
    network = Network(outages=(Outage(1.0, 2.0),))
    direction: Direction[str] = Direction(DELAYED, network, "0")
    assert direction.put("before", 10, 0.5)
    assert direction.put("caught", 10, 0.95)
    assert not direction.put("during", 10, 1.5)
    assert direction.put("after", 10, 2.0)
    assert arrivals(direction, [9.0]) == [["before", "after"]]


def test_the_queue_is_bounded_and_lost_frames_count_as_sent():
    endless: Direction[int] = Direction(LinkProfile(delay_s=1.0), Network(), "0")
    assert sum(endless.put(number, 10, 0.0) for number in range(1000)) == 256
    lossy: Direction[int] = Direction(LinkProfile(loss=1.0), Network(), "0")
    assert lossy.put(1, 10, 0.0) and lossy.take(9.0) is None


def test_a_changed_network_applies_to_later_frames_in_order():
    direction: Direction[str] = Direction(DELAYED, Network(), "0")
    direction.put("slow", 10, 0.0)
    direction.follow(LinkProfile(), Network())
    direction.put("fast", 10, 0.01)
    assert arrivals(direction, [0.05, 0.1]) == [[], ["slow", "fast"]]
    direction.follow(DELAYED, Network())
    direction.put("slow again", 10, 1.0)
    assert arrivals(direction, [1.05, 1.1]) == [[], ["slow again"]]


class Clock:
    """A clock that moves only when the test sets it."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class HeldLink:
    """The link below: records the frames sent and their times, and delivers what the test puts in `news`."""

    def __init__(self, clock: Clock) -> None:
        self.state = LinkState.CONNECTED
        self.generation = 1
        self.sent: queue.Queue[tuple[EdgeFrame, float]] = queue.Queue()
        self.news: queue.Queue = queue.Queue()
        self.num_closed = 0
        self._clock = clock

    def send(self, frame: EdgeFrame) -> int:
        self.sent.put((frame, self._clock() - 100.0))
        return 1

    def receive(self, timeout_s: float):
        news = self.news.get(timeout=TIMEOUT_S)
        if isinstance(news, Exception):
            raise news
        return news

    def wake(self) -> None:
        self.news.put(None)

    def close(self) -> None:
        self.num_closed += 1


def held(network: Network) -> tuple[EmulatedLink, HeldLink, Clock]:
    clock = Clock()
    below = HeldLink(clock)
    return EmulatedLink(below, network, clock=clock), below, clock


def test_a_frame_leaves_on_time_while_the_edge_does_something_else():
    link, below, clock = held(Network(uplink=DELAYED))
    assert link.send(Cancel(1, 2)) == wire_bytes(encode(Cancel(1, 2)))
    for now_s in (0.05, 0.125):
        clock.now_s = 100.0 + now_s
        below.wake()
    frame, sent_s = below.sent.get(timeout=TIMEOUT_S)
    assert (frame, sent_s) == (Cancel(1, 2), 0.125)
    link.close()


def test_a_reply_reaches_the_edge_after_its_delay():
    link, below, clock = held(Network(downlink=DELAYED))
    below.news.put((Opened(1, 2, 0, 4, 5, (0,)), 17))
    below.wake()
    while not below.news.empty():  # until the link's thread has received both
        assert link.receive(0.0) is None
    below.wake()
    link.send(Cancel(1, 2))
    below.sent.get(timeout=TIMEOUT_S)
    assert link.receive(0.0) is None
    clock.now_s += 0.125
    assert link.receive(TIMEOUT_S) == (Opened(1, 2, 0, 4, 5, (0,)), 17)
    assert link.receive(0.0) is None
    link.close()


def test_an_outage_is_a_lost_link_and_its_end_a_new_generation():
    link, below, clock = held(Network(outages=(Outage(1.0, 2.0),)))
    assert (link.state, link.generation) == (LinkState.CONNECTED, 1)
    clock.now_s = 101.5
    assert (link.state, link.generation) == (LinkState.LOST, 1)
    assert link.send(Cancel(1, 2)) == 0
    clock.now_s = 102.5
    assert (link.state, link.generation) == (LinkState.CONNECTED, 2)
    below.generation, below.state = 2, LinkState.REFUSED
    assert (link.state, link.generation) == (LinkState.REFUSED, 3)
    assert link.send(Cancel(1, 2)) == 0
    link.close()
    assert below.sent.empty()


def test_a_changed_network_never_lowers_the_generation():
    dark = Network(outages=(Outage(1.0, 2.0), Outage(4.0, 5.0)))
    link, _, clock = held(dark)
    clock.now_s = 101.5
    link.follow(Network())
    assert (link.state, link.generation) == (LinkState.CONNECTED, 2), "up again, in the midst of an outage"
    clock.now_s = 106.0
    link.follow(dark)
    assert link.generation == 2, "nothing was lost by a network without outages"
    link.follow(Network())
    assert link.generation == 3
    link.close()


def test_close_delivers_frames_in_flight_and_may_be_repeated():
    link, below, _ = held(Network(uplink=LinkProfile(delay_s=50.0)))
    link.send(Cancel(1, 2))
    link.close()
    link.close()
    assert below.sent.get_nowait()[0] == Cancel(1, 2)
    assert below.num_closed == 2 and link.state is LinkState.LOST


def test_a_failure_of_the_inner_link_is_a_lost_link(caplog):
    link, below, _ = held(Network())
    below.news.put((PrefillAgain(1, 2), 9))
    assert link.receive(TIMEOUT_S) == (PrefillAgain(1, 2), 9)
    below.news.put(OSError("no more"))
    link._thread.join(TIMEOUT_S)
    assert link.state is LinkState.LOST and "no more" in caplog.text
    link.close()
