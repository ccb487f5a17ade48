"""A `~` that the shell has not replaced, as in `key_file:=~/go2.key`, means the home folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from outrider import cli
from outrider.core.errors import ConfigError
from outrider.core.files.given_file import in_home
from outrider.core.files.journal_files import journal_at
from outrider.core.files.private_files import home_folder
from outrider.models.onnx.store import cache_root
from outrider.runtime.datasets.published_weights import weights_folder
from outrider.runtime.node_graph.node_specs import NODES
from outrider.runtime.node_graph.parameters import Parameter
from outrider.runtime.wiring.corpora import opened_corpus
from outrider.runtime.wiring.memory_stores import open_memory

NOBODY = "~nobody-has-this-home"
FILES = ("file", "folder", "model", "CURVE keys", "key that", "MCAP", "journal", "knowledge", "key for the")
"""Words in the description of a parameter that may name a file."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes an empty home folder. The current folder is another empty one."""
    home, current = tmp_path / "home", tmp_path / "current"
    home.mkdir()
    current.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.chdir(current)
    return home


def texts() -> list[tuple[str, Parameter]]:
    """Returns every free-text parameter, with its node's name."""
    specs = [(spec.name, one) for spec in NODES.values() for one in spec.parameters]
    return [(node, one) for node, one in specs if isinstance(one.default, str) and not one.choices]


@pytest.mark.parametrize(("node", "parameter"), [(n, p) for n, p in texts() if p.is_path], ids=str)
def test_a_parameter_that_names_a_file_may_begin_with_the_home_folder(
    node: str, parameter: Parameter, home: Path
) -> None:
    assert parameter.checked("~/a b/file", node) == str(home / "a b" / "file")
    for other in ("file", "/a/~/file", parameter.default):
        assert parameter.checked(other, node) == other
    with pytest.raises(ConfigError, match=f"{NOBODY}.*home folder that is not known"):
        parameter.checked(f"{NOBODY}/file", node)


def test_every_parameter_described_as_a_file_is_treated_as_a_path() -> None:
    speaking = {(n, p.name) for n, p in texts() if any(word in p.description for word in FILES)}
    names = {("navigator", name) for name in ("drafters", "wanted_model", "wanted_answer_model")}
    assert speaking - names == {(n, p.name) for n, p in texts() if p.is_path}


def test_a_topic_in_a_nodes_own_namespace_is_no_path() -> None:
    [topic] = [p for p in NODES["camera"].parameters if p.name == "topic"]
    assert topic.checked("~/image", "camera") == "~/image"


@pytest.mark.parametrize("words", [["keys", "make", "~/k"], ["memory", "add", "hi", "--store=~/m.db"]])
def test_a_command_writes_below_the_home_folder_and_nowhere_else(words: list[str], home: Path) -> None:
    assert CliRunner().invoke(cli.app, words).exit_code == 0
    assert list(home.iterdir()) and not list(Path.cwd().iterdir())


@pytest.mark.parametrize("word", [f"{NOBODY}/k", f"--store={NOBODY}/m.db"])
def test_a_command_refuses_the_home_of_nobody(word: str) -> None:
    result = CliRunner().invoke(cli.app, ["memory", "export", word])
    assert isinstance(result.exception, ConfigError) and NOBODY in str(result.exception)


@pytest.mark.parametrize("sentence", ["~50 cm ahead and/or back", "~5/6 of a turn left"])
def test_a_sentence_that_begins_with_a_tilde_is_unchanged(sentence: str) -> None:
    result = CliRunner().invoke(cli.app, ["plan", sentence])
    assert f'"{sentence.split()[0]}' in str(result.exception)


def test_a_store_and_its_key_are_made_in_the_home_folder(home: Path) -> None:
    open_memory("~/m.db", "~/m.key").close()
    assert {"m.db", "m.key"} <= {file.name for file in home.iterdir()}
    assert not list(Path.cwd().iterdir())


def test_files_that_the_environment_names_are_in_the_home_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (cache_root(), weights_folder()) == (home / ".cache/outrider", home / ".cache/outrider/weights")
    for name in ("CACHE", "WEIGHTS", "JOURNAL", "CORPUS"):
        monkeypatch.setenv(f"OUTRIDER_{name}", f"~/{name}")
    found = (cache_root(), weights_folder(), journal_at())
    assert found == (home / "CACHE", home / "WEIGHTS", home / "JOURNAL")
    with opened_corpus(may_make=True):
        assert (home / "CORPUS").is_file()


def test_without_a_home_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)
    for ask in (home_folder, cache_root, lambda: in_home("~/k")):
        with pytest.raises(ConfigError, match="write the whole path"):
            ask()
