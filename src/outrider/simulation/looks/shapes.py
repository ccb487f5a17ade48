# SPDX-License-Identifier: Apache-2.0
"""The shapes of things, built from boxes, cylinders and ellipsoids, in metres."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.simulation.looks.engine import mujoco

_BOX = mujoco.mjtGeom.mjGEOM_BOX
_CYLINDER = mujoco.mjtGeom.mjGEOM_CYLINDER
_SPHERE = mujoco.mjtGeom.mjGEOM_SPHERE
_ELLIPSOID = mujoco.mjtGeom.mjGEOM_ELLIPSOID


@dataclass(frozen=True)
class Part:
    """A solid: MuJoCo's half-sizes, and its middle relative to the thing's place on the floor.

    `shade` darkens the thing's colour.
    """

    geom: mujoco.mjtGeom
    size: tuple[float, ...]
    pos: tuple[float, float, float]
    shade: float = 1.0


def _legs(x: float, y: float, height: float, half_width: float = 0.025) -> list[Part]:
    corners = [(a, b) for a in (-x, x) for b in (-y, y)]
    return [Part(_BOX, (half_width, half_width, height / 2), (a, b, height / 2)) for a, b in corners]


STANDING_PARTS: dict[str, list[Part]] = {
    "ball": [Part(_SPHERE, (0.17,), (0, 0, 0.17))],
    "bench": [Part(_BOX, (0.45, 0.15, 0.03), (0, 0, 0.42)), *_legs(0.40, 0.11, 0.40, 0.03)],
    "bin": [
        Part(_CYLINDER, (0.16, 0.23), (0, 0, 0.23)),
        Part(_CYLINDER, (0.18, 0.02), (0, 0, 0.48)),
    ],
    "bottle": [
        Part(_CYLINDER, (0.085, 0.15), (0, 0, 0.15)),
        Part(_SPHERE, (0.085,), (0, 0, 0.30)),
        Part(_CYLINDER, (0.032, 0.09), (0, 0, 0.39)),
    ],
    "box": [Part(_BOX, (0.15, 0.15, 0.15), (0, 0, 0.15))],
    "bucket": [
        *(Part(_CYLINDER, (0.10 + 0.02 * k, 0.035), (0, 0, 0.035 + 0.07 * k)) for k in range(4)),
        Part(_BOX, (0.012, 0.012, 0.08), (0.15, 0, 0.32)),
        Part(_BOX, (0.012, 0.012, 0.08), (-0.15, 0, 0.32)),
        Part(_BOX, (0.16, 0.012, 0.012), (0, 0, 0.40)),
    ],
    "chair": [
        Part(_BOX, (0.20, 0.20, 0.025), (0, 0, 0.42)),
        Part(_BOX, (0.025, 0.20, 0.20), (-0.18, 0, 0.65)),
        *_legs(0.17, 0.17, 0.42),
    ],
    "cone": [
        Part(_CYLINDER, (0.19, 0.02), (0, 0, 0.02)),
        *(Part(_CYLINDER, (0.14 - 0.024 * k, 0.042), (0, 0, 0.08 + 0.08 * k)) for k in range(5)),
    ],
    "cup": [Part(_CYLINDER, (0.11, 0.12), (0, 0, 0.12)), Part(_BOX, (0.04, 0.015, 0.07), (0.14, 0, 0.13))],
    "ladder": [
        Part(_BOX, (0.03, 0.03, 0.75), (0, -0.22, 0.75)),
        Part(_BOX, (0.03, 0.03, 0.75), (0, 0.22, 0.75)),
        *(Part(_BOX, (0.02, 0.22, 0.02), (0, 0, 0.15 + 0.25 * k)) for k in range(6)),
    ],
    "lamp": [
        Part(_CYLINDER, (0.14, 0.02), (0, 0, 0.02)),
        Part(_CYLINDER, (0.025, 0.42), (0, 0, 0.44)),
        Part(_CYLINDER, (0.20, 0.14), (0, 0, 1.00)),
    ],
    "person": [
        Part(_CYLINDER, (0.07, 0.40), (0, -0.09, 0.40), 0.6),
        Part(_CYLINDER, (0.07, 0.40), (0, 0.09, 0.40), 0.6),
        Part(_ELLIPSOID, (0.14, 0.20, 0.34), (0, 0, 1.10)),
        Part(_CYLINDER, (0.045, 0.26), (0, -0.22, 1.08)),
        Part(_CYLINDER, (0.045, 0.26), (0, 0.22, 1.08)),
        Part(_SPHERE, (0.12,), (0, 0, 1.56)),
    ],
    "plant": [
        Part(_CYLINDER, (0.14, 0.14), (0, 0, 0.14), 0.5),
        Part(_CYLINDER, (0.02, 0.15), (0, 0, 0.40), 0.5),
        Part(_SPHERE, (0.15,), (0.06, 0.05, 0.60)),
        Part(_SPHERE, (0.15,), (-0.08, 0.04, 0.66)),
        Part(_SPHERE, (0.16,), (0.01, -0.07, 0.78)),
    ],
    "screen": [
        Part(_BOX, (0.14, 0.20, 0.015), (0, 0, 0.015), 0.7),
        Part(_BOX, (0.02, 0.03, 0.26), (0, 0, 0.29), 0.7),
        Part(_BOX, (0.025, 0.36, 0.22), (0, 0, 0.77)),
    ],
    "stool": [
        Part(_CYLINDER, (0.17, 0.025), (0, 0, 0.49)),
        *_legs(0.11, 0.11, 0.47, 0.018),
        Part(_CYLINDER, (0.13, 0.01), (0, 0, 0.18)),
    ],
    "suitcase": [
        Part(_BOX, (0.11, 0.21, 0.26), (0, 0, 0.29)),
        Part(_BOX, (0.012, 0.012, 0.06), (0, -0.07, 0.60), 0.6),
        Part(_BOX, (0.012, 0.012, 0.06), (0, 0.07, 0.60), 0.6),
        Part(_BOX, (0.012, 0.08, 0.012), (0, 0, 0.66), 0.6),
    ],
    "table": [Part(_BOX, (0.36, 0.24, 0.025), (0, 0, 0.42)), *_legs(0.21, 0.21, 0.42)],
    "teddy": [
        Part(_ELLIPSOID, (0.15, 0.17, 0.19), (0, 0, 0.19)),
        Part(_SPHERE, (0.13,), (0, 0, 0.45)),
        Part(_SPHERE, (0.05,), (0, -0.10, 0.57)),
        Part(_SPHERE, (0.05,), (0, 0.10, 0.57)),
        Part(_ELLIPSOID, (0.14, 0.06, 0.06), (0.12, -0.13, 0.07)),
        Part(_ELLIPSOID, (0.14, 0.06, 0.06), (0.12, 0.13, 0.07)),
    ],
    "vase": [
        Part(_ELLIPSOID, (0.14, 0.14, 0.15), (0, 0, 0.15)),
        Part(_CYLINDER, (0.045, 0.07), (0, 0, 0.33)),
        Part(_CYLINDER, (0.09, 0.015), (0, 0, 0.405)),
    ],
}
FURNITURE_PARTS: dict[str, list[Part]] = {
    "bed": [
        Part(_BOX, (0.85, 0.55, 0.14), (0, 0, 0.14), 0.75),
        Part(_BOX, (0.83, 0.53, 0.07), (0, 0, 0.35)),
        Part(_BOX, (0.22, 0.36, 0.04), (0.58, 0, 0.44), 1.1),
    ],
    "cabinet": [
        Part(_BOX, (0.38, 0.205, 0.40), (0, 0.01, 0.42)),
        Part(_BOX, (0.40, 0.225, 0.02), (0, 0, 0.83), 1.15),
        Part(_BOX, (0.008, 0.01, 0.37), (0, -0.20, 0.42), 0.4),
        *(Part(_SPHERE, (0.025,), (x, -0.21, 0.5), 0.4) for x in (-0.07, 0.07)),
    ],
    "fridge": [
        Part(_BOX, (0.325, 0.30, 0.80), (0, 0, 0.80)),
        Part(_BOX, (0.33, 0.01, 0.01), (0, -0.30, 1.05), 0.5),
        Part(_BOX, (0.015, 0.02, 0.22), (0.25, -0.30, 0.75), 0.4),
    ],
    "shelf": [
        Part(_BOX, (0.03, 0.175, 0.85), (-0.47, 0, 0.85)),
        Part(_BOX, (0.03, 0.175, 0.85), (0.47, 0, 0.85)),
        Part(_BOX, (0.45, 0.02, 0.85), (0, 0.15, 0.85), 0.7),
        *(Part(_BOX, (0.45, 0.17, 0.02), (0, 0, 0.06 + 0.4 * k)) for k in range(5)),
    ],
    "sofa": [
        Part(_BOX, (0.75, 0.375, 0.19), (0, 0, 0.19)),
        Part(_BOX, (0.75, 0.10, 0.14), (0, 0.275, 0.51)),
        Part(_BOX, (0.10, 0.375, 0.08), (-0.65, 0, 0.44)),
        Part(_BOX, (0.10, 0.375, 0.08), (0.65, 0, 0.44)),
    ],
}
"""Lengthwise along x, with the front towards -y."""
