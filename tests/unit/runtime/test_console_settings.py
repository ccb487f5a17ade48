"""What the console node would refuse is refused before a node starts, however a console is opened."""

from __future__ import annotations

import shutil
import socket
import subprocess
from contextlib import closing, nullcontext
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from outrider.console.server import ConsoleSettings, WebServer, check_certificate
from outrider.core.errors import ConfigError
from outrider.core.files.certificate import certificate_hint
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


def make_certificate(folder: Path, begin: datetime, end: datetime) -> str:
    """Writes a certificate valid from `begin` to `end`, after its key in one file. Returns the path."""
    key, cert, both = folder / "key.pem", folder / "cert.pem", folder / "both.pem"
    (folder / "ca.cnf").write_text(
        f"[ca]\ndefault_ca=x\n[x]\ndatabase={folder}/index\nserial={folder}/serial\nnew_certs_dir={folder}\n"
        "default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n"
    )
    (folder / "index").write_text("")
    (folder / "serial").write_text("01\n")
    form = "%Y%m%d%H%M%SZ"
    making = f"req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=x -keyout {key}"
    signing = f"ca -batch -selfsign -config {folder}/ca.cnf -keyfile {key} -in {folder}/csr -out {cert}"
    for command in (
        f"{making} -out {folder}/csr",
        f"{signing} -startdate {begin.strftime(form)} -enddate {end.strftime(form)}",
    ):
        subprocess.run(["openssl", *command.split()], check=True, capture_output=True)
    both.write_bytes(key.read_bytes() + cert.read_bytes())
    return str(both)


DAY = timedelta(days=1)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes the certificate")
@pytest.mark.parametrize(
    ("begin", "end", "told"),
    [
        (-2 * DAY, -DAY, "expired on {end:%Y-%m-%d %H:%M UTC}: renew it"),
        (-80 * 365 * DAY, -70 * 365 * DAY, "expired on {end:%Y-%m-%d %H:%M UTC}: renew it"),
        (DAY, 9 * DAY, "holds from {begin:%Y-%m-%d %H:%M UTC} on: is the clock right?"),
        (-DAY, 10.5 * DAY, "expires on {end:%Y-%m-%d %H:%M UTC}, in 10 days: renew it"),
        (-DAY, 90 * DAY, ""),
        (-DAY, 100 * 365 * DAY, ""),
    ],
)
def test_a_certificate_that_browsers_refuse_now_or_soon_is_reported_when_it_is_served(
    tmp_path: Path, begin: timedelta, end: timedelta, told: str
) -> None:
    now = datetime.now(timezone.utc)
    file = make_certificate(tmp_path, now + begin, now + end)
    settings = ConsoleSettings(
        port=0, login=True, token_file=str(tmp_path / "token"), tls_cert=file, tls_key=file
    )
    with closing(WebServer(settings, lambda _: nullcontext())) as server:  # type: ignore[arg-type]
        words = server.hints
    assert told.format(begin=now + begin, end=now + end) in words
    assert ("its certificate" in words) == bool(told)


@pytest.mark.parametrize(
    "content", ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "\udcff-----"]
)
def test_a_certificate_without_times_is_not_reported(tmp_path: Path, content: str) -> None:
    (tmp_path / "cert.pem").write_text(content, errors="surrogateescape")
    assert certificate_hint(str(tmp_path / "cert.pem")) == ""
    assert certificate_hint(str(tmp_path / "none.pem")) == certificate_hint("") == ""


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes the certificate")
def test_a_key_with_a_pass_phrase_is_refused_and_nobody_is_asked_for_it(tmp_path: Path) -> None:
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    making = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -subj /CN=x -passout pass:four"
    command = ["openssl", *making.split(), "-keyout", key, "-out", cert]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(ConfigError, match="without a pass phrase"):
        check_certificate(ConsoleSettings(tls_cert=cert, tls_key=key))
