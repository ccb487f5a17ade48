"""What ROS 2 and colcon take from this checkout: dependencies, licence, installed files."""

import ast
import configparser
import runpy
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import setuptools

ROOT = Path(__file__).resolve().parents[2]
LAUNCH_AND_NODES = (*(ROOT / "launch").glob("*.py"), *(ROOT / "src/outrider/nodes").glob("*.py"))
NOT_OF_ROS = {"cv2", "mcap", "mujoco", "numpy", "outrider", "rich", "__future__"}
# Used where they are installed; stand-ins take their place elsewhere.
OPTIONAL = {"nav2_msgs", "unitree_api", "unitree_go"}


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
