"""The verifier node reports what it refuses in /diagnostics."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest
import zmq
from conftest import Client, NodeThread, wait_until
from diagnostic_msgs.msg import DiagnosticArray

from outrider.core.errors import OutriderError
from outrider.nodes.navigator.verifier_node import VerifierNode
from outrider.runtime.common.ports import free_port
from outrider.runtime.wiring.probe import probe_verifier

pytestmark = pytest.mark.ros


def diagnostics_of(messages: list[DiagnosticArray], name: str) -> dict[str, str]:
    """Returns the newest diagnostic values of a node."""
    values = [
        {pair.key: pair.value for pair in status.values}
        for message in list(messages)
        for status in message.status
        if status.name == name
    ]
    return values[-1] if values else {}


def test_a_malformed_frame_is_counted_in_the_diagnostics(
    run_node: Callable[..., NodeThread], client: Client, tiny_model_folder: Path
) -> None:
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    messages = client.listen(DiagnosticArray, "/diagnostics", 10)
    parameters = {"endpoint": endpoint, "model": str(tiny_model_folder / "target")}
    run_node(lambda: VerifierNode(parameters))
    context = zmq.Context()
    peer = context.socket(zmq.DEALER)
    peer.connect(endpoint)
    peer.send(b"\x63 no frame")
    try:
        values = wait_until(
            lambda: (
                (found := diagnostics_of(messages, "outrider/verifier")).get("malformed") == "1" and found
            ),
            "the malformed frame in /diagnostics",
        )
    finally:
        context.destroy(linger=0)
    assert values["endpoint"] == endpoint
    assert (values["refused_protocol"], values["flooded"], values["open_sessions"]) == ("1", "0", "0")


def test_the_places_and_the_page_for_prometheus_are_parameters(
    run_node: Callable[..., NodeThread], tiny_model_folder: Path
) -> None:
    port = free_port()
    given = {
        "endpoint": f"tcp://127.0.0.1:{free_port()}",
        "model": str(tiny_model_folder / "target"),
        "metrics_port": port,
    }
    limits = {"max_sessions": 3, "tokens_per_s": 200.0}
    running = run_node(lambda: VerifierNode({**given, **limits}))
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10.0) as page:
        assert "outrider_max_sessions 3.0" in page.read().decode()
    assert probe_verifier(str(given["endpoint"]), 20.0).max_sessions == 3
    running.stop()
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(OutriderError, match=f"metrics_port={port}"),
    ):
        run_node(lambda: VerifierNode(given))
    run_node(lambda: VerifierNode(given))
    assert probe_verifier(str(given["endpoint"]), 20.0).max_sessions == 8


def test_a_verifier_may_hold_a_draft_of_its_own(
    run_node: Callable[..., NodeThread], tiny_model_folder: Path
) -> None:
    given = {
        "endpoint": f"tcp://127.0.0.1:{free_port()}",
        "model": str(tiny_model_folder / "target"),
        "draft_model": str(tiny_model_folder / "draft"),
    }
    run_node(lambda: VerifierNode(given))
    assert probe_verifier(str(given["endpoint"]), 20.0).max_sessions == 8
    for draft, wrong in (("/nowhere", "nowhere"), ("head", "has no draft head")):
        given |= {"endpoint": f"tcp://127.0.0.1:{free_port()}", "draft_model": draft}
        with pytest.raises(OutriderError, match=wrong):
            run_node(partial(VerifierNode, given))


def test_what_is_wrong_with_the_endpoint_is_told_before_the_model_is_loaded(
    run_node: Callable[..., NodeThread], tmp_path: Path
) -> None:
    def start(endpoint: str, key_file: str = "") -> None:
        nothing = str(tmp_path / "no_model")
        run_node(lambda: VerifierNode({"endpoint": endpoint, "key_file": key_file, "model": nothing}))

    port = free_port()
    with pytest.raises(OutriderError, match="which needs keys"):
        start(f"tcp://0.0.0.0:{port}")
    with pytest.raises(OutriderError, match=r"no\.key"):
        start(f"tcp://127.0.0.1:{port}", str(tmp_path / "no.key"))
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(OutriderError, match=f"port {port} is in use"),
    ):
        start(f"tcp://127.0.0.1:{port}")
    with pytest.raises(OutriderError, match="no_model"):
        start(f"tcp://127.0.0.1:{port}")
