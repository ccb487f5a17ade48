"""Collisions counted from poses alone."""

from __future__ import annotations

import math

from outrider.core.values import Pose2D
from outrider.simulation.contacts import TOUCHING_M, ContactCounter
from outrider.simulation.homes.home import generate_home
from outrider.simulation.mjcf import BODY_LENGTH_M


def test_a_body_that_comes_to_touch_a_wall_is_counted_once_each_time() -> None:
    home = generate_home(3)
    wall = min(home.walls, key=lambda rect: rect.x1)  # the leftmost outer wall
    y = home.start.y
    contacts = ContactCounter(home)
    contacts.move_to(home.start)
    assert contacts.collisions == 0

    def facing(gap_m: float) -> Pose2D:
        return Pose2D(wall.x1 + BODY_LENGTH_M / 2 + gap_m, y, math.pi)

    for gap_m in (0.3, TOUCHING_M / 4, TOUCHING_M / 2, -0.01):
        contacts.move_to(facing(gap_m))
    assert contacts.collisions == 1
    contacts.move_to(facing(0.3))
    contacts.move_to(facing(2 * TOUCHING_M))
    assert contacts.collisions == 1
    contacts.move_to(facing(0.0))
    assert contacts.collisions == 2
