# SPDX-License-Identifier: Apache-2.0
"""Checks that a verifier or console can listen, before a model or node starts. Imports no model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.console.access import load_token
from outrider.console.server import ConsoleSettings, check_certificate, listen
from outrider.core.errors import ConfigError
from outrider.runtime.common.ports import check_endpoint_free
from outrider.runtime.wiring.console_relay import robot_end
from outrider.runtime.wiring.metrics import check_port
from outrider.voice.speaking import check_voice
from outrider.wire.endpoint import check_guarded
from outrider.wire.keys import load_server_keys
from outrider.wire.server import check_bindable

SERVED = ("host", "port", "login", "token_file", "tls_cert", "tls_key")
"""The parameters of the console node that say where to serve."""
_PAGE_HOSTS = ("127.0.0.1", "localhost", "*", "0.0.0.0", "[::]")
"""Hosts of an endpoint whose port conflicts with the same port of the Prometheus page."""


def check_binding(endpoint: str, key_file: Path | None, metrics_port: int = 0) -> None:
    """Raise the ConfigError that opening a verifier and its page of metrics would raise."""
    if key_file is not None:
        load_server_keys(key_file)
    check_guarded(endpoint, key_file is not None)
    check_endpoint_free(endpoint)
    if endpoint.startswith("tcp://"):
        check_bindable(endpoint)
    if metrics_port:
        check_port(metrics_port)
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    if metrics_port and host in _PAGE_HOSTS and int(port) == metrics_port:
        raise ConfigError(f"metrics_port={metrics_port} is the port of {endpoint}: choose another")


def settings_of(values: Mapping[str, Any]) -> ConsoleSettings:
    """Returns the server's settings from the parameters of the console node."""
    return ConsoleSettings(**{name: values[name] for name in SERVED})


def check_console(values: Mapping[str, Any]) -> None:
    """Raise ConfigError if a console node with these parameters could not serve."""
    check_voice(values["voice"])
    robot_end(values["relay"], values["relay_key_file"])
    check_server(settings_of(values))


def check_server(settings: ConsoleSettings) -> None:
    """Raise ConfigError if pages cannot be served with these settings. Creates a missing login token."""
    check_certificate(settings)
    if settings.needs_login:
        load_token(settings.token_path)
    listen(settings.host, settings.port).close()
