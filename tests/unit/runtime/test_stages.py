from outrider.core.values import Pose2D
from outrider.runtime.reports.report import PoseRecord
from outrider.runtime.reports.stages import GOAL, Stages, first_motion_s


def test_stages_are_printed_once_and_their_seconds_are_in_order():
    now = [100.0]
    stages = Stages(lambda: now[0])
    for at_s, node, message in (
        (101.0, "verifier", "loading"),
        (102.0, "action", "ok"),
        (103.0, "action", "ok"),
    ):
        now[0] = at_s
        stages.take(node, message)
    assert list(stages.news()) == ["action: ready"] and not list(stages.news())
    now[0] = 104.0
    stages.mark(GOAL)
    now[0] = 110.0
    stages.mark(GOAL)
    seconds = stages.seconds(2.5)
    assert seconds == {"action ready": 2.0, GOAL: 4.0, "first motion": 6.5, "verdict": 10.0}
    assert list(seconds) == sorted(seconds, key=seconds.get)


def test_the_fault_of_a_node_is_printed_once_it_lasts():
    stages = Stages()
    for _ in range(6):
        stages.take("verifier", "loading the model")
    assert list(stages.news()) == ["verifier: loading the model"]


def test_the_first_motion_is_when_the_robot_is_first_elsewhere():
    poses = [
        PoseRecord(t, Pose2D(0, 0, 0), Pose2D(x, 0, yaw))
        for t, x, yaw in ((0, 1, 0), (1, 1.005, 0), (2, 1, 0.2))
    ]
    assert first_motion_s(poses) == 2
    assert first_motion_s(poses[:2]) is None and first_motion_s([]) is None


def test_a_run_that_never_had_a_goal_has_no_motion():
    assert set(Stages().seconds(1.0)) == {"verdict"}
