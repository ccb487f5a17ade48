"""A robot's pictures by requests to its videohub, some of which are lost or take long."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sample_pictures import STAMP, jpeg, picture
from unitree_api.msg import Request

from outrider.core.errors import FrameError
from outrider.nodes.camera.videohub import Videohub
from outrider.nodes.go2 import go2_api
from outrider.nodes.go2.go2_client import ServiceClient

pytestmark = pytest.mark.ros


def test_a_robot_s_picture_that_takes_long_is_followed_by_the_next_at_once() -> None:
    sent: list[Request] = []
    pictures: list[np.ndarray] = []
    calls = ServiceClient(go2_api.VIDEOHUB, sent.append, lambda: True)
    hub = Videohub(calls, lambda read, _: pictures.append(read()), pytest.fail, lambda: STAMP)

    def answer() -> None:
        calls.on_response(go2_api.response(sent[-1], go2_api.CODE_OK, binary=jpeg()))

    hub.ask()
    answer()
    assert len(sent) == 1 and pictures[0].shape == picture().shape
    hub.ask()
    hub.ask()
    assert len(sent) == 2, "one at a time"
    answer()
    assert len(sent) == 3
    answer()
    assert len(sent) == 3 and len(pictures) == 3


class LossyHub:
    """A robot's videohub on its own clock. Answers after `takes_s`, except the requests that are `lost`."""

    def __init__(self, lost: Callable[[int], bool], takes_s: float = 0.03) -> None:
        self.now_s = 0.0
        self.came_s: list[float] = []
        self.warnings: list[str] = []
        self.num_sent = 0
        self._lost, self._takes_s = lost, takes_s
        self._on_their_way: list[tuple[float, Request]] = []
        self.calls = ServiceClient(go2_api.VIDEOHUB, self._send, lambda: True, lambda: self.now_s)
        self.hub = Videohub(self.calls, self._relay, self.warnings.append, lambda: STAMP)

    def _send(self, request: Request) -> None:
        self.num_sent += 1
        if not self._lost(self.num_sent):
            self._on_their_way.append((self.now_s + self._takes_s, request))

    def _relay(self, read: Callable[[], np.ndarray], _: object) -> None:
        try:
            read()
            self.came_s.append(self.now_s)
        except FrameError as error:
            self.warnings.append(str(error))

    def run(self, duration_s: float) -> None:
        for turn in range(round(duration_s / 0.01)):
            self.now_s += 0.01
            if turn % 10 == 0:
                self.hub.ask()
            due = [request for due_s, request in self._on_their_way if due_s <= self.now_s]
            self._on_their_way = [entry for entry in self._on_their_way if entry[0] > self.now_s]
            for request in due:
                self.calls.on_response(go2_api.response(request, go2_api.CODE_OK, binary=jpeg()))


def test_a_tenth_of_the_robot_s_pictures_lost_leaves_no_long_gap() -> None:
    rng = np.random.default_rng(5)
    hub = LossyHub(lambda _: rng.random() < 0.1)
    hub.run(60.0)
    assert max(np.diff(hub.came_s)) < 0.5 and len(hub.came_s) > 500 and hub.warnings == []


def test_a_robot_that_takes_long_for_a_picture_is_not_asked_in_vain() -> None:
    hub = LossyHub(lambda _: False, takes_s=0.4)
    hub.run(10.0)
    assert hub.num_sent <= len(hub.came_s) + 5


def test_a_robot_that_gives_no_picture_is_named_and_asked_on() -> None:
    hub = LossyHub(lambda number: number < 30)
    hub.run(2.0)
    assert hub.came_s == [] and "did not answer within 1 s" in hub.warnings[0]
    hub.run(3.0)
    assert hub.came_s
