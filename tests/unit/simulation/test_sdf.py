"""The SDF world: its elements, by rules of SDF 1.9; its geometry, against the home's and MuJoCo's."""

from __future__ import annotations

import math
import os
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import yaml

from outrider.core.errors import ConfigError
from outrider.core.sensors.camera import CAMERA_FORWARD_M, CAMERA_HEIGHT_M, SIM_CAMERA
from outrider.core.sensors.lidar import LIDAR_HEIGHT_M
from outrider.core.values import Pose2D
from outrider.runtime.node_graph.gazebo import bridge_text, prepare_gazebo, release_of
from outrider.runtime.node_graph.simulation_specs import GAZEBO
from outrider.simulation.homes.home import Home, generate_home
from outrider.simulation.homes.vocabulary import ObjectSpec
from outrider.simulation.mjcf import ROBOT_GROUP, build_model
from outrider.simulation.sdf import BASE_HEIGHT_M, RELEASES, linear_colour, linear_of_srgb, world_sdf

SILVER = ObjectSpec("bottle", "silver")
GAZEBO_ONLY = ("ignition_frame_id", "gz_frame_id")
# Which children an element may have, and how often: SDF 1.9 as far as the world uses it.
ONE, MAYBE, MANY = "1", "?", "*"
RULES = {
    "sdf": {"world": ONE},
    "world": {
        "physics": ONE,
        "gravity": ONE,
        "magnetic_field": ONE,
        "atmosphere": ONE,
        "scene": ONE,
        "plugin": MANY,
        "light": MANY,
        "model": MANY,
    },
    "physics": {"max_step_size": ONE, "real_time_factor": ONE, "real_time_update_rate": ONE},
    "scene": {"ambient": ONE, "background": ONE, "shadows": ONE},
    "light": {
        "cast_shadows": MAYBE,
        "pose": MAYBE,
        "diffuse": MAYBE,
        "specular": MAYBE,
        "direction": ONE,
    },
    "model": {"static": MAYBE, "pose": MAYBE, "link": MANY, "plugin": MANY},
    "link": {
        "pose": MAYBE,
        "inertial": MAYBE,
        "light": MAYBE,
        "collision": MANY,
        "visual": MANY,
        "sensor": MANY,
    },
    "inertial": {"mass": ONE, "inertia": ONE},
    "inertia": dict.fromkeys(("ixx", "iyy", "izz", "ixy", "ixz", "iyz"), ONE),
    "collision": {"pose": MAYBE, "geometry": ONE},
    "visual": {"pose": MAYBE, "geometry": ONE, "material": MAYBE},
    "geometry": {"box": MAYBE, "cylinder": MAYBE, "sphere": MAYBE, "ellipsoid": MAYBE},
    "box": {"size": ONE},
    "cylinder": {"radius": ONE, "length": ONE},
    "sphere": {"radius": ONE},
    "ellipsoid": {"radii": ONE},
    "material": {"ambient": ONE, "diffuse": ONE, "specular": ONE},
    "sensor": {
        "always_on": ONE,
        "update_rate": ONE,
        "topic": ONE,
        "pose": ONE,
        "camera": MAYBE,
        "lidar": MAYBE,
        **dict.fromkeys(GAZEBO_ONLY, MAYBE),
    },
    "camera": {"horizontal_fov": ONE, "image": ONE, "clip": ONE},
    "image": {"width": ONE, "height": ONE, "format": ONE},
    "clip": {"near": ONE, "far": ONE},
    "lidar": {"scan": ONE, "range": ONE, "noise": ONE},
    "noise": {"type": ONE, "mean": ONE, "stddev": ONE},
    "scan": {"horizontal": ONE},
    "horizontal": {"samples": ONE, "resolution": ONE, "min_angle": ONE, "max_angle": ONE},
    "range": {"min": ONE, "max": ONE, "resolution": ONE},
}
NUMBERS = {
    "pose": 6, "size": 3, "radii": 3, "ambient": 4, "diffuse": 4, "specular": 4, "direction": 3, "radius": 1,
    "length": 1, "mass": 1, "near": 1, "far": 1, "min": 1, "max": 1, "width": 1, "height": 1, "samples": 1,
    "max_step_size": 1, "update_rate": 1, "horizontal_fov": 1, "min_angle": 1, "max_angle": 1,
    **dict.fromkeys(("ixx", "iyy", "izz", "ixy", "ixz", "iyz"), 1),
}  # fmt: skip
ATTRIBUTES = {
    "sdf": {"version"},
    "world": {"name"},
    "physics": {"name", "type"},
    "atmosphere": {"type"},
    "light": {"name", "type"},
    "plugin": {"name", "filename"},
    "sensor": {"name", "type"},
    **{key: {"name"} for key in ("model", "link", "collision", "visual", "camera")},
}


@pytest.fixture(scope="module", params=[(1, "in_view"), (7, "other_room")], ids=str)
def home(request: pytest.FixtureRequest) -> Home:
    seed, placement = request.param
    return generate_home(seed, SILVER, placement)


@pytest.fixture(scope="module")
def world(home: Home) -> ET.Element:
    return ET.fromstring(world_sdf(home, "harmonic"))


def numbers(element: ET.Element | None) -> list[float]:
    assert element is not None and element.text is not None
    return [float(part) for part in element.text.split()]


def objections(element: ET.Element, path: str = "") -> list[str]:
    """Returns the rules that an element and its descendants break."""
    path = f"{path}/{element.tag}"
    found = [] if set(element.attrib) == ATTRIBUTES.get(element.tag, set()) else [f"{path}: attributes"]
    if element.tag == "plugin":
        return found
    allowed, children = RULES.get(element.tag, {}), [child.tag for child in element]
    found += [f"{path}: {tag} has no place" for tag in set(children) - set(allowed)]
    found += [f"{path}: {tag} missing" for tag, n in allowed.items() if n == ONE and tag not in children]
    found += [f"{path}: {tag} twice" for tag, n in allowed.items() if n != MANY and children.count(tag) > 1]
    names = [(child.tag, child.get("name")) for child in element if child.get("name")]
    found += [f"{path}: a name twice"] if len(names) != len(set(names)) else []
    if element.tag in NUMBERS and len(numbers(element)) != NUMBERS[element.tag]:
        found.append(f"{path}: not {NUMBERS[element.tag]} numbers")
    return found + [objection for child in element for objection in objections(child, path)]


@pytest.mark.parametrize("release", RELEASES)
def test_every_element_keeps_the_rules_of_sdf_1_9(home: Home, release: str) -> None:
    root = ET.fromstring(world_sdf(home, release))
    assert root.get("version") == "1.9" and objections(root) == []
    assert all(len(list(geometry)) == 1 for geometry in root.iter("geometry"))


def test_the_rules_object() -> None:
    broken = ET.fromstring(
        '<sdf version="1.9"><world name="w"><physics name="p" type="t"/><joint/></world></sdf>'
    )
    assert {line.rpartition("/")[2] for line in objections(broken)} == {
        "world: joint has no place",
        "world: gravity missing",
        "world: magnetic_field missing",
        "world: atmosphere missing",
        "world: scene missing",
        "physics: real_time_update_rate missing",
        "physics: max_step_size missing",
        "physics: real_time_factor missing",
    }


def specification() -> Path | None:
    """Returns the folder of sdformat's descriptions of SDF 1.9: SDF_SPECIFICATION, or that of its package."""
    given = os.environ.get("SDF_SPECIFICATION")
    folders = [Path(given)] if given else sorted(Path("/usr/share").glob("sdformat*/1.9"))
    return next((folder for folder in reversed(folders) if (folder / "root.sdf").is_file()), None)


def breaches(element: ET.Element, description: ET.Element, folder: Path) -> list[str]:
    """Returns what an element breaks of its description in sdformat's own form."""
    included = [
        (ET.parse(folder / part.get("filename")).getroot(), part.get("required"))
        for part in description.findall("include")
        if (folder / part.get("filename")).is_file()  # Debian omits one
    ]
    parts = [(part, part.get("required")) for part in description.findall("element")] + included
    known = {part.get("name"): (part, how_often) for part, how_often in parts if part.get("name")}
    found = []
    for attribute in description.findall("attribute"):
        if attribute.get("required") == "1" and attribute.get("name") not in element.attrib:
            found.append(f"{element.tag} lacks the attribute {attribute.get('name')}")
    if description.get("copy_data"):
        return found
    if element.tag == "plugin":
        return found
    for name, (_, how_often) in known.items():
        count = len(element.findall(name))
        if (how_often in ("1", "+") and count == 0) or (how_often in ("0", "1") and count > 1):
            found.append(f"{element.tag}: {count} of {name}, {how_often} asked")
    for child in element:
        if child.tag in GAZEBO_ONLY:
            continue
        if child.tag not in known:
            found.append(f"{element.tag}: {child.tag} is unknown")
        else:
            found += breaches(child, known[child.tag][0], folder)
    return found


@pytest.mark.lengthy
@pytest.mark.skipif(specification() is None, reason="needs the package sdformat-sdf")
@pytest.mark.parametrize("release", RELEASES)
def test_the_world_keeps_sdformats_own_description(home: Home, release: str) -> None:
    folder = specification()
    description = ET.parse(folder / "root.sdf").getroot()
    assert breaches(ET.fromstring(world_sdf(home, release)), description, folder) == []


def test_every_geom_of_the_simulation_is_there_in_its_place_and_size(home: Home, world: ET.Element) -> None:
    model = build_model(home)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    links = {link.get("name"): link for link in world.iter("link")}
    seen = [i for i in range(model.ngeom) if model.geom_group[i] != ROBOT_GROUP]
    scenery = [i for i in seen if not model.geom(i).name.startswith("robot/")]
    assert len(links) == len(scenery) + 1
    for index in scenery:
        link = links[model.geom(index).name.replace("/", "_")]
        assert numbers(link.find("pose"))[:3] == pytest.approx(data.geom_xpos[index], abs=1e-4)
        box = link.find("visual/geometry/box/size")
        if box is not None:
            assert numbers(box) == pytest.approx(2 * model.geom_size[index], abs=1e-4)
        diffuse = numbers(link.find("visual/material/diffuse"))
        assert diffuse == pytest.approx(linear_colour(model.geom_rgba[index]), abs=1e-4)


def test_a_colour_is_linear_where_mujoco_s_is_srgb() -> None:
    assert linear_colour((0.0, 0.5, 1.0, 0.25)) == pytest.approx([0.0, 0.21404, 1.0, 0.25], abs=1e-5)
    # One value on the straight part of the curve, and the one where both parts meet.
    assert [linear_of_srgb(value) for value in (0.04, 0.04045)] == pytest.approx(
        [0.0030960, 0.0031308], abs=1e-6
    )


def added_light(model: mujoco.MjModel, diffuse: np.ndarray) -> Any:
    """Returns the light that, added to the ambient light, gives MuJoCo's sum in sRGB on a facing surface."""
    ambient = model.vis.headlight.ambient
    sums = [linear_of_srgb(a + own) - linear_of_srgb(a) for a, own in zip(ambient, diffuse, strict=True)]
    return pytest.approx(sums, rel=1e-4)


def test_the_light_is_the_home_s_own_as_the_renderer_counts_it(home: Home, world: ET.Element) -> None:
    model = build_model(home)
    sun = world.find("world/light")
    assert numbers(sun.find("diffuse"))[:3] == added_light(model, model.light_diffuse[0])
    assert numbers(sun.find("direction")) == pytest.approx(model.light_dir[0], abs=1e-4)
    headlight = world.find("world/model[@name='go2']/link/light")
    assert numbers(headlight.find("diffuse"))[:3] == added_light(model, model.vis.headlight.diffuse)
    assert numbers(headlight.find("direction")) == [1.0, 0.0, 0.0]
    ambient = numbers(world.find("world/scene/ambient"))[:3]
    linear = [linear_of_srgb(value) for value in model.vis.headlight.ambient]
    assert ambient == pytest.approx([math.pi * value for value in linear], abs=1e-4)
    assert numbers(world.find("world/scene/background")) == [0.0, 0.0, 0.0, 1.0]
    shine = [*world.iter("specular")]
    assert len(shine) > 10 and all(numbers(part) == [0.0, 0.0, 0.0, 1.0] for part in shine)


def test_homes_differ_in_their_light() -> None:
    suns = {
        ET.fromstring(world_sdf(generate_home(seed), "jetty")).findtext("world/light/diffuse")
        for seed in range(3)
    }
    assert len(suns) == 3


def test_nothing_falls(world: ET.Element) -> None:
    assert numbers(world.find("world/gravity")) == [0.0, 0.0, 0.0]


def test_the_silver_bottle_stands_where_the_home_has_it(home: Home, world: ET.Element) -> None:
    bottle = next(m for m in world.iter("model") if m.get("name") == f"object_{home.target_index}")
    places = np.array([numbers(link.find("pose"))[:2] for link in bottle.iter("link")])
    assert places == pytest.approx(np.tile([home.target.x, home.target.y], (3, 1)), abs=1e-4)
    assert bottle.findtext("static") == "true"


def test_the_go2_starts_where_the_home_says_with_the_camera_that_the_models_know(
    home: Home, world: ET.Element
) -> None:
    robot = next(m for m in world.iter("model") if m.get("name") == "go2")
    x, y, z, _, _, yaw = numbers(robot.find("pose"))
    assert (x, y, yaw) == pytest.approx((home.start.x, home.start.y, home.start.yaw), abs=1e-4)
    assert isinstance(home.start, Pose2D) and z == BASE_HEIGHT_M
    camera = robot.find("link/sensor[@type='camera']")
    assert numbers(camera.find("pose"))[:3] == pytest.approx(
        [CAMERA_FORWARD_M, 0.0, CAMERA_HEIGHT_M - BASE_HEIGHT_M]
    )
    assert numbers(camera.find("camera/horizontal_fov")) == pytest.approx(
        [SIM_CAMERA.horizontal_fov_rad], abs=1e-5
    )
    size = [camera.findtext(f"camera/image/{side}") for side in ("width", "height")]
    assert size == [str(SIM_CAMERA.width), str(SIM_CAMERA.height)]
    assert camera.findtext("gz_frame_id") == "camera_optical_frame"


def test_the_scan_looks_between_floor_and_belly_and_past_the_legs(world: ET.Element) -> None:
    scan = world.find(".//sensor[@type='gpu_lidar']")
    shortest_m = numbers(scan.find("lidar/range/min"))[0]
    for visual in scan_height_visuals(world):
        x, y, *_ = numbers(visual.find("pose"))
        length, width, _ = numbers(visual.find("geometry/box/size"))
        assert math.hypot(abs(x) + length / 2, abs(y) + width / 2) < shortest_m


def test_the_scan_never_repeats_itself_as_one_without_noise_would(world: ET.Element) -> None:
    """A scan that repeats exactly is taken for that of a dead lidar after any gap in odometry."""
    noise = world.find(".//sensor[@type='gpu_lidar']/lidar/noise")
    assert noise is not None and noise.findtext("type") == "gaussian"
    assert (noise.findtext("mean"), numbers(noise.find("stddev"))) == ("0", [0.002])


def scan_height_visuals(world: ET.Element) -> list[ET.Element]:
    """Returns the parts of the robot that the scan's plane cuts."""
    robot = next(m for m in world.iter("model") if m.get("name") == "go2")
    height_m = LIDAR_HEIGHT_M - BASE_HEIGHT_M
    cut = []
    for visual in robot.iter("visual"):
        z, tall = numbers(visual.find("pose"))[2], numbers(visual.find("geometry/box/size"))[2]
        if abs(z - height_m) < tall / 2:
            cut.append(visual)
    assert len(cut) == 4, "the legs"
    return cut


def test_what_the_world_publishes_and_hears_is_bridged(world: ET.Element) -> None:
    bridge = yaml.safe_load(bridge_text("harmonic"))
    names = {entry["gz_topic_name"] for entry in bridge}
    topics = {sensor.findtext("topic") for sensor in world.iter("sensor")}
    plugins = list(world.iter("plugin"))
    topics |= {plugin.findtext("topic") or plugin.findtext("odom_topic") for plugin in plugins} - {None}
    assert names == topics | {"/clock", "camera/camera_info"}
    to_gazebo = {entry["ros_topic_name"] for entry in bridge if entry["direction"] == "ROS_TO_GZ"}
    assert to_gazebo == {"gazebo/cmd_vel"}
    assert all(entry["gz_type_name"].startswith("gz.msgs.") for entry in bridge)
    fortress = yaml.safe_load(bridge_text("fortress"))
    assert all(entry["gz_type_name"].startswith("ignition.msgs.") for entry in fortress)


def test_gazebo_is_prepared_as_the_arguments_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_DISTRO", "humble")
    given = {"seed": 3, "placement": "in_view", "holds": "red chair", "gui": False, "scan_hz": 10}
    parameters = GAZEBO.checked(given)
    run = prepare_gazebo(parameters, tmp_path)
    assert run.command == ("ign", "gazebo", "-r", "-s", "--headless-rendering", str(tmp_path / "home.sdf"))
    home = generate_home(3, ObjectSpec("chair", "red"), "in_view")
    assert run.world_file.read_text() == world_sdf(home, "fortress", scan_hz=10)
    assert "<update_rate>10</update_rate>" in run.world_file.read_text()
    assert "ignition.msgs.Twist" in run.bridge_file.read_text()
    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    harmonic = prepare_gazebo({**parameters, "gui": True}, tmp_path)
    assert harmonic.command == ("gz", "sim", "-r", str(tmp_path / "home.sdf"))


def test_an_unknown_release_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROS_DISTRO", raising=False)
    with pytest.raises(ConfigError, match=r"release='' .*fortress, harmonic"):
        release_of("")
    with pytest.raises(ConfigError, match="'citadel'"):
        release_of("citadel")
    with pytest.raises(ConfigError, match="'citadel'"):
        world_sdf(generate_home(1), "citadel")
