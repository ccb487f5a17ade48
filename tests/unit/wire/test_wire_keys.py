"""Key files and endpoints."""

from __future__ import annotations

import contextlib
import errno
import json
import os

import pytest

from outrider.core.errors import ConfigError
from outrider.core.private_files import open_private
from outrider.wire import keys
from outrider.wire.endpoint import check_endpoint, is_loopback
from outrider.wire.keys import create_keys, load_client_keys, load_server_keys


def test_keys_are_made_for_their_owner_only(tmp_path):
    paths = create_keys(tmp_path, ("go2", "spare"))
    assert [path.name for path in paths] == ["verifier.key", "go2.key", "spare.key"]
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o600}
    server, client = load_server_keys(paths[0]), load_client_keys(paths[1])
    assert server.robots["go2"] == client.public
    assert client.server == server.public
    assert len({server.secret, client.secret, load_client_keys(paths[2]).secret}) == 3


def test_existing_keys_are_never_overwritten(tmp_path):
    create_keys(tmp_path)
    with pytest.raises(ConfigError, match="exists already"):
        create_keys(tmp_path)


def test_no_key_is_made_where_one_of_them_exists(tmp_path):
    (tmp_path / "spare.key").symlink_to("nowhere")
    with pytest.raises(ConfigError, match=r"spare\.key exists already"):
        create_keys(tmp_path, ("go2", "spare"))
    assert [path.name for path in tmp_path.iterdir()] == ["spare.key"]


def test_where_the_disk_is_full_amid_them_no_file_is_left(tmp_path, monkeypatch):
    opened = []

    @contextlib.contextmanager
    def full(path, mode):
        with open_private(path, mode) as file:
            opened.append(file)
            yield file
            if len(opened) == 3:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(keys, "open_private", full)
    with pytest.raises(ConfigError, match="No space left on device"):
        create_keys(tmp_path, ("go2", "spare"))
    assert len(opened) == 3 and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "../x", "verifier", "a b"])
def test_bad_robot_names_are_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="robot name"):
        create_keys(tmp_path, (name,))


def test_bad_key_files_are_refused(tmp_path):
    server, client = create_keys(tmp_path)
    with pytest.raises(ConfigError, match="cannot read"):
        load_client_keys(tmp_path / "none.key")
    with pytest.raises(ConfigError, match="not a key file of this kind"):
        load_client_keys(server)
    client.write_text(client.read_text().replace('"public": "', '"public": "x'))
    with pytest.raises(ConfigError, match="damaged"):
        load_client_keys(client)
    client.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        load_client_keys(client)


@pytest.mark.parametrize("damaged", ['"' * 40, "#" * 40, "é" * 40, "0" * 35, "0" * 41, ""])
def test_a_damaged_key_is_found_wherever_it_stands(tmp_path, damaged):
    for path, load in zip(create_keys(tmp_path), (load_server_keys, load_client_keys), strict=True):
        whole = json.loads(path.read_text())
        for field, key in whole.items():
            path.write_text(
                json.dumps(whole | {field: damaged if isinstance(key, str) else {"go2": damaged}})
            )
            with pytest.raises(ConfigError, match=rf"{path.name} holds a damaged key: make new ones"):
                load(path)


@pytest.mark.parametrize(
    "endpoint", ["", "tcp://", "tcp://host", "tcp://host:0", "tcp://host:99999", "udp://h:1"]
)
def test_malformed_endpoints_are_refused(endpoint):
    with pytest.raises(ConfigError, match="must read tcp"):
        check_endpoint(endpoint)


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("tcp://127.0.0.1:5757", True),
        ("tcp://localhost:5757", True),
        ("tcp://[::1]:5757", True),
        ("ipc:///tmp/outrider", True),
        ("tcp://0.0.0.0:5757", False),
        ("tcp://*:5757", False),
        ("tcp://192.168.1.2:5757", False),
        ("tcp://robot:5757", False),
    ],
)
def test_what_only_this_machine_can_reach(endpoint, expected):
    check_endpoint(endpoint)
    assert is_loopback(endpoint) is expected


def test_keys_that_cannot_be_written_are_refused_by_name(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ConfigError, match="cannot make the folder"):
        create_keys(file)
