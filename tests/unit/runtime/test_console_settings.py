"""What the console node would refuse is refused before a node starts, by all that opens a console."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from outrider.console.server import ConsoleSettings, check_certificate
from outrider.core.errors import ConfigError
from outrider.runtime.no_ros.agents import AgentOptions, serve_agents
from outrider.runtime.node_graph.observer_specs import CONSOLE
from outrider.runtime.processes import demo, teleop
from outrider.runtime.wiring.binding import check_console

WRONG = [
    ({"tls_cert": "cert.pem"}, "belong together"),
    ({"tls_key": "key.pem"}, "belong together"),
    ({"tls_cert": "/proc/no.pem", "tls_key": "/proc/no.pem"}, "/proc/no.pem"),
    ({"tls_cert": __file__, "tls_key": __file__}, "PEM"),
    ({"host": "nowhere.invalid"}, "nowhere.invalid"),
    ({"login": True, "token_file": "/proc/token"}, "/proc/token"),
    ({"relay": "tcp://127.0.0.1:5758"}, "relay_key_file"),
    ({"relay": "127.0.0.1"}, "tcp://HOST:PORT"),
    ({"relay": "tcp://127.0.0.1:5758", "relay_key_file": "/proc/no.key"}, "/proc/no.key"),
]
SERVED = ("host", "login", "token_file", "tls_cert", "tls_key")


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    for module in (demo, teleop):
        monkeypatch.setattr(module, "Supervisor", start)


@pytest.mark.parametrize(("given", "told"), WRONG)
def test_a_console_that_cannot_serve_is_refused_before_a_node_starts(
    given: dict[str, bool | str], told: str
) -> None:
    settings = {"port": 0, **given}
    for refused in (
        lambda: teleop.run_console(settings),
        lambda: teleop.run_simulated(settings, {}),
        lambda: check_console(CONSOLE.checked(settings)),
    ):
        with pytest.raises(ConfigError, match=told):
            refused()


@pytest.mark.parametrize(("given", "told"), [one for one in WRONG if set(one[0]) <= set(SERVED)])
def test_agents_over_http_are_refused_before_the_simulation_is_built(
    given: dict[str, bool | str], told: str, tmp_path: Path
) -> None:
    pytest.importorskip("mcp")
    http = {"port": 0, "token_file": str(tmp_path / "t"), "tls_cert": "", "tls_key": "", **given}
    with pytest.raises(ConfigError, match=told):
        serve_agents(AgentOptions(console=""), {}, http)


def test_a_port_that_is_taken_is_refused_before_a_node_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=str(port)):
            teleop.run_console({"port": port})
        with pytest.raises(ConfigError, match=str(port)):
            demo.run_demo("turn left", out=tmp_path, console=True, console_port=port)


def test_what_can_serve_is_let_pass_and_its_port_is_free_after() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    check_console(CONSOLE.checked({"port": port}))
    socket.create_server(("127.0.0.1", port)).close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes the certificate")
def test_a_key_with_a_pass_phrase_is_refused_and_nobody_is_asked_for_it(tmp_path: Path) -> None:
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    making = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -subj /CN=x -passout pass:four"
    command = ["openssl", *making.split(), "-keyout", key, "-out", cert]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(ConfigError, match="without a pass phrase"):
        check_certificate(ConsoleSettings(tls_cert=cert, tls_key=key))
