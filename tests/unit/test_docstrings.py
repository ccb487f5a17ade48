"""Every public function, class and method says in a docstring what it returns or does."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "outrider"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_documented(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Returns whether the first line of the docstring has more than two words."""
    return len((ast.get_docstring(node) or "").partition("\n")[0].split()) > 2


class Inheritance:
    """The documented methods that each class inherits. Classes of the same name count as one."""

    def __init__(self, modules: Iterable[ast.Module]) -> None:
        self._bases: dict[str, set[str]] = defaultdict(set)
        self._documented: dict[str, set[str]] = defaultdict(set)
        for node in (one for module in modules for one in ast.walk(module)):
            if isinstance(node, ast.ClassDef):
                self._bases[node.name] |= {ast.unparse(base).partition("[")[0] for base in node.bases}
                methods = (one for one in node.body if isinstance(one, FUNCTIONS))
                self._documented[node.name] |= {one.name for one in methods if is_documented(one)}

    def documented(self, name: str) -> set[str]:
        """Returns the methods that are documented in any base of the class."""
        bases = self._bases[name] - {name}
        return set().union(*(self._documented[base] | self.documented(base) for base in bases))


def undocumented(module: ast.Module, inheritance: Inheritance) -> Iterator[str]:
    """Yields public functions, classes and methods without a docstring; overrides may rely on their base."""
    for node in module.body:
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)) or node.name.startswith("_"):
            continue
        if not is_documented(node):
            yield node.name
        if isinstance(node, ast.ClassDef):
            inherited = inheritance.documented(node.name)
            for method in (one for one in node.body if isinstance(one, FUNCTIONS)):
                is_public = not method.name.startswith("_") and method.name not in inherited
                if is_public and not is_documented(method):
                    yield f"{node.name}.{method.name}"


def test_what_is_public_has_a_docstring() -> None:
    modules = {file: ast.parse(file.read_text()) for file in sorted(SOURCE.rglob("*.py"))}
    inheritance = Inheritance(modules.values())
    found = [
        f"{file.relative_to(SOURCE)}: {name}"
        for file, module in modules.items()
        for name in undocumented(module, inheritance)
    ]
    assert len(modules) > 100 and found == []


def test_what_has_no_docstring_is_found() -> None:
    module = ast.parse(
        'def one(): ...\nclass Two:\n    """Holds two of them."""\n    def sum(self): """Adds them up."""\n'
        "    def _half(self): ...\n    def size(self): ...\ndef _three(): ...\nclass Four: ...\n"
        'class Five(Two):\n    """Holds five of them."""\n    def sum(self): ...\n    def size(self): ...\n'
    )
    assert list(undocumented(module, Inheritance([module]))) == ["one", "Two.size", "Four", "Five.size"]
