import contextlib
import io
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from support.commands import command_line
from typer.testing import CliRunner

from outrider import cli
from outrider.core.errors import ConfigError, InstructionError, LinkError, ModelError
from outrider.runtime.common.ports import free_port

COMMANDS = [
    ["demo"],
    ["words"],
    ["record"],
    ["replay"],
    ["verifier"],
    ["graphs"],
    ["keys", "make"],
    ["keys", "add"],
    ["keys", "list"],
    ["keys", "revoke"],
    ["doctor"],
    ["plan"],
    ["eval", "navigation"],
    ["eval", "lossless"],
    ["eval", "kills"],
    ["bench", "latency"],
    ["bench", "memory"],
    ["train", "data"],
    ["memory", "add"],
    ["memory", "list"],
    ["memory", "search"],
    ["memory", "forget"],
    ["memory", "export"],
]


def every_command() -> list[tuple[list[str], typer.core.TyperCommand]]:
    """Returns each command of the command line with its words."""

    def below(words, command):
        if not hasattr(command, "commands"):
            return [(words, command)]
        return [one for name, inner in command.commands.items() for one in below([*words, name], inner)]

    return below([], command_line())


@pytest.mark.lengthy
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself_with_an_example(command):
    result = CliRunner().invoke(cli.app, [*command, "--help"])
    assert result.exit_code == 0
    assert "Example:" in result.output and f"outrider {' '.join(command)}" in result.output


def test_help_names_all_groups_and_imports_nothing_heavy():
    code = (
        "import sys; from typer.testing import CliRunner; from outrider import cli; "
        "print(CliRunner().invoke(cli.app, ['--help']).output); "
        "heavy = {'torch', 'transformers', 'mujoco', 'cv2', 'rclpy', 'zmq', 'numpy', 'apsw'}; "
        "heavy &= set(sys.modules); "
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in ("demo", "verifier", "eval", "bench", "train", "doctor"):
        assert name in done.stdout


def test_an_expected_failure_is_one_red_line_and_status_one(monkeypatch, capsys):
    def fail() -> None:
        raise LinkError("the verifier went away: start it again")

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as ending:
        cli.main()
    assert ending.value.code == 1
    assert capsys.readouterr().err == "error: the verifier went away: start it again\n"


@pytest.mark.parametrize(
    ("error", "status"),
    [(ConfigError("x"), 2), (InstructionError("x"), 2), (ModelError("x"), 1), (KeyboardInterrupt(), 130)],
    ids=lambda value: type(value).__name__,
)
def test_the_exit_status_says_what_kind_of_failure_it_was(error, status, monkeypatch):
    def fail() -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as ending:
        cli.main()
    assert ending.value.code == status


def test_a_defect_keeps_its_trace(monkeypatch):
    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_an_unknown_option_is_refused():
    result = CliRunner().invoke(cli.app, ["eval", "navigation", "--episode", "3"])
    assert result.exit_code == 2 and "--episode" in result.output


def test_a_seed_that_no_generator_takes_is_refused():
    result = CliRunner().invoke(cli.app, ["train", "exits", "data", "--seed", str(2**64)])
    assert result.exit_code == 2 and "--seed" in result.output


def commands_with_models() -> list[list[str]]:
    """Returns every command that takes --models, with an argument if it needs one."""
    found = []
    for group, command in every_command():
        options = {option for parameter in command.params for option in parameter.opts}
        if "--models" in options and group[0] != "train":  # train writes to --models
            wanted = ["x" for parameter in command.params if parameter.param_type_name == "argument"]
            found.append([*group, *wanted[:1]])
    return found


@pytest.mark.lengthy
@pytest.mark.parametrize("command", commands_with_models(), ids=" ".join)
def test_a_models_folder_that_is_missing_is_a_wrong_option(command, tmp_path):
    missing = tmp_path / "no-models"
    result = CliRunner().invoke(cli.app, [*command, "--models", str(missing)])
    assert isinstance(result.exception, ConfigError), result.output
    if command[-1] != "x":  # "x" is no file either, and may be checked first
        assert str(missing) in str(result.exception)


def test_keys_are_made_once(tmp_path):
    first = CliRunner().invoke(cli.app, ["keys", "make", str(tmp_path), "--robot", "go2-a"])
    assert first.exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["go2-a.key", "verifier.key"]
    again = CliRunner().invoke(cli.app, ["keys", "make", str(tmp_path), "--robot", "go2-a"])
    assert again.exit_code != 0


@pytest.mark.lengthy
def test_robots_are_added_listed_and_revoked(tmp_path):
    def run(*words: str) -> str:
        result = CliRunner().invoke(cli.app, ["keys", *words])
        assert result.exit_code == 0, result.output
        return result.output

    run("make", str(tmp_path), "--robot", "go2-a")
    assert "go2-b.key" in run("add", str(tmp_path), "go2-b", "go2-c")
    assert [line.split()[0] for line in run("list", str(tmp_path)).splitlines()] == [
        "go2-a",
        "go2-b",
        "go2-c",
    ]
    assert "go2-b" in run("revoke", str(tmp_path), "go2-b", "go2-a")
    assert run("list", str(tmp_path)).split()[0] == "go2-c"


def status_of(*words: str) -> tuple[int, str]:
    """Runs a command in this process. Returns its exit status and its output."""
    printed, status = io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["outrider", *words])
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                cli.main()
            except SystemExit as ended:
                status = ended.code or 0
    return status, printed.getvalue()


@pytest.mark.parametrize(
    "words", [["--version"], ["-h"], ["demo", "-h"], ["keys", "-h"], ["bench", "-h"]], ids=" ".join
)
def test_version_and_help_in_short(words):
    result = CliRunner().invoke(cli.app, words)
    assert result.exit_code == 0 and ("0." in result.output or "Usage" in result.output)


@pytest.mark.lengthy
@pytest.mark.parametrize("sentence", ["red", "find me", "find the piano", "", "go forward and do not move"])
def test_a_sentence_that_no_model_knows_is_wrong_usage_and_starts_nothing(sentence, tmp_path):
    status, printed = status_of("demo", sentence, "--out", str(tmp_path / "out"))
    assert status == 2 and printed.startswith("error:") and "Traceback" not in printed
    assert not (tmp_path / "out").exists()


@pytest.mark.lengthy
def test_a_refused_sentence_imports_neither_models_nor_physics():
    code = (
        "import sys; from typer.testing import CliRunner; from outrider import cli; "
        "error = CliRunner().invoke(cli.app, ['demo', 'red']).exception; "
        "assert type(error).__name__ == 'InstructionError', error; "
        "heavy = {'torch', 'transformers', 'mujoco', 'onnxruntime', 'uvicorn', 'rclpy'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["find", "the", "silver", "bottle"], 'outrider demo "find the silver bottle"'),
        (["turn left"], 'outrider demo "turn left"'),
        (["demo", "find", "the", "silver", "bottle"], 'demo "find the silver bottle"'),
        (["ask", "where", "are", "my", "keys"], 'ask "where are my keys"'),
        (["plan", "turn", "left"], 'plan "turn left"'),
        (["help"], "outrider -h"),
        (["version"], "outrider --version"),
        (["demos"], "Did you mean 'demo'?"),
    ],
)
def test_a_likely_slip_is_told_what_to_type(words, said):
    result = CliRunner().invoke(cli.app, words, env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"})
    assert result.exit_code == 2 and said in " ".join(result.output.replace("│", " ").split())


@pytest.mark.lengthy
@pytest.mark.parametrize("words", [[], ["--no-ros"]], ids=["nodes", "no-ros"])
def test_a_folder_that_cannot_be_written_is_refused_before_anything_starts(words):
    status, printed = status_of("demo", "--out", "/proc/nowhere", *words)
    assert status == 2 and printed.startswith("error: cannot write /proc/nowhere")
    assert "told to" not in printed and "starting" not in printed


def test_the_words_of_a_model_are_listed():
    status, printed = status_of("words")
    assert status == 0
    for part in ("silver", "bottle", "find the <", "turn left", "remember that"):
        assert part in printed


def test_a_general_model_takes_any_sentence(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert "any sentence" in status_of("words", "--model", str(tmp_path))[1]


@pytest.mark.lengthy
def test_nobody_to_ask_is_said_soon_and_is_a_failure():
    began_s = time.monotonic()
    status, printed = status_of(
        "ask", "where are my keys?", "--answers", "aggregate", "--endpoint", "tcp://127.0.0.1:9"
    )
    assert status == 1 and "nothing listens there" in printed
    assert time.monotonic() - began_s < 10.0


@pytest.mark.lengthy
def test_a_question_that_is_none_is_refused_before_anything_heavy_is_imported():
    asked = [["ask", ""], ["ask", "hello"], ["ask", "where are my keys?", "--answers", "nobody"]]
    code = (
        "import sys; from typer.testing import CliRunner; from outrider import cli; "
        f"results = [CliRunner().invoke(cli.app, words) for words in {asked!r}]; "
        "print(*(type(result.exception).__name__ for result in results), "
        "{'torch', 'apsw', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "ConfigError ConfigError ConfigError set()\n"


@pytest.mark.lengthy
def test_forgetting_what_is_not_there_is_not_done_and_forgetting_nothing_is_wrong_usage(tmp_path):
    store = str(tmp_path / "m.db")
    assert status_of("memory", "add", "my keys hang by the door", "--store", store)[0] == 0
    assert status_of("memory", "forget", "99", "--store", store)[0] == 1
    assert status_of("memory", "forget", "--store", store)[0] == 2
    assert status_of("memory", "forget", "--all", "1", "--store", store)[0] == 2
    assert status_of("memory", "forget", "--all", "--store", store) == (0, "forgot 1 record\n")


@pytest.mark.lengthy
def test_forgetting_passages_that_are_not_there_is_not_done(tmp_path):
    text, corpus = tmp_path / "a.txt", ("--corpus", str(tmp_path / "c.db"))
    text.write_text("Keys are cut at the harbour kiosk.")
    for words, status, said in (
        (("fill", str(text)), 0, "1 new passage, 1 in all\n"),
        (("forget", "bakery"), 1, "forgot 0 passages\n"),
        (("forget", "harbour", "kiosk"), 0, "forgot 1 passage\n"),
    ):
        ended = status_of("corpus", *words, *corpus)
        assert ended[0] == status and ended[1].endswith(said)


def test_no_command_gives_key_file_two_meanings():
    assert "--store-key-file" in CliRunner().invoke(cli.app, ["memory", "add", "--help"]).output
    for name in ("add", "list", "search", "forget", "export"):
        result = CliRunner().invoke(cli.app, ["memory", name, "--key-file", "x"])
        assert result.exit_code == 2


INTERRUPTED_AT = """
import importlib.abc, sys
class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name == sys.argv[1]:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from outrider.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["typer", "outrider.cli", "outrider.core.errors"])
def test_an_interrupt_while_the_command_line_is_imported_leaves_no_trace(module):
    command = [sys.executable, "-c", INTERRUPTED_AT, module]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 130 and not done.stderr + done.stdout
    entry_points = (Path(__file__).parents[2] / "setup.cfg").read_text()
    assert "outrider = outrider.__main__:main" in entry_points


FULL = Path("/dev/full")


@pytest.mark.lengthy
@pytest.mark.skipif(not FULL.exists(), reason="a device that has no room")
@pytest.mark.parametrize("words", [["words"], ["--version"], ["plan", "turn left"]], ids=" ".join)
def test_a_disk_that_is_full_is_an_error_without_a_trace(words):
    with FULL.open("w") as full:
        command = [sys.executable, "-m", "outrider", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith("error: No space left on device")
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


LOADING = """
import importlib.abc, sys
class Ends(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name in ("torch", "mujoco"):
            raise SystemExit(7)
sys.meta_path.insert(0, Ends())
from outrider import cli
from outrider.runtime.reports import replay
replay.read_steps = lambda file: []
cli.app(sys.argv[1:])
"""
"""Ends at an import of the models' or the simulation's libraries."""


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "words", ["graphs", "replay run.mcap", "mcp --simulation", "verifier --endpoint tcp://127.0.0.1:{}"]
)
def test_what_loads_models_says_so_before_it_loads(words, tmp_path):
    (tmp_path / "run.mcap").touch()
    command = [sys.executable, "-c", LOADING, *words.format(free_port()).split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 7, done.stderr
    assert done.stderr.startswith("loading ")


@pytest.mark.lengthy
def test_a_model_of_the_hubs_cache_is_loaded_by_its_name(tmp_path):
    folder = tmp_path / "models--Qwen--Tiny" / "snapshots" / "0a1b2c3d"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    status, printed = status_of("verifier", "--model", str(folder), "--endpoint", endpoint)
    assert status == 1 and "\nloading Qwen/Tiny\n" in printed, printed


SAY_IT_THEMSELVES = {"demo", "verifier", "console", "relay", "record", "mcp", "plan"}


@pytest.mark.lengthy
@pytest.mark.parametrize("command", sorted(command_line().commands))
def test_a_command_shows_life_or_says_itself_what_goes_on(command, monkeypatch):
    shown = []
    options = sys.modules["outrider.cli.options"]
    monkeypatch.setattr(options, "Pulse", lambda what, **_: shown.append(what) or contextlib.nullcontext())
    CliRunner().invoke(cli.app, [command, "--help"])
    assert shown == ([] if command in SAY_IT_THEMSELVES else [command])
