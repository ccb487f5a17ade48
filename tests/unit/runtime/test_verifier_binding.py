"""What a verifier cannot listen at is refused before its model is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.core.errors import ConfigError
from outrider.runtime.common.ports import free_port
from outrider.runtime.wiring.binding import check_binding
from outrider.wire.keys import create_keys


@pytest.mark.parametrize(
    "endpoint", ["tcp://192.0.2.1:5757", "tcp://none.invalid:5757", "ipc:///proc/no/verifier"]
)
def test_an_endpoint_that_cannot_be_bound_is_refused(endpoint: str, tmp_path: Path) -> None:
    create_keys(tmp_path)
    with pytest.raises(ConfigError, match=r"cannot bind|does not exist"):
        check_binding(endpoint, tmp_path / "verifier.key")


def test_an_endpoint_that_can_be_bound_is_free_afterwards(tmp_path: Path) -> None:
    create_keys(tmp_path)
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    for _ in range(2):
        check_binding(endpoint, tmp_path / "verifier.key")
