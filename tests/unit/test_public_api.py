"""The names that `import outrider` offers: unique, documented, typed, and imported only on use."""

import configparser
import importlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

import outrider

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"torch", "transformers", "mujoco", "cv2", "rclpy", "zmq", "numpy", "apsw", "onnxruntime"}


@pytest.mark.parametrize("name", outrider.__all__)
def test_every_public_name_is_there_and_described(name: str) -> None:
    assert getattr(outrider, name) is not None
    assert name in dir(outrider)
    assert name == "__version__" or name in (outrider.__doc__ or "").replace(",", " ").split()


def test_what_is_not_public_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'load_pears'"):
        outrider.load_pears  # noqa: B018


def test_the_import_brings_nothing_heavy() -> None:
    code = f"import sys, outrider; heavy = set(sys.modules) & {HEAVY}; assert not heavy, heavy"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_import_takes_less_than_50_ms(monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds_of_an_import() -> float:
        monkeypatch.delitem(sys.modules, "outrider")
        started_s = time.perf_counter()
        importlib.import_module("outrider")
        return time.perf_counter() - started_s

    assert min(seconds_of_an_import() for _ in range(5)) < 0.05


def test_types_are_shipped() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    assert (ROOT / "src/outrider/py.typed").is_file()
    assert config["options.package_data"]["outrider"] == "py.typed"
