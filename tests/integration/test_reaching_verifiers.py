"""Reaching a verifier: keys, addresses, other programs that listen, and what the probe reports."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from unittest import mock

import pytest
from support.consoles import wait_until
from support.live_wire import SEED, TARGET, connected, verifier
from support.served_verifier import serve_verifier
from support.toys import own_text, request

from outrider.core.errors import (
    ConfigError,
    KeyRefusedError,
    LinkError,
)
from outrider.core.values import LinkState
from outrider.runtime.wiring.probe import probe_verifier
from outrider.wire.client import DealerLink
from outrider.wire.keys import add_robots, create_keys, revoke_robots


def failure(decoder, deadline_s: float = 0.5) -> str:
    """Returns why a text with a short deadline fails. Just after a change the link may give an old reason."""
    with pytest.raises(LinkError) as raised:
        decoder.decode(request(deadline_s=deadline_s))
    return str(raised.value)


def test_endpoints_in_use_or_unguarded_are_refused(endpoint):
    stop = threading.Event()
    with verifier(endpoint), pytest.raises(ConfigError, match=r"in use.*--endpoint"):
        serve_verifier(TARGET, endpoint, stop=stop)
    with pytest.raises(ConfigError, match="needs keys"):
        serve_verifier(TARGET, "tcp://0.0.0.0:5999", stop=stop)
    with pytest.raises(ConfigError, match="folder that does not exist"):
        serve_verifier(TARGET, "ipc:///nowhere/at/all", stop=stop)


def test_robots_with_known_keys_are_admitted(endpoint, tmp_path):
    server_key, robot_key = create_keys(tmp_path)
    with verifier(endpoint, key_file=server_key):
        with connected(endpoint, key_file=robot_key) as decoder:
            assert decoder.decode(request()).token_ids == own_text(TARGET, request())
        assert probe_verifier(endpoint, 20.0, robot_key).open_sessions <= 1


@pytest.mark.parametrize("bound, dialled", [("[::1]", "[::1]"), ("[::]", "[::1]"), ("[::]", "127.0.0.1")])
def test_addresses_may_be_ipv6(endpoint, tmp_path, bound, dialled):
    _need_ipv6()
    server_key, robot_key = create_keys(tmp_path)
    at, to = (endpoint.replace("127.0.0.1", host) for host in (bound, dialled))
    with verifier(at, key_file=server_key), connected(to, key_file=robot_key) as decoder:
        assert decoder.decode(request()).token_ids == own_text(TARGET, request())


def _need_ipv6() -> None:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError as error:
            pytest.skip(f"no IPv6 here: {error}")


@pytest.mark.parametrize("theirs, ours", [("first", "second"), ("first", None), (None, "first")])
def test_wrong_keys_are_reported_and_right_keys_are_used_at_once(endpoint, tmp_path, theirs, ours):
    keys = {name: create_keys(tmp_path / name) for name in ("first", "second")} | {None: (None, None)}
    (wrong_key, _), (right_key, robot_key) = keys[theirs], keys[ours]
    with connected(endpoint, key_file=robot_key) as decoder:
        with verifier(endpoint, key_file=wrong_key):
            wait_until(lambda: "other keys" in failure(decoder), "the reason")
            assert decoder.link_state is LinkState.MISMATCHED
        with verifier(endpoint, key_file=right_key):
            assert decoder.decode(request(deadline_s=20.0)).token_ids == own_text(TARGET, request())


class _OtherProtocol(socketserver.BaseRequestHandler):
    """Greets each connection in another protocol, then closes it."""

    def handle(self) -> None:
        self.request.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")


def test_a_server_that_is_no_verifier_is_reported_while_it_listens(endpoint):
    port = int(endpoint.rsplit(":", 1)[1])
    with connected(endpoint) as decoder:
        with socketserver.TCPServer(("127.0.0.1", port), _OtherProtocol) as stranger:
            thread = threading.Thread(target=stranger.serve_forever, args=(0.01,))
            thread.start()
            wait_until(lambda: "is no verifier" in failure(decoder), "the reason")
            stranger.shutdown()
            thread.join()
        wait_until(lambda: "cannot be reached" in failure(decoder), "the report that nothing listens")


def test_a_robot_without_an_admitted_key_is_told_so(endpoint, tmp_path):
    server_key, robot_key = create_keys(tmp_path)
    server = json.loads(server_key.read_text())
    server["robots"] = {}
    server_key.write_text(json.dumps(server))
    with verifier(endpoint, key_file=server_key):
        with pytest.raises(LinkError, match="refuses this key"):
            probe_verifier(endpoint, 20.0, robot_key)
        with connected(endpoint, key_file=robot_key) as decoder:
            wait_until(lambda: "refuses this robot's key" in failure(decoder), "the reason")
            assert decoder.link_state is LinkState.REFUSED


def test_a_robot_added_while_the_verifier_runs_is_admitted(endpoint, tmp_path):
    server_key, robot_key = create_keys(tmp_path)
    with verifier(endpoint, key_file=server_key):
        (added,) = add_robots(tmp_path, ("second",))
        assert probe_verifier(endpoint, 20.0, added).max_sessions == 8
        kept = tmp_path / "kept.key"
        robot_key.rename(kept)
        revoke_robots(tmp_path, ("robot",))
        with pytest.raises(KeyRefusedError, match="refuses this key"):
            probe_verifier(endpoint, 20.0, kept)


def test_a_silent_listener_is_distinguished_from_no_listener(endpoint, tmp_path):
    server_key, _ = create_keys(tmp_path / "ours")
    _, stranger_key = create_keys(tmp_path / "theirs")
    with verifier(endpoint, key_file=server_key):
        with pytest.raises(LinkError, match="give --key-file"):
            probe_verifier(endpoint, 0.5)
        with pytest.raises(LinkError, match="does not know this key"):
            probe_verifier(endpoint, 0.5, stranger_key)


def test_the_probe_reports_the_systems_error_for_an_endpoint(tmp_path, monkeypatch):
    file = tmp_path / "verifier"
    with pytest.raises(LinkError, match=f"the path {file} does not exist"):
        probe_verifier(f"ipc://{file}", 0.1)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(file))
        with pytest.raises(LinkError, match="nothing listens there"):
            probe_verifier(f"ipc://{file}", 0.1)
    file.unlink()
    with verifier(f"ipc://{file}"):
        assert probe_verifier(f"ipc://{file}", 20.0).vocab_size == 32
    for error, reported in (
        (socket.gaierror(socket.EAI_NONAME, "unknown"), "the name robot is not known here"),
        (TimeoutError("timed out"), r"cannot be reached \(timed out\)"),
    ):
        monkeypatch.setattr(socket, "create_connection", mock.Mock(side_effect=error))
        with pytest.raises(LinkError, match=reported):
            probe_verifier("tcp://robot:5757", 0.1)


@pytest.mark.parametrize("open_link", [DealerLink, probe_verifier])
def test_endpoints_that_zeromq_cannot_connect_to_are_refused(open_link):
    with pytest.raises(ConfigError, match="cannot connect to ipc://@: "):
        open_link("ipc://@")


def test_the_probe_reports_the_served_model(endpoint):
    with pytest.raises(LinkError, match="no verifier answers"):
        probe_verifier(endpoint, 0.2)
    with pytest.raises(LinkError, match="nothing listens there"):
        probe_verifier(endpoint, 0.2)
    with verifier(endpoint):
        card = probe_verifier(endpoint, 20.0)
    assert (card.model, card.vocab_size, card.max_sessions) == (f"toy-{SEED}", 32, 8)
    assert 0 < card.round_trip_s < 1
