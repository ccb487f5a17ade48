"""The doctor's own checks; its view of a ROS graph is tested elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from support.toys import toy_pair

from outrider.core.errors import LinkError
from outrider.runtime.diagnosis import doctor
from outrider.runtime.diagnosis.graph_health import Check, Grade
from outrider.runtime.wiring.verifier import open_verifier
from outrider.wire.keys import create_keys


@pytest.fixture
def pair(tiny_model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a pair of models to damage, which the doctor takes for the shipped one."""
    folder = shutil.copytree(tiny_model_folder, tmp_path / "models")
    monkeypatch.setattr(doctor, "models_folder", lambda: folder)
    return folder


def grades(checks: list[Check]) -> list[Grade]:
    return [check.grade for check in checks]


def test_a_whole_pair_is_well(pair: Path) -> None:
    assert grades(doctor.check_models()) == [Grade.OK, Grade.OK]


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_file_of_a_model_is_named(pair: Path, name: str) -> None:
    (pair / "draft" / name).unlink()
    target, draft = doctor.check_models()
    assert (target.grade, draft.grade) == (Grade.OK, Grade.FAIL)
    assert "draft" in draft.detail and draft.advice


def test_truncated_weights_are_named(pair: Path) -> None:
    weights = pair / "target" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:2000])
    target = doctor.check_models()[0]
    assert target.grade is Grade.FAIL and "model.safetensors" in target.detail


def test_no_models_at_all_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "models_folder", lambda: doctor_models_folder(tmp_path))
    (check,) = doctor.check_models()
    assert check.grade is Grade.FAIL and str(tmp_path) in check.detail


def doctor_models_folder(given: Path) -> Path:
    from outrider.runtime.common.paths import models_folder

    return models_folder(given)


def test_a_missing_package_is_named_with_the_command() -> None:
    assert grades(doctor.check_packages()) == [Grade.OK]
    (check,) = doctor.check_packages(("torch", "no-such-package"))
    assert check.grade is Grade.FAIL and "no-such-package" in check.detail and "make setup" in check.advice


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Returns a function that writes a module, which the doctor's children import before any other.

    No ROS is sourced, because its own modules would come first.
    """
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)

    def install(name: str, code: str) -> None:
        (tmp_path / f"{name}.py").write_text(code)

    return install


@pytest.mark.parametrize(
    ("code", "words"),
    [("raise SystemExit('EGL is missing')", "EGL is missing"), ("import os; os.abort()", "SIGABRT")],
)
def test_a_child_that_fails_or_crashes_is_a_line_with_its_last_words(
    code: str, words: str, install: Callable[[str, str], None]
) -> None:
    install("mujoco", code)
    (check,) = doctor.check_rendering()
    assert check.grade is Grade.FAIL and words in check.detail and "apt-get install" in check.advice


def test_a_child_that_hangs_is_given_up(install: Callable[[str, str], None]) -> None:
    install("rclpy", "import time; time.sleep(60)")
    (check,) = doctor.check_ros(timeout_s=0.2)
    assert check.grade is Grade.FAIL and "timed out" in check.detail


def test_a_graph_that_cannot_be_looked_at_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: list[str]) -> str:
        raise subprocess.CalledProcessError(1, "python", stderr="ImportError: no rclpy\n")

    monkeypatch.setattr(doctor, "_child", fail)
    (check,) = doctor.check_graph()
    assert check.grade is Grade.FAIL and "no rclpy" in check.detail


def test_a_silent_verifier_is_a_warning_and_a_wrong_option_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(endpoint: str, **_: object) -> None:
        raise LinkError(f"no verifier answers at {endpoint}")

    assert grades(doctor.check_verifier("nonsense")) == [Grade.FAIL]
    assert grades(doctor.check_verifier("tcp://127.0.0.1:9", tmp_path / "no.key")) == [Grade.FAIL]
    monkeypatch.setattr(doctor, "probe_verifier", silent)
    (check,) = doctor.check_verifier("tcp://127.0.0.1:9")
    assert check.grade is Grade.WARN and "127.0.0.1:9" in check.detail and "--key-file" in check.advice


@contextmanager
def serving(endpoint: str, key_file: Path) -> Iterator[None]:
    verifier, stop = open_verifier(toy_pair(1, 0.8)[0], endpoint, key_file=key_file), threading.Event()
    thread = threading.Thread(target=verifier.serve, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_key_that_the_verifier_refuses_is_a_failure(endpoint: str, tmp_path: Path) -> None:
    server_key, robot_key = create_keys(tmp_path)
    server_key.write_text(json.dumps(json.loads(server_key.read_text()) | {"robots": {}}))
    with serving(endpoint, server_key):
        (check,) = doctor.check_verifier(endpoint, robot_key)
    assert check.grade is Grade.FAIL and "refuses this key" in check.detail
    assert "both key files" in check.advice


def test_where_a_key_was_given_the_advice_on_silence_is_to_look_at_it(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_key, _ = create_keys(tmp_path / "ours")
    _, stranger_key = create_keys(tmp_path / "theirs")
    monkeypatch.setattr(doctor, "probe_verifier", partial(doctor.probe_verifier, timeout_s=0.2))
    with serving(endpoint, server_key):
        (check,) = doctor.check_verifier(endpoint, stranger_key)
    assert check.grade is Grade.WARN
    assert "does not know this key" in check.detail and "both key files" in check.advice
    assert "without --key-file" not in check.advice


@pytest.mark.parametrize(
    ("grade", "status"), [(Grade.OK, 0), (Grade.WARN, 0), (Grade.FAIL, 1)], ids=lambda value: str(value)
)
def test_the_exit_status_shows_whether_a_check_failed(
    grade: Grade, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check = Check("the thing", grade, "as it is", "turn it off and on")
    monkeypatch.setattr(doctor, "_groups", lambda *_: [lambda: [check]])
    assert doctor.run("tcp://127.0.0.1:5757") == status
    printed = capsys.readouterr().out
    assert "the thing" in printed and ("turn it off" in printed) == (grade is not Grade.OK)
