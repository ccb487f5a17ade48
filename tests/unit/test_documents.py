"""The links in the documents lead somewhere, and the generated reference is complete."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest
from support.commands import command_line

from outrider.core.frames import CloudFrame, EdgeFrame
from outrider.runtime.node_graph.node_specs import NODES

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")


def load_reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = load_reference()
WRITTEN = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
FILES = [*WRITTEN, *(DOCS / path for path in REFERENCE.PAGES)]


@cache
def texts() -> dict[Path, str]:
    """Returns every page, including the generated ones."""
    pages = {DOCS / path: text for path, text in REFERENCE.pages().items()}
    return {file: file.read_text() for file in WRITTEN} | pages


def reference(page: str) -> str:
    """Returns a generated page."""
    return texts()[DOCS / "reference" / page]


def without_code(text: str) -> str:
    """Returns the text without fenced blocks, indented code and inline code."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    lines = [line for line in text.splitlines() if not line.startswith("    ")]
    return re.sub(r"`[^`]*`", "", "\n".join(lines))


def is_there(name: str) -> bool:
    """Returns whether a dotted name is a module, or something that a module defines."""
    folder, _, last = name.rpartition(".")
    if importlib.util.find_spec(folder) is None:
        return False
    module = importlib.import_module(folder)
    return hasattr(module, last) or (hasattr(module, "__path__") and bool(importlib.util.find_spec(name)))


@cache
def anchors(text: str) -> set[str]:
    """Returns the anchors of a page's headings, as mkdocs and GitHub make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    cleaned = [re.sub(r"[^\w\s.-]", "", one.lower()).replace(".", "") for one in headings]
    return {re.sub(r"[\s]+", "-", one.strip()) for one in cleaned}


def broken_links(file: Path) -> list[str]:
    """Returns the relative links of a page that lead to no file, page or heading."""
    broken = []
    text = without_code(texts()[file])
    for link in (*LINK.findall(text), *PICTURE.findall(text)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (file.parent / path).resolve() if path else file
        page_exists = target in texts() or target.exists()
        if not page_exists or (anchor and anchor not in anchors(texts().get(target, ""))):
            broken.append(link)
    return broken


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_links_of_the_documents_lead_somewhere(file: Path) -> None:
    assert broken_links(file) == []


def test_a_link_to_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    page = DOCS / "index.md"
    monkeypatch.setitem(
        texts(), page, "[a](nowhere.md) [b](safety.md#nowhere) [c](safety.md#scan) ![d](no.png)"
    )
    assert broken_links(page) == ["nowhere.md", "safety.md#nowhere", "no.png"]


@pytest.mark.parametrize("file", WRITTEN, ids=lambda file: str(file.relative_to(ROOT)))
def test_files_and_modules_that_a_document_names_exist(file: Path) -> None:
    text = texts()[file]
    files = re.findall(
        r"\b((?:src|tests|config|benchmarks|scripts|launch)/[\w/]+\.(?:py|yaml|json|rviz))\b", text
    )
    modules = re.findall(r"`(outrider(?:\.[a-z]\w*)+)`", text)
    assert [one for one in files if not (ROOT / one).exists()] == []
    assert [one for one in modules if not is_there(one)] == []


def test_every_page_is_in_the_table_of_contents() -> None:
    contents = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    pages = {str(file.relative_to(DOCS)) for file in FILES if DOCS in file.parents}
    assert sorted(contents) == sorted(pages)


def test_the_reference_names_every_node_and_parameter() -> None:
    page = reference("nodes.md")
    for spec in NODES.values():
        section = page.partition(f"\n## {spec.name}\n")[2].partition("\n## ")[0]
        assert spec.executable in section
        assert [one.name for one in spec.parameters if f"| `{one.name}` |" not in section] == []


def test_the_reference_names_what_robots_are_wired_by() -> None:
    page = reference("topics.md")
    rows = dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", page, re.MULTILINE))
    for topic in ("cmd_vel_joy", "odom", "scan", "/tf", "e_stop", "verified_text"):
        assert rows[topic].rpartition("|")[2].count("[action]") == 1, topic
    for topic in ("camera/image_raw", "odom", "scan", "motion_report"):
        assert "[navigator]" in rows[topic].rpartition("|")[2], topic
    for topic, node in (
        ("camera/image_raw", "camera"),
        ("cmd_vel", "action"),
        ("/sportmodestate", "simulation"),
    ):
        assert f"[{node}]" in rows[topic].split("|")[1], topic
    assert "[go2_state]" in rows["/sportmodestate"] and "[action]" in rows["/lf/lowstate"]
    for name, node in (
        ("remember", "memory"),
        ("recall", "memory"),
        ("forget", "memory"),
        ("set_e_stop", "action"),
    ):
        assert f"[{node}]" in rows[name], name
    assert rows["navigate"] == "Navigate | [navigator](nodes.md#navigator)"
    assert "if " not in "".join(row.split("|")[0] for row in rows.values())
    assert "`cmd_vel` (Twist or TwistStamped)" in reference("nodes.md")


def test_the_reference_gives_bounds_in_all_their_digits() -> None:
    assert "| 0 to 1048576 |" in reference("nodes.md") and "| 0 to 2147483647 |" in reference("launch.md")
    assert not re.search(r"\de[+-]?\d", reference("nodes.md") + reference("launch.md"))


def test_the_reference_names_every_frame() -> None:
    page = reference("frames.md")
    frames = {*get_args(EdgeFrame), *get_args(CloudFrame)}
    assert [frame.__name__ for frame in frames if f"### {frame.__name__}\n" not in page] == []


def test_the_reference_names_every_command() -> None:
    def paths(command: object, path: str) -> list[str]:
        below = getattr(command, "commands", {})
        return [path, *(one for name, sub in below.items() for one in paths(sub, f"{path} {name}"))]

    page = reference("cli.md")
    every = paths(command_line(), "outrider")
    assert len(every) > 30
    assert [path for path in every if f"## `{path}`\n" not in page] == []


def test_the_reference_holds_every_message_link_and_regime() -> None:
    interfaces = ROOT / "ros2_ws" / "src" / "outrider_interfaces"
    for file in (one for kind in ("msg", "srv", "action") for one in (interfaces / kind).iterdir()):
        assert f"## {file.suffix[1:]}/{file.stem}\n" in reference("interfaces.md")
    for page, source in (("links", "config/links.yaml"), ("regimes", "benchmarks/regimes.yaml")):
        names = re.findall(r"^([\w-]+):", (ROOT / source).read_text(), re.MULTILINE)
        assert [name for name in names if f"## {name}\n" not in reference(f"{page}.md")] == []
