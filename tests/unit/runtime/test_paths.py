"""The package's data is found wherever the package is installed."""

from __future__ import annotations

import importlib.util
import shutil
import site
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

from outrider.core.errors import ConfigError
from outrider.runtime.common import paths


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """Returns the module as `pip --target` installs it, out of sight of this checkout."""
    monkeypatch.chdir(tmp_path)
    installed = tmp_path / "target" / "outrider" / "runtime" / "common" / "paths.py"
    installed.parent.mkdir(parents=True)
    shutil.copy(paths.__file__, installed)
    spec = importlib.util.spec_from_file_location("installed_paths", installed)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / "local"))
    monkeypatch.setattr(site, "getuserbase", lambda: str(tmp_path / "user"))
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"{tmp_path / 'ros'}:")
    return module


@pytest.mark.parametrize("prefix", ["ros", "environment", "local", "user", "target"])
def test_what_is_installed_under_any_prefix_is_found(
    elsewhere: ModuleType, tmp_path: Path, prefix: str
) -> None:
    share = tmp_path / prefix / "share" / "outrider"
    (share / "models" / "tokenizer").mkdir(parents=True)
    (share / "config").mkdir()
    (share / "config" / "links.yaml").touch()
    assert elsewhere.models_folder() == share / "models"
    assert elsewhere.config_file("links.yaml") == share / "config" / "links.yaml"


def test_the_workspace_s_prefix_comes_before_python_s(elsewhere: ModuleType, tmp_path: Path) -> None:
    for prefix in ("environment", "ros"):
        (tmp_path / prefix / "share" / "outrider" / "models" / "tokenizer").mkdir(parents=True)
    assert elsewhere.models_folder() == tmp_path / "ros" / "share" / "outrider" / "models"


def test_what_is_nowhere_is_named_with_the_folders_looked_in(elsewhere: ModuleType) -> None:
    with pytest.raises(ConfigError, match=r"no models found .*user/share/outrider/models"):
        elsewhere.models_folder()
    with pytest.raises(ConfigError, match=r"config/links.yaml is not installed"):
        elsewhere.config_file("links.yaml")


@pytest.mark.parametrize("name", ["models/tragte", "/nowhere", "models/target/config.json", "a/b/c"])
def test_what_is_neither_a_model_here_nor_a_name_of_the_hub_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="there is no model folder"):
        paths.check_model(name)


def test_a_folder_without_a_model_is_refused_and_the_hub_is_not_asked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no config\.json"):
        paths.check_model(str(tmp_path))
    (tmp_path / "some.gguf").touch()
    for name in (str(tmp_path), str(tmp_path / "some.gguf"), "Qwen/Qwen2-VL-2B-Instruct", "models/draft"):
        paths.check_model(name)
