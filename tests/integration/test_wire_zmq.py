"""The wire over real sockets: emulated networks, and peers that flood, stall, vanish or have no key."""

from __future__ import annotations

import itertools
import logging
import random
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import zmq
from msgspec import structs
from support.broken_links import BreakingLink
from support.hostile import hostile_payloads
from support.toys import own_text, request, toy_pair

from outrider.core.errors import LinkError
from outrider.core.frames import PROTOCOL_VERSION, Cancel, Close, Open, Peer, Ping, Pong, Refused, Rules
from outrider.core.values import LinkState
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.decoding.drivers.serving import serve_frames
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.protocol.prefix_digest import prompt_digest
from outrider.runtime.common.links import emulation_of, load_network
from outrider.runtime.wiring.decoders import connect_decoder
from outrider.runtime.wiring.probe import probe_verifier
from outrider.runtime.wiring.verifier import Verifier, log_figures, open_verifier
from outrider.wire.client import HANDSHAKE_TIMEOUT_MS, DealerLink
from outrider.wire.codec import encode
from outrider.wire.emulator import Emulation
from outrider.wire.gate import GateLimits
from outrider.wire.keys import create_keys, load_client_keys, load_server_keys, revoke_robots
from outrider.wire.server import RouterServer

TARGET, DRAFT = toy_pair(3, 0.7, eos_bias=-9.0)
RULES = Rules("wait", "greedy", 0.0, 1.0, 0, 0, True, "none")
OPENING = Open(1, 4, 0, "find it", b"", (), 8, "toy", RULES)
NO_LIMIT = GateLimits(units_per_s=1e9, burst_units=1e9)
NEWS_MS = 20_000
"""How long a test waits for a socket before it fails. No passing test waits this long."""


@pytest.fixture
def peer_sockets() -> Iterator[zmq.Context]:
    """Yields a context for sockets of misbehaving peers."""
    context = zmq.Context()
    yield context
    context.destroy(linger=0)


def connect(context: zmq.Context, endpoint: str) -> zmq.Socket:
    peer = context.socket(zmq.DEALER)
    peer.setsockopt(zmq.SNDHWM, 0)
    peer.setsockopt(zmq.LINGER, 0)
    peer.connect(endpoint)
    return peer


@contextmanager
def serving(endpoint: str, **options) -> Iterator[Verifier]:
    verifier = open_verifier(TARGET, endpoint, **options)
    stop = threading.Event()
    thread = threading.Thread(target=verifier.serve, args=(stop,))
    thread.start()
    try:
        yield verifier
    finally:
        stop.set()
        thread.join(10.0)
        assert not thread.is_alive()


@contextmanager
def answering(endpoint: str, limits: GateLimits, places: CloudLimits | None = None) -> Iterator[RouterServer]:
    """Serves frames with the given limits, with a verifier in a thread."""
    server = RouterServer(endpoint, limits=limits)
    stop = threading.Event()
    thread = threading.Thread(target=serve_frames, args=(VerifierService(TARGET, places), server, stop))
    thread.start()
    try:
        yield server
    finally:
        stop.set()
        thread.join()
        server.close()


@contextmanager
def connected(endpoint: str, strategy: str = "sd", **options):
    decoder = connect_decoder(endpoint, DRAFT, DecodingConfig(strategy=strategy), **options)
    try:
        yield decoder
    finally:
        decoder.close()


def describe_link(path: Path, **figures) -> str:
    """Writes a link file with these figures. Returns its path."""
    figures = {"source": "this test", "rtt_ms": 0, "up_mbps": 100, "down_mbps": 100} | figures
    path.write_text("".join(["lab:\n", *(f"  {name}: {value}\n" for name, value in figures.items())]))
    return str(path)


def heard(server: RouterServer) -> list:
    """Waits for the server's next frames and returns them."""
    for _ in range(NEWS_MS // 100):
        received = server.receive(0.1)
        if received:
            return received
    raise AssertionError("nothing was heard")


def answers(link: DealerLink) -> bool:
    """Returns whether the verifier answers a ping in time."""
    for _ in range(NEWS_MS // 100):
        link.send(Ping(0, 0))
        if link.receive(0.1) is not None:
            return True
    return False


@pytest.mark.parametrize("strategy", ["ar", "sd"])
def test_over_an_emulated_network_the_text_is_the_same_and_takes_its_round_trips(
    endpoint, tmp_path, strategy
):
    keys = create_keys(tmp_path)
    link = describe_link(tmp_path / "lab.yaml", rtt_ms=20, jitter_ms=5, loss=0.05, retransmit_ms=10)
    asked = request(max_new_tokens=24)
    with (
        serving(endpoint, key_file=keys[0]),
        connected(endpoint, strategy, key_file=keys[1], emulation=emulation_of(link)) as decoder,
    ):
        for _ in range(2):
            decoded = decoder.decode(asked)
            assert decoded.token_ids == own_text(TARGET, asked)
            assert decoded.link is LinkState.CONNECTED
            round_trips = 1 if strategy == "ar" else len(decoded.rounds)
            assert decoded.elapsed_s >= 0.02 * round_trips


def test_frames_that_are_lost_for_good_or_overtake_each_other_change_nothing(endpoint, tmp_path):
    link = describe_link(tmp_path / "lab.yaml", jitter_ms=10, loss=0.1, ordered="false")
    asked = request(max_new_tokens=24, deadline_s=120.0)
    config = DecodingConfig(silence_s=0.05)
    with serving(endpoint):
        decoder = connect_decoder(endpoint, DRAFT, config, emulation=emulation_of(link))
        assert decoder.decode(asked).token_ids == own_text(TARGET, asked)
        decoder.close()


def test_a_text_survives_blackouts_without_a_token_lost_or_repeated(endpoint, tmp_path):
    blackouts = {"blackouts": "[{start_s: 0.1, length_s: 0.1}]", "blackouts_repeat_s": 0.25}
    link = describe_link(tmp_path / "lab.yaml", rtt_ms=20, **blackouts)
    asked = request(max_new_tokens=80, deadline_s=120.0)
    told: list[int] = []
    states = set()
    with serving(endpoint), connected(endpoint, emulation=emulation_of(link)) as decoder:
        decoded = decoder.decode(
            asked,
            lambda verified: told.extend(verified.token_ids),
            lambda: states.add(decoder.link_state) or False,
        )
    assert decoded.token_ids == tuple(told) == own_text(TARGET, asked)
    assert {LinkState.CONNECTED, LinkState.LOST} <= states


def test_a_link_may_change_under_a_text_and_between_texts_and_no_token_does(endpoint, tmp_path):
    """From a LAN to a satellite link and back, through networks that lose, reorder and black out."""
    figures: dict[str, dict[str, object]] = {
        "lan": {"rtt_ms": 1},
        "satellite": {"rtt_ms": 600},
        "lossy": {"rtt_ms": 5, "jitter_ms": 10, "loss": 0.05, "ordered": "false"},
        "dark": {"rtt_ms": 5, "blackouts": "[{start_s: 0.05, length_s: 0.05}]", "blackouts_repeat_s": 0.15},
    }
    networks = {
        name: load_network(describe_link(tmp_path / f"{name}.yaml", **one)) for name, one in figures.items()
    }
    emulation, turns = Emulation(networks["lan"]), itertools.cycle(networks.values())
    asked, told = request(max_new_tokens=80, deadline_s=120.0), list[int]()

    def switch(verified):
        told.extend(verified.token_ids)
        emulation.follow(next(turns))

    with serving(endpoint):
        config = DecodingConfig(silence_s=0.2)
        decoder = connect_decoder(endpoint, DRAFT, config, emulation=emulation)
        assert decoder.decode(asked, switch).token_ids == tuple(told) == own_text(TARGET, asked)
        emulation.follow(networks["lan"])
        fast = decoder.decode(asked)
        emulation.follow(networks["satellite"])
        slow = decoder.decode(asked)
        decoder.close()
    assert fast.token_ids == slow.token_ids == own_text(TARGET, asked)
    assert slow.elapsed_s >= 0.6


def test_the_strategy_may_change_between_texts_of_one_session(endpoint):
    asked = request(max_new_tokens=24)
    with serving(endpoint), connected(endpoint, "outrider") as decoder:
        for strategy in (*STRATEGIES, "outrider"):
            decoder.use(DecodingConfig(strategy=strategy))
            assert decoder.decode(asked).token_ids == own_text(TARGET, asked), strategy
            assert decoder.strategy == strategy


def test_a_strategy_that_is_asked_for_within_a_text_waits_for_the_next(endpoint):
    asked = request(max_new_tokens=24)
    with serving(endpoint), connected(endpoint, "outrider") as decoder:

        def switch(verified):
            decoder.use(DecodingConfig(strategy="ar"))
            assert decoder.strategy == "outrider"

        assert decoder.decode(asked, switch).token_ids == own_text(TARGET, asked)
        drafted = [sum(one.drafted for one in decoder.decode(asked).rounds), decoder.strategy]
    assert drafted == [0, "ar"]


def test_no_verifier_behind_an_emulated_network_is_told_with_that(endpoint, tmp_path):
    link = describe_link(tmp_path / "lab.yaml")
    with (
        connected(endpoint, emulation=emulation_of(link)) as decoder,
        pytest.raises(LinkError, match="over an emulated link cannot be reached"),
    ):
        decoder.decode(request(deadline_s=0.3))


def test_a_flood_is_dropped_and_counted_and_the_healthy_do_not_notice(endpoint, peer_sockets):
    asked = request()
    with (
        answering(endpoint, GateLimits(units_per_s=1.0, burst_units=200.0)) as server,
        connected(endpoint) as decoder,
    ):
        flooder = connect(peer_sockets, endpoint)
        ping = encode(Ping(0, 0))

        def flood(_) -> None:
            for _ in range(300):
                flooder.send(ping)

        assert decoder.decode(asked, flood).token_ids == own_text(TARGET, asked)
        for _ in range(NEWS_MS // 10):
            if server.counters.flooded:
                break
            time.sleep(0.01)
        assert decoder.decode(asked).token_ids == own_text(TARGET, asked)
    assert server.counters.flooded > 0 and server.counters.malformed == 0


def test_hostile_frames_over_a_real_socket_harm_nobody(endpoint, peer_sockets):
    rng = random.Random(2)
    payloads = hostile_payloads(rng, [])
    with answering(endpoint, NO_LIMIT) as server, connected(endpoint) as decoder:
        attackers = [connect(peer_sockets, endpoint) for _ in range(3)]

        def attack(_) -> None:
            for payload in itertools.islice(payloads, 300):
                parts = [payload] if rng.random() < 0.9 else [payload, b"", payload]
                rng.choice(attackers).send_multipart(parts)

        for name in ("first", "second"):
            asked = request(name)
            assert decoder.decode(asked, attack).token_ids == own_text(TARGET, asked)
        assert attackers[0].poll(NEWS_MS)
        for _ in range(NEWS_MS // 10):
            if server.counters.malformed > 500:
                break
            time.sleep(0.01)
    assert server.counters.refused["protocol"] >= server.counters.malformed > 500
    assert "internal" not in server.counters.refused


def test_a_connection_that_takes_frames_again_counts_as_a_new_one(endpoint, peer_sockets):
    """Frames dropped meanwhile are lost, as after a disconnect; a new generation makes senders ask again."""
    server = peer_sockets.socket(zmq.ROUTER)
    server.setsockopt(zmq.RCVHWM, 1)
    server.bind(endpoint)
    large = structs.replace(OPENING, jpeg=b"\xff" * 500_000)
    with closing(DealerLink(endpoint)) as link:
        while link.state is not LinkState.CONNECTED or not link.send(large):
            link.receive(0.01)
        while link.send(large):
            pass
        before = link.generation
        link.receive(0.0)
        assert link.generation == before, "nothing has changed yet"
        while link.generation == before:
            assert server.poll(NEWS_MS)
            server.recv_multipart()
            link.receive(0.001)
        assert link.generation == before + 1 and link.send(large)


def test_a_peer_that_does_not_read_blocks_nothing(endpoint, peer_sockets):
    server = RouterServer(endpoint)
    stalled = peer_sockets.socket(zmq.DEALER)
    stalled.setsockopt(zmq.RCVHWM, 1)
    stalled.setsockopt(zmq.LINGER, 0)
    stalled.connect(endpoint)
    stalled.send(encode(Ping(1, 1)))
    ((peer, _),) = heard(server)
    words = Refused(1, 1, "busy", "x" * 500)
    for _ in range(200_000):
        server.send(peer, words)
        if server.counters.stalled:
            break
    assert server.counters.stalled == 1
    healthy = connect(peer_sockets, endpoint)
    healthy.send(encode(Ping(2, 2)))
    ((other, frame),) = heard(server)
    assert frame == Ping(2, 2)
    server.send(other, words)
    assert healthy.poll(NEWS_MS)
    server.close()


BROKEN_OFF = """
import socket, struct, sys
from urllib.parse import urlsplit
from outrider.core.frames import Ping
from outrider.wire.client import DealerLink
from outrider.wire.codec import encode
from outrider.wire.server import RouterServer

def command(name, body):
    return bytes([4, 1 + len(name) + len(body), len(name)]) + name + body

server = RouterServer(sys.argv[1], None)
with socket.create_connection(("127.0.0.1", urlsplit(sys.argv[1]).port)) as robot:
    robot.sendall(b"\\xff" + bytes(8) + b"\\x7f\\x03\\x01NULL" + bytes(48))
    robot.recv(64, socket.MSG_WAITALL)
    robot.sendall(command(b"READY", b"\\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"))
    robot.recv(2, socket.MSG_WAITALL)
    message = encode(Ping(0, 0))
    message = bytes([0, len(message)]) + message
    robot.sendall(500 * message + command(b"PING", struct.pack(">H", 20)) + message)
    heard = server.receive(20.0)
    robot.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
while len(heard) < 501:
    news = server.receive(20.0)
    assert news, len(heard)
    heard += news
server.close()
"""
"""A robot sends many frames and a heartbeat; its connection breaks before all are read."""


def test_a_robot_that_breaks_off_in_mid_stream_ends_nobody_else(endpoint):
    """Runs in a process of its own, because libzmq would end the whole process."""
    subprocess.run([sys.executable, "-c", BROKEN_OFF, endpoint], check=True, timeout=60)


FORGED = """
import sys
from pathlib import Path
from outrider.core.frames import Ping
from outrider.wire.client import DealerLink
from outrider.wire.keys import load_client_keys

link = DealerLink(sys.argv[1], load_client_keys(Path(sys.argv[2])))
for line in sys.stdin:
    before = link.generation
    while link.generation == before or link.receive(0.01) is None:
        link.send(Ping(0, 0))
    print("answered", flush=True)
link.close()
"""
"""For each line on its input, prints a line once a new connection has brought an answer."""


@contextmanager
def killed_in_time(process: subprocess.Popen[str]) -> Iterator[None]:
    """Kills a process that takes too long, so that reading its output always ends."""
    timer = threading.Timer(NEWS_MS / 1000, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        process.kill()


def test_a_forged_message_costs_a_robot_its_connection_and_not_its_life(endpoint, tmp_path):
    """Runs in a process of its own, because libzmq would end the whole process."""
    server_key, robot_key = create_keys(tmp_path)
    with (
        serving(endpoint, key_file=server_key),
        closing(BreakingLink(int(endpoint.rsplit(":", 1)[1]))) as path,
        subprocess.Popen(
            [sys.executable, "-c", FORGED, f"tcp://127.0.0.1:{path.port}", str(robot_key)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as robot,
        killed_in_time(robot),
    ):
        for _ in range(4):
            robot.stdin.write("on\n")
            robot.stdin.flush()
            assert robot.stdout.readline() == "answered\n"
            path.forge("down")
        robot.stdin.close()
        assert robot.wait(NEWS_MS / 1000) == 0


def test_a_forged_message_costs_a_verifier_no_descriptor_for_good(endpoint, tmp_path):
    server_key, robot_key = create_keys(tmp_path)
    num_open = []
    with (
        serving(endpoint, key_file=server_key),
        closing(BreakingLink(int(endpoint.rsplit(":", 1)[1]))) as path,
        closing(DealerLink(f"tcp://127.0.0.1:{path.port}", load_client_keys(robot_key))) as robot,
    ):
        for generation in range(1, 9):
            while robot.generation < generation or not robot.send(Ping(0, 0)):
                robot.receive(0.01)
            assert answers(robot)
            num_open.append(len([*Path("/proc/self/fd").iterdir()]))
            path.forge("up")
            robot.send(Ping(0, 0))
    assert num_open[-1] < num_open[0] + 4, num_open


def test_who_vanishes_is_noticed_and_gives_its_place_back(endpoint, peer_sockets):
    now_s = [0.0]
    server = RouterServer(endpoint, limits=GateLimits(vanished_s=10.0), clock=lambda: now_s[0])
    gone = connect(peer_sockets, endpoint)
    gone.send(encode(OPENING))
    ((peer, frame),) = heard(server)
    assert frame == OPENING
    gone.close(linger=0)
    for _ in range(NEWS_MS // 10):
        server.send(peer, Refused(1, 1, "busy", "later"))
        if server.counters.unreachable:
            break
        server.receive(0.01)
    assert server.counters.unreachable == 1
    now_s[0] = 9.0
    assert server.receive(0.0) == []
    now_s[0] = 11.0
    assert server.receive(0.0) == [(peer, Close(1, 4))]
    assert server.counters.evicted == 1
    server.close()


def test_the_place_of_a_robot_that_died_in_mid_text_goes_to_who_needs_one(endpoint, peer_sockets):
    """The verifier waits for its drafts, and would otherwise send it nothing for two minutes."""
    asked = request(max_new_tokens=24, deadline_s=60.0)
    config = DecodingConfig(strategy="sd", silence_s=0.05)
    with answering(endpoint, GateLimits(vanished_s=0.2), CloudLimits(max_sessions=1, probe_s=0.1)) as server:
        dying = connect(peer_sockets, endpoint)
        prompt = request().prompt
        opening = structs.replace(OPENING, digest=prompt_digest(prompt), text=prompt.text, jpeg=prompt.jpeg)
        dying.send(encode(structs.replace(opening, tokenizer=TARGET.tokenizer.fingerprint)))
        assert dying.poll(NEWS_MS), "it has the place"
        dying.close(linger=0)
        decoder = connect_decoder(endpoint, DRAFT, config)
        assert decoder.decode(asked).token_ids == own_text(TARGET, asked)
        decoder.close()
    assert server.counters.evicted == 1


def test_stale_frames_are_counted(endpoint, peer_sockets):
    server = RouterServer(endpoint)
    peer = connect(peer_sockets, endpoint)
    for frame in (OPENING, Cancel(1, 5), OPENING, Ping(1, 3)):
        peer.send(encode(frame))
    received = []
    while len(received) < 4:
        received += heard(server)
    assert isinstance(received[0][0], Peer)
    assert (server.counters.received, server.counters.stale) == (4, 2)
    server.close()


def test_connections_without_a_known_key_are_counted(endpoint, tmp_path):
    server_key, robot_key = create_keys(tmp_path / "ours")
    _, stranger_key = create_keys(tmp_path / "theirs")
    with serving(endpoint, key_file=server_key) as verifier:
        for key_file in (stranger_key, None):
            before = verifier.figures()["unknown_keys"]
            for _ in range(100):
                with pytest.raises(LinkError):
                    probe_verifier(endpoint, 0.2, key_file)
                if verifier.figures()["unknown_keys"] > before:
                    break
            assert verifier.figures()["unknown_keys"] > before
        assert probe_verifier(endpoint, 20.0, robot_key).model == TARGET.name


def test_a_robot_with_keys_goes_on_after_its_verifier_restarts(endpoint, tmp_path):
    server_key, robot_key = create_keys(tmp_path)
    asked = request(max_new_tokens=120, deadline_s=120.0)
    running = serving(endpoint, key_file=server_key)
    told: list[int] = []
    stack = [running]
    running.__enter__()

    def restart(verified) -> None:
        told.extend(verified.token_ids)
        if len(told) > 10 and len(stack) == 1:
            stack[0].__exit__(None, None, None)
            stack.append(serving(endpoint, key_file=server_key))
            stack[1].__enter__()

    try:
        with connected(endpoint, key_file=robot_key) as decoder:
            decoded = decoder.decode(asked, restart)
    finally:
        stack[-1].__exit__(None, None, None)
    assert len(stack) == 2
    assert decoded.token_ids == tuple(told) == own_text(TARGET, asked)


@pytest.mark.parametrize("speaks", [True, False])
def test_the_open_connection_of_a_revoked_key_is_ended(endpoint, tmp_path, speaks):
    server_key, *robots = create_keys(tmp_path, ("bad", "good"))
    bad, good = (DealerLink(endpoint, load_client_keys(robot)) for robot in robots)
    with closing(bad), closing(good), serving(endpoint, key_file=server_key) as verifier:
        for link in (bad, good):
            assert answers(link)
        connected_as = good.generation
        revoke_robots(tmp_path, ("bad",))
        deadline_s = time.monotonic() + NEWS_MS / 1000
        while bad.state is not LinkState.REFUSED and time.monotonic() < deadline_s:
            if speaks:
                bad.send(Ping(0, 0))
            bad.receive(0.01)
        assert bad.state is LinkState.REFUSED
        assert answers(good) and good.generation == connected_as
        assert verifier.figures()["revoked"] >= 1


def test_a_text_of_a_robot_whose_key_is_revoked_ends_and_its_place_is_free(endpoint, tmp_path):
    server_key, bad_key, good_key = create_keys(tmp_path, ("bad", "good"))
    asked, told = request(max_new_tokens=400, deadline_s=3.0), []

    def revoke(verified) -> None:
        if not told:
            revoke_robots(tmp_path, ("bad",))
        told.extend(verified.token_ids)
        deadline_s = time.monotonic() + NEWS_MS / 1000
        while not verifier.figures()["revoked"] and time.monotonic() < deadline_s:
            time.sleep(0.01)

    with serving(endpoint, key_file=server_key, limits=CloudLimits(max_sessions=1)) as verifier:
        with connected(endpoint, key_file=bad_key) as decoder, pytest.raises(LinkError):
            decoder.decode(asked, revoke)
        with connected(endpoint, key_file=good_key) as decoder:
            assert decoder.decode(request()).token_ids == own_text(TARGET, request())
    assert told


def test_secrets_are_in_no_log_no_message_and_no_repr(endpoint, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    server_key, robot_key = create_keys(tmp_path / "ours")
    _, stranger_key = create_keys(tmp_path / "theirs")
    said = []
    with serving(endpoint, key_file=server_key) as verifier:
        with connected(endpoint, key_file=robot_key) as decoder:
            said.append(repr(decoder.decode(request())))
        with pytest.raises(LinkError) as raised:
            probe_verifier(endpoint, 0.2, stranger_key)
        said.append(repr(raised.value))
        stop = threading.Event()
        stop.set()
        log_figures(verifier, stop)
    keys = [load_server_keys(server_key), load_client_keys(robot_key), load_client_keys(stranger_key)]
    text = "".join([caplog.text, *said, *(f"{key!r} {key}" for key in keys)])
    assert "since the start: " in text
    assert not any(key.secret in text for key in keys)


def test_the_log_tells_what_has_changed(endpoint, peer_sockets, caplog):
    caplog.set_level(logging.INFO)
    with serving(endpoint) as verifier:
        peer = connect(peer_sockets, endpoint)
        peer.send(bytes([PROTOCOL_VERSION + 1]) + b" another version")
        assert peer.poll(NEWS_MS)
        assert b"speaks" in peer.recv()
        stop = threading.Event()
        stop.set()
        log_figures(verifier, stop)
    assert "malformed 1" in caplog.text and "refused_protocol 1" in caplog.text
    assert "flooded" not in caplog.text


def test_a_verifier_of_another_version_is_named(endpoint, peer_sockets, caplog):
    older = peer_sockets.socket(zmq.ROUTER)
    older.bind(endpoint)

    def answer(*payloads):
        assert older.poll(NEWS_MS)
        route, _ = older.recv_multipart()
        for payload in payloads:
            older.send_multipart([route, payload])

    other, deadline_s = bytes([PROTOCOL_VERSION - 1]) + b"an answer", time.monotonic() + NEWS_MS / 1000
    with closing(DealerLink(endpoint)) as link:
        while not link.send(Ping(0, 0)):
            assert time.monotonic() < deadline_s
        answer(other, other, other, encode(Pong(0, 0, "toy", 8, 0, 1)))
        faults = []
        while (received := link.receive(1.0)) is None:
            assert time.monotonic() < deadline_s
            faults.append(link.fault)
        assert received[0].model == "toy" and link.fault == ""
    said = f"protocol version {PROTOCOL_VERSION - 1}, this side speaks {PROTOCOL_VERSION}"
    assert said in faults[-1] and caplog.text.count(said) == 1
    answering = threading.Thread(target=answer, args=(other,))
    answering.start()
    with pytest.raises(LinkError, match=r"is not understood: protocol version .* update the older one"):
        probe_verifier(endpoint, NEWS_MS / 1000)
    answering.join()


def test_a_connection_that_leads_nowhere_is_made_anew():
    """As with a mobile link lost during the handshake: nothing closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as front:
        front.settimeout(HANDSHAKE_TIMEOUT_MS / 1000 + NEWS_MS / 1000)
        with closing(DealerLink(f"tcp://127.0.0.1:{front.getsockname()[1]}")):
            dead, _ = front.accept()
            with dead:
                front.accept()[0].close()


@pytest.mark.parametrize(
    "opened",
    [
        "DealerLink(endpoint)",
        "RouterServer(endpoint, load_server_keys(server_key))",
        "RobotTunnel(endpoint, load_client_keys(robot_key))",
        "RelayTunnel(endpoint, server_key)",
    ],
)
def test_sockets_whose_owner_is_dropped_unclosed_are_closed(endpoint, tmp_path, opened):
    """In a reference cycle, as with a stored exception, the collector finalizes objects in any order."""
    dropped = f"""
import asyncio, gc, os, sys, warnings
from pathlib import Path
from outrider.wire.client import DealerLink
from outrider.wire.keys import load_client_keys, load_server_keys
from outrider.wire.server import RouterServer
from outrider.wire.tunnel import RelayTunnel, RobotTunnel
warnings.simplefilter("error", ResourceWarning)
endpoint, server_key, robot_key = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])

async def main():
    gc.disable()
    cycle = [{opened}]
    cycle.append(cycle)
    num_open = len(os.listdir("/proc/self/fd"))
    del cycle
    gc.collect()
    print(num_open - len(os.listdir("/proc/self/fd")) > 4)

asyncio.run(main())
"""
    done = _finished(dropped, endpoint, *map(str, create_keys(tmp_path)))
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_fork_of_a_links_process_is_told_to_connect_anew(endpoint):
    forked = """
import os, sys
from outrider.core.errors import LinkError
from outrider.core.frames import Ping
from outrider.wire.client import DealerLink
link = DealerLink(sys.argv[1])
while not link.send(Ping(0, 0)):
    link.receive(0.01)
if child := os.fork():
    os.waitpid(child, 0)
    while link.receive(0.01) is None:
        pass
    print(link.state.value)
else:
    print(link.state.value, link.send(Ping(0, 0)))
    try:
        link.receive(0.01)
    except LinkError as error:
        print(error)
link.close()
"""
    with serving(endpoint):
        told = _run(forked, endpoint)
    assert told == [
        "lost 0",
        "this link was opened before a fork: connect anew in this process",
        "connected",
    ]


def _run(program: str, *arguments: str) -> list[str]:
    """Runs a program in a process of its own. Returns the lines it prints."""
    return _finished(program, *arguments).stdout.splitlines()


def _finished(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in a process of its own to its end."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=NEWS_MS / 250,
    )
    assert done.returncode == 0, done.stderr
    return done


class _Oversized(socketserver.BaseRequestHandler):
    """Completes libzmq's handshake, then begins a frame that is larger than any limit."""

    READY = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER"

    def handle(self) -> None:
        self.request.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(48))
        self.request.sendall(b"\x04" + bytes([len(self.READY)]) + self.READY)
        said = b""
        while b"READY" not in said:
            said += self.request.recv(4096)
        self.request.sendall(b"\x02" + (1 << 60).to_bytes(8, "big"))
        self.server.calls += 1
        while self.request.recv(4096):
            pass


def test_a_peer_that_breaks_the_protocol_is_tried_again(endpoint):
    port = int(endpoint.rsplit(":", 1)[1])
    with (
        socketserver.TCPServer(("127.0.0.1", port), _Oversized) as server,
        closing(DealerLink(endpoint)) as link,
    ):
        server.calls = 0
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        deadline_s = time.monotonic() + NEWS_MS / 1000
        while server.calls < 2 and time.monotonic() < deadline_s:
            link.receive(0.01)
        server.shutdown()
        thread.join()
        assert server.calls >= 2
