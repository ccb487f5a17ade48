# SPDX-License-Identifier: Apache-2.0
"""Draws the map of a run: walls, furniture, things in their colours, paths, steps, a scale.

Pictures are uint8 (H, W, 3) in OpenCV's BGR order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np

from outrider.core.values import Pose2D
from outrider.navigation.limits import Footprint
from outrider.runtime.pictures.lettering import Colour, Picture, text_width, write_text
from outrider.runtime.pictures.map_labels import Box, Label, place_labels
from outrider.simulation.homes.floor_plans import Rect
from outrider.simulation.homes.furnishing import HomeObject
from outrider.simulation.homes.home import Home
from outrider.simulation.homes.vocabulary import COLOUR_RGB
from outrider.simulation.shortest_path import Point

PAPER, FLOOR, WALL, FURNITURE, INK = (
    (247, 246, 244),
    (236, 232, 226),
    (78, 72, 66),
    (196, 203, 212),
    (58, 52, 48),
)
FAINT, PATH, ODOMETRY = (160, 152, 144), (190, 92, 24), (150, 190, 232)
GOOD, BAD, HALO = (80, 150, 40), (50, 50, 210), (30, 170, 250)
MARGIN_M = 0.35
SHORTEST = (150, 60, 140)
DASH_M, NEAR_PX, STEP_PX = 0.1, 28, 17


@dataclass(frozen=True)
class MapView:
    """Maps metres to pixels: x to the right, y up."""

    width: int
    height: int
    left_m: float
    bottom_m: float
    px_per_m: float

    def pixel(self, x: float, y: float) -> tuple[int, int]:
        """Returns the pixel (column, row) of a point in metres."""
        return round((x - self.left_m) * self.px_per_m), round(
            self.height - (y - self.bottom_m) * self.px_per_m
        )


def fit_view(width: int, height: int, home: Home | None, poses: Sequence[Pose2D]) -> MapView:
    """Returns a view that contains the home, or the poses if there is none."""
    if home is not None:
        xs = [value for room in home.rooms for value in (room.x0, room.x1)]
        ys = [value for room in home.rooms for value in (room.y0, room.y1)]
    else:
        xs, ys = [pose.x for pose in poses] or [0.0], [pose.y for pose in poses] or [0.0]
    margin_m = MARGIN_M if home is not None else 1.0
    span_x, span_y = max(xs) - min(xs) + 2 * margin_m, max(ys) - min(ys) + 2 * margin_m
    scale = min(width / span_x, height / span_y)
    left = (max(xs) + min(xs)) / 2 - width / scale / 2
    bottom = (max(ys) + min(ys)) / 2 - height / scale / 2
    return MapView(width, height, left, bottom, scale)


def draw_map(view: MapView, home: Home | None, way: Sequence[Pose2D] = ()) -> Picture:
    """Returns the ground plan without a robot, or blank paper for an unknown home.

    Names are placed clear of `way`, the robot's path.
    """
    picture = np.full((view.height, view.width, 3), PAPER, np.uint8)
    if home is None:
        return picture
    for room in home.rooms:
        _fill(picture, view, room, FLOOR)
    for piece, rect in home.furniture:
        _draw_furniture(picture, view, piece, rect, piece is home.target)
    for wall in home.walls:
        _fill(picture, view, wall, WALL)
    for thing in home.standing:
        _draw_thing(picture, view, thing, thing is home.target)
    _draw_names(picture, view, home, way)
    return picture


def draw_path(
    picture: Picture, view: MapView, poses: Sequence[Pose2D], colour: Colour, thickness: int
) -> None:
    """Draw a line through the poses, in place."""
    points = [view.pixel(pose.x, pose.y) for pose in poses]
    if len(points) > 1:
        cv2.polylines(picture, [np.array(points, np.int32)], False, colour, thickness, cv2.LINE_AA)


def draw_dashes(
    picture: Picture, view: MapView, points: Sequence[Point], colour: Colour, thickness: int
) -> None:
    """Draw a dashed line through points (x, y) in metres, in place."""
    for (ax, ay), (bx, by) in pairwise(points):
        length_m = max(1e-6, math.hypot(bx - ax, by - ay))
        for index in range(math.ceil(length_m / (2 * DASH_M))):
            ends = (2 * index * DASH_M / length_m, min(1.0, (2 * index + 1) * DASH_M / length_m))
            a, b = (view.pixel(ax + share * (bx - ax), ay + share * (by - ay)) for share in ends)
            cv2.line(picture, a, b, colour, thickness, cv2.LINE_AA)


def draw_steps(picture: Picture, view: MapView, steps: Sequence[tuple[int, Pose2D]]) -> None:
    """Draw the number of each step where it began. Steps at one place share a mark, such as 1-4."""
    for numbers, pose in _by_place(view, steps):
        x, y = view.pixel(pose.x, pose.y)
        label = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
        half = max(11, text_width(label, STEP_PX) // 2 + 6)
        at = x + 26, y - 26
        cv2.line(picture, (x, y), at, FAINT, 2, cv2.LINE_AA)
        cv2.ellipse(picture, at, (half, 11), 0, 0, 360, FAINT, -1, cv2.LINE_AA)
        _centred(picture, label, at, STEP_PX, (255, 255, 255))


def _by_place(view: MapView, steps: Sequence[tuple[int, Pose2D]]) -> list[tuple[list[int], Pose2D]]:
    """Returns the steps, grouped if they follow each other closer than a mark's width."""
    places: list[tuple[list[int], Pose2D]] = []
    for number, pose in steps:
        if places and places[-1][1].distance_to(pose.x, pose.y) * view.px_per_m < NEAR_PX:
            places[-1][0].append(number)
        else:
            places.append(([number], pose))
    return places


def draw_scale(picture: Picture, view: MapView) -> None:
    """Draw a bar of one metre at the lower left."""
    left, y, length = 24, picture.shape[0] - 14, round(view.px_per_m)
    cv2.line(picture, (left, y), (left + length, y), INK, 3)
    for x in (left, left + length):
        cv2.line(picture, (x, y - 6), (x, y + 6), INK, 3)
    _centred(picture, "1 m", (left + length // 2, y - 14), STEP_PX, INK)


def draw_robot(picture: Picture, view: MapView, pose: Pose2D, colour: Colour | None) -> None:
    """Draw the body to scale, with a nose at its front; only its outline without a colour."""
    body = Footprint()
    outline = _placed(view, pose, [(1, 1), (1, -1), (-1, -1), (-1, 1)], body)
    if colour is not None:
        cv2.fillPoly(picture, [outline], colour, cv2.LINE_AA)
    cv2.polylines(picture, [outline], True, INK, max(1, round(view.px_per_m / 60)), cv2.LINE_AA)
    nose = _placed(view, pose, [(1.35, 0), (0.8, 0.7), (0.8, -0.7)], body)
    cv2.fillPoly(picture, [nose], INK, cv2.LINE_AA)


def _fill(picture: Picture, view: MapView, rect: Rect, colour: Colour) -> None:
    cv2.rectangle(picture, view.pixel(rect.x0, rect.y0), view.pixel(rect.x1, rect.y1), colour, -1)


def _draw_furniture(picture: Picture, view: MapView, piece: HomeObject, rect: Rect, is_target: bool) -> None:
    _fill(picture, view, rect, _colour_of(piece) if piece.spec.colour else FURNITURE)
    if is_target:
        corners = view.pixel(rect.x0, rect.y0), view.pixel(rect.x1, rect.y1)
        cv2.rectangle(picture, *corners, HALO, max(3, round(0.05 * view.px_per_m)), cv2.LINE_AA)


def _draw_names(picture: Picture, view: MapView, home: Home, way: Sequence[Pose2D]) -> None:
    """Draw the names of things next to them. The target's name is placed first."""
    size_px = max(11.0, 0.15 * view.px_per_m)
    boxes = [(piece, _box(view, rect)) for piece, rect in home.furniture]
    boxes += [(thing, _box_of(view, thing)) for thing in home.standing]
    boxes.sort(key=lambda entry: entry[0] is not home.target)
    labels = [
        Label(thing.spec.phrase, text_width(thing.spec.phrase, size_px), round(size_px), box)
        for thing, box in boxes
    ]
    walls = [_box(view, wall) for wall in home.walls]
    occupied = [box for _, box in boxes] + walls + _boxes_of_way(view, way)
    for label, box in zip(labels, place_labels(labels, occupied, view.width, view.height), strict=True):
        write_text(picture, label.text, (box[0], box[3] - round(0.15 * size_px)), size_px, INK)


def _box(view: MapView, rect: Rect) -> Box:
    (left, bottom), (right, top) = view.pixel(rect.x0, rect.y0), view.pixel(rect.x1, rect.y1)
    return left, top, right, bottom


def _box_of(view: MapView, thing: HomeObject) -> Box:
    (x, y), half = view.pixel(thing.x, thing.y), _radius_px(view, thing) * 4 // 3
    return x - half, y - half, x + half, y + half


def _boxes_of_way(view: MapView, way: Sequence[Pose2D]) -> list[Box]:
    """Returns where the robot is drawn: its body at both ends, the line and the step marks between."""
    body = round(Footprint().half_length_m * view.px_per_m)
    boxes = []
    for index, pose in enumerate(way):
        x, y = view.pixel(pose.x, pose.y)
        half = body if index in (0, len(way) - 1) else 4
        boxes += [(x - half, y - half, x + half, y + half), (x + 12, y - 40, x + 40, y - 12)]
    return boxes


def _radius_px(view: MapView, thing: HomeObject) -> int:
    return max(4, round(thing.radius * view.px_per_m))


def _colour_of(thing: HomeObject) -> Colour:
    red, green, blue = (round(255 * part) for part in COLOUR_RGB[thing.spec.colour])
    return blue, green, red


def _draw_thing(picture: Picture, view: MapView, thing: HomeObject, is_target: bool) -> None:
    at = view.pixel(thing.x, thing.y)
    radius = _radius_px(view, thing)
    if is_target:
        cv2.circle(picture, at, radius + max(3, radius // 3), HALO, max(2, radius // 6), cv2.LINE_AA)
    cv2.circle(picture, at, radius, _colour_of(thing), -1, cv2.LINE_AA)
    cv2.circle(picture, at, radius, INK, 1, cv2.LINE_AA)


def _centred(picture: Picture, text: str, at: tuple[int, int], size_px: float, colour: Colour) -> None:
    """Write text centred on a point, moved as far as necessary to stay in the picture."""
    width = text_width(text, size_px)
    left = max(2, min(at[0] - width // 2, picture.shape[1] - width - 2))
    write_text(picture, text, (left, at[1] + round(0.35 * size_px)), size_px, colour)


def _placed(view: MapView, pose: Pose2D, shares: Sequence[tuple[float, float]], body: Footprint) -> Picture:
    """Returns points, given as shares of the body's half sizes, as pixels (N, 2)."""
    cos, sin = math.cos(pose.yaw), math.sin(pose.yaw)
    points = []
    for ahead, left in shares:
        dx, dy = ahead * body.half_length_m, left * body.half_width_m
        points.append(view.pixel(pose.x + dx * cos - dy * sin, pose.y + dx * sin + dy * cos))
    return np.array(points, np.int32)
