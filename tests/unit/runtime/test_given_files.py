"""A path that should name a file and does not, or an empty file, is refused at once by every reader."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from outrider.cli import app
from outrider.console.server import ConsoleSettings, check_certificate
from outrider.core.errors import ConfigError, OutriderError
from outrider.core.files.journal import Journal
from outrider.core.files.journal_proof import prove
from outrider.core.files.secret_file import load_secret
from outrider.evaluation.robot.frame_tasks import INDEX_FILE, read_tasks
from outrider.evaluation.voice.sentence_sets import read_sentences
from outrider.memory.corpus import read_folder
from outrider.memory.store.keyfile import read_key
from outrider.models.checkpoint.card import read_json
from outrider.runtime.common.links import load_network
from outrider.runtime.node_graph.parameter_files import read_parameter_file
from outrider.runtime.reports.recording import read_steps
from outrider.voice.sound import read_wav
from outrider.wire.keys import load_client_keys, load_server_keys

KINDS = {"pipe": "a pipe", "socket": "a socket", "folder": "a folder", "device": "a device"}


@pytest.fixture(params=KINDS)
def no_file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Yields a path that is no file, to be moved to where a file is expected, and the name of its kind."""
    kind, path = request.param, tmp_path / "it"
    if kind == "pipe":
        os.mkfifo(path, 0o600)
    elif kind == "folder":
        path.mkdir(0o700)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    yield path, KINDS[kind]


def certificate(path: Path) -> object:
    return check_certificate(ConsoleSettings(tls_cert=str(path), tls_key=str(path)))


READERS: dict[str, Callable[[Path], object]] = {
    "run.mcap": read_steps,
    "robot.key": load_client_keys,
    "verifier.key": load_server_keys,
    "console.token": lambda path: load_secret(path, "token"),
    "memory.key": read_key,
    "cert.pem": certificate,
    "command.wav": read_wav,
    "card.json": read_json,
    "nodes.yaml": lambda path: read_parameter_file(path),
    INDEX_FILE: lambda path: read_tasks(path.parent),
    "words.yaml": lambda path: read_sentences(path.parent),
    "robot.journal": prove,
    "robot.journal_key": lambda path: prove(path.with_suffix(".journal")),
    "robot.journal_head": lambda path: prove(path.with_suffix(".journal")),
}


@pytest.mark.parametrize("name", READERS)
def test_what_is_no_file_is_named_at_once(no_file: tuple[Path, str], name: str) -> None:
    given, kind = no_file
    journal = given.with_name("robot.journal")
    if name.startswith("robot.journal"):
        Journal(journal).write("somebody", "said")
        journal.with_name(name).unlink()
    path = given.rename(given.with_name(name))
    if name == "run.mcap" and kind == "a folder":
        pytest.skip("a folder is a recording of rosbag2")
    with pytest.raises(OutriderError) as refused:
        READERS[name](path)
    assert path.name in str(refused.value) and f"it is {kind}, and no file" in str(refused.value)
    assert "[Errno" not in str(refused.value)


@pytest.mark.parametrize("name", ["run.mcap", "robot.journal"])
def test_replay_names_what_is_no_file(no_file: tuple[Path, str], name: str) -> None:
    given, kind = no_file
    path = given.rename(given.with_name(name))
    ended = CliRunner().invoke(app, ["replay", str(path)])
    assert isinstance(ended.exception, ConfigError) and str(path) in str(ended.exception)
    expected = "holds no .mcap file" if (name, kind) == ("run.mcap", "a folder") else f"it is {kind}"
    assert expected in str(ended.exception)


def test_what_is_no_file_is_no_link_and_no_document(no_file: tuple[Path, str]) -> None:
    given, _ = no_file
    with pytest.raises(ConfigError, match="there is no link"):
        load_network(str(given))
    with pytest.raises(ConfigError, match="holds no text"):
        list(read_folder(given))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("run.mcap", "is empty"),
        ("robot.key", "it is empty"),
        ("verifier.key", "it is empty"),
        ("console.token", "shorter than"),
        ("cert.pem", "are no certificate"),
        ("command.wav", "is no WAV file"),
        ("card.json", "cannot be read as JSON"),
        ("nodes.yaml", "must map"),
        (INDEX_FILE, "holds no task"),
        ("words.yaml", "holds no words"),
    ],
)
def test_an_empty_file_is_refused_with_a_reason(tmp_path: Path, name: str, reason: str) -> None:
    path = tmp_path / name
    path.touch(0o600)
    with pytest.raises(OutriderError, match=reason):
        READERS[name](path)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00 {", b"\x00", b"a: {\n\nb: ["])
@pytest.mark.parametrize("name", [*(name for name in READERS if "journal_" not in name), "link.yaml"])
def test_a_damaged_file_is_refused_in_one_line_of_plain_words(
    tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(OutriderError) as refused:
        (READERS | {"link.yaml": lambda path: load_network(str(path))})[name](path)
    message = str(refused.value)
    assert name in message or name == "robot.journal"
    assert not [private for private in ("[Errno", "codec", "\n", "\r") if private in message], message


def test_an_empty_link_or_journal_is_named(tmp_path: Path) -> None:
    path = tmp_path / "link.yaml"
    path.touch()
    with pytest.raises(ConfigError, match="describes no link"):
        load_network(str(path))
    journal = tmp_path / "robot.journal"
    journal.touch(0o600)
    with pytest.raises(ConfigError, match="journal's key"):
        prove(journal)


@pytest.mark.parametrize("name", ["run.mcap", "robot.journal"])
def test_replay_of_what_is_not_there_names_it(tmp_path: Path, name: str) -> None:
    ended = CliRunner().invoke(app, ["replay", str(tmp_path / name)])
    assert isinstance(ended.exception, ConfigError)
    assert name in str(ended.exception) and "No such file" in str(ended.exception)
