"""Logins, origins and malformed messages, over real sockets."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from support.consoles import FakeRobot, Page
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from outrider.console.access import SESSION_S, Access, cookie_name, is_loopback, load_token, same_origin
from outrider.console.app import MAX_WEBSOCKETS
from outrider.console.limits import ConsoleLimits
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.core.errors import ConfigError

STATIC = Path(__file__).resolve().parents[3] / "src" / "outrider" / "console" / "static"


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "console.token"


@pytest.fixture
def guarded(robot: FakeRobot, token_file: Path) -> Iterator[ConsoleServer]:
    """Yields a console that asks for a login."""
    server = ConsoleServer(robot, ConsoleSettings(port=0, login=True, token_file=str(token_file)))
    yield server
    server.close()


@pytest.fixture
def open_to_all(robot: FakeRobot) -> Iterator[ConsoleServer]:
    server = ConsoleServer(robot, ConsoleSettings(port=0))
    yield server
    server.close()


def ask(
    server: ConsoleServer, path: str, body: str | None = None, **headers: str
) -> tuple[http.client.HTTPResponse, str]:
    """Sends a request, as a page of this server unless `headers` differ. Returns the answer and its body."""
    address = f"127.0.0.1:{server.port}"
    connection = http.client.HTTPConnection(address, timeout=10)
    given = {"Host": address, "Origin": f"http://{address}", **headers}
    connection.request("GET" if body is None else "POST", path, body, given)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response, text


def log_in(server: ConsoleServer, token: str) -> http.client.HTTPResponse:
    return ask(server, "/login", urlencode({"token": token}))[0]


def cookie_of(response: http.client.HTTPResponse) -> str:
    return (response.getheader("set-cookie") or "").partition(";")[0]


def test_the_token_opens_the_console(guarded: ConsoleServer, token_file: Path) -> None:
    first, _ = ask(guarded, "/")
    assert (first.status, first.getheader("location")) == (303, "/login")
    response = log_in(guarded, token_file.read_text().strip())
    assert (response.status, response.getheader("location")) == (303, "/")
    attributes = (response.getheader("set-cookie") or "").lower()
    assert "httponly" in attributes and "samesite=strict" in attributes
    page, text = ask(guarded, "/", Cookie=cookie_of(response))
    assert page.status == 200 and "e-stop" in text
    assert Page(guarded, cookie=cookie_of(response)).name == "viewer 1"


@pytest.mark.parametrize("token", ["", "wrong", "wrong" * 100, "ü", "a" * 5000])
def test_a_wrong_token_opens_nothing(guarded: ConsoleServer, token: str) -> None:
    response = log_in(guarded, token)
    assert (response.status, response.getheader("location")) == (303, "/login?wrong")
    assert not cookie_of(response)


@pytest.mark.parametrize("value", ["", "=", "=forged"])
def test_without_a_session_there_is_nothing(guarded: ConsoleServer, robot: FakeRobot, value: str) -> None:
    cookie = cookie_name(f"127.0.0.1:{guarded.port}") + value if value else ""
    with pytest.raises(InvalidStatus) as refused:
        Page(guarded, cookie=cookie)
    assert refused.value.response.status_code == 403
    assert robot.e_stops == []


def test_a_login_at_another_port_of_this_host_ends_none(
    guarded: ConsoleServer, robot: FakeRobot, token_file: Path
) -> None:
    """As with a relay on the console's host: a browser sends the cookies of both to both."""
    other = ConsoleServer(robot, ConsoleSettings(port=0, login=True, token_file=str(token_file)))
    try:
        token = token_file.read_text()
        kept = dict(cookie_of(log_in(one, token)).split("=", 1) for one in (guarded, other))
        cookie = "; ".join(f"{name}={value}" for name, value in kept.items())
        assert [ask(one, "/", Cookie=cookie)[0].status for one in (guarded, other)] == [200, 200]
    finally:
        other.close()


@pytest.mark.parametrize("host", ["", "robot", "[::1]", "robot:", "robot:https", "robot:٣", "a:b; Path=/"])
def test_a_host_without_a_port_has_the_plain_cookie(host: str) -> None:
    assert cookie_name(host) == cookie_name("robot") != cookie_name("robot:8080")


def test_the_emergency_stop_needs_no_session_and_its_release_does(
    guarded: ConsoleServer, robot: FakeRobot
) -> None:
    assert ask(guarded, "/e_stop", "")[0].status == 200
    assert ask(guarded, "/e_stop", '{"do": "e_stop", "engaged": false}')[0].status == 200
    assert robot.e_stops == [True, True]


@pytest.mark.parametrize("limits", [ConsoleLimits(hello_s=60.0)])
def test_the_emergency_stop_is_served_where_nothing_else_is(server: ConsoleServer, robot: FakeRobot) -> None:
    page, address = Page(server), f"127.0.0.1:{server.port}"
    with ExitStack() as opened:
        for _ in range(MAX_WEBSOCKETS - 1):
            silent = connect(f"ws://{address}/ws", origin=f"http://{address}", proxy=None)  # type: ignore[arg-type]
            opened.enter_context(silent)
        assert ask(server, "/")[0].status == 503
        with pytest.raises(InvalidStatus):
            Page(server)
        assert ask(server, "/e_stop", "")[0].status == 200
        page.read("state", e_stop=True)
    assert robot.e_stops == [True]


def test_an_open_page_whose_session_ends_may_stop_and_nothing_else(
    guarded: ConsoleServer, robot: FakeRobot, token_file: Path
) -> None:
    cookie = cookie_of(log_in(guarded, token_file.read_text()))
    page = Page(guarded, cookie=cookie)
    guarded._web._access._clock = lambda: time.monotonic() + SESSION_S
    page.send(do="e_stop", engaged=True)
    page.read("state", e_stop=True)
    page.send(do="say", text="find the red chair")
    assert page.closed() == 1008 and robot.goals == []
    with pytest.raises(InvalidStatus):
        Page(guarded, cookie=cookie)


def test_sessions_end_by_themselves_and_are_bounded() -> None:
    time_s = [0.0]
    access = Access("t" * 20, clock=lambda: time_s[0])
    first = access.log_in("t" * 20)
    assert first and access.admits(first)
    for time_s[0] in range(1, 65):
        access.log_in("t" * 20)
    assert not access.admits(first)
    last = access.log_in("t" * 20)
    time_s[0] += 13 * 3600.0
    assert not access.admits(last)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
def test_a_page_of_another_origin_is_refused(
    open_to_all: ConsoleServer, robot: FakeRobot, origin: str
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        Page(open_to_all, origin=origin)
    assert refused.value.response.status_code == 403
    assert ask(open_to_all, "/e_stop", "", Origin=origin)[0].status == 403
    assert robot.e_stops == []


def test_a_websocket_without_an_origin_is_refused(open_to_all: ConsoleServer) -> None:
    with pytest.raises(InvalidStatus):
        connect(f"ws://127.0.0.1:{open_to_all.port}/ws", proxy=None).__enter__()


def test_a_name_that_a_web_page_pointed_here_is_turned_away(open_to_all: ConsoleServer) -> None:
    host = f"evil.example:{open_to_all.port}"
    response, text = ask(open_to_all, "/", Host=host, Origin=f"http://{host}")
    assert response.status == 400 and "name of this machine" in text


def test_the_emergency_stop_works_without_a_websocket(open_to_all: ConsoleServer, robot: FakeRobot) -> None:
    assert ask(open_to_all, "/e_stop", "")[0].status == 200
    assert robot.e_stops == [True]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "hello",
        "[]",
        '{"do": "fly"}',
        '{"do": "take", "more": 1}',
        '{"do": "drive", "forward": 1.5, "left": 0, "turn": 0, "beat": 0}',
        '{"do": "drive", "forward": NaN, "left": 0, "turn": 0, "beat": 0}',
        '{"do": "drive", "forward": "1", "left": 0, "turn": 0, "beat": 0}',
        '{"do": "say", "text": ""}',
        json.dumps({"do": "say", "text": "a" * 401}),
        "[" * 2000,
        "x" * 3000,
        b"\x00\x01",
    ],
)
def test_a_malformed_message_ends_its_own_connection_alone(
    open_to_all: ConsoleServer, robot: FakeRobot, content: str | bytes
) -> None:
    page, other = Page(open_to_all), Page(open_to_all)
    page.socket.send(content)
    assert page.closed() in (1008, 1009)
    other.send(do="take")
    other.read("state", driver=other.name)
    assert robot.drives == [] and robot.goals == []


@pytest.mark.lengthy
def test_a_viewer_who_floods_is_shut_out(open_to_all: ConsoleServer) -> None:
    page = Page(open_to_all)
    for _ in range(500):
        with contextlib.suppress(ConnectionClosed):
            page.send(do="ping", sent_ms=0.0)
    assert page.closed() == 1008


def test_the_first_message_is_a_hello(open_to_all: ConsoleServer) -> None:
    address = f"127.0.0.1:{open_to_all.port}"
    origin: Any = f"http://{address}"
    with connect(f"ws://{address}/ws", origin=origin, proxy=None) as page:
        page.send('{"do": "take"}')
        with pytest.raises(Exception, match="hello"):
            page.recv(timeout=10)


def test_the_token_file_is_made_once_for_its_owner_alone(token_file: Path) -> None:
    token = load_token(token_file)
    assert len(token) >= 32 and load_token(token_file) == token
    assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
    token_file.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        load_token(token_file)


def test_a_short_token_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_text("1234\n")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="shorter than 16"):
        load_token(path)


def test_the_token_is_not_logged(
    guarded: ConsoleServer,
    token_file: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    token = token_file.read_text().strip()
    log_in(guarded, token)
    log_in(guarded, token[:-1])
    assert token[:-1] not in caplog.text + "".join(capfd.readouterr())


def test_off_the_loopback_a_login_is_asked_for() -> None:
    for host in ("127.0.0.1", "127.3.2.1", "localhost", "::1"):
        assert is_loopback(host) and not ConsoleSettings(host=host).needs_login
    for host in ("0.0.0.0", "::", "192.168.1.7", "robot.local", ""):
        assert not is_loopback(host) and ConsoleSettings(host=host).needs_login


def test_origins() -> None:
    assert same_origin("http://a:1", "a:1") and same_origin("https://A", "a")
    for origin, host in (
        (None, "a"),
        ("http://a", None),
        ("http://a:1", "a"),
        ("null", "a"),
        ("", ""),
        ("http://[::1", "[::1]"),
    ):
        assert not same_origin(origin, host)


def test_what_cannot_be_served_is_said(robot: FakeRobot, open_to_all: ConsoleServer, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"port {open_to_all.port}"):
        ConsoleServer(robot, ConsoleSettings(port=open_to_all.port))
    with pytest.raises(ConfigError, match="belong together"):
        ConsoleServer(robot, ConsoleSettings(port=0, tls_cert="cert.pem"))
    with pytest.raises(ConfigError, match="tls_cert"):
        ConsoleServer(
            robot, ConsoleSettings(port=0, tls_cert=str(tmp_path / "c"), tls_key=str(tmp_path / "k"))
        )
    for host in ("no such host", "127.0.0..1", "a" * 64, "\udcff"):
        with pytest.raises(ConfigError, match="host"):
            ConsoleServer(robot, ConsoleSettings(host=host, login=False, token_file=str(tmp_path / "t")))


def test_nothing_of_the_page_comes_from_elsewhere(open_to_all: ConsoleServer) -> None:
    for path in STATIC.iterdir():
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text.replace("${scheme}//", ""), path.name
        response, served = ask(open_to_all, f"/static/{path.name}")
        assert response.status == 200 and served == path.read_text()
    policy = ask(open_to_all, "/")[0].getheader("content-security-policy") or ""
    assert "default-src 'self'" in policy


def test_a_server_that_closes_says_so_to_its_pages(robot: FakeRobot) -> None:
    server = ConsoleServer(robot, ConsoleSettings(port=0))
    page = Page(server)
    port = server.port
    server.close()
    assert page.closed() in (1001, 1006, 1012)
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
        pass


@pytest.mark.parametrize(
    ("host", "certificate", "expected"),
    [
        ("127.0.0.1", "", "http://127.0.0.1:8088/"),
        ("::1", "", "http://[::1]:8088/"),
        ("192.0.2.7", "console.pem", "https://192.0.2.7:8088/"),
        ("0.0.0.0", "", f"http://{socket.gethostname()}:8088/"),
    ],
)
def test_the_address_that_is_told_can_be_opened(host: str, certificate: str, expected: str) -> None:
    assert ConsoleSettings(host=host, tls_cert=certificate).url_at(8088) == expected
