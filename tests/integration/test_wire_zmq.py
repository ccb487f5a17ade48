"""The wire over real sockets: emulated networks, and peers that flood, stall, vanish or have no key."""

from __future__ import annotations

import itertools
import logging
import random
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import zmq
from msgspec import structs
from support.broken_links import BreakingLink
from support.hostile import hostile_payloads
from support.live_wire import (
    DRAFT,
    NO_LIMIT,
    OPENING,
    TARGET,
    TIMEOUT_MS,
    answering,
    connect,
    connected,
    is_answered,
    next_frames,
    serving,
)
from support.toys import own_text, request

from outrider.core.frames import PROTOCOL_VERSION, Cancel, Close, Peer, Ping, Refused
from outrider.decoding.config import DecodingConfig
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.protocol.prefix_digest import prompt_digest
from outrider.runtime.wiring.decoders import connect_decoder
from outrider.runtime.wiring.verifier import log_figures
from outrider.wire.client import DealerLink
from outrider.wire.codec import encode
from outrider.wire.gate import GateLimits
from outrider.wire.keys import create_keys, load_client_keys
from outrider.wire.server import RouterServer


def test_a_flood_is_dropped_and_counted_without_harm_to_others(endpoint, peer_sockets):
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
        for _ in range(TIMEOUT_MS // 10):
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
        assert attackers[0].poll(TIMEOUT_MS)
        for _ in range(TIMEOUT_MS // 10):
            if server.counters.malformed > 500:
                break
            time.sleep(0.01)
    assert server.counters.refused["protocol"] >= server.counters.malformed > 500
    assert "internal" not in server.counters.refused


def test_a_peer_that_does_not_read_blocks_nothing(endpoint, peer_sockets):
    server = RouterServer(endpoint)
    stalled = peer_sockets.socket(zmq.DEALER)
    stalled.setsockopt(zmq.RCVHWM, 1)
    stalled.setsockopt(zmq.LINGER, 0)
    stalled.connect(endpoint)
    stalled.send(encode(Ping(1, 1)))
    ((peer, _),) = next_frames(server)
    words = Refused(1, 1, "busy", "x" * 500)
    for _ in range(200_000):
        server.send(peer, words)
        if server.counters.stalled:
            break
    assert server.counters.stalled == 1
    healthy = connect(peer_sockets, endpoint)
    healthy.send(encode(Ping(2, 2)))
    ((other, frame),) = next_frames(server)
    assert frame == Ping(2, 2)
    server.send(other, words)
    assert healthy.poll(TIMEOUT_MS)
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


def test_a_robot_that_disconnects_in_mid_stream_harms_no_other(endpoint):
    """Runs in a process of its own, because libzmq would end the whole process."""
    subprocess.run([sys.executable, "-c", BROKEN_OFF, endpoint], check=True, timeout=60)


def test_a_forged_message_leaks_no_descriptor_at_the_verifier(endpoint, tmp_path):
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
            assert is_answered(robot)
            num_open.append(len([*Path("/proc/self/fd").iterdir()]))
            path.forge("up")
            robot.send(Ping(0, 0))
    assert num_open[-1] < num_open[0] + 4, num_open


def test_a_vanished_robot_is_detected_and_loses_its_session(endpoint, peer_sockets):
    now_s = [0.0]
    server = RouterServer(endpoint, limits=GateLimits(vanished_s=10.0), clock=lambda: now_s[0])
    gone = connect(peer_sockets, endpoint)
    gone.send(encode(OPENING))
    ((peer, frame),) = next_frames(server)
    assert frame == OPENING
    gone.close(linger=0)
    for _ in range(TIMEOUT_MS // 10):
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


def test_the_session_of_a_robot_killed_in_mid_text_is_freed(endpoint, peer_sockets):
    """The verifier waits for its drafts, and would otherwise send it nothing for two minutes."""
    asked = request(max_new_tokens=24, deadline_s=60.0)
    config = DecodingConfig(strategy="sd", silence_s=0.05)
    with answering(endpoint, GateLimits(vanished_s=0.2), CloudLimits(max_sessions=1, probe_s=0.1)) as server:
        dying = connect(peer_sockets, endpoint)
        prompt = request().prompt
        opening = structs.replace(OPENING, digest=prompt_digest(prompt), text=prompt.text, jpeg=prompt.jpeg)
        dying.send(encode(structs.replace(opening, tokenizer=TARGET.tokenizer.fingerprint)))
        assert dying.poll(TIMEOUT_MS), "it has the session"
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
        received += next_frames(server)
    assert isinstance(received[0][0], Peer)
    assert (server.counters.received, server.counters.stale) == (4, 2)
    server.close()


def test_the_log_reports_changes(endpoint, peer_sockets, caplog):
    caplog.set_level(logging.INFO)
    with serving(endpoint) as verifier:
        peer = connect(peer_sockets, endpoint)
        peer.send(bytes([PROTOCOL_VERSION + 1]) + b" another version")
        assert peer.poll(TIMEOUT_MS)
        assert b"speaks" in peer.recv()
        stop = threading.Event()
        stop.set()
        log_figures(verifier, stop)
    assert "malformed 1" in caplog.text and "refused_protocol 1" in caplog.text
    assert "flooded" not in caplog.text
