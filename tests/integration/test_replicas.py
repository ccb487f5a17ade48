"""Replicas behind one endpoint: kill -9 costs a prefill and no token. Needs the extra `replicas`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from support.toy_models import ToyModel, ToySettings
from support.toys import own_text, request, toy_pair

from outrider.core.errors import ConfigError, ModelError
from outrider.core.values import Verified
from outrider.decoding.config import DecodingConfig
from outrider.decoding.protocol.limits import CloudLimits
from outrider.models import load_model
from outrider.runtime.common.ports import free_port
from outrider.runtime.wiring.decoders import connect_decoder
from outrider.runtime.wiring.replicas import RayPlacement, serve_replicas

pytest.importorskip("ray")
SETTINGS = ToySettings(seed=1, eos_bias=-9.0)
TOKENS = 400
ASKED_TO_END = f"""
import os, signal, sys, threading
sys.path.append({str(Path(__file__).parents[1])!r})
from functools import partial
from support.toy_models import ToyModel, ToySettings
from outrider.runtime.wiring.replicas import serve_replicas

stop = threading.Event()
signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
load = partial(ToyModel, ToySettings(seed=1))
serve_replicas(load, sys.argv[1], 1, stop=stop, on_ready=lambda _: os.kill(os.getpid(), signal.SIGTERM))
"""
STRATEGIES_OF_ROBOTS = ("ar", "sd", "outrider", "sd")


@pytest.fixture
def served() -> Iterator[tuple[str, RayPlacement]]:
    """Serves an endpoint with two replicas of a toy target."""
    endpoint, stop, ready = f"tcp://127.0.0.1:{free_port()}", threading.Event(), threading.Event()
    placements: list[RayPlacement] = []

    def on_ready(placement: RayPlacement) -> None:
        placements.append(placement)
        ready.set()

    serving = threading.Thread(
        target=partial(
            serve_replicas,
            partial(ToyModel, SETTINGS),
            endpoint,
            2,
            stop=stop,
            limits=CloudLimits(),
            on_ready=on_ready,
        )
    )
    serving.start()
    assert ready.wait(120.0)
    yield endpoint, placements[0]
    stop.set()
    serving.join()


def pids(placement: RayPlacement) -> set[int]:
    return {placement.address_of(f"robot {number}").pid for number in range(20)}


def endpoints(placement: RayPlacement) -> set[str]:
    return {placement.endpoint_of(f"robot {number}") for number in range(20)}


@pytest.mark.timeout(240)
def test_killed_replicas_cost_no_token(served: tuple[str, RayPlacement]) -> None:
    """One replica is killed after a quarter of the robots' texts, the other after 60 percent."""
    endpoint, placement = served
    target, draft = ToyModel(SETTINGS), toy_pair(1, 0.8, eos_bias=-9.0)[1]
    first, second = pids(placement)
    kills = {
        share: threading.Barrier(len(STRATEGIES_OF_ROBOTS), partial(os.kill, victim, signal.SIGKILL))
        for share, victim in ((0.25, first), (0.6, second))
    }
    texts: dict[int, tuple[int, ...]] = {}

    def decode(number: int, strategy: str) -> None:
        waiting = sorted(kills)

        def on_verified(verified: Verified) -> None:
            if waiting and len(verified.text.split()) > TOKENS * waiting[0]:
                kills[waiting.pop(0)].wait(60.0)

        decoder = connect_decoder(endpoint, draft, DecodingConfig(strategy=strategy))
        asked = request(f"task {number}", max_new_tokens=TOKENS, deadline_s=120.0)
        texts[number] = decoder.decode(asked, on_verified).token_ids
        decoder.close()

    robots = [threading.Thread(target=decode, args=item) for item in enumerate(STRATEGIES_OF_ROBOTS)]
    for robot in robots:
        robot.start()
    for robot in robots:
        robot.join()
    for number in range(len(robots)):
        assert texts[number] == own_text(target, request(f"task {number}", max_new_tokens=TOKENS))
    assert not {first, second} & pids(placement)
    alive = {endpoint.removeprefix("tcp://") for endpoint in endpoints(placement)}
    counted = 0.0
    deadline_s = time.monotonic() + 30.0
    while not counted and time.monotonic() < deadline_s:  # figures are up to half a second old
        figures = placement.figures()
        counted = sum(one["tokens"] for one in figures.values()) if set(figures) == alive else 0.0
    assert 0.0 < counted < len(robots) * TOKENS


@pytest.mark.timeout(240)
def test_the_error_that_keeps_replicas_from_starting_is_reported(tmp_path: Path) -> None:
    load = partial(load_model, tmp_path / "gone")
    endpoint, stop = f"tcp://127.0.0.1:{free_port()}", threading.Event()
    with pytest.raises(ModelError, match=r"no replica starts: .*gone is no folder: give a model folder"):
        serve_replicas(load, endpoint, 2, stop=stop)
    with pytest.raises(ConfigError, match="2 replicas on cuda need a GPU each, and Ray has"):
        serve_replicas(load, endpoint, 2, stop=stop, device="cuda")
    stop.set()
    serve_replicas(partial(ToyModel, SETTINGS), endpoint, 2, stop=stop)


@pytest.mark.timeout(240)
def test_replicas_end_in_order_when_asked_to() -> None:
    """Ray's own SIGTERM handler would abort a process that takes more than three seconds to end."""
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    done = subprocess.run([sys.executable, "-c", ASKED_TO_END, endpoint], capture_output=True, text=True)
    assert (done.returncode, "SIGTERM received" in done.stderr) == (0, False)
