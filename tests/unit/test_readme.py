"""README and docs name what exists: the tree, commands, options, launch arguments, links and headings."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest
from support.commands import command_line

from outrider.runtime.node_graph.node_graphs import (
    CLOUD_GRAPH,
    GAZEBO_GRAPH,
    ROBOT_GRAPH,
    SIM_GRAPH,
    TELEOP_GRAPH,
)

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
GRAPHS = {
    "sim": SIM_GRAPH,
    "robot": ROBOT_GRAPH,
    "cloud": CLOUD_GRAPH,
    "teleop": TELEOP_GRAPH,
    "gazebo": GAZEBO_GRAPH,
}


def tree() -> list[Path]:
    """Returns the paths of the section Tree; a line is in the folder under which it is indented.

    A line with several folders names all of them.
    """
    paths: list[Path] = []
    folders: list[tuple[int, Path]] = [(0, ROOT)]
    for line in README.partition("\n## Tree\n")[2].splitlines():
        indent = len(line) - len(line.lstrip())
        if indent < 4:
            continue
        while len(folders) > 1 and folders[-1][0] >= indent:
            folders.pop()
        words = line.split()
        if len(words) > 1 and all(word.endswith("/") for word in words):
            paths += [folders[-1][1] / word for word in words]
            continue
        path = folders[-1][1] / words[0]
        paths.append(path)
        if path.is_dir():
            folders.append((indent, path))
    return paths


def tracked_at_the_top() -> set[Path]:
    """Returns what git tracks at the top of this folder and of the tests'; empty without a checkout."""
    if shutil.which("git") is None:
        return set()
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True, capture_output=True).stdout
    files = [Path(line) for line in listing.splitlines() if line != ".gitignore"]
    tops = {file.parts[0] for file in files} | {
        f"tests/{file.parts[1]}" for file in files if file.parts[0] == "tests"
    }
    return {ROOT / top for top in tops - {"src", "tests/conftest.py"}}


def commands() -> list[str]:
    """Returns every `outrider` command and every launch in the documents."""
    return sorted({command for document in DOCUMENTS for command in commands_in(document.read_text())})


def commands_in(document: str) -> list[str]:
    """Returns the commands of one document, from code blocks and from sentences."""
    text = re.sub(r"```.*?```", "", document, flags=re.DOTALL).replace("\\\n", " ")
    blocks = [line.partition("  #")[0] for line in text.splitlines() if line.startswith("    ")]
    parts = [part.strip() for block in blocks for part in re.split(r"&&|;", block)]
    for paragraph in text.split("\n\n"):
        parts += re.findall(r"`([^`]+)`", " ".join(paragraph.split()))
    starts = ("outrider ", "ros2 launch outrider ")
    return [part for part in parts if part.startswith(starts)]


def test_the_readme_is_short_and_says_what_this_is() -> None:
    assert len(README.splitlines()) <= 180
    assert len(README.split()) <= 1600
    assert "speculative decoding" in README.partition("\n## ")[0].lower()


def test_the_tree_lists_what_there_is_and_nothing_else() -> None:
    listed = tree()
    assert [path for path in listed if not path.exists()] == []
    packages = {file.parent for file in (ROOT / "src").rglob("__init__.py")}
    missing = (tracked_at_the_top() | packages) - {
        folder for path in listed for folder in (path, path.parent)
    }
    assert missing == set()


def test_the_first_line_of_every_module_says_what_it_is_for() -> None:
    modules = [file for file in (ROOT / "src").rglob("*.py") if file.read_text().strip()]
    assert [file for file in modules if not ast.get_docstring(ast.parse(file.read_text()))] == []


@pytest.mark.parametrize("line", [one for one in commands() if one.startswith("outrider ")])
def test_a_command_has_the_options_it_is_given(line: str) -> None:
    command: click.Command = command_line()
    words = shlex.split(line)[1:]
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]  # type: ignore[attr-defined]
    options = (one for parameter in command.params for one in (*parameter.opts, *parameter.secondary_opts))
    known = {"--help", *options}
    assert not hasattr(command, "commands") or words in ([], ["--help"])
    assert {word for word in words if word.startswith("-")} <= known


@pytest.mark.parametrize("line", [one for one in commands() if one.startswith("ros2 ")])
def test_a_launch_has_the_arguments_it_is_given(line: str) -> None:
    _, _, _, file, *arguments = shlex.split(line)
    given = {argument.partition(":=")[0] for argument in arguments}
    assert (ROOT / "launch" / file).is_file()
    assert given <= {*GRAPHS[file.removesuffix(".launch.py")].arguments, "params_file", "remap"}
