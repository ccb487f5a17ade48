"""What viewers see: pictures that never queue, and texts, all of it also for late viewers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator

import pytest
from support.consoles import FakeRobot, Page, wait_until

from outrider.console import messages as m
from outrider.console.drawing.floor import MAX_CELLS, MAX_POINTS, FloorSketch
from outrider.console.drawing.frames import picture_frame, picture_number
from outrider.console.hub import Hub
from outrider.console.protocols.mailbox import MAX_EVENTS, MAX_UNSEEN_PICTURES, Mailbox
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.core.values import Pose2D, RangeScan

TEXT = m.Text("s", 1, "decoding", "turn left small\n", "turn left small", 0.2, 0.0, 0.0)


@pytest.fixture
def server() -> Iterator[ConsoleServer]:
    made = ConsoleServer(FakeRobot(), ConsoleSettings(port=0))
    yield made
    made.close()


def test_pictures_go_to_all_as_they_are(server: ConsoleServer) -> None:
    pages = [Page(server), Page(server)]
    server.show_picture(b"\xff\xd8picture")
    assert [page.read_picture() for page in pages] == [(1, b"\xff\xd8picture")] * 2


def test_a_viewer_who_does_not_keep_up_gets_the_newest_picture(server: ConsoleServer) -> None:
    page = Page(server)
    for number in range(1, 8):
        server.show_picture(b"%d" % number)
        if number <= MAX_UNSEEN_PICTURES:
            assert page.read_picture()[0] == number
    server.update(warning="all pictures are out")
    page.read("state", warning="all pictures are out")
    page.send(do="seen", picture=1)
    assert page.read_picture() == (7, b"7")


def test_who_comes_later_sees_what_was(server: ConsoleServer) -> None:
    server.show(TEXT)
    server.show(m.Text("s", 1, "withdrawn", "", "", 0.0, 0.0, 0.0, note="cancelled"))
    server.show(m.Round(4, 3, 4, 0.02, 0.01))
    server.show(m.Motion("s", 1, "turn left small", "done", ""))
    server.show(m.Plan(("find the red chair", "turn around"), 0, True))
    server.show(m.Plan(("find the red chair", "turn around"), 1, True))
    server.show(m.Memories((m.Thing("red chair", 1.0, 2.0),)))
    server.show_pose(Pose2D(0.0, 0.0, 0.0))
    server.show_pose(Pose2D(1.0, 0.5, 0.1))
    server.show_scan(Pose2D(0.0, 0.0, 0.0), RangeScan((1.05, math.inf), 0.0, 1.0, 0.0))
    server.update(link="connected")
    welcome = Page(server).welcome
    (text,) = welcome["texts"]
    assert (text["text"], text["state"], text["note"]) == (TEXT.text, "withdrawn", "cancelled")
    assert (
        welcome["plan"]["steps"] == ["find the red chair", "turn around"] and welcome["plan"]["current"] == 1
    )
    assert welcome["rounds"][0]["accepted"] == 3 and welcome["motions"][0]["outcome"] == "done"
    assert welcome["trail"]["points"] == [[0.0, 0.0], [1.0, 0.5]]
    assert welcome["walls"]["cells"] == [[10, 0]]
    assert welcome["memories"]["things"][0]["what"] == "red chair"
    assert welcome["state"]["link"] == "connected" and welcome["state"]["pose"] == [1.0, 0.5, 0.1]


def test_a_repeated_text_is_told_once(server: ConsoleServer) -> None:
    page = Page(server)
    for _ in range(3):
        server.show(TEXT)
    server.show(m.Notice("info", "the end"))
    kinds = []
    while not kinds or kinds[-1] != "notice":
        message = m.msgspec.json.decode(page.socket.recv(timeout=10))
        kinds.append(message["is"])
    assert kinds.count("text") <= 1


def test_what_concerns_safety_is_told_at_once(server: ConsoleServer) -> None:
    page = Page(server)
    page.read("state")
    server.update(moving=True)
    page.read("state", moving=True)
    server.update(moving=False)
    page.read("state", moving=False)


def test_pings_come_back(server: ConsoleServer) -> None:
    page = Page(server)
    page.send(do="ping", sent_ms=12.5)
    assert page.read("pong")["sent_ms"] == 12.5


def test_viewers_are_counted_and_bounded(server: ConsoleServer) -> None:
    pages = [Page(server) for _ in range(32)]
    wait_until(lambda: server.num_viewers == 32, "all viewers")
    with pytest.raises(Exception, match="too many viewers"):
        Page(server)
    again = Page(server, resume=pages[1].welcome["secret"])
    assert again.name == pages[1].name and server.num_viewers == 32
    pages[0].vanish()
    wait_until(lambda: server.num_viewers == 31, "one less")


def test_a_mailbox_is_bounded_and_keeps_the_newest() -> None:
    async def fill() -> list[str | bytes | None]:
        box = Mailbox()
        assert [box.put(str(i)) for i in range(MAX_EVENTS + 1)] == [True] * MAX_EVENTS + [False]
        box.put_first("all there is")
        for i in range(3):
            box.put_latest("state", f"state {i}")
            box.put_picture(i, b"%d" % i)
        assert box.dropped_pictures == 2
        return [await box.next() for _ in range(3)]

    assert asyncio.run(fill()) == ["all there is", "state 2", b"2"]


def test_what_is_out_of_date_is_not_sent_after_the_news() -> None:
    async def fill() -> list[str | bytes | None]:
        box = Mailbox()
        box.put_latest("text", "decoding")
        box.drop_latest("text")
        box.put("finished")
        box.put_latest("state", "now")
        sent = [await box.next() for _ in range(2)]
        box.put_latest("text", "decoding")
        box.put_first("all there is")
        box.put_latest("state", "later")
        return sent + [await box.next() for _ in range(2)]

    assert asyncio.run(fill()) == ["finished", "now", "all there is", "later"]


def test_a_text_that_has_ended_takes_the_place_of_one_that_waits() -> None:
    async def show() -> list[str | bytes | None]:
        hub = Hub(FakeRobot())
        viewer = hub.join(m.Hello())
        hub.show(TEXT)
        hub.show(m.Text("s", 1, "withdrawn", "", "", 0.0, 0.0, 0.0, note="cancelled"))
        return [await viewer.mailbox.next() for _ in range(3)]

    frames = [m.msgspec.json.decode(str(frame)) for frame in asyncio.run(show()) if frame]
    assert [frame["is"] for frame in frames] == ["welcome", "text", "state"]
    assert frames[1]["state"] == "withdrawn"


def test_a_closed_mailbox_wakes_who_waits() -> None:
    async def wait() -> object:
        box = Mailbox()
        waiting = asyncio.create_task(box.next())
        await asyncio.sleep(0)
        box.close()
        return await waiting

    assert asyncio.run(wait()) is None


def test_the_floor_sketch_is_bounded() -> None:
    floor = FloorSketch()
    assert floor.go(Pose2D(0.0, 0.0, 0.0)) == ((0.0, 0.0),)
    assert floor.go(Pose2D(0.01, 0.0, 0.0)) == ()
    for i in range(MAX_POINTS + 10):
        floor.go(Pose2D(float(i), 0.0, 0.0))
    assert len(floor.points) <= MAX_POINTS and floor.points[-1] == (MAX_POINTS + 9.0, 0.0)
    scan = RangeScan((2.0, math.inf), -math.pi / 2, math.pi / 2, 0.0)
    assert floor.see(Pose2D(0.0, 0.0, 0.05), scan) == ((0, -20),)
    assert floor.see(Pose2D(0.0, 0.0, 0.05), scan) == ()
    for i in range(MAX_CELLS + 10):
        floor.see(Pose2D(i * 1.0, 0.0, 0.0), scan)
    assert len(floor.cells) <= MAX_CELLS


def test_picture_numbers_wrap() -> None:
    assert picture_number(picture_frame(2**32 + 5, b"x")) == 5
