# SPDX-License-Identifier: Apache-2.0
"""A Go2-sized base in a MuJoCo home: velocity commands in; odometry, scan and camera out. No threads."""

from __future__ import annotations

import contextlib
import importlib
import math

import cv2
import numpy as np

from outrider.core.errors import SimulationError
from outrider.core.sensors.camera import MODEL_IMAGE_HEIGHT, MODEL_IMAGE_WIDTH, SIM_CAMERA
from outrider.core.values import Odometry, Pose2D, RangeScan, Velocity, wrap_angle
from outrider.simulation.homes.home import Home
from outrider.simulation.looks.engine import mujoco
from outrider.simulation.looks.opengl import drawing_remedy
from outrider.simulation.looks.styles import PLAIN, Look, develop
from outrider.simulation.mjcf import TIMESTEP_S, build_model

MAX_VX, MAX_VY, MAX_WZ = 1.0, 0.4, 1.5
SCAN_RAYS = 180
# Rays hit the home, whose geoms are in group 0, but not the robot.
SCENERY_GROUPS, NO_BODY = np.array([1, 0, 0, 0, 0, 0], np.uint8), -1
SCAN_HEIGHTS_M = (0.12, 0.36, 0.42)
SCAN_RANGE_M = 8.0
MAX_GEOMS = 400


class Simulator:
    """One robot in one home; implements `core.ports.Robot`.

    `odometry_noise` is the standard deviation of the relative error of distance and yaw per step of motion.
    `look` is the appearance of the home and its pictures to the models.
    """

    def __init__(self, home: Home, seed: int = 0, odometry_noise: float = 0.0, look: Look = PLAIN):
        self.home = home
        self._look = look
        self._option = mujoco.MjvOption()
        self._option.geomgroup[3] = 0
        self.model = self._build(home)
        self.data = mujoco.MjData(self.model)
        self.collisions = 0
        self._noise = odometry_noise
        self._rng = np.random.default_rng([seed, 5])
        self._film_rng = np.random.default_rng([seed, 6])
        self._touching = False
        self._renderers: dict[tuple[int, int], mujoco.Renderer] = {}
        self._rays = _ray_vectors()
        self.place(home.start)

    def _build(self, home: Home) -> mujoco.MjModel:
        return build_model(home, self._look)

    @property
    def time_s(self) -> float:
        """Returns the simulated time in seconds."""
        return float(self.data.time)

    def place(self, pose: Pose2D) -> None:
        """Place the robot at rest. Its odometry starts there."""
        self.data.qpos[:] = (pose.x, pose.y, pose.yaw)
        self.data.qvel[:] = 0.0
        self.data.ctrl[:] = 0.0
        mujoco.mj_forward(self.model, self.data)
        self._odometry_pose = self._last_truth = pose

    def truth(self) -> Pose2D:
        """Returns the true pose of the robot."""
        x, y, yaw = self.data.qpos
        return Pose2D(float(x), float(y), wrap_angle(float(yaw)))

    def odometry(self) -> Odometry:
        """Returns the pose by dead reckoning, from the true start pose."""
        vx, vy, wz = self.data.qvel
        yaw = self.data.qpos[2]
        forward = vx * math.cos(yaw) + vy * math.sin(yaw)
        left = -vx * math.sin(yaw) + vy * math.cos(yaw)
        return Odometry(self._odometry_pose, Velocity(float(forward), float(left), float(wz)), self.time_s)

    def scan(self) -> RangeScan:
        """Returns ranges around the base centre: the nearest of three planes, for low and hollow things."""
        nearest = np.full(SCAN_RAYS, SCAN_RANGE_M)
        truth = self.truth()
        yaw = truth.yaw
        turn = np.array([[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]])
        vectors = np.zeros((SCAN_RAYS, 3))
        vectors[:, :2] = self._rays @ turn.T
        for height in SCAN_HEIGHTS_M:
            origin = np.array([truth.x, truth.y, height])
            hit, distance = np.zeros(SCAN_RAYS, dtype=np.int32), np.zeros(SCAN_RAYS)
            mujoco.mj_multiRay(
                self.model,
                self.data,
                origin,
                vectors.ravel(),
                SCENERY_GROUPS,
                1,
                NO_BODY,
                hit,
                distance,
                None,
                SCAN_RAYS,
                SCAN_RANGE_M,
            )
            nearest = np.where(hit >= 0, np.minimum(nearest, distance), nearest)
        ranges = np.where(nearest < SCAN_RANGE_M, nearest, math.inf)
        return RangeScan(tuple(ranges.tolist()), -math.pi, 2 * math.pi / SCAN_RAYS, self.time_s)

    def drive(self, velocity: Velocity, duration_s: float) -> None:
        """Advance the clock, holding a body velocity clamped to the Go2's limits."""
        vx = max(min(velocity.vx, MAX_VX), -MAX_VX)
        vy = max(min(velocity.vy, MAX_VY), -MAX_VY)
        wz = max(min(velocity.wz, MAX_WZ), -MAX_WZ)
        for _ in range(max(1, round(duration_s / TIMESTEP_S))):
            yaw = self.data.qpos[2]
            self.data.ctrl[0] = vx * math.cos(yaw) - vy * math.sin(yaw)
            self.data.ctrl[1] = vx * math.sin(yaw) + vy * math.cos(yaw)
            self.data.ctrl[2] = wz
            mujoco.mj_step(self.model, self.data)
            self._count_collision()
        self._advance_odometry()

    def _count_collision(self) -> None:
        touching = self.data.ncon > 0
        if touching and not self._touching:
            self.collisions += 1
        self._touching = touching

    def _advance_odometry(self) -> None:
        """Advance dead reckoning by the true increment, each part scaled by a noisy factor."""
        truth, last, pose = self.truth(), self._last_truth, self._odometry_pose
        dx, dy, dyaw = truth.x - last.x, truth.y - last.y, wrap_angle(truth.yaw - last.yaw)
        if self._noise > 0.0:
            scale, turn_scale = (1.0 + self._noise * self._rng.standard_normal(2)).tolist()
            dx, dy, dyaw = dx * scale, dy * scale, dyaw * turn_scale
        drift = pose.yaw - last.yaw
        self._odometry_pose = Pose2D(
            pose.x + dx * math.cos(drift) - dy * math.sin(drift),
            pose.y + dx * math.sin(drift) + dy * math.cos(drift),
            wrap_angle(pose.yaw + dyaw),
        )
        self._last_truth = truth

    def render_camera(self) -> np.ndarray:
        """Returns the front camera's picture, uint8 (280, 504, 3) RGB."""
        return self._render("front", SIM_CAMERA.width, SIM_CAMERA.height)

    def render_top(self, width: int, height: int) -> np.ndarray:
        """Returns the home from above, uint8 (height, width, 3) RGB."""
        return self._render("top", width, height)

    def frame_jpeg(self) -> bytes:
        """Returns the newest frame as both models see it."""
        small = cv2.resize(
            self.render_camera(), (MODEL_IMAGE_WIDTH, MODEL_IMAGE_HEIGHT), interpolation=cv2.INTER_AREA
        )
        film = self._look.film
        developed = cv2.cvtColor(develop(small, film, self._film_rng), cv2.COLOR_RGB2BGR)
        _, encoded = cv2.imencode(".jpg", developed, [cv2.IMWRITE_JPEG_QUALITY, film.jpeg_quality])
        return encoded.tobytes()

    def segment_camera(self) -> np.ndarray:
        """Returns geom ids of the front camera's pixels, int32 (140, 252), the models' size; -1 for none."""
        renderer = self._renderer(MODEL_IMAGE_WIDTH, MODEL_IMAGE_HEIGHT)
        renderer.enable_segmentation_rendering()
        renderer.update_scene(self.data, camera="front", scene_option=self._option)
        segments = renderer.render()
        renderer.disable_segmentation_rendering()
        return np.where(segments[..., 1] == int(mujoco.mjtObj.mjOBJ_GEOM), segments[..., 0], -1)

    def close(self) -> None:
        """Free the renderers."""
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()

    def _render(self, camera: str, width: int, height: int) -> np.ndarray:
        renderer = self._renderer(width, height)
        renderer.update_scene(self.data, camera=camera, scene_option=self._option)
        return renderer.render().copy()

    def _renderer(self, width: int, height: int) -> mujoco.Renderer:
        key = (width, height)
        if key not in self._renderers:
            renderer = open_renderer(self.model, width, height, samples=0, max_geom=MAX_GEOMS)
            renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
            renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
            renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = 0
            self._renderers[key] = renderer
        return self._renderers[key]


def open_renderer(
    model: mujoco.MjModel, width: int, height: int, samples: int, max_geom: int
) -> mujoco.Renderer:
    """Returns a renderer for pictures of this size in pixels, with this number of samples a pixel.

    Raises SimulationError if the system cannot render without a screen.
    """
    _load_triton()
    model.vis.global_.offwidth = max(width, model.vis.global_.offwidth)
    model.vis.global_.offheight = max(height, model.vis.global_.offheight)
    model.vis.quality.offsamples = samples
    try:
        return mujoco.Renderer(model, height, width, max_geom)
    except Exception as error:  # errors of OpenGL's libraries have no base class of their own
        raise SimulationError(
            f"no picture can be drawn without a screen ({error}): {drawing_remedy()}, and `outrider doctor` "
            "to see whether that was it"
        ) from error


def open_simulator(home: Home, seed: int, odometry_noise: float, legs: bool, look: Look = PLAIN) -> Simulator:
    """Returns the sliding robot, or the walking one. Raises ConfigError if the latter is not installed."""
    if not legs:
        return Simulator(home, seed, odometry_noise, look)
    from outrider.simulation.legs import LeggedSimulator  # it imports this module

    return LeggedSimulator(home, seed, odometry_noise, look)


def _load_triton() -> None:
    """Import triton before OpenGL is loaded.

    OpenGL opens Mesa's LLVM for the whole process. If a CUDA build of torch imported triton later, triton
    would be bound to that LLVM and crash.
    """
    with contextlib.suppress(ImportError):
        importlib.import_module("triton")


def _ray_vectors() -> np.ndarray:
    angles = -math.pi + np.arange(SCAN_RAYS) * (2 * math.pi / SCAN_RAYS)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)
