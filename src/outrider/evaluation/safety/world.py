# SPDX-License-Identifier: Apache-2.0
"""The robot's side of a goal on the simulation's clock, in one process, with switches for what can fail.

Everything between a text and the base is the real code: `GoalRun`, `Pilot`, controller, deadmen and MuJoCo.
With the `BaseWire` of nodes it includes the base's command and its services. Calls replace DDS and processes,
at the nodes' own rates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from outrider.core.language.actions import Motion
from outrider.core.sensors.lidar import LIDAR_FRAME
from outrider.core.values import (
    STANDSTILL,
    Decoded,
    DecodeRequest,
    Odometry,
    RangeScan,
    Velocity,
    wrap_angle,
)
from outrider.evaluation.safety.base_wires import DirectWire, OpenWire
from outrider.evaluation.safety.sensor_faults import Distortion, ScanDistortion, sample_of, scan_sample_of
from outrider.navigation.clocks import Moment
from outrider.navigation.limits import Footprint
from outrider.navigation.motion.pilot import Pilot, PilotSettings
from outrider.navigation.motion.step_motions import Drive, MotionEnd, StepText
from outrider.navigation.sensing.camera_check import RepeatWatch
from outrider.navigation.sensing.odometry_check import OdometryCheck, OdometrySample
from outrider.navigation.sensing.scan_check import ScanCheck, ScanSample
from outrider.navigation.sensing.transforms import StampedTransform, TransformTree
from outrider.runtime.mission.robot_side import (
    Frame,
    PictureClock,
    RobotSide,
    StepState,
    StepUpdate,
    unless_blind,
)
from outrider.runtime.mission.simulated_base import SimulatedBase
from outrider.runtime.node_graph.node_specs import ACTION
from outrider.simulation.simulator import SCAN_RANGE_M, Simulator

STEP_S = 0.01
# Periods in steps: 50, 33, 25, 20 and 10 Hz.
BASE, TICK, SENSOR, BEAT, CAMERA = 2, 3, 4, 5, 10
CAMERA_SILENCE_S = 0.2
FRESH_S = 2.0
SPEED_MPS, SPEED_RPS = 0.1, 0.2
JOYSTICK_MPS = 0.3
# The clocks of motions and of the odometry source when the trial begins.
JOINED_S, ROBOT_S = 50.0, 7000.0
BASE_FRAME = "base_link"
# Published again and again, as for a lidar on a joint.
LIDAR_ON_BASE = StampedTransform(BASE_FRAME, LIDAR_FRAME, (0.0, 0.0, -0.1), (0.0, 0.0, 0.0, 1.0))


class NavigatorKilled(BaseException):
    """Ends the navigator as kill -9 would: no handler catches it, and later updates are not delivered."""


@dataclass
class Switches:
    """What works at the moment.

    `scan`, `odometry`: the distortion of their samples. `transforms`: whether the lidar's transform is
    published. `camera`: ok, silent, frozen, or repeating (the last picture under new stamps). `clock`: gives
    the clock of motions from its time at the fault's beginning and its true time. `drivers`: those who drive
    by hand, in alternating directions. `robot`: the robot's own fault, as in `BaseWire`. `stamps_behind_s`:
    how much too old the pictures' stamps are.
    """

    navigator: bool = True
    action: bool = True
    base: bool = True
    link: bool = True
    scan: ScanDistortion | None = None
    transforms: bool = True
    camera: str = "ok"
    odometry: Distortion | None = None
    clock: Callable[[float, float], float] | None = None
    drivers: tuple[str, ...] = ()
    robot: str = ""
    stamps_behind_s: float = 0.0


@dataclass
class SafetyWorld(RobotSide):
    """The simulated world; every wait of the navigator advances it.

    `on_step` is called in each step with the time and the base's next velocity, before that is applied. The
    camera counts as silent after `camera_silence_s` seconds without a new picture.
    """

    simulator: Simulator
    open_wire: OpenWire = DirectWire
    on_step: Callable[[float, Velocity], None] = lambda time_s, velocity: None
    switches: Switches = field(default_factory=Switches)
    in_navigator: bool = False
    camera_silence_s: float = CAMERA_SILENCE_S

    def __post_init__(self) -> None:
        self._steps = 0
        self._base, self._velocity = SimulatedBase(), STANDSTILL
        self._wire = self.open_wire(lambda velocity: self._base.feed(velocity, self.now_s()), self.now_s)
        self._pictures = PictureClock(self.now_s())
        self._repeat_watch, self._picture = RepeatWatch(), b"picture 0"
        self._picture_s = -math.inf
        self._odometry: Odometry | None = None
        self._last_odometry: Odometry | None = None
        self._last_sound: OdometrySample | None = None
        self._clock_fault_s: float | None = None
        self._motion, self._motion_start = Motion(), self.simulator.truth()
        self.overrun_m = 0.0
        self._scan: RangeScan | None = None
        self._last_scan: ScanSample | None = None
        self._update: StepUpdate | None = None
        self._ends: dict[tuple[str, int], MotionEnd] = {}
        self.start_action_node()
        while not self._wire.is_ready:
            self._step()

    def start_action_node(self) -> None:
        """Start a new process of the action node, without the state of the previous one."""
        values = ACTION.checked({})
        self._odometry_check, self._transforms = OdometryCheck(), TransformTree()
        self._scan_check = ScanCheck(self._transforms, BASE_FRAME)
        self.pilot = Pilot(
            PilotSettings(
                silence_s=float(values["deadman_s"]),
                joystick_s=float(values["joystick_s"]),
                max_frame_age_s=float(values["max_frame_age_s"]),
                period_s=TICK * STEP_S,
            )
        )
        self._wire.start()

    def moment(self) -> Moment:
        """Returns the time within the motion and since the start, in seconds."""
        return Moment(self._motion_s(), self.now_s())

    def _motion_s(self) -> float:
        """The clock of motions and measurements; it reads JOINED_S when the trial begins."""
        now_s = JOINED_S + self.now_s()
        if self.switches.clock is None:
            self._clock_fault_s = None
            return now_s
        self._clock_fault_s = now_s if self._clock_fault_s is None else self._clock_fault_s
        return self.switches.clock(self._clock_fault_s, now_s)

    def now_s(self) -> float:
        return self._steps * STEP_S

    @property
    def is_standing_up(self) -> bool:
        """Whether the robot was ordered to stand up in the last step."""
        return self._wire.is_standing_up

    def step_in(self, gap_m: float) -> None:
        """Move an object other than the target to `gap_m` metres in front of the robot."""
        home, pose = self.simulator.home, self.simulator.truth()
        index, thing = next((i, o) for i, o in enumerate(home.objects) if not (o.rect or o is home.target))
        ahead_m = Footprint().half_length_m + gap_m + thing.radius
        position = pose.x + ahead_m * math.cos(pose.yaw), pose.y + ahead_m * math.sin(pose.yaw)
        self.simulator.model.body(f"object/{index}").pos[:2] = position

    @property
    def is_at_speed(self) -> bool:
        """Whether the robot moves noticeably, by its odometry."""
        velocity = self._odometry.velocity if self._odometry else STANDSTILL
        return velocity.exceeds(SPEED_MPS, SPEED_RPS)

    def pause(self, duration_s: float) -> None:
        """Advance the world by a time in seconds, at least one step."""
        for _ in range(max(1, round(duration_s / STEP_S))):
            self._step()

    def frame_after(self, stamp_s: float, timeout_s: float) -> Frame | None:
        if not self._wait(lambda: self._picture_s > stamp_s, timeout_s):
            return None
        return Frame(b"", self._picture_s)

    def odometry(self) -> Odometry | None:
        newest = self._last_odometry
        return newest if newest is not None and self.now_s() - newest.stamp_s <= FRESH_S else None

    def motion_end(self, session_id: str, step: int, timeout_s: float) -> MotionEnd | None:
        self._wait(lambda: (session_id, step) in self._ends, timeout_s)
        return self._ends.pop((session_id, step), None)

    def publish_step(self, update: StepUpdate) -> None:
        self._update = update
        self._deliver()

    def publish_prompt(self, update: StepUpdate, request: DecodeRequest) -> None:
        """Does nothing: the simulation has no subscriber for prompts."""

    def publish_rounds(self, update: StepUpdate, decoded: Decoded) -> None:
        """Does nothing: the simulation has no subscriber for rounds."""

    def end_goal(self) -> None:
        """Discard the text of the goal."""
        self._update = None

    def _wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        for _ in range(round(timeout_s / STEP_S)):
            if condition():
                return True
            self._step()
        return condition()

    def _step(self) -> None:
        now_s, turn = self.now_s(), self._steps
        self._wire.robot_fault = self.switches.robot
        self._wire.deliver(self.switches.base)
        if turn % SENSOR == 0:
            self._sense(now_s)
        if turn % CAMERA == 0:
            self._look(now_s)
        if turn % BEAT == 0 and self._update is not None:
            silent_s = self._pictures.silent_s(now_s)
            self._update = unless_blind(self._update, silent_s, self.camera_silence_s)
            self._deliver()
        if turn % BEAT == 0:
            self._drive_by_hand()
        if turn % TICK == 0 and self.switches.action:
            self._tick()
        if turn % BASE == 0:
            self._velocity = self._base.velocity(now_s)
        self.on_step(now_s, self._velocity)
        self.simulator.drive(self._velocity if self.switches.base else STANDSTILL, STEP_S)
        self._follow()
        self._steps += 1
        if self.in_navigator and not self.switches.navigator:
            raise NavigatorKilled

    def _follow(self) -> None:
        """Update `overrun_m`: how far the robot truly is beyond the end of its last motion's command."""
        motion, truth = self.pilot.motion, self.simulator.truth()
        if motion is not None and motion is not self._motion:
            self._motion, self._motion_start = motion, truth
        start = self._motion_start
        beyond_m = start.distance_to(truth.x, truth.y) - self._motion.forward_m
        turned_rad = abs(wrap_angle(truth.yaw - start.yaw)) - abs(self._motion.turn_rad)
        overrun_m = max(0.0, beyond_m) + Footprint().radius_m * max(0.0, turned_rad)
        self.overrun_m = max(self.overrun_m, overrun_m)

    def _sense(self, now_s: float) -> None:
        switches = self.switches
        if not switches.base:
            return
        for sample in self._samples():
            self._odometry = self._odometry_check.take(sample, self._motion_s())
            if self._odometry is not None:
                self._last_odometry = replace(self._odometry, stamp_s=now_s)
        if switches.transforms:
            self._transforms.put(replace(LIDAR_ON_BASE, stamp_s=ROBOT_S + self._motion_s()))
        for scan in self._scans():
            self._scan = self._scan_check.take(scan, self._motion_s())

    def _scans(self) -> tuple[ScanSample, ...]:
        """The scans that the lidar's driver sends."""
        scan = scan_sample_of(self.simulator.scan(), SCAN_RANGE_M, ROBOT_S + self._motion_s())
        if self.switches.scan is None:
            self._last_scan = scan
            return (scan,)
        return self.switches.scan(self._last_scan or scan, scan)

    def _samples(self) -> tuple[OdometrySample, ...]:
        """What the odometry source sends, stamped by a clock ROBOT_S ahead of the clock of motions."""
        sample = sample_of(self.simulator.odometry(), ROBOT_S + self._motion_s())
        if self.switches.odometry is None:
            self._last_sound = sample
            return (sample,)
        return self.switches.odometry(self._last_sound or sample, sample)

    def _look(self, now_s: float) -> None:
        if not self.switches.base or self.switches.camera == "silent":
            return
        if self.switches.camera != "repeating":
            self._picture = f"picture {self._steps}".encode()
        stamp_s = self._picture_s if self.switches.camera == "frozen" else now_s
        if self._repeat_watch.is_repeated(self._picture, self._odometry):
            return
        if self._pictures.is_new(stamp_s, now_s):
            self._picture_s = stamp_s

    def _deliver(self) -> None:
        """Deliver the current text to the pilot, as DDS delivers a VerifiedText."""
        update, switches = self._update, self.switches
        if update is None or not switches.navigator or not switches.action:
            return
        age_s = self.now_s() - update.frame.stamp_s + switches.stamps_behind_s if update.frame else 0.0
        text = StepText(
            session_id=update.session_id,
            step=update.step,
            action=update.action,
            complete=update.action_complete,
            withdrawn=update.state is StepState.WITHDRAWN,
            link_lost=not switches.link,
            frame_age_s=age_s,
            text=update.text,
        )
        self.pilot.on_text(text, self.moment())

    def _drive_by_hand(self) -> None:
        for number, driver in enumerate(self.switches.drivers):
            if self.switches.action:
                velocity = Velocity(JOYSTICK_MPS if number % 2 == 0 else -JOYSTICK_MPS)
                self.pilot.on_joystick(velocity, self.moment(), driver)

    def _tick(self) -> None:
        """Run one tick of the action node."""
        self._wire.tick(self.pilot.emergency)
        self.pilot.on_base(self._wire.trouble(), self.moment())
        missing = self._odometry_check.fault or self._scan_check.fault
        self._carry_out(self.pilot.tick(self._odometry, self._scan, self.moment(), missing))

    def _carry_out(self, drive: Drive) -> None:
        if drive.stop:
            self._wire.stop()
        if drive.velocity is not None:
            self._wire.send(drive.velocity)
        if drive.end is not None:
            self._ends[(drive.end.session_id, drive.end.step)] = drive.end
