import subprocess
import sys

import pytest
from typer.testing import CliRunner

from outrider import cli
from outrider.core.errors import LinkError

COMMANDS = [
    ["demo"],
    ["record"],
    ["replay"],
    ["verifier"],
    ["graphs"],
    ["keys"],
    ["doctor"],
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


def test_keys_are_made_once(tmp_path):
    first = CliRunner().invoke(cli.app, ["keys", str(tmp_path), "--robot", "go2-a"])
    assert first.exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["go2-a.key", "verifier.key"]
    again = CliRunner().invoke(cli.app, ["keys", str(tmp_path), "--robot", "go2-a"])
    assert again.exit_code != 0
