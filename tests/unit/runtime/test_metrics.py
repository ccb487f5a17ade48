"""The page for Prometheus, parsed as Prometheus parses it."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.toys import own_text, request, toy_pair
from typer.testing import CliRunner

from outrider import cli
from outrider.core.errors import BusyError, ConfigError
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.protocol.limits import CloudLimits
from outrider.runtime.common.ports import free_port
from outrider.runtime.wiring import decoders
from outrider.runtime.wiring.decoders import connect_decoder, serve
from outrider.runtime.wiring.metrics import MAX_READERS, metrics_page, only
from outrider.runtime.wiring.verifier import open_verifier
from outrider.wire.server import RouterServer, ServerCounters


def read(port: int) -> dict[str, float]:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10.0) as page:
        families = text_string_to_metric_families(page.read().decode())
        return {
            sample.name + "".join(sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
        }


@pytest.mark.lengthy
def test_the_page_shows_the_counters_of_the_verifier() -> None:
    target, draft = toy_pair(1, 0.8)
    endpoint, port, stop = f"tcp://127.0.0.1:{free_port()}", free_port(), threading.Event()
    verifier = open_verifier(target, endpoint, CloudLimits(max_sessions=1))
    serving = threading.Thread(target=verifier.serve, args=(stop,))
    serving.start()
    first, second = (connect_decoder(endpoint, draft, DecodingConfig(strategy="sd")) for _ in range(2))
    try:
        text = first.decode(request()).token_ids
        with pytest.raises(BusyError):
            second.decode(request(deadline_s=0.5))
    finally:
        first.close()
        second.close()
        stop.set()
        serving.join()
    with metrics_page(only(verifier.figures), 1, port):
        values = read(port)
    assert text == own_text(target, request())
    assert values["outrider_tokens_total"] == len(text)
    assert 0 < values["outrider_rounds_total"] <= values["outrider_batch_sessions_sum"] < len(text)
    assert values["outrider_batch_sessions_count"] == values["outrider_batch_seconds_count"] > 0
    assert values["outrider_queue_wait_seconds_sum"] >= 0.0
    assert values["outrider_refusals_totalbusy"] >= 1
    assert values["outrider_bytes_up_total"] > values["outrider_bytes_down_total"] > 0
    assert values["outrider_max_sessions"] == 1


@pytest.mark.lengthy
def test_idle_connections_take_few_descriptors_and_the_page_is_there_after_them() -> None:
    port = free_port()
    with metrics_page(only(lambda: {"tokens": 3.0}), 1, port), ExitStack() as idle:
        before = len(list(Path("/proc/self/fd").iterdir()))
        opened = [idle.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(100)]
        for connection in opened[MAX_READERS:]:
            connection.settimeout(10.0)
            assert connection.recv(1) == b"", "it is closed"
        assert len(list(Path("/proc/self/fd").iterdir())) - before <= len(opened) + MAX_READERS
        for connection in opened:
            connection.close()
        deadline_s = time.monotonic() + 10.0
        while True:  # until the last connection is known to be closed
            with suppress(OSError):
                assert read(port)["outrider_tokens_total"] == 3
                break
            assert time.monotonic() < deadline_s


@pytest.mark.lengthy
def test_replicas_have_their_names_as_labels() -> None:
    stats = VerifierService(toy_pair(1, 0.8)[0]).stats
    figures = asdict(stats) | ServerCounters().values()
    port = free_port()
    with metrics_page(
        lambda: {"a:1": figures | {"tokens": 3}, "b:2": figures | {"refused_busy": 2}}, 8, port
    ):
        values = read(port)
    assert (values["outrider_tokens_totala:1"], values["outrider_tokens_totalb:2"]) == (3, 0)
    assert values["outrider_refusals_totalbusyb:2"] == 2
    assert values["outrider_max_sessionsa:1"] == values["outrider_max_sessionsb:2"] == 8
    with metrics_page(dict, 8, port):
        assert not read(port)


def test_a_port_that_is_taken_is_named() -> None:
    port = free_port()
    with metrics_page(dict, 1, port), pytest.raises(ConfigError, match=f"metrics_port={port}"):
        metrics_page(dict, 1, port).__enter__()


def test_a_port_that_is_taken_is_named_before_the_model_is_loaded(endpoint: str) -> None:
    port = free_port()
    with metrics_page(dict, 1, port):
        asked = ["verifier", "--endpoint", endpoint, "--metrics-port", str(port)]
        result = CliRunner().invoke(cli.app, asked)
    assert isinstance(result.exception, ConfigError) and f"metrics_port={port}" in str(result.exception)


def test_the_endpoints_own_port_is_refused_before_the_model_is_loaded(endpoint: str) -> None:
    port = endpoint.rpartition(":")[2]
    for same in (endpoint, endpoint.replace("127.0.0.1", "localhost")):
        asked = ["verifier", "--endpoint", same, "--metrics-port", port]
        result = CliRunner().invoke(cli.app, asked)
        assert isinstance(result.exception, ConfigError) and f"is the port of {same}" in str(result.exception)


@pytest.mark.lengthy
def test_a_verifier_without_its_page_does_not_say_that_it_is_ready(
    endpoint: str, signals: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    port, closed, close = free_port(), [], RouterServer.close

    def closing(server: RouterServer) -> None:
        close(server)
        closed.append(server._socket.closed)

    monkeypatch.setattr(RouterServer, "close", closing)
    with ExitStack() as taken:

        def load(*_: object, **__: object) -> object:
            taken.enter_context(metrics_page(dict, 1, port))  # another page takes the port meanwhile
            return toy_pair(1, 0.8)[0]

        monkeypatch.setattr(decoders, "_load_target", load)
        with pytest.raises(ConfigError, match=f"metrics_port={port}"):
            serve(endpoint, metrics_port=port)
    assert "ready" not in capsys.readouterr().out
    assert closed == [True], "its socket is not left to whoever collects it"
