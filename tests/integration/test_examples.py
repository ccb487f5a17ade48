"""The programs in examples/ work as documented, with the shipped pair."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support.tapes import Tape

import outrider

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MAX_LINES = 52


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def decoded() -> outrider.Decoded:
    return load("decode_one_prompt").main("find the red chair")


def test_one_prompt_is_decoded_by_both_models(decoded: outrider.Decoded) -> None:
    assert decoded.finished and decoded.text.count("\n") == 1
    assert decoded.target_passes < len(decoded.token_ids)


def test_a_goal_is_driven(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("drive_a_goal").main("go to the blue chair", "7")
    assert result.success and result.actions[-1] == "stop"
    assert "found it" in capsys.readouterr().out


def test_a_drafter_of_ones_own_saves_passes_and_changes_no_text() -> None:
    first, second = load("add_a_drafter").main()
    assert second.text == first.text
    assert second.target_passes < first.target_passes / 2


def test_a_recording_is_replayed(decoded: outrider.Decoded, tmp_path: Path) -> None:
    example = load("decode_one_prompt")
    tape = Tape(tmp_path / "run.mcap")
    prompt = example.example_prompt("find the red chair")
    tape.prompt(1, prompt.text, jpeg=prompt.jpeg, max_new_tokens=96)
    tape.text(1, decoded.text, tokens=len(decoded.token_ids))
    assert load("replay_a_recording").main(str(tape.close()), "sd") is True


def test_a_file_that_is_no_recording_is_named_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "replay_a_recording.py"), str(tmp_path / "none.mcap")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda file: file.stem)
def test_an_example_is_short_and_uses_the_public_api_alone(file: Path) -> None:
    lines = file.read_text().splitlines()
    assert len(lines) <= MAX_LINES
    assert not [line for line in lines if "outrider." in line and line.startswith(("import", "from"))]


@pytest.mark.parametrize("name", ["model", "suffix", "calibration", "two words", ""])
def test_a_drafter_needs_a_name_of_its_own(name: str) -> None:
    with pytest.raises(outrider.OutriderError, match="give a plain word that is not one of model"):
        outrider.register_drafter(name, object)  # type: ignore[arg-type]
