"""Robots with and without keys at a live verifier: restarts, revoked keys, and secrets in no log."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import closing

import pytest
from support.live_wire import (
    TARGET,
    TIMEOUT_MS,
    connected,
    is_answered,
    serving,
)
from support.toys import own_text, request

from outrider.core.errors import LinkError
from outrider.core.frames import Ping
from outrider.core.values import LinkState
from outrider.decoding.protocol.limits import CloudLimits
from outrider.runtime.wiring.probe import probe_verifier
from outrider.runtime.wiring.verifier import log_figures
from outrider.wire.client import DealerLink
from outrider.wire.keys import create_keys, load_client_keys, load_server_keys, revoke_robots


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


def test_a_robot_with_keys_continues_after_its_verifier_restarts(endpoint, tmp_path):
    server_key, robot_key = create_keys(tmp_path)
    asked = request(max_new_tokens=120, deadline_s=120.0)
    running = serving(endpoint, key_file=server_key)
    reported: list[int] = []
    stack = [running]
    running.__enter__()

    def restart(verified) -> None:
        reported.extend(verified.token_ids)
        if len(reported) > 10 and len(stack) == 1:
            stack[0].__exit__(None, None, None)
            stack.append(serving(endpoint, key_file=server_key))
            stack[1].__enter__()

    try:
        with connected(endpoint, key_file=robot_key) as decoder:
            decoded = decoder.decode(asked, restart)
    finally:
        stack[-1].__exit__(None, None, None)
    assert len(stack) == 2
    assert decoded.token_ids == tuple(reported) == own_text(TARGET, asked)


@pytest.mark.parametrize("speaks", [True, False])
def test_the_open_connection_of_a_revoked_key_is_ended(endpoint, tmp_path, speaks):
    server_key, *robots = create_keys(tmp_path, ("bad", "good"))
    bad, good = (DealerLink(endpoint, load_client_keys(robot)) for robot in robots)
    with closing(bad), closing(good), serving(endpoint, key_file=server_key) as verifier:
        for link in (bad, good):
            assert is_answered(link)
        connected_as = good.generation
        revoke_robots(tmp_path, ("bad",))
        deadline_s = time.monotonic() + TIMEOUT_MS / 1000
        while bad.state is not LinkState.REFUSED and time.monotonic() < deadline_s:
            if speaks:
                bad.send(Ping(0, 0))
            bad.receive(0.01)
        assert bad.state is LinkState.REFUSED
        assert is_answered(good) and good.generation == connected_as
        assert verifier.figures()["revoked"] >= 1


def test_revoking_a_key_ends_its_text_and_frees_the_session(endpoint, tmp_path):
    server_key, bad_key, good_key = create_keys(tmp_path, ("bad", "good"))
    asked, reported = request(max_new_tokens=400, deadline_s=3.0), []

    def revoke(verified) -> None:
        if not reported:
            revoke_robots(tmp_path, ("bad",))
        reported.extend(verified.token_ids)
        deadline_s = time.monotonic() + TIMEOUT_MS / 1000
        while not verifier.figures()["revoked"] and time.monotonic() < deadline_s:
            time.sleep(0.01)

    with serving(endpoint, key_file=server_key, limits=CloudLimits(max_sessions=1)) as verifier:
        with connected(endpoint, key_file=bad_key) as decoder, pytest.raises(LinkError):
            decoder.decode(asked, revoke)
        with connected(endpoint, key_file=good_key) as decoder:
            assert decoder.decode(request()).token_ids == own_text(TARGET, request())
    assert reported


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
