"""The loop of one goal against a robot without ROS and a decoder without models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from outrider.core.errors import Cancelled, FrameError, LinkError
from outrider.core.values import Decoded, DecodeRequest, Odometry, Pose2D, Velocity, Verified
from outrider.navigation.goal.navigator import NavigatorSettings
from outrider.navigation.motion.step_motions import Ending, MotionEnd
from outrider.runtime.mission.goal_run import MAX_IDLE_MOTIONS, GoalRun, GoalSettings
from outrider.runtime.mission.robot_side import Frame, GoalError, GoalResult, StepState, StepUpdate

LEFT = "turn left small\nlook: nothing yet"
STOP = "stop\nthere: at the cup"


@dataclass
class FakeRobot:
    """Implements `RobotSide` on a clock that advances by waiting; every motion ends as `endings` say."""

    endings: list[Ending] = field(default_factory=list)
    has_frames: bool = True
    has_odometry: bool = True
    reports: bool = True
    motion_s: float | None = None
    clock_s: float = 50.0
    updates: list[StepUpdate] = field(default_factory=list)
    prompts: list[tuple[int, DecodeRequest]] = field(default_factory=list)

    def now_s(self) -> float:
        return self.clock_s

    def frame_after(self, stamp_s: float, timeout_s: float) -> Frame | None:
        self.clock_s = max(self.clock_s, stamp_s) + timeout_s
        return Frame(b"\xff\xd8", self.clock_s) if self.has_frames else None

    def odometry(self) -> Odometry | None:
        return Odometry(Pose2D(0.0, 0.0, 0.0), Velocity(), self.clock_s) if self.has_odometry else None

    def publish_step(self, update: StepUpdate) -> None:
        self.updates.append(update)

    def publish_prompt(self, update: StepUpdate, request: DecodeRequest) -> None:
        self.prompts.append((update.step, request))

    def publish_rounds(self, update: StepUpdate, decoded: Decoded) -> None:
        assert update.state is StepState.FINISHED

    def motion_end(self, session_id: str, step: int, timeout_s: float) -> MotionEnd | None:
        self.clock_s += timeout_s if self.motion_s is None else self.motion_s
        if not self.reports:
            return None
        ending = self.endings.pop(0) if self.endings else Ending.DONE
        return MotionEnd(session_id, step, "", ending, ending.name)

    def pause(self, duration_s: float) -> None:
        self.clock_s += duration_s


class Script:
    """A decoder that gives texts, or raises errors, in turn; then it stops."""

    def __init__(self, *script: str | Exception | Decoded) -> None:
        self.script = list(script)
        self.prompts: list[str] = []

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Decoded:
        self.prompts.append(request.prompt.text)
        if cancelled():
            raise Cancelled("cancelled")
        entry = self.script.pop(0) if self.script else STOP
        if isinstance(entry, Exception):
            raise entry
        if isinstance(entry, Decoded):
            return entry
        for end in (4, entry.find("\n") + 1, len(entry)):
            on_verified(Verified((1,), entry[:end], 0.1))
        return Decoded(entry, (1, 2, 3), True, 0.5, 0.1, 2)

    def close(self) -> None:
        self.script.clear()


def run(
    robot: FakeRobot, decoder: Script, cancelled: Callable[[], bool] = lambda: False, max_steps: int = 10
) -> GoalResult:
    navigator = NavigatorSettings(max_steps=max_steps, max_turning_deg=1e6)
    settings = GoalSettings(link_patience_s=5.0, navigator=navigator)
    result = GoalRun("find the cup", "goal", robot, decoder, settings, cancelled).run()
    assert robot.updates[-1].state is StepState.WITHDRAWN, "the last update is a withdrawal"
    return result


def actions(robot: FakeRobot) -> list[tuple[int, str]]:
    """Returns every (step, action) that could move the robot, once each."""
    return list(dict.fromkeys((u.step, u.action) for u in robot.updates if u.action_complete))


def test_steps_follow_each_other_until_the_stop() -> None:
    robot, decoder = FakeRobot(), Script(LEFT, LEFT)
    result = run(robot, decoder)
    assert result == GoalResult(True, GoalError.NONE, result.message, 3)
    assert actions(robot) == [(1, "turn left small"), (2, "turn left small"), (3, "stop")]
    assert "look: turn left small" in decoder.prompts[1]


def test_the_action_is_published_before_the_text_is_finished_but_not_before_its_line_is_complete() -> None:
    robot = FakeRobot()
    run(robot, Script(LEFT))
    first = [update for update in robot.updates if update.step == 1 and update.state is StepState.DECODING]
    assert [update.action for update in first] == ["", "turn left small", "turn left small"]
    assert first[1].text == "turn left small\n" and first[1].latency_s >= 0.0


def test_a_decoder_that_is_closed_during_a_text_ends_the_goal_and_finishes_no_step() -> None:
    robot = FakeRobot()
    result = run(robot, Script(LEFT, Cancelled("the decoder was closed")))
    assert (result.error, result.message) == (GoalError.MODEL_FAILED, "the decoder was closed")
    assert [update.step for update in robot.updates if update.state is StepState.FINISHED] == [1]


def test_the_prompt_of_a_step_is_published_before_its_text() -> None:
    robot, decoder = FakeRobot(), Script(LEFT)
    run(robot, decoder)
    assert [step for step, _ in robot.prompts] == [1, 2]
    assert [request.prompt.text for _, request in robot.prompts] == decoder.prompts


def test_a_text_that_was_cut_short_in_its_first_line_is_no_action() -> None:
    robot = FakeRobot()
    cut = Decoded("turn left", (1, 2), False, 0.5, 0.1, 2)
    assert run(robot, Script(cut)).success
    assert actions(robot) == [(2, "stop")]


def test_a_finished_text_of_one_line_is_an_action() -> None:
    robot = FakeRobot()
    whole = Decoded("turn left small", (1, 2), True, 0.5, 0.1, 2)
    assert run(robot, Script(whole)).steps == 2
    assert actions(robot)[0] == (1, "turn left small")


def test_a_lost_link_is_withdrawn_and_the_goal_goes_on() -> None:
    robot = FakeRobot()
    result = run(robot, Script(LEFT, LinkError("gone"), LEFT))
    assert result.success and result.steps == 3
    withdrawn = [update for update in robot.updates if update.state is StepState.WITHDRAWN]
    assert withdrawn[0].text == "gone" and len(withdrawn) == 2


def test_a_link_that_stays_lost_ends_the_goal_after_the_patience() -> None:
    robot = FakeRobot()
    result = run(robot, Script(*[LinkError("gone")] * 100))
    assert (result.error, result.message) == (GoalError.LINK_LOST, "gone")
    assert 5.0 <= robot.clock_s - 50.0 < 10.0


def test_a_bad_frame_is_skipped() -> None:
    assert run(FakeRobot(), Script(FrameError("truncated"), LEFT)).success


def test_missing_sensors_are_named() -> None:
    for robot, word in ((FakeRobot(has_frames=False), "camera"), (FakeRobot(has_odometry=False), "odom")):
        result = run(robot, Script())
        assert result.error is GoalError.NO_SENSOR and word in result.message
        assert actions(robot) == []


def test_an_emergency_stop_ends_the_goal() -> None:
    assert run(FakeRobot([Ending.EMERGENCY_STOP]), Script(LEFT)).error is GoalError.EMERGENCY_STOP


def test_failed_motions_end_the_goal_only_in_a_row() -> None:
    failed, done = Ending.FAILED, Ending.DONE
    assert run(FakeRobot([failed, failed, done, failed, done]), Script(*[LEFT] * 4)).success
    assert run(FakeRobot([failed, failed, Ending.STOPPED, failed, done]), Script(*[LEFT] * 4)).success
    result = run(FakeRobot([failed, failed, failed], motion_s=10.0), Script(*[LEFT] * 4))
    assert result.error is GoalError.MOTION_FAILED and "3 motions" in result.message


def test_motions_that_fail_for_a_moment_end_no_goal() -> None:
    failed = Ending.FAILED
    assert run(FakeRobot([*[failed] * 4, Ending.DONE], motion_s=0.5), Script(*[LEFT] * 5)).success
    result = run(FakeRobot([failed] * 9, motion_s=2.5), Script(*[LEFT] * 9))
    assert result.error is GoalError.MOTION_FAILED and "motions failed" in result.message


def test_a_base_that_no_motion_moves_ends_the_goal_and_one_that_is_blocked_at_times_does_not() -> None:
    blocked = Ending.BLOCKED
    result = run(FakeRobot([blocked] * 80), Script(*[LEFT] * 80), max_steps=200)
    assert result.error is GoalError.MOTION_FAILED and result.steps < 80
    assert f"{MAX_IDLE_MOTIONS} motions in a row covered nothing" in result.message
    at_times = [*[blocked] * (MAX_IDLE_MOTIONS - 1), Ending.DONE] * 2
    assert run(FakeRobot(at_times), Script(*[LEFT] * len(at_times)), max_steps=200).success


def test_while_a_person_drives_steps_do_not_count_and_then_the_search_goes_on() -> None:
    by_hand = [Ending.OVERRIDDEN] * 12
    robot, decoder = FakeRobot([Ending.DONE, *by_hand, Ending.DONE]), Script(*[LEFT] * 14)
    result = run(robot, decoder)
    assert result.success and result.steps == 3
    assert all(prompt.count("turn left small") == 1 for prompt in decoder.prompts[1:14])
    assert [u.text for u in robot.updates if u.state is StepState.WITHDRAWN][:-1] == ["OVERRIDDEN"] * 12


def test_no_report_ends_the_goal() -> None:
    result = run(FakeRobot(reports=False), Script(LEFT))
    assert result.error is GoalError.MOTION_FAILED and "action node" in result.message


@dataclass
class SimulatedRobot(FakeRobot):
    """Its clock runs at `pace`. A report comes `report_s` after the first wait for it."""

    pace: float = 0.1
    report_s: float = 2.5
    waited_s: float = 0.0

    def motion_end(self, session_id: str, step: int, timeout_s: float) -> MotionEnd | None:
        self.waited_s += timeout_s
        self.clock_s += timeout_s * self.pace
        if self.waited_s * self.pace < self.report_s:
            return None
        self.waited_s = 0.0
        return MotionEnd(session_id, step, "", Ending.DONE)


def test_a_report_is_awaited_on_the_clock_that_the_robot_moves_by() -> None:
    assert run(SimulatedRobot(), Script(LEFT)).success


def test_a_report_is_not_awaited_on_a_clock_that_stands_still() -> None:
    robot = SimulatedRobot(pace=0.0)
    result = run(robot, Script(LEFT))
    assert result.error is GoalError.MOTION_FAILED and "no report" in result.message
    assert robot.waited_s <= 20.0


def test_cancelling_ends_the_goal_wherever_it_is() -> None:
    for calls_before in range(6):
        answers = iter([False] * calls_before)
        robot = FakeRobot()
        result = run(robot, Script(*[LEFT] * 20), cancelled=lambda answers=answers: next(answers, True))
        assert result.error is GoalError.CANCELLED and not result.success


def test_the_step_limit_ends_the_goal_as_not_found() -> None:
    result = run(FakeRobot(), Script(*[LEFT] * 20))
    assert (result.error, result.steps) == (GoalError.NOT_FOUND, 10)


def test_updates_of_a_step_only_ever_grow() -> None:
    robot = FakeRobot()
    run(robot, Script(LEFT, LEFT))
    for before, after in zip(robot.updates, robot.updates[1:], strict=False):
        if before.step == after.step and after.state is not StepState.WITHDRAWN:
            assert after.text.startswith(before.text)
            assert replace(after, state=before.state).verified_tokens >= before.verified_tokens
