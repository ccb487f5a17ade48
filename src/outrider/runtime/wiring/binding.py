# SPDX-License-Identifier: Apache-2.0
"""Whether a verifier can be reached as it is asked to, told before a model is loaded. Imports no model."""

from __future__ import annotations

from pathlib import Path

from outrider.runtime.common.ports import check_endpoint_free
from outrider.runtime.wiring.metrics import check_port
from outrider.wire.endpoint import check_guarded
from outrider.wire.keys import load_server_keys


def check_binding(endpoint: str, key_file: Path | None, metrics_port: int = 0) -> None:
    """Raises ConfigError as opening a verifier and its page of metrics would."""
    if key_file is not None:
        load_server_keys(key_file)
    check_guarded(endpoint, key_file is not None)
    check_endpoint_free(endpoint)
    if metrics_port:
        check_port(metrics_port)
