"""The relay in front of several verifiers: order, affinity, and what robots get when a verifier dies."""

from __future__ import annotations

from collections import deque
from concurrent.futures import wait

from outrider.core.errors import LinkError
from outrider.core.frames import CloudFrame, EdgeFrame, Open, Peer, Ping, PrefillAgain, Refused, Resume, Rules
from outrider.core.values import LinkState
from outrider.decoding.cloud.machine import Reply
from outrider.runtime.wiring.relay import RelayService

ALICE, BOB = Peer("", b"alice"), Peer("", b"bob")
RULES = Rules("wait", "greedy", 0.0, 1.0, 0, 0, True, "none")
OPEN = Open(1, 3, 0, "go", b"", (), 9, "toy", RULES)


class FakeLink:
    generation = 1

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.state = LinkState.CONNECTING
        self.sent: list[EdgeFrame] = []
        self.inbox: deque[CloudFrame] = deque()

    def send(self, frame: EdgeFrame) -> int:
        self.sent.append(frame)
        return 1

    def receive(self, timeout_s: float) -> tuple[CloudFrame, int] | None:
        return (self.inbox.popleft(), 1) if self.inbox else None

    def close(self) -> None:
        self.state = LinkState.LOST


class World:
    """Each robot's verifier, the links made to verifiers, and a clock."""

    def __init__(self, max_robots: int = 100) -> None:
        self.now_s = 0.0
        self.endpoints = {b"alice".hex(): "tcp://a:1", b"bob".hex(): "tcp://b:1"}
        self.links: list[FakeLink] = []
        self.replies: list[Reply] = []
        self.relay = RelayService(self, self.connect, lambda: self.now_s, max_robots)

    def endpoint_of(self, owner: str) -> str:
        if owner not in self.endpoints:
            raise LinkError("nobody")
        return self.endpoints[owner]

    def connect(self, endpoint: str) -> FakeLink:
        self.links.append(FakeLink(endpoint))
        return self.links[-1]

    def step(self) -> None:
        """Waits for the lookups in progress, then runs one step of the relay."""
        wait([lane.lookup for lane in self.relay._lanes.values() if lane.lookup is not None])
        self.relay.step(self.replies.append)

    def connected(self, peer: Peer) -> FakeLink:
        self.relay.receive(peer, OPEN)
        self.step()
        self.step()
        self.links[-1].state = LinkState.CONNECTED
        self.step()
        return self.links[-1]


def test_frames_wait_for_the_verifier_and_keep_their_order() -> None:
    world = World()
    link = world.connected(ALICE)
    assert (link.endpoint, link.sent) == ("tcp://a:1", [OPEN])
    resume = Resume(1, 3, 0, 0)
    world.relay.receive(ALICE, resume)
    assert link.sent == [OPEN, resume]


def test_each_robot_hears_its_own_verifier() -> None:
    world = World()
    links = [world.connected(peer) for peer in (ALICE, BOB)]
    assert [link.endpoint for link in links] == ["tcp://a:1", "tcp://b:1"]
    links[1].inbox.append(PrefillAgain(7, 7))
    world.step()
    assert world.replies == [Reply(BOB, PrefillAgain(7, 7))]


def test_the_robots_of_a_dead_verifier_prefill_again_elsewhere() -> None:
    world = World()
    first, other = world.connected(ALICE), world.connected(BOB)
    first.state = LinkState.LOST
    world.endpoints[b"alice".hex()] = "tcp://b:1"
    world.step()
    assert world.replies == [Reply(ALICE, PrefillAgain(1, 3))]
    again = world.connected(ALICE)
    assert (again.endpoint, again.sent) == ("tcp://b:1", [OPEN])
    assert other.state is LinkState.CONNECTED


def test_the_relay_retries_an_unknown_verifier_and_informs_the_robot() -> None:
    world = World()
    endpoint = world.endpoints.pop(b"alice".hex())
    world.relay.receive(ALICE, OPEN)
    world.step()
    world.step()
    assert (world.links, world.replies) == ([], [])
    world.now_s += 1.0
    world.step()
    world.step()
    told = [Reply(ALICE, Refused(1, 3, "busy", "nobody"))]
    assert world.replies == told, "it has gone on for long"
    assert world.relay.receive(ALICE, OPEN) == told, "to each one that asks again"
    assert world.relay.receive(ALICE, Resume(1, 3, 0, 0)) == []
    world.endpoints[b"alice".hex()] = endpoint
    world.now_s += 1.0
    world.step()
    world.step()
    assert world.links[0].endpoint == endpoint
    assert world.replies == told, "once"
    link = world.connected(ALICE)
    assert link.sent == [OPEN], "what was refused is asked again by the robot"


def test_a_verifier_that_does_not_answer_in_time_is_given_up() -> None:
    world = World()
    world.relay.receive(ALICE, OPEN)
    world.step()
    world.step()
    world.now_s += 3.0
    world.step()
    assert world.replies == [Reply(ALICE, PrefillAgain(1, 3))]


def test_silent_robots_are_let_go() -> None:
    world = World()
    link = world.connected(ALICE)
    world.now_s += 61.0
    world.relay.receive(BOB, Ping(0, 0))
    world.relay.evict_idle()
    assert link.state is LinkState.LOST
    assert world.relay.max_wait_s() is not None
    world.relay.close()
    assert world.relay.max_wait_s() is None


def test_a_robot_that_connects_again_and_again_takes_only_its_own_places() -> None:
    """Each link takes descriptors and threads, and libzmq ends the process once there are none."""
    world = World(max_robots=3)
    links = [world.connected(peer) for peer in (ALICE, BOB)]
    world.endpoints["mallory"] = "tcp://c:1"
    for number in range(9):
        world.now_s += 1.0
        links.append(world.connected(Peer("mallory", b"%d" % number)))
    assert [link.state for link in (*links[:2], links[-1])] == [LinkState.CONNECTED] * 3
    assert {link.state for link in links[2:-1]} == {LinkState.LOST}


def test_among_equal_robots_the_longest_silent_makes_room() -> None:
    world = World(max_robots=2)
    alice, bob = (world.connected(peer) for peer in (ALICE, BOB))
    world.now_s += 1.0
    world.relay.receive(ALICE, Ping(0, 0))
    world.endpoints[b"carol".hex()] = "tcp://c:1"
    carol = world.connected(Peer("", b"carol"))
    assert [link.state for link in (alice, carol)] == [LinkState.CONNECTED] * 2
    assert bob.state is LinkState.LOST
