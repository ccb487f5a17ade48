"""A perfect base under a pilot, for tests of the pilot."""

from __future__ import annotations

import math

from outrider.core.values import Odometry, Pose2D, RangeScan, Velocity
from outrider.navigation.motion.pilot import (
    Moment,
    Pilot,
    PilotSettings,
)
from outrider.navigation.motion.step_motions import Drive, StepText

PERIOD_S = 0.04
FREE = (math.inf,) * 36


def free_scan(stamp_s: float) -> RangeScan:
    return RangeScan(FREE, -math.pi, math.tau / 36, stamp_s)


class Rig:
    """A perfect base under a pilot; its own clock runs `pace` times as fast as real time.

    While it `holds`, the base obeys no command. It ticks every PERIOD_S of the slower of the two
    clocks.
    """

    def __init__(self, pace: float = 1.0, **settings: float) -> None:
        period_s = PERIOD_S / max(1.0, pace)
        self.pilot = Pilot(PilotSettings(period_s=period_s, **settings))  # type: ignore[arg-type]
        self.pace, self.step_s = pace, period_s * pace
        self.now_s = 100.0
        self.pose = Pose2D(0.0, 0.0, 0.0)
        self.velocity = Velocity()
        self.holds = False
        self.sent: list[Drive] = []

    @property
    def now(self) -> Moment:
        return Moment(self.now_s, self.now_s / self.pace)

    def say(
        self, step: int = 1, action: str = "move forward medium", session: str = "a", **more: object
    ) -> None:
        more.setdefault("complete", True)
        self.pilot.on_text(StepText(session, step, action, **more), self.now)  # type: ignore[arg-type]

    def tick(self) -> Drive:
        odometry = Odometry(self.pose, self.velocity, self.now_s)
        scan = free_scan(self.now_s)
        drive = self.pilot.tick(odometry, scan, self.now)
        velocity = drive.velocity or Velocity()
        yaw = self.pose.yaw + velocity.wz * self.step_s
        x = self.pose.x + velocity.vx * math.cos(yaw) * self.step_s
        if not self.holds:
            self.pose = Pose2D(x, self.pose.y + velocity.vx * math.sin(yaw) * self.step_s, yaw)
        self.now_s += self.step_s
        self.sent.append(drive)
        return drive

    def go(self, ticks: int, **text: object) -> Drive:
        """Tick while repeating a text, with odometry of the commanded speed; return the last drive."""
        for _ in range(ticks):
            self.say(**text)  # type: ignore[arg-type]
            drive = self.tick()
            self.velocity = drive.velocity or Velocity()
        return drive

    def run(self, alive: bool = True, ticks: int = 400, **text: object) -> Drive:
        """Tick until a report comes, repeating the text as the navigator does; return that drive."""
        for _ in range(ticks):
            if alive:
                self.say(**text)  # type: ignore[arg-type]
            drive = self.tick()
            if drive.end is not None:
                return drive
        raise AssertionError("no report")
