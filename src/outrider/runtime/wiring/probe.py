# SPDX-License-Identifier: Apache-2.0
"""Asks a verifier for its description, and distinguishes why none answers. Imports no model."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from outrider.core.errors import KeyRefusedError, LinkError
from outrider.core.frames import Ping, Pong
from outrider.core.values import LinkState
from outrider.wire.client import DealerLink
from outrider.wire.keys import load_client_keys

CONNECT_S = 0.5
_IPC = "ipc://"


@dataclass(frozen=True)
class VerifierCard:
    """A verifier's description of itself, and the round trip time."""

    model: str
    vocab_size: int
    open_sessions: int
    max_sessions: int
    round_trip_s: float


def probe_verifier(endpoint: str, timeout_s: float = 2.0, key_file: Path | None = None) -> VerifierCard:
    """Ask a verifier for its description.

    Raises LinkError if none answers in time (at most CONNECT_S later) or one of another version does,
    KeyRefusedError if it refuses the key, and ConfigError for a malformed endpoint or key file. The refusal
    and the other version are reported at once.
    """
    link = DealerLink(endpoint, load_client_keys(key_file) if key_file is not None else None)
    deadline_s = time.monotonic() + timeout_s
    sent_s = 0.0
    try:
        while time.monotonic() < deadline_s and link.state is not LinkState.REFUSED and not link.fault:
            if not sent_s and link.send(Ping(0, 0)):
                sent_s = time.monotonic()
            received = link.receive(0.01)
            if received is not None and isinstance(received[0], Pong):
                return _card(received[0], time.monotonic() - sent_s)
        state, fault = link.state, link.fault
    finally:
        link.close()
    if state is LinkState.REFUSED:
        raise KeyRefusedError(f"the verifier at {endpoint} refuses this key: it is not on its list")
    if fault:
        raise LinkError(f"what answers at {endpoint} is not understood: {fault}")
    why = _why_silent(endpoint, key_file is not None)
    raise LinkError(f"no verifier answers at {endpoint} within {timeout_s:g} s: {why}")


def _card(pong: Pong, round_trip_s: float) -> VerifierCard:
    return VerifierCard(pong.model, pong.vocab_size, pong.open_sessions, pong.max_sessions, round_trip_s)


def _why_silent(endpoint: str, has_key: bool) -> str:
    unheard = _why_unheard(endpoint)
    if unheard:
        return unheard
    if has_key:
        return "what listens there does not know this key: it has other keys, or none, or is no verifier"
    return "what listens there does not answer without a key: give --key-file, or it is no verifier"


def _why_unheard(endpoint: str) -> str:
    """Returns the system's reason why an endpoint takes no connections; empty if it takes them."""
    mend = "start it with `outrider verifier`, or correct the endpoint"
    try:
        _connect(endpoint)
    except FileNotFoundError:
        return f"the path {endpoint.removeprefix(_IPC)} does not exist; {mend}"
    except ConnectionRefusedError:
        return f"nothing listens there; {mend}"
    except (socket.gaierror, UnicodeError):
        return f"the name {urlsplit(endpoint).hostname} is not known here; correct it, or give an address"
    except OSError as error:
        return f"it cannot be reached ({error.strerror or error}); check the network and the endpoint"
    return ""


def _connect(endpoint: str) -> None:
    """Connect once, and close. Raises OSError and UnicodeError."""
    if endpoint.startswith(_IPC):
        path = endpoint.removeprefix(_IPC)
        with socket.socket(socket.AF_UNIX) as local:
            local.settimeout(CONNECT_S)
            local.connect("\0" + path[1:] if path.startswith("@") else path)
        return
    address = urlsplit(endpoint)
    socket.create_connection((address.hostname or "", address.port or 0), CONNECT_S).close()
