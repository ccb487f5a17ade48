"""A kinematic base among walls, for controller tests; implements core.ports.Robot."""

from __future__ import annotations

import math

import numpy as np

from outrider.core.values import Odometry, Pose2D, RangeScan, Velocity, wrap_angle

RAYS = 180
BODY = (0.35, 0.155)


def wall(ax: float, ay: float, bx: float, by: float) -> tuple[float, float, float, float]:
    return ax, ay, bx, by


def box(x: float, y: float, half: float) -> list[tuple[float, float, float, float]]:
    a, b, c, d = x - half, x + half, y - half, y + half
    return [wall(a, c, b, c), wall(b, c, b, d), wall(b, d, a, d), wall(a, d, a, c)]


class Flatland:
    """A base with first-order lag, noisy odometry and a ray-cast scan of walls; counts its contacts."""

    def __init__(self, walls=(), start=Pose2D(0, 0, 0), lag_s=0.1, noise=0.0, seed=0):
        self.walls = np.array(walls, dtype=float).reshape(-1, 4)
        self.pose = self.believed = start
        self.velocity = Velocity()
        self.lag_s, self.noise = lag_s, noise
        self.rng = np.random.default_rng(seed)
        self.time_s = 0.0
        self.contacts = 0
        spots = [np.linspace(w[:2], w[2:], 200) for w in self.walls]
        self._spots = np.concatenate(spots) if spots else np.zeros((0, 2))

    def odometry(self) -> Odometry:
        return Odometry(self.believed, self.velocity, self.time_s)

    def frame_jpeg(self) -> bytes:
        return b""

    def drive(self, velocity: Velocity, duration_s: float) -> None:
        step_s = 0.01
        for _ in range(round(duration_s / step_s)):
            blend = step_s / (self.lag_s + step_s)
            old = self.velocity
            self.velocity = Velocity(
                old.vx + blend * (velocity.vx - old.vx),
                old.vy + blend * (velocity.vy - old.vy),
                old.wz + blend * (velocity.wz - old.wz),
            )
            scale = 1.0 + self.noise * self.rng.standard_normal() if self.noise else 1.0
            self.pose = _moved(self.pose, self.velocity, step_s, 1.0)
            self.believed = _moved(self.believed, self.velocity, step_s, scale)
            self.time_s += step_s
            self.contacts += self._touches()

    def scan(self) -> RangeScan:
        angles = -math.pi + np.arange(RAYS) * 2 * math.pi / RAYS
        heading = np.stack([np.cos(angles + self.pose.yaw), np.sin(angles + self.pose.yaw)], axis=1)[:, None]
        a, edge = self.walls[:, :2] - (self.pose.x, self.pose.y), self.walls[:, 2:] - self.walls[:, :2]
        with np.errstate(divide="ignore", invalid="ignore"):
            cross = heading[..., 0] * edge[:, 1] - heading[..., 1] * edge[:, 0]
            distance = (a[:, 0] * edge[:, 1] - a[:, 1] * edge[:, 0]) / cross
            share = (a[:, 0] * heading[..., 1] - a[:, 1] * heading[..., 0]) / cross
        hit = (distance > 0) & (share >= 0) & (share <= 1)
        ranges = np.min(np.where(hit, distance, math.inf), axis=1, initial=math.inf)
        return RangeScan(tuple(map(float, ranges)), -math.pi, 2 * math.pi / RAYS, self.time_s)

    def _touches(self) -> bool:
        relative = self._spots - (self.pose.x, self.pose.y)
        cos, sin = math.cos(self.pose.yaw), math.sin(self.pose.yaw)
        x, y = relative @ (cos, sin), relative @ (-sin, cos)
        return bool(np.any((np.abs(x) < BODY[0]) & (np.abs(y) < BODY[1])))


def _moved(pose: Pose2D, velocity: Velocity, step_s: float, scale: float) -> Pose2D:
    cos, sin = math.cos(pose.yaw), math.sin(pose.yaw)
    return Pose2D(
        pose.x + (velocity.vx * cos - velocity.vy * sin) * step_s * scale,
        pose.y + (velocity.vx * sin + velocity.vy * cos) * step_s * scale,
        wrap_angle(pose.yaw + velocity.wz * step_s * scale),
    )
