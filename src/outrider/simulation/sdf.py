# SPDX-License-Identifier: Apache-2.0
"""A home with the Go2 in it as an SDF world for Gazebo, with the geometry of the MuJoCo model.

SDF 1.9 (http://sdformat.org/spec?ver=1.9). The Go2 slides on its feet: VelocityControl moves the body, and
the world has no gravity, because not every release obeys a link that asks for none.

The light is MuJoCo's, converted for the renderer ogre2. SDF's colours are linear, MuJoCo's are sRGB; the
scene's ambient light counts 1/pi; and a directional light on the robot replaces MuJoCo's headlight. MuJoCo
adds its lights in sRGB, so each adds more to the ambient light than its own linear intensity.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from outrider.core.errors import ConfigError
from outrider.core.sensors.camera import CAMERA_FORWARD_M, CAMERA_HEIGHT_M, SIM_CAMERA
from outrider.core.sensors.lidar import LIDAR_FRAME, LIDAR_HEIGHT_M
from outrider.core.values import Pose2D
from outrider.simulation.homes.home import Home
from outrider.simulation.looks.engine import mujoco
from outrider.simulation.mjcf import BODY_LENGTH_M, BODY_WIDTH_M, ROBOT_GROUP, build_model
from outrider.simulation.simulator import SCAN_RANGE_M, SCAN_RAYS

SDF_VERSION = "1.9"
WORLD, MODEL, BASE = "home", "go2", "base_link"
BASE_HEIGHT_M = 0.30
SCAN_MIN_M = 0.28
# Like a real lidar's: a scan that repeats itself bit for bit while the robot stands would count as frozen.
SCAN_NOISE_M = 0.002
SCAN_HZ, ODOMETRY_HZ, CAMERA_HZ = 25, 25, 10
MASS_KG = 15.0
BLACK = "0 0 0 1"
_BOX, _CYLINDER = mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CYLINDER
_SPHERE, _ELLIPSOID = mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_ELLIPSOID


@dataclass(frozen=True)
class Gazebo:
    """A Gazebo release's names of its systems, and the element that sets a sensor's frame."""

    library: str
    namespace: str
    frame_element: str

    def system(self, library: str, name: str) -> dict[str, str]:
        """Returns the attributes of a plugin."""
        return {"filename": f"{self.library}-{library}-system", "name": f"{self.namespace}::systems::{name}"}


RELEASES = {
    "fortress": Gazebo("ignition-gazebo", "ignition::gazebo", "ignition_frame_id"),
    **dict.fromkeys(("harmonic", "ionic", "jetty"), Gazebo("gz-sim", "gz::sim", "gz_frame_id")),
}


def world_sdf(home: Home, release: str, frame_prefix: str = "", scan_hz: int = SCAN_HZ) -> str:
    """Returns the world as text, with `frame_prefix` before its sensors' frames.

    Raises ConfigError for an unknown release.
    """
    if release not in RELEASES:
        raise ConfigError(f"gazebo={release!r} must be one of {', '.join(RELEASES)}")
    gazebo = RELEASES[release]
    root = ET.Element("sdf", version=SDF_VERSION)
    world = ET.SubElement(root, "world", name=WORLD)
    physics = ET.SubElement(world, "physics", name="physics", type="ignored")
    _text(physics, max_step_size=0.004, real_time_factor=1.0, real_time_update_rate=250)
    _text(world, gravity="0 0 0", magnetic_field="5.56e-06 2.288e-05 -4.239e-05")
    ET.SubElement(world, "atmosphere", type="adiabatic")
    model = build_model(home)
    _scene(world, model)
    for library, name in (
        ("physics", "Physics"),
        ("user-commands", "UserCommands"),
        ("scene-broadcaster", "SceneBroadcaster"),
    ):
        ET.SubElement(world, "plugin", gazebo.system(library, name))
    sensors = ET.SubElement(world, "plugin", gazebo.system("sensors", "Sensors"))
    _text(sensors, render_engine="ogre2")
    _sun(world, model)
    _scenery(world, model)
    _robot(world, model, home.start, gazebo, frame_prefix, scan_hz)
    ET.indent(root)
    return '<?xml version="1.0"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _text(parent: ET.Element, **values: object) -> None:
    """Add one child with text for each value."""
    for name, value in values.items():
        ET.SubElement(parent, name).text = f"{value:g}" if isinstance(value, float) else str(value)


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{value:.6g}" for value in values)


def linear_of_srgb(value: float) -> float:
    """Returns the linear intensity of one channel of an sRGB colour (IEC 61966-2-1), both from 0 to 1."""
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def linear_colour(rgba: Sequence[float]) -> list[float]:
    """Returns a colour with linear red, green and blue; its opacity is unchanged."""
    return [*map(linear_of_srgb, rgba[:3]), *rgba[3:]]


def _scene(world: ET.Element, model: mujoco.MjModel) -> None:
    ambient = [math.pi * linear_of_srgb(value) for value in model.vis.headlight.ambient]
    scene = ET.SubElement(world, "scene")
    _text(scene, ambient=_numbers([*ambient, 1.0]), background=BLACK, shadows="false")


def _sun(world: ET.Element, model: mujoco.MjModel) -> None:
    light = ET.SubElement(world, "light", name="sun", type="directional")
    _text(light, cast_shadows="false", pose=_numbers([*model.light_pos[0], 0.0, 0.0, 0.0]))
    _shine(light, _added_light(model, model.light_diffuse[0]), model.light_dir[0])


def _headlight(link: ET.Element, model: mujoco.MjModel) -> None:
    """Add a light in the robot's viewing direction."""
    light = ET.SubElement(link, "light", name="headlight", type="directional")
    _text(light, cast_shadows="false", pose="0 0 0 0 0 0")
    _shine(light, _added_light(model, model.vis.headlight.diffuse), (1.0, 0.0, 0.0))


def _added_light(model: mujoco.MjModel, diffuse: Sequence[float]) -> list[float]:
    """Returns the linear intensity that a light at normal incidence adds to the ambient light."""
    pairs = zip(model.vis.headlight.ambient, diffuse, strict=True)
    return [linear_of_srgb(ambient + own) - linear_of_srgb(ambient) for ambient, own in pairs]


def _shine(light: ET.Element, diffuse: Sequence[float], direction: Sequence[float]) -> None:
    _text(light, diffuse=_numbers([*diffuse, 1.0]), specular=BLACK, direction=_numbers(direction))


def _scenery(world: ET.Element, model: mujoco.MjModel) -> None:
    """Add floor, walls, furniture and objects: a static model for each thing, a link for each geom."""
    things: dict[str, ET.Element] = {}
    for geom in _geoms(model, robot=False):
        name = "_".join(geom.name.split("/")[:2])
        if name not in things:
            things[name] = ET.SubElement(world, "model", name=name)
            _text(things[name], static="true")
        link = ET.SubElement(things[name], "link", name=geom.name.replace("/", "_"))
        _text(link, pose=geom.pose())
        for kind in ("collision", "visual"):
            part = ET.SubElement(link, kind, name=kind)
            geom.add_shape(part)
            if kind == "visual":
                geom.add_material(part)


def _robot(
    world: ET.Element, model: mujoco.MjModel, start: Pose2D, gazebo: Gazebo, frame_prefix: str, scan_hz: int
) -> None:
    robot = ET.SubElement(world, "model", name=MODEL)
    _text(robot, pose=_numbers([start.x, start.y, BASE_HEIGHT_M, 0.0, 0.0, start.yaw]))
    link = ET.SubElement(robot, "link", name=BASE)
    _inertial(link)
    body = ET.SubElement(link, "collision", name="body")
    _text(body, pose=_numbers([0.0, 0.0, 0.25 - BASE_HEIGHT_M, 0.0, 0.0, 0.0]))
    _box(body, (BODY_LENGTH_M, BODY_WIDTH_M, 0.40))
    for geom in _geoms(model, robot=True):
        visual = ET.SubElement(link, "visual", name=geom.name.replace("/", "_"))
        _text(visual, pose=geom.pose(lower_by_m=BASE_HEIGHT_M))
        geom.add_shape(visual)
        geom.add_material(visual)
    _headlight(link, model)
    _camera(link, gazebo, frame_prefix)
    _scan(link, gazebo, frame_prefix, scan_hz)
    control = ET.SubElement(robot, "plugin", gazebo.system("velocity-control", "VelocityControl"))
    _text(control, topic="gazebo/cmd_vel")
    odometry = ET.SubElement(robot, "plugin", gazebo.system("odometry-publisher", "OdometryPublisher"))
    _text(odometry, odom_frame="odom", robot_base_frame=BASE, odom_topic="odom", dimensions=2)
    _text(odometry, odom_publish_frequency=ODOMETRY_HZ)


def _inertial(link: ET.Element) -> None:
    inertial = ET.SubElement(link, "inertial")
    _text(inertial, mass=MASS_KG)
    sides = (BODY_LENGTH_M, BODY_WIDTH_M, 0.12)
    squares = [side**2 for side in sides]
    names = ("ixx", "iyy", "izz")
    moments = {
        name: MASS_KG * (sum(squares) - square) / 12.0 for name, square in zip(names, squares, strict=True)
    }
    _text(ET.SubElement(inertial, "inertia"), **moments, ixy=0.0, ixz=0.0, iyz=0.0)


def _camera(link: ET.Element, gazebo: Gazebo, frame_prefix: str) -> None:
    sensor = ET.SubElement(link, "sensor", name="front", type="camera")
    height_m = CAMERA_HEIGHT_M - BASE_HEIGHT_M
    _text(sensor, always_on="true", update_rate=CAMERA_HZ, topic="camera/image_raw")
    _text(sensor, pose=_numbers([CAMERA_FORWARD_M, 0.0, height_m, 0.0, 0.0, 0.0]))
    camera = ET.SubElement(sensor, "camera", name="front")
    _text(camera, horizontal_fov=f"{SIM_CAMERA.horizontal_fov_rad:.6f}")
    _text(ET.SubElement(camera, "image"), width=SIM_CAMERA.width, height=SIM_CAMERA.height, format="R8G8B8")
    _text(ET.SubElement(camera, "clip"), near=0.02, far=30.0)
    ET.SubElement(sensor, gazebo.frame_element).text = f"{frame_prefix}camera_optical_frame"


def _scan(link: ET.Element, gazebo: Gazebo, frame_prefix: str, scan_hz: int) -> None:
    """Add one scan plane below the belly. The minimum range excludes the robot's legs."""
    sensor = ET.SubElement(link, "sensor", name="scan", type="gpu_lidar")
    _text(sensor, always_on="true", update_rate=scan_hz, topic="scan")
    _text(sensor, pose=_numbers([0.0, 0.0, LIDAR_HEIGHT_M - BASE_HEIGHT_M, 0.0, 0.0, 0.0]))
    lidar = ET.SubElement(sensor, "lidar")
    horizontal = ET.SubElement(ET.SubElement(lidar, "scan"), "horizontal")
    last_rad = math.pi - math.tau / SCAN_RAYS
    _text(horizontal, samples=SCAN_RAYS, resolution=1.0)
    _text(horizontal, min_angle=f"{-math.pi:.6f}", max_angle=f"{last_rad:.6f}")
    _text(ET.SubElement(lidar, "range"), min=SCAN_MIN_M, max=SCAN_RANGE_M, resolution=0.01)
    _text(ET.SubElement(lidar, "noise"), type="gaussian", mean=0.0, stddev=SCAN_NOISE_M)
    ET.SubElement(sensor, gazebo.frame_element).text = f"{frame_prefix}{LIDAR_FRAME}"


@dataclass(frozen=True)
class _Geom:
    """A geom of the compiled model in world coordinates. `size` is MuJoCo's. It may be rotated about z."""

    name: str
    kind: int
    size: tuple[float, float, float]
    position: tuple[float, float, float]
    yaw: float
    rgba: tuple[float, ...]

    def pose(self, lower_by_m: float = 0.0) -> str:
        x, y, z = self.position
        return _numbers([x, y, z - lower_by_m, 0.0, 0.0, self.yaw])

    def add_shape(self, parent: ET.Element) -> None:
        a, b, c = self.size
        if self.kind == _BOX:
            _box(parent, (2 * a, 2 * b, 2 * c))
            return
        geometry = ET.SubElement(parent, "geometry")
        if self.kind == _CYLINDER:
            _text(ET.SubElement(geometry, "cylinder"), radius=a, length=2 * b)
        elif self.kind == _SPHERE:
            _text(ET.SubElement(geometry, "sphere"), radius=a)
        else:
            assert self.kind == _ELLIPSOID, f"no SDF shape for {self.name}"
            _text(ET.SubElement(geometry, "ellipsoid"), radii=_numbers(self.size))

    def add_material(self, parent: ET.Element) -> None:
        colour = _numbers(linear_colour(self.rgba))
        _text(ET.SubElement(parent, "material"), ambient=colour, diffuse=colour, specular=BLACK)


def _box(parent: ET.Element, size: Sequence[float]) -> None:
    _text(ET.SubElement(ET.SubElement(parent, "geometry"), "box"), size=_numbers(size))


def _geoms(model: mujoco.MjModel, robot: bool) -> Iterator[_Geom]:
    """Yields the visible geoms of the robot, or of everything else, in their initial poses."""
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    for index in range(model.ngeom):
        name = model.geom(index).name
        hidden = model.geom_group[index] == ROBOT_GROUP
        if hidden or name.startswith("robot/") != robot:
            continue
        turn = data.geom_xmat[index].reshape(3, 3)
        yield _Geom(
            name,
            int(model.geom_type[index]),
            tuple(model.geom_size[index]),
            tuple(data.geom_xpos[index]),
            float(np.arctan2(turn[1, 0], turn[0, 0])),
            tuple(model.geom_rgba[index]),
        )
