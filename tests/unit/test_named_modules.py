"""The modules that texts of the repository name exist, and define what the texts say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import outrider

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "outrider"
MODULES = {
    tuple(path.relative_to(SOURCE.parent).with_suffix("").parts): path for path in SOURCE.rglob("*.py")
}
FOLDERS = {parts[:-1] for parts in MODULES}
NAMES = {part for parts in MODULES for part in parts}
NO_MODULES = re.compile(
    r".*\.(json|jsonl|yaml|py|png|key|safetensors)|tokenizer\.ggml\.\w+|robot\.journal\b.*|[\w.]+_(head|key)"
)
"""Names that are no modules: files, parts of the journal, and keys of a GGUF file."""
TEXTS = sorted(
    [
        *SOURCE.rglob("*.py"),
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("*.md"),
        *(ROOT / "config").glob("*.yaml"),
    ]
)
_NAME = re.compile(r"`(?:outrider\.)?([a-z_]+(?:\.[A-Za-z_]+)+)`")


def named(text: str) -> list[str]:
    """Returns dotted names that begin with our folders or modules, or end with a class of nobody else's."""
    found = [match.group(1) for match in _NAME.finditer(text)]
    return [one for one in found if not NO_MODULES.fullmatch(one) and _is_ours(*one.split("."))]


def _is_ours(first: str, *others: str) -> bool:
    return first in NAMES or (others[-1][0].isupper() and importlib.util.find_spec(first) is None)


def exists(name: str) -> bool:
    """Returns whether a name ends that of a module or folder, or of a definition in a module or class."""
    parts = tuple(name.split("."))
    if hasattr(outrider, name.removeprefix("outrider.")):
        return True
    if any(known[-len(parts) :] == parts for known in (*MODULES, *FOLDERS)):
        return True
    return any(
        known[-len(parts[:cut]) :] == parts[:cut] and _holds(path, parts[cut:])
        for cut in range(1, len(parts))
        for known, path in MODULES.items()
    )


def _holds(path: Path, names: tuple[str, ...]) -> bool:
    source = path.read_text()
    return all(re.search(rf"^\s*(?:class |def )?{re.escape(name)}\b", source, re.MULTILINE) for name in names)


@pytest.mark.lengthy
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_that_is_named_exists(path: Path) -> None:
    assert [name for name in named(path.read_text()) if not exists(name)] == []


def test_a_name_that_has_moved_is_noticed() -> None:
    assert named("see `decoding.token_runs` and `core/frames.py`") == ["decoding.token_runs"]
    assert named("a `trust.Stance` in a `pathlib.Path`") == ["trust.Stance"]
    assert (
        not exists("decoding.token_runs")
        and not exists("trust.Stance")
        and not exists("core.frames.NoSuchFrame")
    )
    assert exists("core.frames.Draft") and exists("coupled.decide") and exists("edge.send_policy")
