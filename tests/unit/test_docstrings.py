"""Every public function and class says in a docstring what it returns or does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "outrider"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def undocumented(tree: ast.Module) -> Iterator[str]:
    """The public functions and classes of a module that have no docstring."""
    for node in tree.body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and not node.name.startswith("_"):
            first_line = (ast.get_docstring(node) or "").partition("\n")[0]
            if len(first_line.split()) < 3:
                yield node.name


@pytest.mark.parametrize(
    "module", sorted(SOURCE.rglob("*.py")), ids=lambda file: str(file.relative_to(SOURCE))
)
def test_public_functions_and_classes_have_a_docstring(module: Path) -> None:
    assert list(undocumented(ast.parse(module.read_text()))) == []


def test_what_has_no_docstring_is_found() -> None:
    module = ast.parse('def one(): ...\nclass Two:\n    """Holds two."""\ndef _three(): ...\nclass Four: ...')
    assert list(undocumented(module)) == ["one", "Two", "Four"]
