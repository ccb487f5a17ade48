"""The limits on files, folders and functions, with their exceptions; the names of test files."""

from __future__ import annotations

import ast
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "outrider"
FILES = sorted(SOURCE.rglob("*.py"))
TESTS = Path(__file__).resolve().parents[1]
FILE_LINES, FOLDER_FILES, FUNCTION_LINES, MEDIAN_LINES = 350, 15, 45, 8
TEST_FILE_LINES = 400
LONG_FUNCTIONS = {
    "cli/benchmarks.py:bench_decoding",
    "cli/servers.py:verifier",
    "cli/robot.py:demo",
}
"""Functions in `cli` that are long because their options are their signature. None may be added."""


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def functions() -> Iterator[tuple[str, int]]:
    """Yields each function with its number of lines, signature included."""
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                assert node.end_lineno is not None
                yield f"{name_of(file)}:{node.name}", node.end_lineno - node.lineno + 1


def test_no_file_is_longer_than_the_bound() -> None:
    lines = {name_of(file): len(file.read_text().splitlines()) for file in FILES}
    assert {name: number for name, number in lines.items() if number > FILE_LINES} == {}


def test_no_folder_holds_more_files_than_the_bound() -> None:
    files = Counter(name_of(file.parent) for file in FILES)
    assert {name: number for name, number in files.items() if number > FOLDER_FILES} == {}


def test_no_function_is_longer_than_the_bound_and_most_are_short() -> None:
    lengths = list(functions())
    assert {name for name, lines in lengths if lines > FUNCTION_LINES} <= LONG_FUNCTIONS
    assert statistics.median(lines for _, lines in lengths) <= MEDIAN_LINES


def test_no_test_file_is_longer_than_its_bound() -> None:
    lines = {file.name: len(file.read_text().splitlines()) for file in TESTS.rglob("*.py")}
    assert {name: number for name, number in lines.items() if number > TEST_FILE_LINES} == {}


def test_no_two_test_files_have_one_name() -> None:
    """Pytest collects only one of them, and refuses `pytest` without a folder."""
    names = Counter(file.name for file in TESTS.rglob("test_*.py"))
    assert {name for name, number in names.items() if number > 1} == set()
