"""Go2Command against a robot that only exchanges messages, on a clock of the test."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.core.values import Velocity
from outrider.nodes.go2 import go2_api
from outrider.nodes.go2.go2_client import ServiceClient
from outrider.nodes.go2.go2_command import Go2Command
from outrider.nodes.go2.go2_condition import Go2Condition

pytestmark = pytest.mark.ros
PERIOD_S = 0.03
AHEAD = Velocity(0.3, 0.0, 0.0)


class Robot:
    """Answers with `codes`, or not at all for a code of None. Between two looks it keeps one request.

    `mode`: the state that it has reported; None for none.
    """

    def __init__(self, avoidance: bool = False, enabled: bool = False, mode: int | None = 0) -> None:
        self.now_s = 100.0
        self.connected = True
        self.enabled = enabled
        self.codes: dict[tuple[str, int], int | None] = {}
        self.taken: list[tuple[str, int, str]] = []
        self.ids: list[int] = []
        self.warnings: list[str] = []
        self._unread: dict[str, Any] = {}
        self.clients = {name: self._client(name) for name in (go2_api.SPORT, go2_api.OBSTACLES_AVOID)}
        self.condition = Go2Condition(min_battery_percent=8, clock=lambda: self.now_s)
        if mode is not None:
            self.condition.on_state(mode, 0)
        self.command = Go2Command(
            self.clients[go2_api.SPORT],
            self.clients[go2_api.OBSTACLES_AVOID] if avoidance else None,
            self.warnings.append,
            lambda: self.now_s,
            self.condition,
        )

    def _client(self, service: str) -> ServiceClient:
        def publish(message: Any) -> None:
            self._unread[service] = message
            self.ids.append(message.header.identity.id)

        return ServiceClient(
            service,
            publish,
            lambda: self.connected,
            lambda: self.now_s,
            first_id=50,
            poll=lambda: self.advance(PERIOD_S),
        )

    def advance(self, duration_s: float) -> None:
        """The robot takes the newest request of each service; then time advances."""
        for service, message in list(self._unread.items()):
            del self._unread[service]
            api_id = message.header.identity.api_id
            self.taken.append((service, api_id, message.parameter))
            code = self.codes.get((service, api_id), 0)
            if code is not None:
                data = go2_api.enable_parameter(self.enabled)
                self.clients[service].on_response(go2_api.response(message, code, data))
        self.now_s += duration_s

    def run(self, duration_s: float, velocity: Velocity | None = None, held: bool = False) -> None:
        for _ in range(round(duration_s / PERIOD_S)):
            self.command.tick(held)
            if velocity is not None:
                self.command.send(velocity)
            self.advance(PERIOD_S)

    def apis(self, service: str = go2_api.SPORT) -> list[int]:
        return [api_id for name, api_id, _ in self.taken if name == service]


def standing(**options: bool) -> Robot:
    robot = Robot(**options)
    robot.command.start()
    robot.run(2.5)
    assert robot.command.is_ready
    robot.taken.clear()
    return robot


def test_it_stands_up_and_balances_before_it_moves() -> None:
    robot = Robot()
    robot.command.start()
    robot.run(2.5, AHEAD)
    apis = robot.apis()
    assert apis[:2] == [go2_api.STAND_UP, go2_api.BALANCE_STAND]
    assert set(apis[2:]) == {go2_api.MOVE} and len(apis) > 10
    assert len(set(robot.ids)) == len(robot.ids)


def test_the_first_request_waits_for_the_robot() -> None:
    robot = Robot()
    robot.connected = False
    robot.command.start()
    robot.run(3.0, AHEAD)
    assert robot.taken == [] and "/api/sport/request" in robot.command.warning()
    robot.connected = True
    robot.run(0.1)
    assert robot.apis() == [go2_api.STAND_UP]


def test_a_robot_held_by_the_emergency_stop_is_not_told_to_stand_up() -> None:
    robot = Robot(avoidance=True)
    robot.command.start()
    robot.run(3.0, held=True)
    assert robot.taken == [] and "waiting for sport StandUp" in robot.command.warning()
    robot.command.stop()
    robot.run(0.3, held=True)
    assert robot.apis() == [go2_api.STOP_MOVE], "a stop is sent all the same"
    robot.run(2.5)
    assert robot.apis()[1:] == [go2_api.STAND_UP, go2_api.BALANCE_STAND] and robot.command.is_ready


@pytest.mark.parametrize(("mode", "error_code"), [(7, 0), (0, 1001), (5, 1001)])
def test_a_damped_robot_is_not_told_to_stand_up_until_a_person_has(mode: int, error_code: int) -> None:
    robot = Robot()
    robot.condition.on_state(mode, error_code)
    robot.command.start()
    robot.run(3.0, AHEAD)
    assert robot.taken == [] and "its remote (L2+A" in robot.command.warning() == robot.command.trouble()
    robot.command.stop()
    robot.run(0.3)
    assert robot.apis() == [go2_api.STOP_MOVE], "a stop is sent all the same"
    robot.condition.on_state(1, 0)
    robot.run(2.5)
    assert robot.apis()[1:] == [go2_api.STAND_UP, go2_api.BALANCE_STAND] and robot.command.is_ready


@pytest.mark.parametrize("code", [7, None])
def test_a_robot_that_has_sent_no_state_is_given_time_to_send_it(code: int | None) -> None:
    robot = Robot(mode=None)
    robot.connected = False
    robot.command.start()
    robot.run(2.0)
    robot.connected = True
    robot.run(0.6)
    assert robot.taken == []
    if code is not None:
        robot.condition.on_state(code, 0)
    robot.run(2.5)
    assert robot.apis() == ([go2_api.STAND_UP, go2_api.BALANCE_STAND] if code is None else [])


def test_a_robot_that_is_damped_while_it_stands_up_is_left_alone() -> None:
    robot = Robot()
    robot.command.start()
    robot.run(0.9)
    robot.condition.on_state(7, 0)
    robot.run(3.0, AHEAD)
    assert robot.apis() == [go2_api.STAND_UP] and not robot.command.is_ready


def test_a_move_is_sent_at_every_tick_and_a_zero_is_a_stop() -> None:
    robot = standing()
    robot.run(0.9, AHEAD)
    assert robot.apis() == [go2_api.MOVE] * 30
    assert robot.taken[-1][2] == '{"x": 0.3, "y": 0.0, "z": 0.0}'
    robot.run(PERIOD_S, Velocity())
    assert robot.apis()[-1] == go2_api.STOP_MOVE and robot.command.warning() == ""


@pytest.mark.parametrize(("code", "words"), [(None, "not answered"), (3205, "lease denied")])
def test_a_robot_in_doubt_is_stopped_until_it_says_so(code: int | None, words: str) -> None:
    robot = standing()
    robot.codes[go2_api.SPORT, go2_api.MOVE] = code
    robot.codes[go2_api.SPORT, go2_api.STOP_MOVE] = None
    robot.run(0.9, AHEAD)
    assert robot.apis()[-1] == go2_api.STOP_MOVE
    assert words in robot.warnings[0] and "sport Move" in robot.warnings[0]
    moves = robot.apis().count(go2_api.MOVE)
    robot.run(1.2, AHEAD)
    assert robot.apis().count(go2_api.MOVE) == moves, "nothing moves while the stop is unanswered"
    assert robot.apis().count(go2_api.STOP_MOVE) > 5 and robot.command.warning()
    robot.codes.clear()
    robot.run(0.6, AHEAD)
    assert robot.apis()[-1] == go2_api.MOVE
    robot.run(6.0, AHEAD)
    assert robot.command.warning() == "" and robot.command.overdue + robot.command.refused > 0


def test_one_lost_answer_among_answered_ones_is_no_doubt() -> None:
    robot = standing()
    robot.codes[go2_api.SPORT, go2_api.MOVE] = None
    robot.run(PERIOD_S, AHEAD)
    robot.codes.clear()
    robot.run(1.5, AHEAD)
    assert set(robot.apis()) == {go2_api.MOVE} and robot.warnings == []


def test_a_refused_start_is_reported_and_retried() -> None:
    robot = Robot()
    robot.codes[go2_api.SPORT, go2_api.STAND_UP] = 4202
    robot.command.start()
    robot.run(2.5, AHEAD)
    assert set(robot.apis()) == {go2_api.STAND_UP} and "not initialised" in robot.command.warning()
    robot.codes.clear()
    robot.run(4.0, AHEAD)
    assert robot.apis()[-1] == go2_api.MOVE


@pytest.mark.parametrize("code", [0, None])
def test_stops_under_way_neither_wait_nor_lose_the_start(code: int | None) -> None:
    robot = Robot(avoidance=True)
    robot.codes[go2_api.SPORT, go2_api.BALANCE_STAND] = code
    robot.command.start()
    for tick in range(120):
        robot.command.tick()
        robot.command.stop()
        robot.advance(PERIOD_S)
        stops = robot.apis().count(go2_api.STOP_MOVE)
        assert tick / 2 - 1 <= stops, "each with the next tick at the latest"
        if robot.command.is_ready:
            break
    assert robot.command.is_ready is (code == 0)
    assert robot.apis().count(go2_api.STAND_UP) == 1
    robot.codes.clear()
    robot.run(7.0)
    assert robot.command.is_ready, "what was not answered was asked again"


def test_a_stop_that_waits_is_sent_at_the_end() -> None:
    robot = Robot()
    robot.command.start()
    robot.command.tick()
    robot.command.stop()
    robot.command.close()
    robot.advance(PERIOD_S)
    assert robot.apis() == [go2_api.STOP_MOVE]


@pytest.mark.parametrize("before", [True, False])
def test_obstacle_avoidance_moves_it_and_its_state_is_restored(before: bool) -> None:
    robot = Robot(avoidance=True, enabled=before)
    robot.command.start()
    robot.run(2.5, AHEAD)
    avoidance = [entry[1:] for entry in robot.taken if entry[0] == go2_api.OBSTACLES_AVOID]
    assert avoidance[:3] == [
        (go2_api.AVOID_SWITCH_GET, ""),
        (go2_api.AVOID_SWITCH_SET, '{"enable": true}'),
        (go2_api.AVOID_USE_API, '{"is_remote_commands_from_api": true}'),
    ]
    assert avoidance[-1] == (go2_api.AVOID_MOVE, '{"x": 0.3, "y": 0.0, "yaw": 0.0, "mode": 0}')
    assert go2_api.MOVE not in robot.apis()
    robot.taken.clear()
    robot.command.stop()
    robot.command.close()
    robot.advance(PERIOD_S)
    assert robot.apis() == [go2_api.STOP_MOVE]
    assert [entry[1:] for entry in robot.taken if entry[0] == go2_api.OBSTACLES_AVOID] == [
        (go2_api.AVOID_MOVE, '{"x": 0.0, "y": 0.0, "yaw": 0.0, "mode": 0}'),
        (go2_api.AVOID_USE_API, '{"is_remote_commands_from_api": false}'),
        (go2_api.AVOID_SWITCH_SET, go2_api.enable_parameter(before)),
    ]


def test_avoidance_that_is_not_restored_is_reported() -> None:
    robot = standing(avoidance=True)
    robot.codes[go2_api.OBSTACLES_AVOID, go2_api.AVOID_SWITCH_SET] = None
    robot.command.close()
    assert "obstacles_avoid SwitchSet was not answered" in robot.warnings[-1]


def test_answers_to_other_programs_are_not_ours() -> None:
    robot = standing()
    robot.command.send(AHEAD)
    foreign = go2_api.request(robot.ids[-1], go2_api.STOP_MOVE)
    robot.clients[go2_api.SPORT].on_response(go2_api.response(foreign, 3205))
    robot.clients[go2_api.SPORT].on_response(go2_api.response(go2_api.request(7, go2_api.MOVE), 3205))
    assert robot.command.is_ready and robot.clients[go2_api.SPORT].unanswered == 1
