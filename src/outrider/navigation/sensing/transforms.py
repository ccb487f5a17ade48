# SPDX-License-Identifier: Apache-2.0
"""A tree of coordinate frames over time, like tf: static and moving transforms in, lookups out.

A transform is a 4x4 float matrix that takes points of the child frame to the parent frame, in metres.
Sans-IO.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from outrider.core.errors import TransformError

Matrix = np.ndarray[Any, Any]
Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

KEPT_S = 2.0
# How far outside the times of a moving transform a lookup may be.
MAX_EXTRAPOLATION_S = 0.2
UNIT_TOLERANCE = 0.01


@dataclass(frozen=True)
class StampedTransform:
    """The pose of `child` in `parent`. The quaternion is ordered x, y, z, w. Static ones hold at any time."""

    parent: str
    child: str
    translation: Vector
    quaternion: Quaternion
    stamp_s: float = 0.0
    static: bool = False

    @property
    def is_finite(self) -> bool:
        """Whether it is a valid translation and rotation: finite numbers, and a unit quaternion."""
        numbers = (*self.translation, *self.quaternion, self.stamp_s)
        norm = sum(part * part for part in self.quaternion)
        return all(map(math.isfinite, numbers)) and abs(norm - 1.0) < UNIT_TOLERANCE


class TransformTree:
    """Keeps the newest KEPT_S of every transform. A leading slash in a frame's name does not count."""

    def __init__(self) -> None:
        self._edges: dict[str, list[StampedTransform]] = {}
        self._unsound: set[str] = set()

    def put(self, transform: StampedTransform) -> None:
        """Add a transform. A new parent replaces the old one. An invalid transform is ignored."""
        child = _name(transform.child)
        if not transform.is_finite:
            self._unsound.add(child)
            return
        self._unsound.discard(child)
        history = self._edges.get(child, [])
        newest = history[-1] if history else None
        if newest is None or newest.static or transform.static or _is_new_source(newest, transform):
            self._edges[child] = [transform]
        elif transform.stamp_s > newest.stamp_s:
            oldest_s = transform.stamp_s - KEPT_S
            self._edges[child] = [*(earlier for earlier in history if earlier.stamp_s >= oldest_s), transform]

    def lookup(self, target: str, source: str, stamp_s: float = 0.0) -> Matrix:
        """Returns the matrix that takes points of `source` to `target` at a time; 0 means an unknown time.

        Raises TransformError, with a remedy, if tf does not connect the frames, or not at that time.
        """
        down, up = self._way_between(_name(target), _name(source))
        return np.asarray(np.linalg.inv(self._along(down, stamp_s)) @ self._along(up, stamp_s))

    def moves(self, target: str, source: str) -> bool:
        """Whether two frames move relative to each other. Raises TransformError if nothing connects them."""
        down, up = self._way_between(_name(target), _name(source))
        return not all(self._edges[child][-1].static for child in (*down, *up))

    def _way_between(self, target: str, source: str) -> tuple[list[str], list[str]]:
        """Returns the frames below the nearest common ancestor, from each of the two upwards."""
        down, up = self._way_up(target), self._way_up(source)
        common = next((frame for frame in up if frame in down), None)
        if common is None:
            raise TransformError(self._unconnected(target, source))
        return down[: down.index(common)], up[: up.index(common)]

    def _way_up(self, frame: str) -> list[str]:
        """Returns the frame and its ancestors; a loop ends where it closes."""
        way = [frame]
        while way[-1] in self._edges:
            parent = _name(self._edges[way[-1]][-1].parent)
            if parent in way:
                break
            way.append(parent)
        return way

    def _along(self, children: list[str], stamp_s: float) -> Matrix:
        matrix = np.eye(4)
        for child in children:
            matrix = _at(self._edges[child], stamp_s) @ matrix
        return matrix

    def _unconnected(self, target: str, source: str) -> str:
        remedy = (
            f"start what publishes it, or `ros2 run tf2_ros static_transform_publisher --frame-id {target} "
            f"--child-frame-id {source} --x 0.2 --z 0.1`"
        )
        if source in self._unsound:
            return f"the transform of {source!r} in tf is no number or no rotation: correct its publisher"
        return f"no transform from {target!r} to {source!r} in tf: {remedy}"


def _is_new_source(newest: StampedTransform, transform: StampedTransform) -> bool:
    """Whether the kept transforms no longer count: another parent, or a clock that was set back."""
    return newest.parent != transform.parent or transform.stamp_s < newest.stamp_s - KEPT_S


def _at(history: list[StampedTransform], stamp_s: float) -> Matrix:
    """Returns the transform at a time, interpolated between two stamps."""
    newest = history[-1]
    if newest.static:
        return _matrix(newest.translation, newest.quaternion)
    if stamp_s == 0.0:
        raise TransformError(
            f"the transform from {newest.parent!r} to {newest.child!r} moves, and "
            "what needs it is not stamped: let its driver stamp it"
        )
    off_s = max(stamp_s - newest.stamp_s, history[0].stamp_s - stamp_s)
    if off_s > MAX_EXTRAPOLATION_S:
        raise TransformError(
            f"the transform from {newest.parent!r} to {newest.child!r} is {off_s:.2f} s off the time that it "
            "is needed for: restart what publishes it, and synchronise the computers' clocks"
        )
    after = bisect.bisect_left([transform.stamp_s for transform in history], stamp_s)
    if after in (0, len(history)):
        nearest = history[min(after, len(history) - 1)]
        return _matrix(nearest.translation, nearest.quaternion)
    return _between(history[after - 1], history[after], stamp_s)


def _between(first: StampedTransform, second: StampedTransform, stamp_s: float) -> Matrix:
    share = (stamp_s - first.stamp_s) / (second.stamp_s - first.stamp_s)
    before, after = np.array(first.quaternion), np.array(second.quaternion)
    after = after if before @ after >= 0.0 else -after
    quaternion = (1.0 - share) * before + share * after
    translation = (1.0 - share) * np.array(first.translation) + share * np.array(second.translation)
    return _matrix(translation, quaternion / np.linalg.norm(quaternion))


def _matrix(translation: Any, quaternion: Any) -> Matrix:
    x, y, z, w = np.asarray(quaternion, dtype=float) / np.linalg.norm(quaternion)
    matrix = np.eye(4)
    matrix[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    matrix[:3, 3] = translation
    return matrix


def _name(frame: str) -> str:
    return frame.lstrip("/")
