"""Every command refuses a wrong path or name before any import that takes seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from support.commands import command_line

from outrider.core.model_options import MAX_THREADS
from outrider.evaluation.decoding.regimes import VARIANTS
from outrider.evaluation.robot import frames, navigation
from outrider.runtime.common.ports import free_port
from outrider.runtime.node_graph.node_specs import MOTIONS, NODES
from outrider.simulation.homes.home import PLACEMENTS
from outrider.voice.engines import ENGINES

MISSING = "/proc/nowhere"
WRONG = {
    "--models": MISSING,
    "--model": MISSING,
    "--draft-device": "gpu9",
    "--draft-model": MISSING,
    "--answer-model": MISSING,
    "--target": MISSING,
    "--dagger": MISSING,
    "--from": MISSING,
    "--key-file": MISSING,
    "--voice": MISSING,
    "--relay": "nowhere",
    "--relay-key-file": MISSING,
    "--console": "nowhere",
    "--link": "no-such-link",
    "--network": "no-such-network",
    "--endpoint": "nowhere",
    "--drafters": "no-such-drafter",
    "--holds": "unicorn",
    "--look": "no-such-look",
    "--looks": "no-such-look",
    "--regime": "no-such-regime",
    "--ablate": "no-such-mechanism",
    "--kinds": "no-such-end",
    "--answers": "no-such-way",
    "--recordings": MISSING,
    "--choosing": MISSING,
    "--weights": f"{MISSING}/stops.safetensors",
    "--json": f"{MISSING}/figures.json",
    "--plots": MISSING,
    "--run": MISSING,
    "--folder": MISSING,
    "--out": MISSING,
    "--store": f"{MISSING}/memory.db",
    "--store-key-file": f"{MISSING}/memory.key",
    "--corpus": f"{MISSING}/corpus.db",
    "--record": f"{MISSING}/run.mcap",
    "--animation": "film.gif",
    "--since": "yesterday",
}
"""A wrong value for each option that takes a name or a path."""
ELSEWHERE = {
    "any words": {"--name", "--home", "--matching", "--robot"},
    "a node's, or of a server that is opened": {
        *("--host", "--namespace", "--speech"),
        *("--token-file", "--console-token-file", "--tls-cert", "--tls-key"),
    },
    "looked at beside a journal": {"--journal-key"},
}
"""Options without a wrong value here, by reason."""
WORDS = {
    "instruction": "find the silver bottle",
    "sentence": "turn left",
    "question": "where are my keys?",
    "ids": "1",
}
READ = {"file", "folder", "data", "source", "model"}
WRITTEN = {("train", "data"), ("train", "answers"), ("record",)}
"""Commands that write to the path they are given, so that a missing one is no error."""
REFUSALS = """
import contextlib, importlib.abc, json, sys
class TooSlow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        assert name not in ("torch", "transformers"), f"{name} is imported before the refusal"
sys.meta_path.insert(0, TooSlow())
import typer
from outrider import cli
command, told = typer.main.get_command(cli.app), []
for words in json.load(sys.stdin):
    with contextlib.redirect_stdout(sys.stderr):
        try:
            command.main(words, standalone_mode=False)
            told.append(("no error", ""))
        except BaseException as error:
            told.append((type(error).__name__, " ".join(map(str, (error, *vars(error).values())))))
json.dump(told, sys.stdout)
"""
REFUSED = {"ConfigError", "StoreInputError", "BadParameter"}


def leaves(words: tuple[str, ...], command: Any) -> list[tuple[tuple[str, ...], Any]]:
    """Returns every command below a group, with its words."""
    if not hasattr(command, "commands"):
        return [(words, command)]
    return [one for name, inner in command.commands.items() for one in leaves((*words, name), inner)]


COMMANDS = dict(leaves((), command_line()))


def kind_of(parameter: Any) -> Any:
    return parameter.type_descriptor.annotation


def choices_of(annotation: Any) -> tuple[str, ...]:
    """Returns the values of a Literal of strings; empty for another type."""
    values = get_args(annotation)
    return values if values and all(isinstance(one, str) for one in values) else ()


def takes_words(parameter: Any) -> bool:
    """Returns whether a parameter is an option whose value is a name or a path."""
    if parameter.param_type_name != "option" or parameter.is_flag:
        return False
    return kind_of(parameter) in (str, Path, list[str]) or bool(choices_of(kind_of(parameter)))


def needed(command: Any, path: str = "data", but: str = "") -> list[str]:
    """Returns values for a command's arguments and required options, except the option `but`."""
    words = []
    for one in command.params:
        if one.param_type_name == "argument":
            choices = choices_of(kind_of(one))
            words.append(choices[0] if choices else WORDS.get(one.name, path))
        elif one.required and one.opts[0] != but:
            words += [one.opts[0], "models/draft"]
    return words


def wrong_options() -> list[list[str]]:
    """Returns every command with each of its options of names and paths, given a wrong value."""
    return [
        [*words, one.opts[0], WRONG.get(one.opts[0], "no-such-choice"), *needed(command, but=one.opts[0])]
        for words, command in COMMANDS.items()
        for one in command.params
        if takes_words(one) and (choices_of(kind_of(one)) or one.opts[0] in WRONG)
    ]


def missing_paths() -> list[list[str]]:
    """Returns every command that reads a file or a folder, given one that does not exist."""
    return [
        [*words, *needed(command, MISSING)]
        for words, command in COMMANDS.items()
        if words not in WRITTEN
        and any(one.param_type_name == "argument" and one.name in READ for one in command.params)
    ]


CASES = [*wrong_options(), *missing_paths()]


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """Returns the error of each case, from one process that imports no model library."""
    here = tmp_path_factory.mktemp("here")
    for name in ("shard-0000.msgpack", "shard-0001.msgpack", "tokenizer.json"):
        (here / "data" / "tokenizer" / name).parent.mkdir(parents=True, exist_ok=True)
        (here / "data" / name).touch()
        (here / "data" / "tokenizer" / name).touch()
    command = [sys.executable, "-c", REFUSALS]
    free = ["--endpoint", f"tcp://127.0.0.1:{free_port()}"]  # another program may use the default
    cases = [[*case, *free] if case[0] == "verifier" and free[0] not in case else case for case in CASES]
    done = subprocess.run(
        command, cwd=here, input=json.dumps(cases), capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(map(" ".join, CASES), json.loads(done.stdout), strict=True))


@pytest.mark.lengthy
@pytest.mark.parametrize("case", [" ".join(case) for case in CASES])
def test_what_is_wrong_is_refused_before_a_slow_import(
    case: str, refusals: dict[str, tuple[str, str]]
) -> None:
    error, said = refusals[case]
    assert error in REFUSED, said
    wrong = next(one for one in case.split() if one.startswith((MISSING, "no-such")) or one in WRONG.values())
    assert (MISSING if wrong.startswith(MISSING) else wrong) in said


def test_every_option_of_names_and_paths_is_tried_or_named() -> None:
    known = {*WRONG, *(name for names in ELSEWHERE.values() for name in names)}
    options = {one.opts[0] for c in COMMANDS.values() for one in c.params if takes_words(one)}
    chosen = {one.opts[0] for c in COMMANDS.values() for one in c.params if choices_of(kind_of(one))}
    assert options - known - chosen == set()


@pytest.mark.parametrize(
    ("words", "option", "names"),
    [
        (("eval", "navigation"), "--model", navigation.MODELS),
        (("eval", "navigation"), "--memory", navigation.MEMORY),
        (("eval", "frames"), "--model", frames.MODELS),
        (("eval", "safety"), "--motion", MOTIONS),
        (("bench", "decoding"), "--variant", VARIANTS),
        (("demo",), "--placement", PLACEMENTS),
        (("hear",), "--engine", ENGINES),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_choices_of_an_option_are_those_of_its_command(
    words: tuple[str, ...], option: str, names: object
) -> None:
    parameter = next(one for one in COMMANDS[words].params if one.opts[0] == option)
    found = kind_of(parameter)
    assert set(choices_of(found) or choices_of(get_args(found)[0])) == set(names)  # type: ignore[call-overload]


def test_every_number_of_threads_is_bounded() -> None:
    bounds = {
        words: (one.min, one.max)
        for words, command in COMMANDS.items()
        for one in command.params
        if "--threads" in one.opts
    }
    assert {("verifier",), ("graphs",)} <= set(bounds)
    assert set(bounds.values()) == {(1, MAX_THREADS)}
    of_nodes = [one for node in NODES.values() for one in node.parameters if one.name == "threads"]
    assert of_nodes and all((one.minimum, one.maximum) == (1, MAX_THREADS) for one in of_nodes)


@pytest.mark.parametrize("command", ["demo", "console", "mcp"])
def test_options_of_a_simulated_home_have_the_bounds_and_defaults_of_its_node(command: str) -> None:
    parameters = {one.name: one for one in NODES["simulation"].parameters}
    options = {one.name: one for one in COMMANDS[command,].params if one.name in parameters}
    assert {"seed", "placement"} <= set(options)
    for name, bounded in (("seed", options["seed"]), ("real_time_factor", options.get("real_time_factor"))):
        if bounded:
            assert (bounded.min, bounded.max) == (parameters[name].minimum, parameters[name].maximum)
    for name in ("seed", "placement"):
        default = parameters[name].default
        assert options[name].default == default or f"; {default} by default" in str(options[name].help)
