"""What ROS 2 and colcon read from this checkout: dependencies, licence, installed files."""

import ast
import configparser
import re
import runpy
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import setuptools

ROOT = Path(__file__).resolve().parents[2]
LAUNCH_AND_NODES = (*(ROOT / "launch").glob("*.py"), *(ROOT / "src/outrider/nodes").rglob("*.py"))
NOT_OF_ROS = {"cv2", "mcap", "mujoco", "numpy", "outrider", "rich", "__future__"}
# Used if installed; stand-ins replace them elsewhere.
OPTIONAL = {"unitree_api", "unitree_go"}
# rosdep's keys for Python packages, as of August 2026, and the package that each installs.
KEYS = {
    "python3-catkin-pkg": "catkin-pkg",
    "python3-hypothesis": "hypothesis",
    "python3-numpy": "numpy",
    "python3-opencv": "opencv-python-headless",
    "python3-pil": "pillow",
    "python3-prometheus-client": "prometheus-client",
    "python3-pytest": "pytest",
    "python3-pytest-timeout": "pytest-timeout",
    "python3-rich": "rich",
    "python3-typer": "typer",
    "python3-uvicorn": "uvicorn",
    "python3-websockets": "websockets",
    "python3-yaml": "pyyaml",
    "python3-zmq": "pyzmq",
}
# Packages that are released in every supported distribution.
ROS = """
action_msgs ament_cmake ament_cmake_pytest ament_index_python builtin_interfaces diagnostic_msgs geometry_msgs
launch launch_ros lifecycle_msgs nav2_msgs nav_msgs navigation2 rcl_interfaces rclpy ros_gz_bridge ros_gz_sim
rosgraph_msgs rosidl_default_generators rosidl_default_runtime sensor_msgs std_msgs std_srvs tf2_msgs
twist_mux unique_identifier_msgs visualization_msgs
"""
MANIFESTS = ("package.xml", "ros2_ws/src/outrider_interfaces/package.xml")


def test_every_program_names_its_licence_first() -> None:
    folders = ("src", "scripts", "examples", "launch")
    files = [ROOT / "setup.py", *(file for one in folders for file in (ROOT / one).rglob("*.py"))]
    heads = {file: file.read_text().removeprefix("#!/usr/bin/env python3\n") for file in files}
    nameless = [file for file, text in heads.items() if text and not text.startswith("# SPDX-License-")]
    assert nameless == []


def manifest(path: str = "package.xml") -> ElementTree.Element:
    return ElementTree.parse(ROOT / path).getroot()


def imported_by(file: Path) -> set[str]:
    tree = ast.walk(ast.parse(file.read_text()))
    modules = set()
    for node in tree:
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module or "")
    return {module.partition(".")[0] for module in modules}


def test_the_manifest_lists_every_ros_package_that_is_imported() -> None:
    imported = set().union(*map(imported_by, LAUNCH_AND_NODES))
    of_ros = imported - set(sys.stdlib_module_names) - NOT_OF_ROS
    assert {"rclpy", "sensor_msgs", "rosgraph_msgs"} <= of_ros
    listed = {element.text for element in manifest().iter("exec_depend")}
    assert of_ros - listed == OPTIONAL
    assert [element.text for element in manifest().iter("build_type")] == ["ament_python"]


@pytest.mark.parametrize("path", MANIFESTS)
def test_the_manifest_is_complete_and_every_dependency_has_a_key(path: str) -> None:
    package = pytest.importorskip("catkin_pkg.package")
    warnings: list[str] = []
    parsed = package.parse_package(ROOT / path, warnings=warnings)
    parsed.validate()
    assert not warnings and parsed.package_format == 3
    assert parsed.urls and parsed.authors and parsed.maintainers and parsed.test_depends
    kinds = ("buildtool_depends", "build_depends", "exec_depends", "test_depends", "build_export_depends")
    names = {dependency.name for kind in kinds for dependency in getattr(parsed, kind)}
    assert names <= {*ROS.split(), *KEYS} | {"outrider_interfaces"}


def test_packages_of_python_that_have_a_key_are_listed_by_it() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    required = {re.split("[<>=\\[]", line)[0] for line in config["options"]["install_requires"].split()}
    listed = {element.text for element in manifest().iter("exec_depend")}
    assert {key for key, name in KEYS.items() if name in required} == {
        name for name in listed if name and name.startswith("python3-")
    }


def test_what_only_some_robots_need_is_asked_for_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    package = pytest.importorskip("catkin_pkg.package")
    parsed = package.parse_package(ROOT / "package.xml")

    def brought(**variables: str) -> set[str]:
        parsed.evaluate_conditions(variables)
        return {d.name for d in parsed.exec_depends if d.evaluated_condition}

    started = {"ros_gz_bridge", "ros_gz_sim"}
    assert not started & brought() and started <= brought(OUTRIDER_GAZEBO="1")
    assert brought(OUTRIDER_NAV2="1") - brought() == {"navigation2"}
    assert brought(OUTRIDER_TWIST_MUX="1") - brought() == {"twist_mux"}


def test_the_licence_is_everywhere_the_same_and_its_text_is_there() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    text = (ROOT / config["metadata"]["license_files"]).read_text()
    assert (
        config["metadata"]["license"] == "Apache-2.0" and "Apache License" in text and "Version 2.0" in text
    )
    licence = manifest().find("license")
    assert licence is not None and licence.get("file") == "LICENSE"
    manifests = [str(path.relative_to(ROOT)) for path in ROOT.glob("ros2_ws/*/*/package.xml")]
    licences = [
        element.text for path in ["package.xml", *manifests] for element in manifest(path).iter("license")
    ]
    assert len(manifests) >= 5 and set(licences) == {"Apache-2.0"}


def test_launch_files_parameters_and_models_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict = {}
    monkeypatch.setattr(setuptools, "setup", lambda **options: given.update(options))
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    places = dict(given["data_files"])
    assert places["share/ament_index/resource_index/packages"] == ["resource/outrider"]
    assert places["share/outrider"] == ["package.xml", "LICENSE"]
    for folder, name in (
        ("launch", "sim.launch.py"),
        ("config", "robot.yaml"),
        ("models/target", "card.json"),
    ):
        assert f"{folder}/{name}" in places[f"share/outrider/{folder}"]
    assert all((ROOT / file).is_file() for files in places.values() for file in files)
