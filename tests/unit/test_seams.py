"""Tests give another value to a constant where the product takes a parameter, and patch none by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


def patched_constants(source: str) -> Iterator[tuple[int, str]]:
    """Yields the line and name of every constant that a call of `setattr` sets."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    for call in calls:
        called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        texts = [one.value for one in call.args[:2] if isinstance(one, ast.Constant)]
        names = [str(text).rpartition(".")[2] for text in texts]
        constants = [name for name in names if re.fullmatch(r"_?[A-Z][A-Z0-9_]+", name)]
        yield from ((call.lineno, name) for name in constants if called == "setattr")


def test_no_constant_is_patched_by_name() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}: {name}"
        for path in sorted(TESTS.rglob("*.py"))
        for line, name in patched_constants(path.read_text())
    ]
    assert not found, "make these parameters, with the constant as default:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ('monkeypatch.setattr(ear, "SILENCE_S", 0.1)', ["SILENCE_S"]),
        ('monkeypatch.setattr("outrider.seat.HOLD_S", 0.1)', ["HOLD_S"]),
        ('patch.setattr(\n    ear,\n    "_SILENCE_S",\n    0.1,\n)', ["_SILENCE_S"]),
        ('setattr(ear, "SILENCE_S", 0.1)', ["SILENCE_S"]),
        ('monkeypatch.setattr(ear, "listen", None)', []),
        ('monkeypatch.setattr(time, "time", MOCKED)', []),
    ],
)
def test_patches_are_found_however_they_are_written(source: str, names: list[str]) -> None:
    assert [name for _, name in patched_constants(source)] == names
