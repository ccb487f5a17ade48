# SPDX-License-Identifier: Apache-2.0
"""Puts a look's surfaces, lights and lens into the MuJoCo description of a home before compilation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import cv2
import numpy as np

from outrider.simulation.looks.engine import mujoco
from outrider.simulation.looks.signs import hang
from outrider.simulation.looks.styles import PLAIN, Lens, Look, Rgb

SIZE = 64
"""The side of a texture in pixels."""
SCENERY_STREAM = 43
CEILING_RGB = (0.93, 0.92, 0.89)
MAX_SATURATED = 0.35
"""The limit for floors, walls and furniture, which are paler than any object."""
DARKEST = {"floor": 0.45, "wall": 0.6, "furniture": 0.4, "object": 0.75}
TILE_M = (0.6, 2.0)
CUBE_SIDES = 6


def texture(rng: np.random.Generator, darkest: float) -> np.ndarray:
    """Returns a random pattern, uint8 (SIZE, SIZE, 3), between `darkest` (0 to 1) and white."""
    kinds = list(_FIELDS)
    brightness = _FIELDS[kinds[int(rng.integers(len(kinds)))]](rng)
    shade = darkest + (1.0 - darkest) * np.clip(brightness, 0.0, 1.0)[..., None]
    tint = rng.uniform(0.92, 1.0, size=3)
    return np.rint(255.0 * shade * tint).astype(np.uint8)


def grain(rng: np.random.Generator) -> np.ndarray:
    """Returns clouds and grain: noise in several octaves, float (SIZE, SIZE)."""
    total, weights = np.zeros((SIZE, SIZE)), 0.0
    for octave in (4, 8, 16, SIZE):
        weight = float(rng.uniform(0.2, 1.0))
        coarse = rng.random((octave, octave)).astype(np.float32)
        total += weight * cv2.resize(coarse, (SIZE, SIZE), interpolation=cv2.INTER_CUBIC)
        weights += weight
    return total / weights


def stripes(rng: np.random.Generator) -> np.ndarray:
    """Returns soft or hard stripes, vertical or horizontal, float (SIZE, SIZE)."""
    wave = np.sin(2 * np.pi * (int(rng.integers(2, 9)) * np.arange(SIZE) / SIZE + rng.random()))
    line = 0.5 + 0.5 * np.clip(wave * rng.uniform(1.0, 6.0), -1.0, 1.0)
    field = np.tile(line, (SIZE, 1))
    return field if rng.random() < 0.5 else field.T


def tiles(rng: np.random.Generator) -> np.ndarray:
    """Returns tiles of slightly different brightness between dark joints, float (SIZE, SIZE)."""
    count = int(rng.choice([2, 4, 8]))
    side = SIZE // count
    field = np.kron(rng.uniform(0.6, 1.0, (count, count)), np.ones((side, side)))
    field[::side, :] = field[:, ::side] = 0.0
    return field


def planks(rng: np.random.Generator) -> np.ndarray:
    """Returns boards along one side, each with its own brightness and some grain, float (SIZE, SIZE)."""
    count = int(rng.choice([4, 8]))
    boards = np.repeat(rng.uniform(0.3, 1.0, count), SIZE // count)
    return 0.75 * boards[:, None] + 0.25 * grain(rng)


def speckles(rng: np.random.Generator) -> np.ndarray:
    """Returns dark flecks on white, float (SIZE, SIZE)."""
    flecks = (rng.random((SIZE, SIZE)) < rng.uniform(0.02, 0.15)).astype(np.float32)
    return 1.0 - np.minimum(1.0, 2.0 * cv2.GaussianBlur(flecks, (0, 0), float(rng.uniform(0.5, 1.5))))


_FIELDS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "grain": grain,
    "stripes": stripes,
    "tiles": tiles,
    "planks": planks,
    "speckles": speckles,
}


def dress(spec: mujoco.MjSpec, look: Look, height_m: float) -> None:
    """Apply a look to a home whose rooms are `height_m` high. Geoms are recognised by their names."""
    hang(spec, look.signs)
    if replace(look, signs=()) == PLAIN:
        return
    rng = np.random.default_rng([look.seed, SCENERY_STREAM])
    surfaces = _surfaces(spec)
    rooms = [geom for part, geom in surfaces if part == "floor"]
    if look.ceiling:
        _add_ceilings(spec, rng, rooms, height_m)
    for _ in range(look.lamps):
        _hang_lamp(spec, rng, rooms, height_m)
    _scale_lights(spec, look.light, 1.0 / (1.0 + 0.2 * look.lamps))
    if look.textured:
        _put_on_textures(spec, rng, surfaces)
    _fit_lens(spec.camera("front"), look.lens)


def _surfaces(spec: mujoco.MjSpec) -> list[tuple[str, mujoco.MjsGeom]]:
    named = [(geom.name.split("/")[0], geom) for geom in spec.geoms]
    return [(part, geom) for part, geom in named if part in DARKEST]


def _add_ceilings(
    spec: mujoco.MjSpec, rng: np.random.Generator, rooms: list[mujoco.MjsGeom], height_m: float
) -> None:
    """Add a plane that faces down over each room."""
    material = spec.add_material(name="ceiling", emission=float(rng.uniform(0.0, 0.7)))
    rgb = np.array(CEILING_RGB) * rng.uniform(0.7, 1.05)
    for index, room in enumerate(rooms):
        spec.worldbody.add_geom(
            name=f"ceiling/{index}",
            type=mujoco.mjtGeom.mjGEOM_PLANE,
            size=[room.size[0], room.size[1], 1.0],
            pos=[room.pos[0], room.pos[1], height_m],
            quat=[0.0, 1.0, 0.0, 0.0],
            rgba=[*rgb, 1.0],
            material=material.name,
            contype=0,
            conaffinity=0,
        )


def _hang_lamp(
    spec: mujoco.MjSpec, rng: np.random.Generator, rooms: list[mujoco.MjsGeom], height_m: float
) -> None:
    room = rooms[int(rng.integers(len(rooms)))]
    position = room.pos[:2] + rng.uniform(-0.8, 0.8, 2) * room.size[:2]
    colour = rng.uniform(0.2, 0.5) * rng.uniform([0.9, 0.8, 0.6], [1.0, 1.0, 1.0])
    spec.worldbody.add_light(
        type=mujoco.mjtLightType.mjLIGHT_POINT,
        pos=[*position, height_m - 0.2],
        diffuse=list(colour),
        specular=[0.1] * 3,
        castshadow=False,
    )


def _scale_lights(spec: mujoco.MjSpec, light: Rgb, share: float) -> None:
    """Tint every light. The lights from before the lamps keep `share` of their brightness."""
    headlight = spec.visual.headlight
    headlight.ambient = np.array(headlight.ambient) * light * share
    headlight.diffuse = np.array(headlight.diffuse) * light * share
    for lamp in spec.lights:
        own = 1.0 if lamp.type == mujoco.mjtLightType.mjLIGHT_POINT else share
        lamp.diffuse = np.array(lamp.diffuse) * light * own


def _put_on_textures(
    spec: mujoco.MjSpec, rng: np.random.Generator, surfaces: list[tuple[str, mujoco.MjsGeom]]
) -> None:
    """Give each floor, thing and piece of furniture its own texture; the walls share one."""
    shared: dict[str, Rgb] = {}
    for part, geom in surfaces:
        owner = part if part == "wall" else "/".join(geom.name.split("/")[:2])
        if owner not in shared:
            _add_material(spec, rng, owner, part)
            shared[owner] = _pale(rng)
        geom.material = owner
        if part != "object":
            geom.rgba = [*shared[owner], 1.0]


def _add_material(spec: mujoco.MjSpec, rng: np.random.Generator, name: str, part: str) -> None:
    flat = part == "floor"
    sides = 1 if flat else CUBE_SIDES
    kind = mujoco.mjtTexture.mjTEXTURE_2D if flat else mujoco.mjtTexture.mjTEXTURE_CUBE
    picture = texture(rng, DARKEST[part])
    made = spec.add_texture(name=name, type=kind, width=SIZE, height=SIZE * sides, nchannel=3)
    made.data = np.tile(picture, (sides, 1, 1)).tobytes()
    material = spec.add_material(name=name, specular=0.1, texuniform=flat)
    material.textures[int(mujoco.mjtTextureRole.mjTEXROLE_RGB)] = name
    material.texrepeat = [1.0 / rng.uniform(*TILE_M)] * 2


def _pale(rng: np.random.Generator) -> Rgb:
    """Returns a bright or dark colour of low saturation."""
    value, saturation, hue = rng.uniform(0.45, 1.0), rng.uniform(0.0, MAX_SATURATED), rng.random()
    red, green, blue = (
        float(value * (1.0 - saturation * (0.5 + 0.5 * math.cos(2 * math.pi * (hue + third / 3)))))
        for third in range(3)
    )
    return red, green, blue


def _fit_lens(camera: mujoco.MjsCamera, lens: Lens) -> None:
    camera.pos = np.array(camera.pos) + np.array([0.0, 0.0, lens.raised_m])
    half = math.tan(math.radians(camera.fovy) / 2) / lens.focal
    camera.fovy = 2 * math.degrees(math.atan(half))
    up = [math.sin(lens.pitch_rad), 0.0, math.cos(lens.pitch_rad)]
    camera.alt.xyaxes = [0.0, -1.0, 0.0, *up]
