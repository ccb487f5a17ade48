# SPDX-License-Identifier: Apache-2.0
"""Shows the simulated robot from behind, in its home with ceilings and lamps. For people, not for models."""

from __future__ import annotations

import math

import numpy as np

from outrider.core.values import Pose2D
from outrider.simulation.homes.floor_plans import Rect
from outrider.simulation.homes.home import WALL_HEIGHT, Home
from outrider.simulation.looks.engine import mujoco
from outrider.simulation.looks.go2_figure import Gait, add_figure
from outrider.simulation.mjcf import home_spec
from outrider.simulation.simulator import SCENERY_GROUPS, open_renderer

DISTANCE_M, NEAREST_M, ELEVATION_DEG = 1.9, 0.8, -16.0
LOOK_AT_M = 0.5
CLEARANCE_M = 0.12
STEEPEST_DEG = -58.0
SWING = 0.25
"""The share of the distance to its place behind the robot that the camera moves per picture."""
TILE_M = 0.6
SKIRTING_M = 0.09
MAX_GEOMS = 800
STILL = 2e-3
"""A smaller change, in metres and radians, needs no new picture."""
CEILING_RGBA, SKIRTING_RGBA = [0.93, 0.92, 0.89, 1.0], [0.36, 0.31, 0.27, 1.0]


class OutsideView:
    """A camera that follows the robot through a home. Request pictures in the order of the run."""

    def __init__(self, home: Home, width: int, height: int) -> None:
        self._model = _furnished(home)
        self._data = mujoco.MjData(self._model)
        self._model.vis.quality.shadowsize = 2048
        self._renderer = open_renderer(self._model, width, height, samples=4, max_geom=MAX_GEOMS)
        self._gait, self._azimuth = Gait(), home.start.yaw
        self._shown: np.ndarray | None = None
        self._last = np.empty(0)

    def picture(self, pose: Pose2D) -> np.ndarray:
        """Returns the robot at the next pose of its path, uint8 (height, width, 3) RGB."""
        self._azimuth += SWING * math.remainder(pose.yaw - self._azimuth, math.tau)
        joints = np.array([pose.x, pose.y, pose.yaw, *self._gait.angles(pose)])
        now = np.append(joints, self._azimuth)
        if self._shown is None or np.abs(now - self._last).max() > STILL:
            self._shown, self._last = self._drawn(joints, pose), now
        return self._shown

    def _drawn(self, joints: np.ndarray, pose: Pose2D) -> np.ndarray:
        self._data.qpos[:] = joints
        mujoco.mj_kinematics(self._model, self._data)
        self._renderer.update_scene(self._data, camera=self._camera(pose))
        return self._renderer.render().copy()

    def close(self) -> None:
        """Free the renderer."""
        self._renderer.close()

    def _camera(self, pose: Pose2D) -> mujoco.MjvCamera:
        """Returns a camera behind the robot; nearer and steeper if something is in the way."""
        camera = mujoco.MjvCamera()
        camera.azimuth = math.degrees(self._azimuth)
        camera.lookat[:] = pose.x, pose.y, LOOK_AT_M
        camera.distance = max(NEAREST_M, self._room_behind(pose, ELEVATION_DEG))
        short = 1.0 - (camera.distance - NEAREST_M) / (DISTANCE_M - NEAREST_M)
        camera.elevation = ELEVATION_DEG + short * (STEEPEST_DEG - ELEVATION_DEG)
        return camera

    def _room_behind(self, pose: Pose2D, elevation_deg: float) -> float:
        """Returns the free metres behind the robot for the camera, at most DISTANCE_M."""
        rise = math.radians(elevation_deg)
        level = -math.cos(rise)
        back = np.array([level * math.cos(self._azimuth), level * math.sin(self._azimuth), -math.sin(rise)])
        origin, hit = np.array([pose.x, pose.y, LOOK_AT_M]), np.zeros(1, np.int32)
        free_m = mujoco.mj_ray(self._model, self._data, origin, back, SCENERY_GROUPS, 1, -1, hit)
        return DISTANCE_M if free_m < 0 else min(DISTANCE_M, free_m - CLEARANCE_M)


def _furnished(home: Home) -> mujoco.MjModel:
    """Returns the home with details that its plain model lacks, and with the figure of the robot."""
    spec = home_spec(home)
    spec.visual.headlight.ambient = [0.52] * 3
    spec.visual.headlight.diffuse = [0.38] * 3
    for light in spec.lights:
        light.active = False
    _tile_floors(spec, len(home.rooms))
    for index, room in enumerate(home.rooms):
        _cover(spec, f"ceiling/{index}", room, WALL_HEIGHT + 0.02, 0.02, CEILING_RGBA)
        _hang_lamp(spec, room.centre)
    for index, wall in enumerate(home.walls):
        _cover(spec, f"skirting/{index}", wall.grown(0.012), SKIRTING_M / 2, SKIRTING_M / 2, SKIRTING_RGBA)
    add_figure(spec)
    model = spec.compile()
    model.vis.map.znear, model.vis.map.zfar = 0.005, 3.0
    return model


def _tile_floors(spec: mujoco.MjSpec, num_rooms: int) -> None:
    spec.add_texture(
        name="tiles",
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        mark=mujoco.mjtMark.mjMARK_EDGE,
        rgb1=[1.0, 1.0, 1.0],
        rgb2=[0.88, 0.88, 0.88],
        markrgb=[0.62, 0.6, 0.58],
        width=256,
        height=256,
    )
    tiles = spec.add_material(name="tiles", texrepeat=[1.0 / (2 * TILE_M)] * 2, texuniform=True)
    tiles.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "tiles"
    for index in range(num_rooms):
        spec.geom(f"floor/{index}").material = "tiles"


def _cover(
    spec: mujoco.MjSpec, name: str, area: Rect, z: float, half_height: float, rgba: list[float]
) -> None:
    spec.worldbody.add_geom(
        name=name,
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=[(area.x1 - area.x0) / 2, (area.y1 - area.y0) / 2, half_height],
        pos=[*area.centre, z],
        rgba=rgba,
        contype=0,
        conaffinity=0,
    )


def _hang_lamp(spec: mujoco.MjSpec, at: tuple[float, float]) -> None:
    spec.worldbody.add_light(
        type=mujoco.mjtLightType.mjLIGHT_POINT,
        pos=[*at, WALL_HEIGHT - 0.15],
        dir=[0.0, 0.0, -1.0],
        diffuse=[0.42] * 3,
        specular=[0.1] * 3,
        attenuation=[0.7, 0.0, 0.05],
        castshadow=False,
    )
