"""The relay's view of a robot: its runs, its stops, and frames of another schema; without sockets."""

from __future__ import annotations

import asyncio

import pytest

from outrider.console.app import AWAY
from outrider.console.relay import frames as f
from outrider.console.relay.robots import RelayedRobot
from outrider.core.errors import ProtocolError
from outrider.core.frames import Peer


class DeafLink:
    """A relay's link on which no robot can be reached any more."""

    robots = ("go2",)

    def send(self, peer: Peer, message: bytes, urgent: bool = False) -> bool:
        return False


def test_a_robot_that_falls_silent_loses_its_pages_and_a_late_run_does_not_come_back() -> None:
    now_s = 0.0

    async def states() -> None:
        nonlocal now_s
        robot = RelayedRobot(DeafLink(), lambda: now_s)  # type: ignore[arg-type]
        old, new = Peer("go2", b"old"), Peer("go2", b"new")
        robot.receive(old, f.Beat())
        page = robot.open()
        now_s += f.SILENT_S
        robot.look()
        assert await page.next() is None and page.code == AWAY and not robot.is_here
        robot.receive(old, f.Beat())
        assert not robot.is_here
        robot.receive(new, f.Beat())
        robot.receive(old, f.ConsoleMessage(page.number, "late"))
        assert robot.is_here

    asyncio.run(states())


class WrittenLink:
    """A relay's link that records what is sent, and to which robot."""

    robots = ("go2",)

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, f.ToRobot]] = []

    def send(self, peer: Peer, message: bytes, urgent: bool = False) -> bool:
        self.sent.append((peer.route, f.read_at_robot(message)))
        return True

    def stops(self, route: bytes) -> set[int]:
        return {frame.number for to, frame in self.sent if to == route and isinstance(frame, f.Stop)}

    def kinds(self, route: bytes) -> set[type]:
        return {type(frame) for to, frame in self.sent if to == route}


def test_of_two_robots_with_one_key_the_first_stays_and_a_stop_is_for_both(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_s = 0.0

    async def states() -> None:
        nonlocal now_s
        link = WrittenLink()
        robot = RelayedRobot(link, lambda: now_s)  # type: ignore[arg-type]
        first, second = Peer("go2", b"first"), Peer("go2", b"second")
        robot.receive(first, f.Beat())
        page = robot.open()
        for _ in range(10):
            for peer in (first, second):
                robot.receive(peer, f.Beat())
            robot.receive(second, f.ConsoleMessage(page.number, "of another robot"))
            robot.look()
            now_s += f.BEAT_S
        robot.say(page, "{}", False)
        assert link.kinds(b"first") == {f.Beat, f.PageMessage} and link.kinds(b"second") == {f.KeyInUse}
        assert sum("two robots" in line for line in caplog.messages) == 1
        stopping = asyncio.create_task(robot.e_stop())
        await asyncio.sleep(0)
        number = next(frame.number for _, frame in link.sent if isinstance(frame, f.Stop))
        assert f.Stop in link.kinds(b"first") and f.Stop in link.kinds(b"second")
        robot.receive(second, f.Stopped(number))
        await asyncio.sleep(0)
        assert not stopping.done(), "the one that stays confirms"
        robot.receive(first, f.Stopped(number))
        assert await stopping
        page.put("still here")
        assert await page.next() == "still here"

    asyncio.run(states())


def test_each_press_goes_to_all_connections_and_a_stop_under_way_to_those_that_come() -> None:
    now_s = 0.0

    async def states() -> None:
        link = WrittenLink()
        robot = RelayedRobot(link, lambda: now_s)  # type: ignore[arg-type]
        old, new, newest = (Peer("go2", run) for run in (b"old", b"new", b"newest"))
        robot.receive(old, f.Beat())
        presses = [asyncio.create_task(robot.e_stop())]
        await asyncio.sleep(0)
        robot.receive(new, f.Beat())
        assert link.stops(b"old") == link.stops(b"new") and len(link.stops(b"new")) == 1
        presses.append(asyncio.create_task(robot.e_stop()))
        await asyncio.sleep(0)
        assert link.stops(b"old") == link.stops(b"new") and len(link.stops(b"new")) == 2
        robot.receive(newest, f.Beat())
        assert link.stops(b"newest") < link.stops(b"new")
        robot.receive(old, f.Stopped(min(link.stops(b"old"))))
        assert await presses[0] and not presses[1].done()
        robot.receive(old, f.Stopped(max(link.stops(b"old"))))
        assert await presses[1]
        link.sent.clear()
        robot.receive(new, f.Beat())
        assert link.sent == [], "what is confirmed is over"
        robot.say(robot.open(), '{"do":"e_stop","engaged":true}', True)
        assert link.kinds(b"old") == {f.PageMessage} and link.stops(b"new") == link.stops(b"newest") != set()

    asyncio.run(states())


def test_a_stop_under_way_is_for_the_run_that_takes_the_place_of_a_silent_one() -> None:
    now_s = 0.0

    async def states() -> None:
        nonlocal now_s
        link = WrittenLink()
        robot = RelayedRobot(link, lambda: now_s)  # type: ignore[arg-type]
        robot.receive(Peer("go2", b"old"), f.Beat())
        press = asyncio.create_task(robot.e_stop())
        await asyncio.sleep(0)
        now_s += f.SILENT_S
        robot.receive(Peer("go2", b"new"), f.Beat())
        robot.receive(Peer("go2", b"new"), f.Stopped(*link.stops(b"new")))
        assert await press

    asyncio.run(states())


def test_a_robot_that_starts_again_takes_the_place_of_its_silent_run() -> None:
    now_s = 0.0
    link = WrittenLink()
    robot = RelayedRobot(link, lambda: now_s)  # type: ignore[arg-type]
    old, new = Peer("go2", b"old"), Peer("go2", b"new")
    robot.receive(old, f.Beat())
    while now_s <= f.SILENT_S:
        robot.receive(new, f.Beat())
        now_s += f.BEAT_S
    robot.receive(new, f.Beat())
    robot.look()
    assert link.kinds(b"new") == {f.Beat}, "it is here, and was never told of another"


@pytest.mark.parametrize("code", [1000, 1005, 1006, 1015, 2999, 5000])
def test_a_robot_ends_a_page_by_a_code_that_may_be_sent(code: int) -> None:
    content = f.pack(f.End(1, code, "bye"))  # type: ignore[arg-type]
    with pytest.raises(ProtocolError):
        f.read_at_relay(content)


@pytest.mark.parametrize("content", [b"", b"\x80\x04N.", f.pack(f.Beat())[:-1], b"\xc0", bytes(3000)])
def test_frames_of_another_schema_are_refused(content: bytes) -> None:
    for read in (f.read_at_robot, f.read_at_relay):
        with pytest.raises(ProtocolError):
            read(content)
