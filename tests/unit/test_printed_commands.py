"""Every command that a document prints is accepted by the command line, a launch file or the Makefile.

Nothing is run. The tests make the files that a reader makes; those of the repository must exist.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from support.commands import command_line

from outrider.core.language.sentences.planner import plan_of
from outrider.runtime.mission.questions import question_to_memory
from outrider.runtime.mission.words import check_for_pair, vocabulary_of
from outrider.runtime.node_graph import node_graphs
from outrider.runtime.node_graph.parameter_values import argument_value, graph_parameters
from outrider.wire.keys import create_keys

ROOT = Path(__file__).resolve().parents[2]
PAGES = {file for file in ROOT.glob("*.md") if file.name != "CHANGELOG.md"}  # it has former commands
FILES = [*sorted(PAGES), *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAM = r"(?:outrider|ros2 launch|make|python -m outrider)"
OF_EVERY_LAUNCH = {"namespace", "params_file", "remap"}
NUMBERS = (int, float, int | None, float | None)
PLACEHOLDER = re.compile(r"[A-Z]{1,10}")
IN_PLACE_OF = {"--ablate": "all", "--look": "dim", "--regime": "lte", "--link": "lte"}
"""Values for options that a document prints with a placeholder in capital letters."""
OF_A_MENTION = {"MissingParameter", "BadOptionUsage"}
"""Errors for missing values, which a command or an option named in a sentence may have."""


def without_comment(line: str) -> str:
    return re.sub(r"(^|\s{2,})#.*$", "", line)


def lines_in_blocks(text: str) -> Iterator[str]:
    """Yields the commands of fenced and indented blocks, with the alternatives that their comments give."""
    text = re.sub(r"\\\n\s*", " ", text)
    fenced = [
        line for block in re.findall(r"```\w*\n(.*?)```", text, re.DOTALL) for line in block.split("\n")
    ]
    indented = re.findall(r"^ {4,}(\S.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    for line in (*fenced, *indented):
        for part in (without_comment(line), *re.findall(r"# (?:or|once|again): (.*)$", line)):
            for command in re.split(r"&&|;|\s\|\s", part):
                if re.match(PROGRAM + r"(\s|$)", command.strip()):
                    yield command.strip().rstrip("&").strip()


def printed(file: Path) -> list[tuple[str, bool]]:
    """Returns the commands of a document, each with whether it is in a sentence."""
    text = re.sub(r"<!--.*?-->", "", file.read_text(), flags=re.DOTALL)
    mentioned = re.findall(rf"`({PROGRAM} [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    found = dict.fromkeys(lines_in_blocks(text), False)
    return list({**{" ".join(line.split()): True for line in mentioned}, **found}.items())


CASES = [(file, line, is_mention) for file in FILES for line, is_mention in printed(file)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the files that the documents tell a reader to have, and the repository's data."""
    here = tmp_path_factory.mktemp("reader")
    for name in ("models", "config", "benchmarks", "docs"):
        (here / name).symlink_to(ROOT / name)
    create_keys(here / "keys", ("go2", "robot"))
    (here / "go2.key").symlink_to(here / "keys" / "go2.key")
    for name in ("my_link.yaml", "warehouse.yaml"):
        (here / name).write_text("mine: {source: a test, rtt_ms: 18, up_mbps: 20, down_mbps: 60}\n")
    (here / "voice.onnx").touch()
    (here / "out").mkdir()
    (here / "out" / "models").symlink_to(ROOT / "models")
    for name in ("FOLDER", "PATH"):
        (here / name).symlink_to(ROOT / "models" / "target")
    (here / "handbook").mkdir()
    for data in ("out/data", "out/looks", "out/answers"):
        (here / data).mkdir()
        (here / data / "shard-0000.msgpack").touch()
    for voices in ("training", "held-out"):
        (here / "out" / "recordings" / voices / "anna").mkdir(parents=True)
    return here


@pytest.fixture(autouse=True)
def as_a_reader(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs each test in that folder, as if on a machine with a GPU and every extra."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("HOME", str(place))
    for name in ("common.present.check_device", "common.present.check_ray"):
        monkeypatch.setattr(f"outrider.runtime.{name}", lambda *_: None)
    monkeypatch.setattr("outrider.runtime.datasets.published_weights.check_published", lambda _: None)
    monkeypatch.setattr("outrider.evaluation.robot.frames.read_tasks", lambda _: [])
    monkeypatch.setattr("outrider.simulation.legs.legs_folder", lambda: place)


def filled(command: Any, words: list[str]) -> list[str]:
    """Returns the words, with a value for each option whose value is printed as a placeholder."""
    options = {name: one for one in command.params for name in one.opts}
    values = list(words)
    for at, (name, value) in enumerate(itertools.pairwise(words), start=1):
        if name in options and PLACEHOLDER.fullmatch(value):
            kind = options[name].type_descriptor.annotation
            choices = [one for one in get_args(kind) if isinstance(one, str)]
            values[at] = "1" if kind in NUMBERS else IN_PLACE_OF.get(name, choices[0] if choices else value)
    return values


def take_command(words: list[str], is_mention: bool) -> None:
    """Parses a command line with every check of its options. Raises the error that is found."""
    command, path = command_line(), ["outrider"]
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words[0]]
        path.append(words.pop(0))
    if not words and is_mention:
        return
    try:
        with command.make_context(" ".join(path), filled(command, words)) as context:
            if hasattr(command, "commands"):
                command.resolve_command(context, words)
            check_sentence(path[-1], context.params)
    except typer.Exit:  # --help and --version
        return
    except Exception as error:
        if not (is_mention and type(error).__name__ in OF_A_MENTION):
            raise


def check_sentence(command: str, values: dict[str, Any]) -> None:
    """Raises InstructionError or ConfigError for a sentence that the command would refuse."""
    if command == "demo":
        check_for_pair(values["instruction"], None, remembers=bool(values["store"]))
    elif command == "plan" and not PLACEHOLDER.fullmatch(values["sentence"]):
        plan_of(values["sentence"], vocabulary_of("models/draft"))
    elif command == "ask":
        question_to_memory(values["question"], values["answers"])


def take_launch(words: list[str]) -> None:
    """Checks the arguments of `ros2 launch outrider`. Raises an error if one is wrong."""
    package, file, *given = words
    assert package == "outrider" and (ROOT / "launch" / file).is_file(), file
    graph = getattr(node_graphs, f"{file.partition('.')[0].upper()}_GRAPH")
    texts = dict(one.split(":=", 1) for one in given)
    values = {name: argument_value(name, text) for name, text in texts.items() if name not in OF_EVERY_LAUNCH}
    graph_parameters(graph, {}, values)
    if "instruction" in texts:
        check_for_pair(texts["instruction"], None, remembers=True)


def take_make(words: list[str], is_mention: bool) -> None:
    """Checks targets and variables of the Makefile. Raises an error if one is wrong."""
    text = (ROOT / "Makefile").read_text()
    variables = dict(one.split("=", 1) for one in words if "=" in one)
    targets = set(re.findall(r"^([a-z]+):", text, re.MULTILINE))
    assert set(words) - targets - {f"{name}={value}" for name, value in variables.items()} == set()
    assert [name for name in variables if not re.search(rf"\b{name}\b", text)] == []
    instruction, options = variables.get("INSTRUCTION"), shlex.split(variables.get("DEMO_OPTIONS", ""))
    take_command(["demo", *([instruction] if instruction else []), *options], is_mention)


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("file", "line", "is_mention"), CASES, ids=[f"{file.name}: {line}" for file, line, _ in CASES]
)
def test_a_printed_command_is_taken(file: Path, line: str, is_mention: bool) -> None:
    program, *words = shlex.split(line.removeprefix("python -m "))
    if program == "outrider":
        take_command(words, is_mention)
    elif program == "make":
        take_make(words, is_mention)
    else:
        take_launch(words[1:])


def test_commands_are_found_in_the_documents() -> None:
    for program in ("outrider ", "ros2 launch ", "make "):
        assert sum(line.startswith(program) for _, line, _ in CASES) > 10, program


@pytest.mark.parametrize(
    "line",
    [
        *("outrider demos", "outrider demo --plase hidden", "outrider relay --key-file nowhere.key"),
        *(
            "outrider bench decoding --regime none",
            'outrider demo "find the piano"',
            "outrider demo --port x",
        ),
    ],
)
def test_a_command_that_is_wrong_is_found(line: str) -> None:
    with pytest.raises(Exception, match=r"."):
        take_command(shlex.split(line)[1:], True)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_launch_argument_that_a_document_names_is_one(file: Path) -> None:
    named = set(re.findall(r"(?<!-r )(?<![\w/])([a-z]\w*):=", file.read_text()))
    assert named - set(node_graphs.ARGUMENTS) - OF_EVERY_LAUNCH == set()
