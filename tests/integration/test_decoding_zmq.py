"""Edge and verifier over real sockets on the loopback: threads, processes, keys, bad peers, kills."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import zmq
from support.live_wire import DRAFT, SEED, TARGET, connected, verifier
from support.served_verifier import serve_verifier
from support.toy_models import ToyModel, ToySettings
from support.toys import own_text, request

from outrider.core.errors import (
    BusyError,
    Cancelled,
    ConfigError,
    FrameError,
    LinkError,
    ModelError,
)
from outrider.core.frames import Draft, Verdict
from outrider.core.values import DecodeRequest, LinkState, Prompt
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.decoding.protocol.limits import CloudLimits
from outrider.runtime.wiring.decoders import connect_decoder
from outrider.wire.codec import encode, wire_bytes

TESTS = Path(__file__).parents[1]


MIN_BYTES = wire_bytes(encode(Verdict(1, 1, 0, 0, (1,), 0, 0, 0)))

MIN_BYTES_UP = wire_bytes(encode(Draft(1, 1, 0, None, b"")))

# A stand-in for the models' package, whose libraries take seconds to import and which toys do not need.
SERVE_TOY = f"""
import sys, types
sys.path.append({str(TESTS)!r})
from support.toy_models import ToyModel, ToySettings
models = types.ModuleType("outrider.models")
models.load_model = lambda *_, **__: ToyModel(ToySettings(seed={SEED}, eos_bias=-9.0))
models.constrain = None
models.model_name = lambda folder: folder.name
sys.modules["outrider.models"] = models
from outrider.runtime.wiring.decoders import serve
serve(sys.argv[1])
"""


def start_process(endpoint: str) -> subprocess.Popen:
    """Starts a verifier in a process of its own. Returns once it serves."""
    process = subprocess.Popen([sys.executable, "-c", SERVE_TOY, endpoint], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith("verifier ready")
    return process


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_text_is_the_targets_own_and_bytes_are_counted(endpoint, strategy):
    with verifier(endpoint), connected(endpoint, strategy) as decoder:
        for name in ("first", "second"):
            decoded = decoder.decode(request(name))
            assert decoded.token_ids == own_text(TARGET, request(name))
            assert decoded.link is LinkState.CONNECTED
            assert decoded.prefill_s > 0
        assert all(stats.bytes_down >= MIN_BYTES for stats in decoded.rounds)
        assert strategy != "sd" or all(MIN_BYTES_UP <= stats.bytes_up < 20 for stats in decoded.rounds)


def test_distributions_go_up_where_rejection_is_asked_for(endpoint):
    config = DecodingConfig(strategy="sd", acceptance="rejection")
    with verifier(endpoint):
        decoder = connect_decoder(endpoint, DRAFT, config)
        try:
            decoded = decoder.decode(request())
        finally:
            decoder.close()
    assert decoded.token_ids == own_text(TARGET, request())
    whole = [stats.bytes_up for stats in decoded.rounds if stats.drafted == 4]
    assert whole and all(20 <= num_bytes < 300 for num_bytes in whole)


def test_several_robots_share_one_verifier(endpoint):
    texts: dict[int, tuple[int, ...]] = {}

    def ride(number: int) -> None:
        with connected(endpoint, "ar" if number % 2 else "sd") as decoder:
            texts[number] = decoder.decode(request(f"task {number}")).token_ids

    with verifier(endpoint):
        threads = [threading.Thread(target=ride, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert texts == {number: own_text(TARGET, request(f"task {number}")) for number in range(5)}


def test_the_verifier_may_start_late(endpoint):
    with connected(endpoint) as decoder:
        assert decoder.link_state is LinkState.CONNECTING
        late = threading.Timer(0.3, _serve_until_closed, args=(endpoint, stop := threading.Event()))
        late.start()
        try:
            assert decoder.decode(request()).token_ids == own_text(TARGET, request())
        finally:
            stop.set()
            late.join()


def _serve_until_closed(endpoint: str, stop: threading.Event) -> None:
    serve_verifier(TARGET, endpoint, stop=stop)


def test_no_verifier_is_a_link_error_at_the_deadline(endpoint):
    with connected(endpoint) as decoder:
        started_s = time.monotonic()
        with pytest.raises(LinkError, match=r"cannot be reached.*outrider verifier"):
            decoder.decode(request(deadline_s=0.3))
        assert 0.25 < time.monotonic() - started_s < 2.0


@pytest.mark.parametrize("strategy", ["ar", "sd"])
def test_a_restarted_verifier_continues_the_same_text(endpoint, strategy):
    processes = [start_process(endpoint)]
    reported: list[int] = []

    def observe(verified) -> None:
        reported.extend(verified.token_ids)
        if len(reported) > 10 and len(processes) == 1:
            processes[0].kill()
            processes[0].wait()
            processes.append(start_process(endpoint))

    try:
        with connected(endpoint, strategy) as decoder:
            asked = request(max_new_tokens=400 if strategy == "ar" else 120, deadline_s=200.0)
            decoded = decoder.decode(asked, observe)
        assert len(processes) == 2
        assert decoded.token_ids == tuple(reported) == own_text(TARGET, asked)
        processes[1].send_signal(signal.SIGTERM)
        assert processes[1].wait(60.0) == 0
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_verifier_restarted_with_another_target_does_not_continue_the_text(endpoint, strategy):
    another, asked = ToyModel(ToySettings(seed=SEED + 1, eos_bias=-9.0)), request(max_new_tokens=60)
    with ExitStack() as running:
        running.enter_context(verifier(endpoint))

        def swap(_) -> None:
            running.close()
            running.enter_context(verifier(endpoint, model=another))

        with connected(endpoint, strategy) as decoder:
            with pytest.raises(ModelError, match="another model than 'toy-4', which is served now"):
                decoder.decode(asked, swap)
            assert decoder.decode(asked).token_ids == own_text(another, asked), "the next text is all its own"


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_if_one_of_two_verifiers_ends_the_other_continues_the_text(endpoint, tmp_path, end):
    second = f"ipc://{tmp_path}/second"
    processes = [start_process(endpoint), start_process(second)]
    reported: list[int] = []

    def observe(verified) -> None:
        if not reported:
            processes[0].send_signal(end)
        reported.extend(verified.token_ids)

    try:
        with connected(endpoint, "outrider", second_endpoint=second) as decoder:
            assert decoder.decode(request("before")).token_ids == own_text(TARGET, request("before"))
            asked = request(max_new_tokens=120, deadline_s=60.0)
            decoded = decoder.decode(asked, observe)
            assert decoded.token_ids == tuple(reported) == own_text(TARGET, asked)
            assert decoder.decode(request("after")).token_ids == own_text(TARGET, request("after"))
            assert decoder.link_state is LinkState.CONNECTED
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_frozen_verifier_is_noticed_and_continues_after_the_thaw(endpoint):
    """The process is stopped, not dead: no connection breaks, and only missing heartbeats show it."""
    process = start_process(endpoint)
    states = []

    def observe(verified) -> None:
        if not states:
            os.kill(process.pid, signal.SIGSTOP)
            states.append(LinkState.CONNECTED)

    def thaw_once_lost() -> bool:
        if states and states[-1] is LinkState.CONNECTED and decoder.link_state is LinkState.LOST:
            states.append(LinkState.LOST)
            os.kill(process.pid, signal.SIGCONT)
        return False

    try:
        with connected(endpoint) as decoder:
            asked = request(max_new_tokens=120)
            assert decoder.decode(asked, observe, thaw_once_lost).token_ids == own_text(TARGET, asked)
        assert states == [LinkState.CONNECTED, LinkState.LOST]
    finally:
        process.kill()
        process.wait()


def test_cancel_raises_and_the_next_text_is_right(endpoint):
    with verifier(endpoint), connected(endpoint) as decoder:
        seen: list[int] = []
        with pytest.raises(Cancelled):
            decoder.decode(request("first"), lambda verified: seen.append(1), lambda: len(seen) > 2)
        assert decoder.decode(request("second")).token_ids == own_text(TARGET, request("second"))


def test_refusals_reach_the_caller_as_the_right_error(endpoint):
    with verifier(endpoint, limits=CloudLimits(max_sessions=1)), connected(endpoint, "ar") as first:
        with pytest.raises(FrameError, match="no JPEG"):
            first.decode(DecodeRequest(Prompt("find it", b"\x89PNG")))
        with pytest.raises(ConfigError, match="max_new_tokens=4000"):
            first.decode(request(max_new_tokens=4000))
        assert first.decode(request()).finished
        with connected(endpoint, "ar") as second, pytest.raises(BusyError, match="all 1 sessions"):
            second.decode(request(deadline_s=2.0))
        assert first.decode(request()).finished


def test_a_pair_that_does_not_fit_is_refused(endpoint):
    stranger = ToyModel(ToySettings(vocab_size=40))
    with (
        verifier(endpoint),
        connected(endpoint, draft=stranger) as decoder,
        pytest.raises(ModelError, match=rf"{TARGET.name} has another tokenizer.*here is {stranger.name}\)"),
    ):
        decoder.decode(request())


def test_garbage_harms_nobody_and_is_answered(endpoint):
    rng = random.Random(1)
    with verifier(endpoint), connected(endpoint) as decoder:
        context = zmq.Context()
        peer = context.socket(zmq.DEALER)
        peer.connect(endpoint)

        def throw_garbage(_) -> None:
            for _ in range(50):
                peer.send_multipart([rng.randbytes(rng.randint(0, 60)) for _ in range(rng.randint(1, 3))])

        decoded = decoder.decode(request(), throw_garbage)
        assert decoded.token_ids == own_text(TARGET, request())
        assert peer.poll(5000)
        assert b"protocol" in peer.recv()
        context.destroy(linger=0)


def test_a_draft_is_needed_where_the_strategy_drafts(endpoint):
    with pytest.raises(ConfigError, match="needs a draft model"):
        connect_decoder(endpoint, None, DecodingConfig(strategy="sd"))
    with pytest.raises(ConfigError, match="tokenizer"):
        connect_decoder(endpoint, None, DecodingConfig(strategy="ar"))
