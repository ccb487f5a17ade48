"""Key files and endpoints."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from outrider.core.errors import ConfigError
from outrider.wire import keys
from outrider.wire.endpoint import check_endpoint, is_loopback
from outrider.wire.keys import (
    KnownRobots,
    ServerKeys,
    add_robots,
    create_keys,
    load_client_keys,
    load_server_keys,
    revoke_robots,
)
from outrider.wire.server import RouterServer, check_bindable


def test_key_files_are_readable_by_their_owner_only(tmp_path):
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


def test_if_the_disk_fills_up_no_key_file_is_left(tmp_path):
    (tmp_path / "spare.key.partial").symlink_to("/dev/full")
    with pytest.raises(
        ConfigError, match=r"cannot write .*spare\.key \(No space left on device\): make room"
    ):
        create_keys(tmp_path, ("go2", "spare"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "../x", "verifier", "a b"])
def test_bad_robot_names_are_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="robot name"):
        create_keys(tmp_path, (name,))


def test_bad_key_files_are_refused(tmp_path):
    server, client = create_keys(tmp_path)
    with pytest.raises(ConfigError, match="cannot read"):
        load_client_keys(tmp_path / "none.key")
    with pytest.raises(ConfigError, match=r"not a key file of a robot .*: give the one"):
        load_client_keys(server)
    with pytest.raises(ConfigError, match=r"not a key file of a verifier .*: give the one"):
        load_server_keys(client)
    client.write_text(client.read_text().replace('"public": "', '"public": "x'))
    with pytest.raises(ConfigError, match="damaged"):
        load_client_keys(client)
    client.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        load_client_keys(client)


@pytest.mark.parametrize("damaged", ['"' * 40, "#" * 40, "é" * 40, "0" * 35, "0" * 41, ""])
def test_a_damaged_key_is_detected_in_every_field(tmp_path, damaged):
    for path, load in zip(create_keys(tmp_path), (load_server_keys, load_client_keys), strict=True):
        whole = json.loads(path.read_text())
        for field, key in whole.items():
            path.write_text(
                json.dumps(whole | {field: damaged if isinstance(key, str) else {"go2": damaged}})
            )
            with pytest.raises(ConfigError, match=rf"{path.name} holds a damaged key: make new ones"):
                load(path)


def test_a_mismatched_key_pair_is_detected(tmp_path):
    paths = create_keys(tmp_path), create_keys(tmp_path / "others")
    for mine, other, load in zip(*paths, (load_server_keys, load_client_keys), strict=True):
        for field in ("public", "secret"):
            mixed = json.loads(mine.read_text()) | {field: json.loads(other.read_text())[field]}
            (tmp_path / "mixed.key").write_text(json.dumps(mixed))
            (tmp_path / "mixed.key").chmod(0o600)
            with pytest.raises(ConfigError, match="holds a damaged key"):
                load(tmp_path / "mixed.key")


@pytest.mark.parametrize(
    ("begin", "end"), [("\ufeff", "\n"), ("", "\r\n"), ("\n\n", "\n\n"), ("\ufeff", "\r\n")]
)
def test_what_an_editor_adds_to_a_key_file_does_not_matter(tmp_path, begin, end):
    for path, load in zip(create_keys(tmp_path), (load_server_keys, load_client_keys), strict=True):
        keys = load(path)
        path.write_bytes((begin + path.read_text().strip().replace("\n", end) + end).encode())
        assert load(path) == keys


@pytest.mark.parametrize(
    "endpoint",
    [
        *("", "tcp://", "tcp://host", "tcp://host:0", "tcp://host:99999", "udp://h:1", "ipc://"),
        *("tcp://a b:1", "tcp://host :1", " tcp://host:1", "tcp://host:1\n", "tcp://-:1", "tcp://bücher:1"),
    ],
)
def test_malformed_endpoints_are_refused(endpoint):
    with pytest.raises(ConfigError, match="must read tcp"):
        check_endpoint(endpoint)


@pytest.mark.parametrize("path", ["/tmp/\udcff", "/tmp/a\0b", "/tmp/a\nb"])
@pytest.mark.parametrize("to_bind", [False, True])
def test_a_path_that_is_no_text_is_refused(path, to_bind):
    with pytest.raises(ConfigError, match="no text"):
        check_endpoint("ipc://" + path, to_bind)


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
        ("tcp://[::]:5757", False),
        ("tcp://[fe80::1%eth0]:5757", False),
        ("tcp://robot:5757", False),
    ],
)
def test_what_only_this_machine_can_reach(endpoint, expected):
    check_endpoint(endpoint, to_bind=True)
    assert is_loopback(endpoint) is expected


def test_the_wildcard_address_is_only_for_binding():
    check_endpoint("tcp://*:5757", to_bind=True)
    with pytest.raises(ConfigError, match="can only listen"):
        check_endpoint("tcp://*:5757")


@pytest.mark.parametrize("letter", ["a", "ü"])
@pytest.mark.parametrize("to_bind", [False, True])
def test_a_path_is_as_long_as_a_sockets_may_be(letter, to_bind):
    most = 107 // len(letter.encode())
    check_endpoint("ipc://" + letter * most, to_bind)
    with pytest.raises(ConfigError, match="107 bytes"):
        check_endpoint("ipc://" + letter * (most + 1), to_bind)


def test_a_path_to_bind_is_in_a_folder_that_exists(tmp_path):
    check_endpoint(f"ipc://{tmp_path}/none/verifier")
    with pytest.raises(ConfigError, match="folder that does not exist"):
        check_endpoint(f"ipc://{tmp_path}/none/verifier", to_bind=True)


@pytest.mark.parametrize("host", ["192.0.2.1", "[2001:db8::1]", "none.invalid"])
def test_what_is_no_address_of_this_machine_cannot_be_bound(host):
    with pytest.raises(ConfigError, match="an address of this machine"):
        check_bindable(f"tcp://{host}:5757")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "*", "0.0.0.0", "[::]"])
def test_an_address_of_this_machine_is_tried_at_another_port(host):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        check_bindable(f"tcp://{host}:{taken.getsockname()[1]}")


def test_no_socket_is_bound_in_place_of_a_file(tmp_path):
    """libzmq would remove the file."""
    file = tmp_path / "notes"
    file.write_text("precious")
    for bind in (
        lambda: check_endpoint(f"ipc://{file}", to_bind=True),
        lambda: RouterServer(f"ipc://{file}"),
    ):
        with pytest.raises(ConfigError, match="no socket"):
            bind()
    assert file.read_text() == "precious"
    check_endpoint(f"ipc://{file}")


def test_no_socket_is_bound_in_place_of_a_listening_one(tmp_path):
    endpoint = f"ipc://{tmp_path}/verifier"
    with closing(RouterServer(endpoint)), pytest.raises(ConfigError, match="in use"):
        RouterServer(endpoint)
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(f"{tmp_path}/killed")
    RouterServer(f"ipc://{tmp_path}/killed").close()


def test_keys_that_cannot_be_written_are_refused_by_name(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ConfigError, match="cannot make the folder"):
        create_keys(file)


def test_an_added_robot_is_admitted_and_a_revoked_one_is_not(tmp_path):
    server_key, robot_key = create_keys(tmp_path, ("go2",))
    known = KnownRobots(load_server_keys(server_key), server_key)
    first = load_client_keys(robot_key).public.encode()
    assert first in known and b"x" * 40 not in known
    (added,) = add_robots(tmp_path, ("spare",))
    second = load_client_keys(added)
    assert second.public.encode() in known and second.server == load_server_keys(server_key).public
    revoke_robots(tmp_path, ("go2",))
    assert first not in known and second.public.encode() in known
    assert not robot_key.exists() and (server_key.stat().st_mode & 0o777) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["spare.key", "verifier.key"]


def test_if_the_key_file_cannot_be_read_no_robot_is_admitted(tmp_path):
    server_key, robot_key = create_keys(tmp_path)
    known = KnownRobots(load_server_keys(server_key), server_key)
    server_key.write_text("damaged")
    assert load_client_keys(robot_key).public.encode() not in known
    server_key.unlink()
    assert load_client_keys(robot_key).public.encode() not in known


def test_a_key_file_that_is_readable_again_is_used_again(tmp_path, caplog):
    server_key, robot_key = create_keys(tmp_path)
    key = load_client_keys(robot_key).public.encode()
    known = KnownRobots(load_server_keys(server_key), server_key)
    assert key in known
    server_key.write_text(server_key.read_text() + "\n")
    server_key.chmod(0o644)
    assert key not in known and key not in known
    server_key.chmod(0o600)  # as the message says: it changes neither content nor time of the file
    assert key in known
    assert [record.message for record in caplog.records if "nobody is let in" in record.message] == [
        f"nobody is let in until this is mended: {server_key} is open to other users: "
        f"run `chmod 600 {server_key}`"
    ]


def test_a_robot_revoked_while_a_verifier_starts_is_not_admitted(tmp_path):
    server_key, robot_key = create_keys(tmp_path, ("go2",))
    key, read = load_client_keys(robot_key).public.encode(), load_server_keys(server_key)
    revoke_robots(tmp_path, ("go2",))
    assert key not in KnownRobots(read, server_key)


CHANGE = """
import sys
from pathlib import Path
from outrider.wire import keys
print(flush=True)
sys.stdin.readline()
getattr(keys, sys.argv[1])(Path(sys.argv[2]), tuple(sys.argv[3:]))
"""


@pytest.mark.lengthy
def test_concurrent_changes_of_the_key_file_are_all_kept(tmp_path):
    create_keys(tmp_path, ("lost",))
    changes = [("add_robots", f"go{number}") for number in range(4)] + [("revoke_robots", "lost")]
    with contextlib.ExitStack() as ending:
        changing = [
            ending.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", CHANGE, change, str(tmp_path), robot],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            )
            for change, robot in changes
        ]
        for process in changing:
            process.stdout.readline()
        for process in changing:
            process.stdin.close()
    assert [process.returncode for process in changing] == [0] * len(changes)
    robots = load_server_keys(tmp_path / "verifier.key").robots
    assert sorted(robots) == ["go0", "go1", "go2", "go3"]


def test_a_key_file_behind_a_symbolic_link_is_not_replaced(tmp_path):
    server_key, _ = create_keys(tmp_path / "keys", ("go2",))
    server_key.rename(tmp_path / "elsewhere.key")
    server_key.symlink_to(tmp_path / "elsewhere.key")
    for change in (add_robots, revoke_robots):
        with pytest.raises(ConfigError, match="is a link"):
            change(tmp_path / "keys", ("spare" if change is add_robots else "go2",))
    assert list(load_server_keys(tmp_path / "elsewhere.key").robots) == ["go2"]
    assert sorted(path.name for path in (tmp_path / "keys").iterdir()) == ["go2.key", "verifier.key"]


def test_keys_that_cannot_be_added_or_revoked_change_nothing(tmp_path):
    server_key, _ = create_keys(tmp_path, ("go2",))
    before = server_key.read_text()
    (tmp_path / "third.key").write_text("in the way")
    for robots, message in (
        (("second", "go2"), "already"),
        (("../x",), "robot name"),
        (("second", "third"), "exists"),
    ):
        with pytest.raises(ConfigError, match=message):
            add_robots(tmp_path, robots)
    with pytest.raises(ConfigError, match=r"not on the list.*go2"):
        revoke_robots(tmp_path, ("go2", "nobody"))
    with pytest.raises(ConfigError, match="cannot read"):
        add_robots(tmp_path / "nowhere", ("go2",))
    assert server_key.read_text() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["go2.key", "third.key", "verifier.key"]


@pytest.mark.parametrize("num_lines", range(1, 10))
def test_a_revoked_robot_is_refused_though_another_thread_still_reads_the_old_list(
    num_lines, tmp_path, monkeypatch
):
    """The other thread, which has read the old list, goes on after `num_lines` lines of the new query."""
    create_keys(tmp_path, ("kept", "revoked"))
    path, read, goes_on = tmp_path / "verifier.key", threading.Event(), threading.Event()
    known = KnownRobots(load_server_keys(path), path)

    def load_and_wait(path: Path) -> ServerKeys:
        loaded = load_server_keys(path)
        if threading.current_thread() is other:
            read.set()
            goes_on.wait(60.0)
        return loaded

    monkeypatch.setattr(keys, "load_server_keys", load_and_wait)
    other = threading.Thread(target=lambda: known.names)
    other.start()
    assert read.wait(60.0)
    revoke_robots(tmp_path, ("revoked",))
    lines = 0

    def trace(frame, what, _):
        nonlocal lines
        if frame.f_code is not KnownRobots._newest.__code__:
            return None
        lines += what == "line"
        if lines == num_lines:
            goes_on.set()
            other.join(60.0)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert known.names in (("kept",), ("kept", "revoked"))
    finally:
        sys.settrace(before)
        goes_on.set()
        other.join(60.0)
    assert known.names == ("kept",)
