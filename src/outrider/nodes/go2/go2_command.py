# SPDX-License-Identifier: Apache-2.0
"""Commands a Go2: makes it stand up, moves it while it answers, and stops it when it does not."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from outrider.core.errors import ConfigError
from outrider.core.values import Velocity
from outrider.nodes.go2 import go2_api
from outrider.nodes.go2.go2_client import Answer, ServiceClient
from outrider.nodes.go2.go2_condition import Go2Condition

START_DEADLINE_S = 5.0
COMMAND_DEADLINE_S = 0.5
RESTORE_S = 0.3
# The robot takes one request at a time: a second one within this time may overwrite the first.
GAP_S = 0.02
STAND_UP_S = 1.5
# How long after the service is found to wait for the robot's state before the command to stand up.
STATE_TIMEOUT_S = 1.0
RETRY_S = 1.0
STOP_RETRY_S = 0.1
WARNING_S = 5.0
REPEAT_S = 30.0


@dataclass(frozen=True)
class _Step:
    """A call on the way to readiness, the time to wait after its answer, and what to do with the answer."""

    calls: ServiceClient
    api_id: int
    parameter: str = ""
    settle_s: float = GAP_S
    take: Callable[[Answer], None] = lambda _: None


class Go2Command:
    """Commands the sport service, and the obstacle avoidance service if configured. Not thread-safe.

    `tick` is called at the rate of the commands. Before the robot stands, and in doubt (a Move or StopMove
    was refused or not answered), no velocity is sent, only StopMove until one is answered. No velocity is
    sent either while the robot's `condition` has a fault. A damped robot gets no command to stand up: a
    person may have damped it because something went wrong. With `avoidance` velocities go through the
    robot's own obstacle avoidance. `close` restores its state from before `start`. If another program took
    it, it is taken back once that program is quiet.
    """

    make_executor = None

    def __init__(
        self,
        sport: ServiceClient,
        avoidance: ServiceClient | None,
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        condition: Go2Condition | None = None,
    ) -> None:
        self._sport, self._avoidance = sport, avoidance
        self._condition = condition or Go2Condition(clock=clock)
        self._warn, self._clock = warn, clock
        self._steps: list[_Step] = []
        self._waiting = self._stop_due = False
        self._next_s, self._step_started_s, self._connected_s = 0.0, -GAP_S, 0.0
        self._avoided_before: bool | None = None
        self._doubt = self._moving = False
        self._warning, self._warned_s, self._last_warn_s = "", -WARNING_S, -REPEAT_S
        self.refused = self.overdue = 0

    @property
    def is_ready(self) -> bool:
        """Whether a velocity would be sent."""
        return not self._steps and not self._doubt and not self._condition.fault()

    @property
    def is_idle(self) -> bool:
        """Whether the robot stands still and no request is open or due."""
        return not (self._moving or self._stop_due or self._waiting or self._doubt)

    def start(self) -> None:
        """Start to make the robot ready; `tick` continues it."""
        self._steps = [
            _Step(self._sport, go2_api.STAND_UP, settle_s=STAND_UP_S),
            _Step(self._sport, go2_api.BALANCE_STAND),
        ]
        self._steps += self._avoidance_steps()
        self._waiting, self._next_s, self._doubt = False, self._clock(), False
        self._connected_s = self._clock()

    def _avoidance_steps(self) -> list[_Step]:
        """Returns the calls that take the obstacle avoidance, if velocities go through it."""
        if self._avoidance is None:
            return []
        return [
            _Step(self._avoidance, go2_api.AVOID_SWITCH_GET, take=self._remember_avoidance),
            _Step(self._avoidance, go2_api.AVOID_SWITCH_SET, go2_api.enable_parameter(True)),
            _Step(self._avoidance, go2_api.AVOID_USE_API, go2_api.use_api_parameter(True)),
        ]

    def tick(self, held: bool = False) -> None:
        """Check deadlines, continue to stand up unless `held`, and repeat a stop in doubt."""
        for calls in (self._sport, self._avoidance):
            if calls is not None:
                calls.expire()
        if self._stop_due or (self._moving and self._condition.fault()):
            self.stop()
        other_program = self._condition.other_program()
        if other_program and not self._steps:
            self._steps = self._avoidance_steps()
        if self._clock() < self._next_s or self._waiting:
            return
        if self._steps and not (other_program or held or self._stays_down()):
            self._begin(self._steps[0])
        elif self._doubt:
            self._next_s = self._clock() + STOP_RETRY_S
            self.stop()

    def send(self, velocity: Velocity) -> None:
        """Send a velocity. Zero is sent as StopMove, since a Move of zero would keep the Go2 stepping."""
        if velocity == Velocity():
            self.stop()
        elif self.is_ready:
            self._move(velocity)

    def stop(self) -> None:
        """Stop the robot. This is never refused, whatever else is under way.

        If the robot may not have read a request of the start yet, the stop follows with the next tick:
        nothing moves before the start is complete.
        """
        self._stop_due = bool(self._steps) and self._clock() - self._step_started_s < GAP_S
        if not self._stop_due:
            self._send_stop()

    def _send_stop(self) -> None:
        self._moving = False
        if self._steps:
            self._next_s = max(self._next_s, self._clock() + GAP_S)
        if self._avoidance is not None and self._avoided_before is not None:
            self._command(
                self._avoidance, go2_api.AVOID_MOVE, go2_api.avoid_move_parameter(Velocity()), self._on_move
            )
        self._command(self._sport, go2_api.STOP_MOVE, "", self._on_stop)

    def close(self) -> None:
        """Restore the obstacle avoidance's state. Blocks for at most three times RESTORE_S."""
        if self._stop_due:
            self._send_stop()
        if self._avoidance is None or self._avoided_before is None:
            return
        before, self._avoided_before = self._avoided_before, None
        for api_id, parameter in (
            (go2_api.AVOID_USE_API, go2_api.use_api_parameter(False)),
            (go2_api.AVOID_SWITCH_SET, go2_api.enable_parameter(before)),
        ):
            # One after the other: the robot keeps only the newest unread request.
            self._avoidance.settle(RESTORE_S)
            self._avoidance.call(api_id, parameter, RESTORE_S, self._on_restored)
        self._avoidance.settle(RESTORE_S)
        self._avoidance.expire()

    def _on_restored(self, answer: Answer) -> None:
        if not answer.is_ok and self._avoidance is not None:
            self._report_failure(self._avoidance, answer)

    def warning(self) -> str:
        """Returns what is or was recently wrong, or an empty text."""
        fault = self._condition.fault()
        if fault:
            return fault
        if self._clock() - self._warned_s < WARNING_S:
            return self._warning
        if self._steps:
            step = self._steps[0]
            return f"not ready to move: waiting for {go2_api.name_of(step.calls.service, step.api_id)}"
        return self._condition.warning()

    def trouble(self) -> str:
        """Returns why no text may move the robot now. A person may still drive it with a low battery."""
        if not self.is_ready:
            return self.warning() or "the base is not ready"
        return self._condition.battery_fault()

    def _stays_down(self) -> bool:
        """Whether to send no command to stand up: the robot is damped, or its state is not known yet."""
        calls = self._steps[0].calls
        if calls is not self._sport:
            return False
        if self._condition.is_known:
            return self._condition.is_damped
        if not calls.is_connected():
            self._connected_s = self._clock()
            return False
        return self._clock() - self._connected_s < STATE_TIMEOUT_S

    def _begin(self, step: _Step) -> None:
        if not step.calls.is_connected():
            self._next_s = self._clock() + GAP_S
            self._warn_once(
                f"nobody answers on {step.calls.topic}: is the robot on, and is DDS on the "
                "interface of its network (192.168.123.x)?"
            )
            return
        self._waiting, self._step_started_s = True, self._clock()
        step.calls.call(
            step.api_id,
            step.parameter,
            START_DEADLINE_S,
            lambda answer: self._end(step, answer),
            must_answer=True,
        )

    def _end(self, step: _Step, answer: Answer) -> None:
        if not self._steps or self._steps[0] is not step:
            return  # belongs to an earlier start
        self._waiting = False
        self._next_s = self._clock() + RETRY_S
        if not answer.is_ok:
            self._report_failure(step.calls, answer)
            return
        try:
            step.take(answer)
        except ConfigError as error:
            self._warn_once(f"{go2_api.name_of(step.calls.service, step.api_id)}: {error}")
            return
        self._next_s = self._clock() + step.settle_s
        self._steps = self._steps[1:]

    def _remember_avoidance(self, answer: Answer) -> None:
        self._avoided_before = go2_api.enabled_of(answer.data)

    def _move(self, velocity: Velocity) -> None:
        self._moving = True
        if self._avoidance is not None:
            parameter = go2_api.avoid_move_parameter(velocity)
            self._command(self._avoidance, go2_api.AVOID_MOVE, parameter, self._on_move)
        else:
            self._command(self._sport, go2_api.MOVE, go2_api.move_parameter(velocity), self._on_move)

    def _command(
        self, calls: ServiceClient, api_id: int, parameter: str, then: Callable[[ServiceClient, Answer], None]
    ) -> None:
        calls.call(api_id, parameter, COMMAND_DEADLINE_S, lambda answer: then(calls, answer))

    def _on_move(self, calls: ServiceClient, answer: Answer) -> None:
        if not answer.is_ok:
            self._doubt_robot(calls, answer)

    def _on_stop(self, calls: ServiceClient, answer: Answer) -> None:
        if answer.is_ok:
            self._doubt = False
        elif not self._steps:
            self._doubt_robot(calls, answer)

    def _doubt_robot(self, calls: ServiceClient, answer: Answer) -> None:
        """The robot may be moving or not. Stop it until it confirms."""
        self._report_failure(calls, answer)
        if not self._doubt:
            self._doubt, self._next_s = True, self._clock()

    def _report_failure(self, calls: ServiceClient, answer: Answer) -> None:
        name = go2_api.name_of(calls.service, answer.api_id)
        if answer.code is None:
            self.overdue += 1
            self._warn_once(f"{name} was not answered in time: look at the robot and its network")
        else:
            self.refused += 1
            self._warn_once(f"the robot refused {name}: {go2_api.explain(answer.code)}")

    def _warn_once(self, text: str) -> None:
        now_s = self._clock()
        if text != self._warning or now_s - self._last_warn_s >= REPEAT_S:
            self._last_warn_s = now_s
            self._warn(text)
        self._warning, self._warned_s = text, now_s
