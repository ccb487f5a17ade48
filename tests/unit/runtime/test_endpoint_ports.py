"""A port that cannot be listened at is refused before anything slow begins."""

from __future__ import annotations

import socket

import pytest

from outrider.core.errors import ConfigError
from outrider.runtime.common.ports import check_endpoint_free, free_port


def test_a_port_that_needs_rights_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    check_endpoint_free(endpoint)

    def refuse(_socket: socket.socket, _address: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(ConfigError, match="rights of root: give an endpoint with a port from 1024 on"):
        check_endpoint_free(endpoint)
