# SPDX-License-Identifier: Apache-2.0
"""A home as a MuJoCo model, built with MjSpec. A geom's name says which thing its pixels belong to."""

from __future__ import annotations

import math

import numpy as np

from outrider.core.sensors.camera import CAMERA_FORWARD_M, CAMERA_HEIGHT_M, SIM_CAMERA
from outrider.simulation.homes.floor_plans import WALL_THICKNESS, Rect
from outrider.simulation.homes.furnishing import HomeObject
from outrider.simulation.homes.home import WALL_HEIGHT, Home
from outrider.simulation.homes.vocabulary import COLOUR_RGB, SCALES
from outrider.simulation.looks.engine import mujoco
from outrider.simulation.looks.scenery import dress
from outrider.simulation.looks.shapes import FURNITURE_PARTS, STANDING_PARTS, Part
from outrider.simulation.looks.styles import PLAIN, Look

BODY_LENGTH_M, BODY_WIDTH_M = 0.70, 0.31
TIMESTEP_S = 0.01
DOOR_RGBA = (0.30, 0.16, 0.08, 1.0)
FURNITURE_RGB = {
    "sofa": (0.45, 0.40, 0.36),
    "shelf": (0.52, 0.36, 0.22),
    "bed": (0.66, 0.60, 0.55),
    "cabinet": (0.58, 0.44, 0.30),
    "fridge": (0.88, 0.88, 0.86),
}
SOLID, ROBOT_GROUP = 1, 3
BODY_GEOM = "robot/body"

_BOX = mujoco.mjtGeom.mjGEOM_BOX


def build_model(home: Home, look: Look = PLAIN) -> mujoco.MjModel:
    """Compile the home with the robot in it.

    Its joints are x, y (slides) and yaw (hinge), each velocity-controlled.
    """
    spec = home_spec(home)
    spec.option.timestep = TIMESTEP_S
    spec.option.gravity = [0.0, 0.0, 0.0]
    _robot(spec)
    return compiled(spec, look)


def home_spec(home: Home) -> mujoco.MjSpec:
    """Returns the home without a robot."""
    spec = mujoco.MjSpec()
    rng = np.random.default_rng([home.seed, 77])
    _light(spec, rng)
    _shell(spec, home, rng)
    for index, thing in enumerate(home.objects):
        if thing.rect is None:
            _standing_geoms(spec, index, thing)
        else:
            _furniture_geoms(spec, rng, home, index, thing.rect)
    _top_camera(spec, home)
    return spec


def compiled(spec: mujoco.MjSpec, look: Look) -> mujoco.MjModel:
    """Returns the compiled model of a home with its robot, in a look."""
    dress(spec, look, WALL_HEIGHT)
    model = spec.compile()
    model.vis.map.znear, model.vis.map.zfar = 0.005, 3.0
    return model


def _light(spec: mujoco.MjSpec, rng: np.random.Generator) -> None:
    brightness = float(rng.uniform(0.30, 0.45))
    spec.visual.headlight.ambient = [brightness] * 3
    spec.visual.headlight.diffuse = [float(rng.uniform(0.25, 0.40))] * 3
    spec.visual.headlight.specular = [0.05] * 3
    spec.worldbody.add_light(
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        pos=[0, 0, 6],
        dir=[float(rng.uniform(-0.5, 0.5)), float(rng.uniform(-0.5, 0.5)), -1.0],
        diffuse=[float(rng.uniform(0.30, 0.45))] * 3,
        castshadow=False,
    )


def _shell(spec: mujoco.MjSpec, home: Home, rng: np.random.Generator) -> None:
    wall_rgb = np.array([0.84, 0.78, 0.66]) * rng.uniform(0.85, 1.08) + rng.uniform(-0.03, 0.03, size=3)
    for index, room in enumerate(home.rooms):
        floor_rgb = np.array([0.50, 0.38, 0.27]) * rng.uniform(0.8, 1.25) + rng.uniform(-0.04, 0.04, size=3)
        x, y = room.centre
        spec.worldbody.add_geom(
            name=f"floor/{index}",
            type=_BOX,
            size=[(room.x1 - room.x0) / 2, (room.y1 - room.y0) / 2, 0.01],
            pos=[x, y, -0.01],
            rgba=[*np.clip(floor_rgb, 0, 1), 1.0],
            contype=0,
            conaffinity=0,
        )
    for index, wall in enumerate(home.walls):
        _rect_geom(spec, f"wall/{index}", wall, WALL_HEIGHT, (*np.clip(wall_rgb, 0, 1), 1.0))
    for index, door in enumerate(home.doors):
        for side in (-1, 1):
            x = door.x + side * door.width / 2 * door.along_x
            y = door.y + side * door.width / 2 * (not door.along_x)
            half = WALL_THICKNESS / 2 + 0.02
            post = Rect(x - half, y - half, x + half, y + half)
            _rect_geom(spec, f"door/{index}/{side}", post, WALL_HEIGHT, DOOR_RGBA)


def _rect_geom(
    spec: mujoco.MjSpec, name: str, rect: Rect, height: float, rgba: tuple[float, float, float, float]
) -> None:
    x, y = rect.centre
    spec.worldbody.add_geom(
        name=name,
        type=_BOX,
        size=[(rect.x1 - rect.x0) / 2, (rect.y1 - rect.y0) / 2, height / 2],
        pos=[x, y, height / 2],
        rgba=list(rgba),
        contype=0,
        conaffinity=SOLID,
    )


def _standing_geoms(spec: mujoco.MjSpec, index: int, thing: HomeObject) -> None:
    body = spec.worldbody.add_body(
        name=f"object/{index}",
        pos=[thing.x, thing.y, 0.0],
        quat=[math.cos(thing.yaw / 2), 0.0, 0.0, math.sin(thing.yaw / 2)],
    )
    scale, rgba = SCALES[thing.spec.size], [*COLOUR_RGB[thing.spec.colour], 1.0]
    for number, part in enumerate(STANDING_PARTS[thing.spec.kind]):
        _part_geom(body, f"object/{index}/{number}", part, scale, rgba)


def _furniture_geoms(
    spec: mujoco.MjSpec, rng: np.random.Generator, home: Home, index: int, rect: Rect
) -> None:
    """Add a piece with its back to the nearest wall; `furniture/` is plain, `object/` has a colour."""
    thing = home.objects[index]
    group, rgb = "object", np.array(COLOUR_RGB.get(thing.spec.colour, FURNITURE_RGB[thing.spec.kind]))
    if not thing.spec.colour:
        group, rgb = "furniture", np.clip(rgb * rng.uniform(0.85, 1.15), 0, 1)
    yaw = _facing_yaw(home.rooms[thing.room], rect)
    body = spec.worldbody.add_body(
        name=f"{group}/{index}",
        pos=[thing.x, thing.y, 0.0],
        quat=[math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)],
    )
    for number, part in enumerate(FURNITURE_PARTS[thing.spec.kind]):
        _part_geom(body, f"{group}/{index}/{number}", part, 1.0, [*rgb, 1.0])


def _facing_yaw(room: Rect, rect: Rect) -> float:
    """Returns the yaw of a piece whose front is its -y side, so that its back is at the nearest wall."""
    gaps = {
        0.0: room.y1 - rect.y1,
        math.pi: rect.y0 - room.y0,
        math.pi / 2: rect.x0 - room.x0,
        -math.pi / 2: room.x1 - rect.x1,
    }
    return min(gaps, key=lambda yaw: gaps[yaw])


def _part_geom(body: mujoco.MjsBody, name: str, part: Part, scale: float, rgba: list[float]) -> None:
    body.add_geom(
        name=name,
        type=part.geom,
        size=[scale * length for length in part.size] + [0.0] * (3 - len(part.size)),
        pos=[scale * coordinate for coordinate in part.pos],
        rgba=[*(min(1.0, channel * part.shade) for channel in rgba[:3]), rgba[3]],
        contype=0,
        conaffinity=SOLID,
    )


def _robot(spec: mujoco.MjSpec) -> None:
    body = spec.worldbody.add_body(name="robot")
    for name, kind, axis in (
        ("x", mujoco.mjtJoint.mjJNT_SLIDE, [1, 0, 0]),
        ("y", mujoco.mjtJoint.mjJNT_SLIDE, [0, 1, 0]),
        ("yaw", mujoco.mjtJoint.mjJNT_HINGE, [0, 0, 1]),
    ):
        body.add_joint(name=name, type=kind, axis=axis)
        gain = 30.0 if name == "yaw" else 250.0
        actuator = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        actuator.set_to_velocity(kv=gain)
    body.add_geom(
        name=BODY_GEOM,
        type=_BOX,
        size=[BODY_LENGTH_M / 2, BODY_WIDTH_M / 2, 0.20],
        pos=[0, 0, 0.25],
        rgba=[0, 0, 0, 0],
        mass=15.0,
        contype=SOLID,
        conaffinity=0,
        group=ROBOT_GROUP,
    )
    _robot_looks(body)
    body.add_camera(
        name="front",
        pos=[CAMERA_FORWARD_M, 0, CAMERA_HEIGHT_M],
        xyaxes=[0, -1, 0, 0, 0, 1],
        fovy=math.degrees(SIM_CAMERA.vertical_fov_rad),
    )


def _robot_looks(body: mujoco.MjsBody) -> None:
    parts = [((0.28, 0.10, 0.06), (0.0, 0.0, 0.32)), ((0.05, 0.06, 0.05), (0.27, 0.0, 0.36))]
    parts += [((0.03, 0.03, 0.15), (a, b, 0.15)) for a in (-0.2, 0.2) for b in (-0.12, 0.12)]
    for number, (size, pos) in enumerate(parts):
        body.add_geom(
            name=f"robot/looks/{number}",
            type=_BOX,
            size=list(size),
            pos=list(pos),
            rgba=[0.20, 0.20, 0.22, 1.0],
            mass=0.0,
            contype=0,
            conaffinity=0,
            group=1,
        )


def _top_camera(spec: mujoco.MjSpec, home: Home) -> None:
    width, depth = home.extent
    height = 14.0
    fovy = 2 * math.degrees(math.atan(max(width, depth) * 0.54 / (height - WALL_HEIGHT / 2)))
    spec.worldbody.add_camera(
        name="top", pos=[width / 2, depth / 2, height], xyaxes=[1, 0, 0, 0, 1, 0], fovy=fovy
    )
