"""The console through a relay, with real sockets and keys; the robot records each command."""

from __future__ import annotations

import asyncio
import errno
import http.client
import json
import resource
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import zmq
import zmq.asyncio
from support.consoles import Page, wait_until
from support.relays import DialledRobot, Relays, make_relays, relay_and_robot
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from outrider.console.agents.address import ConsoleAddress
from outrider.console.agents.link import ConsoleLink
from outrider.console.app import AWAY, UNREADABLE
from outrider.console.relay import frames as f
from outrider.console.relay.robots import RelayedRobot
from outrider.console.robot import GoalEnd
from outrider.core.errors import ConfigError, ProtocolError
from outrider.core.frames import Peer
from outrider.core.values import LinkState, Velocity
from outrider.runtime.common.descriptors import MAX_FILES, have_descriptors
from outrider.runtime.wiring.console_relay import robot_end
from outrider.wire.keys import create_keys, revoke_robots
from outrider.wire.tunnel import RobotTunnel

STILL, AHEAD = Velocity(), Velocity(0.5, 0.0, 0.0)
JPEG = bytes(range(256)) * 100


@pytest.fixture
def relayed(tmp_path: Path) -> Iterator[tuple[Relays, DialledRobot]]:
    with relay_and_robot(tmp_path) as made:
        yield made


def ask(
    relays: Relays, path: str, method: str = "POST", body: str = "", **headers: str
) -> tuple[int, str, str]:
    """Sends a request of a relay's page. Returns the answer's status, body and cookie."""
    address = f"127.0.0.1:{relays.port}"
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request(method, path, body, {"Origin": f"http://{address}", **headers})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text, (answer.getheader("set-cookie") or "").partition(";")[0]


def drive_ahead(page: Page, dialled: DialledRobot) -> None:
    page.seated()
    for _ in range(50):
        page.drive(forward=1.0)
        if AHEAD in dialled.robot.drives:
            return
    raise AssertionError("the page does not drive")


def test_a_page_at_the_relay_does_what_a_page_of_the_robot_does(relayed: tuple[Relays, DialledRobot]) -> None:
    relays, dialled = relayed
    page = relays.page()
    drive_ahead(page, dialled)
    wait_until(lambda: dialled.robot.drives[-1] == STILL, "the hand is off when the page says no more")
    dialled.console.show_picture(JPEG)
    assert page.read_picture() == (1, JPEG)
    page.send(do="say", text="find the red chair")
    wait_until(lambda: dialled.robot.goals, "the command")
    dialled.robot.goals[0][1](GoalEnd(True, "stands before it"))
    assert page.read("goal", state="done")["message"] == "stands before it"
    page.send(do="e_stop", engaged=True)
    wait_until(lambda: dialled.robot.e_stops == [True, True], "the stop by both connections")
    page.release_e_stop()
    wait_until(lambda: dialled.robot.e_stops[-1:] == [False], "the release")


def test_an_agent_speaks_to_a_robot_at_a_relay(relayed: tuple[Relays, DialledRobot]) -> None:
    relays, dialled = relayed
    address = ConsoleAddress(f"http://127.0.0.1:{relays.port}/robots/go2/")

    async def speak() -> str:
        link = ConsoleLink(address, "mcp")
        await link.open()
        ended = await link.say("turn left")
        dialled.robot.goals[0][1](GoalEnd(True, "turned"))
        said = (await ended).message
        await link.close()
        return said

    assert asyncio.run(speak()) == "turned" and dialled.robot.drives == []
    address.e_stop()
    assert dialled.robot.e_stops and all(dialled.robot.e_stops)


def test_pages_of_robot_and_relay_share_one_seat_and_pictures_cross_once(
    relayed: tuple[Relays, DialledRobot],
) -> None:
    relays, dialled = relayed
    here, there, third = Page(dialled.console).seated(), relays.page(), relays.page()
    there.send(do="say", text="find the red chair")
    assert here.name in there.read("notice")["text"] and dialled.robot.goals == []
    dialled.console.show_picture(JPEG)
    assert here.read_picture() == there.read_picture() == third.read_picture() == (1, JPEG)
    there.send(do="cancel")
    wait_until(lambda: dialled.robot.cancels, "everybody may cancel")


def test_pictures_go_on_as_long_as_the_page_takes_them(relayed: tuple[Relays, DialledRobot]) -> None:
    relays, dialled = relayed
    page = relays.page()
    for number in range(1, 3 * f.WINDOW):
        dialled.console.show_picture(JPEG + bytes([number]))
        got, picture = page.read_picture()
        assert picture[:-1] == JPEG
        page.send(do="seen", picture=got)


def test_a_driver_whose_relay_dies_is_a_driver_who_is_gone(tmp_path: Path) -> None:
    relays = make_relays(tmp_path)
    with relays.serving() as server, relays.robot() as dialled:
        page = relays.page()
        drive_ahead(page, dialled)
        secret = page.welcome["secret"]
        server.close()
        wait_until(lambda: dialled.robot.drives[-1] == STILL, "the hand is off")
        wait_until(lambda: dialled.console.num_viewers == 0, "its viewers are gone")
        wait_until(lambda: dialled.end.state is not LinkState.CONNECTED, "the robot notices")
        with relays.serving():
            wait_until(lambda: dialled.end.state is LinkState.CONNECTED, "the robot is back")
            assert relays.page(resume=secret).name == page.name


def test_a_robot_that_is_started_again_is_found_again(tmp_path: Path) -> None:
    relays = make_relays(tmp_path)
    with relays.serving():
        with relays.robot():
            page = relays.page()
        assert page.closed() == AWAY
        with pytest.raises(ConnectionClosed) as ended:
            relays.page()
        assert ended.value.rcvd is not None and ended.value.rcvd.code == AWAY
        with relays.robot() as again:
            drive_ahead(relays.page(), again)


def test_a_robot_without_a_socket_to_spare_dials_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relays, made = make_relays(tmp_path), RobotTunnel._made
    failures = iter([zmq.ZMQError(errno.EMFILE)])

    def made_later(self: RobotTunnel, *given: Any) -> zmq.asyncio.Socket:
        for error in failures:
            raise error
        return made(self, *given)

    monkeypatch.setattr(RobotTunnel, "_made", made_later)
    with relays.serving(), relays.robot():
        assert relays.page().name


@pytest.mark.parametrize("stranger", ["unknown robot", "unknown relay"])
def test_without_the_right_keys_nothing_passes(tmp_path: Path, stranger: str) -> None:
    relays = make_relays(tmp_path)
    create_keys(tmp_path / "other", ("go2",))
    forged = json.loads((tmp_path / "other" / "go2.key").read_text())
    if stranger == "unknown robot":
        forged["server"] = json.loads((relays.keys / "go2.key").read_text())["server"]
    path = relays.keys / "go2.key"
    path.write_text(json.dumps(forged))
    with relays.serving(), relays.robot(awaited=False) as dialled:
        if stranger == "unknown robot":
            wait_until(lambda: dialled.end.state is LinkState.REFUSED, "the robot is told")
        status, text, _ = ask(relays, "/robots/go2/e_stop")
        assert status == 503 and "does not reach" in text and dialled.robot.e_stops == []
        assert json.loads(ask(relays, "/robots", "GET")[1]) == {"go2": False}


def test_two_robots_have_pages_of_their_own(tmp_path: Path) -> None:
    relays = make_relays(tmp_path, ("go2-a", "go2-b"))
    with relays.serving(), relays.robot("go2-a") as first, relays.robot("go2-b") as second:
        drive_ahead(relays.page("go2-b"), second)
        assert ask(relays, "/robots/go2-a/e_stop")[0] == 200
        assert first.robot.e_stops, "the first of the two connections to bring the stop answers for both"
        wait_until(lambda: first.robot.e_stops == [True, True], "the stop by the other connection")
        assert first.robot.drives == [] and second.robot.e_stops == []
        revoke_robots(relays.keys, ("go2-a",))
        wait_until(lambda: first.end.state is not LinkState.CONNECTED, "the revoked robot is cut off")
        assert ask(relays, "/robots/go2-a/e_stop")[0] == 404
        assert ask(relays, "/robots/go2-b/e_stop")[0] == 200


def test_a_login_is_needed_for_all_but_the_stop(tmp_path: Path) -> None:
    token = tmp_path / "relay.token"
    relays = make_relays(tmp_path, login=True, token_file=str(token))
    with relays.serving(), relays.robot() as dialled:
        with pytest.raises(InvalidStatus):
            relays.page()
        assert [ask(relays, path, "GET")[0] for path in ("/", "/robots", "/robots/go2/")] == [303] * 3
        assert ask(relays, "/robots/go2/e_stop", Origin="http://elsewhere")[0] == 403
        assert dialled.robot.e_stops == []
        assert ask(relays, "/robots/go2/e_stop")[0] == 200 and all(dialled.robot.e_stops)
        cookie = ask(relays, "/login", body=urlencode({"token": token.read_text().strip()}))[2]
        assert relays.page(cookie=cookie).name
        assert ask(relays, "/robots/nobody/", "GET", Cookie=cookie)[0] == 404


def test_what_no_page_says_ends_the_page_at_the_relay(relayed: tuple[Relays, DialledRobot]) -> None:
    relays, dialled = relayed
    for content in ("{", '{"do": "fly"}', json.dumps({"do": "say", "text": "x" * 3000}), b"\x80\x04N."):
        page = relays.page()
        page.socket.send(content)
        assert page.closed() in (UNREADABLE, 1009)
    wait_until(lambda: dialled.console.num_viewers == 0, "the robot is told that they are gone")


def test_a_page_that_floods_is_ended_and_delays_nobody_s_stop(relayed: tuple[Relays, DialledRobot]) -> None:
    relays, dialled = relayed
    loud, other = relays.page(), relays.page()
    with suppress(ConnectionClosed):
        for number in range(500):  # over the limit per second; more would delay the close
            loud.socket.send(json.dumps({"do": "ping", "sent_ms": number}))
    other.send(do="e_stop", engaged=True)
    other.read("state", e_stop=True)
    assert loud.closed() == UNREADABLE and dialled.robot.e_stops


def test_a_robot_that_floods_its_link_costs_no_other_robot_anything(tmp_path: Path) -> None:
    relays = make_relays(tmp_path, ("go2-a", "go2-b"))

    async def flood() -> None:
        link = relays.tunnel("go2-a")
        for number in range(3000):
            link.send(bytes([number % 256]) * (1 + number % 5000))
            link.send(f.pack(f.ConsoleMessage(number, "x")))
            await asyncio.sleep(0)
        link.close()

    with relays.serving(), relays.robot("go2-b") as dialled:
        page = relays.page("go2-b")
        asyncio.run(flood())
        drive_ahead(page, dialled)
        assert ask(relays, "/robots/go2-b/e_stop")[0] == 200


@asynccontextmanager
async def lone_link(relays: Relays) -> AsyncIterator[RobotTunnel]:
    """Connects a robot's end of the relay that sends heartbeats and does nothing else by itself."""
    link = relays.tunnel()

    async def beat() -> None:
        while True:
            link.send(f.pack(f.Beat()))
            await asyncio.sleep(0.05)

    beating = asyncio.create_task(beat())
    await link.receive(urgent=True)  # the relay's own heartbeat
    yield link
    beating.cancel()
    link.close()


def test_a_robot_that_is_there_but_does_not_answer_is_told_apart(tmp_path: Path) -> None:
    """As with a robot process that a debugger has stopped: heartbeats alone confirm no stop."""
    relays = make_relays(tmp_path)

    async def answer() -> tuple[int, str, str]:
        async with lone_link(relays):
            return await asyncio.to_thread(ask, relays, "/robots/go2/e_stop")

    with relays.serving():
        status, text, _ = asyncio.run(answer())
    assert status == 503 and "does not reach the robot" in text


def test_a_stop_arrives_while_nothing_else_does(tmp_path: Path) -> None:
    """Unread messages of a page fill the robot's link; the stop uses a connection of its own."""
    relays = make_relays(tmp_path)

    async def stop_of_a_full_link() -> f.ToRobot:
        async with lone_link(relays) as link:
            page = await asyncio.to_thread(_open_without_welcome, relays)
            for _ in range(150):
                page.send(json.dumps({"do": "say", "text": "x" * 400}))
            page.send(json.dumps({"do": "e_stop", "engaged": True}))
            while isinstance(frame := f.read_at_robot(await link.receive(urgent=True)), f.Beat):
                pass
            page.close()
            return frame

    with relays.serving():
        frame = asyncio.run(asyncio.wait_for(stop_of_a_full_link(), 10.0))
    assert isinstance(frame, f.PageMessage) and json.loads(frame.text) == {"do": "e_stop", "engaged": True}


def _open_without_welcome(relays: Relays) -> ClientConnection:
    address = f"127.0.0.1:{relays.port}"
    origin: Any = f"http://{address}"
    page = connect(f"ws://{address}/robots/go2/ws", origin=origin, proxy=None).__enter__()
    page.send(json.dumps({"do": "hello"}))
    return page


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


def test_a_robot_whose_key_another_one_has_too_is_told_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    relays = make_relays(tmp_path)
    with relays.serving(), relays.robot() as first, relays.robot(awaited=False) as second:
        page = relays.page()
        wait_until(lambda: any("another robot with this key" in line for line in caplog.messages), "a word")
        assert first.end.state is LinkState.CONNECTED and second.end.state is not LinkState.CONNECTED
        drive_ahead(page, first)
        assert second.robot.drives == []
        assert ask(relays, "/robots/go2/e_stop")[0] == 200
        wait_until(lambda: first.robot.e_stops and second.robot.e_stops, "both stop")


def test_a_stop_at_the_relay_is_confirmed_while_pages_and_pictures_flood(
    relayed: tuple[Relays, DialledRobot],
) -> None:
    relays, dialled = relayed
    pages, ended = [relays.page() for _ in range(8)], threading.Event()

    def flood(page: Page) -> None:
        """Reads nothing, like a page on a dead link, and sends pings at the highest rate that is allowed."""
        with suppress(ConnectionClosed):
            while not ended.wait(0.01):
                page.send(do="ping", sent_ms=0.0)

    def show() -> None:
        while not ended.wait(0.005):
            dialled.console.show_picture(JPEG * 20)

    threads = [threading.Thread(target=show), *(threading.Thread(target=flood, args=(p,)) for p in pages)]
    for thread in threads:
        thread.start()
    try:
        for count in range(1, 6):
            assert ask(relays, "/robots/go2/e_stop")[0] == 200
            assert len(dialled.robot.e_stops) >= count
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_a_stranger_is_not_told_which_robots_there_are(tmp_path: Path) -> None:
    token = tmp_path / "relay.token"
    relays = make_relays(tmp_path, login=True, token_file=str(token))
    with relays.serving():
        known, unknown = (ask(relays, f"/robots/{name}/e_stop") for name in ("go2", "nobody"))
        assert known[:2] == unknown[:2] and known[0] == 503
        cookie = ask(relays, "/login", body=urlencode({"token": token.read_text().strip()}))[2]
        assert ask(relays, "/robots/nobody/e_stop", Cookie=cookie)[0] == 404


@pytest.mark.parametrize("said", [{"do": "ü" * 300}, {"do": "say", "text": 5, "é" * 300: 1}, {"漢" * 300: 1}])
@pytest.mark.parametrize("is_relayed", [False, True])
def test_what_no_page_says_is_named_in_any_letters(
    relayed: tuple[Relays, DialledRobot], caplog: pytest.LogCaptureFixture, said: object, is_relayed: bool
) -> None:
    relays, dialled = relayed
    page = relays.page() if is_relayed else Page(dialled.console)
    page.socket.send(json.dumps(said, ensure_ascii=False))
    assert page.closed() == UNREADABLE
    assert not any(record.exc_info for record in caplog.records)


def test_a_robot_that_sends_no_frames_fills_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    relays = make_relays(tmp_path)

    async def flood() -> None:
        async with lone_link(relays) as link:
            for number in range(500):
                while not link.send(b"\xc0" * (1 + number % 9)):
                    await asyncio.sleep(0.001)
            await asyncio.to_thread(wait_until, lambda: "(256 so far)" in caplog.text, "the flood")

    with relays.serving():
        asyncio.run(flood())
    assert sum("not a frame" in line for line in caplog.messages) <= 10


def test_a_relay_has_as_many_open_files_as_the_system_permits() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
        have_descriptors()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(before[1], MAX_FILES)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


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


def test_a_relay_is_not_dialled_without_a_key(tmp_path: Path) -> None:
    assert robot_end("", "") is None
    with pytest.raises(ConfigError, match="relay_key_file"):
        robot_end("tcp://relay:5758", "")
    with pytest.raises(ConfigError, match="outrider keys"):
        robot_end("tcp://relay:5758", str(tmp_path / "none.key"))
    with pytest.raises(ConfigError, match="tcp://HOST:PORT"):
        robot_end("relay:5758", "x")
