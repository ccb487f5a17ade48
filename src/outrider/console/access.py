# SPDX-License-Identifier: Apache-2.0
"""Access control of the console: a login token in a file, session cookies, and an origin check."""

from __future__ import annotations

import ipaddress
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from outrider.core.files.private_files import HOME_FOLDER
from outrider.core.files.secret_file import load_secret, read_secret

DEFAULT_TOKEN_FILE = HOME_FOLDER / "console.token"
COOKIE = "outrider_session"
SESSION_S = 12 * 3600.0
MAX_SESSIONS = 64


def is_loopback(host: str) -> bool:
    """Whether `host` is a loopback address or `localhost`."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def load_token(path: Path) -> str:
    """Return the login token in a file; create the file (mode 0600) if it does not exist.

    Raises ConfigError if others may read the file, it cannot be created, or the token is too short.
    """
    return load_secret(path, "token")


def read_token(path: Path) -> str:
    """Return the login token of another process's console. Raises ConfigError if the file is missing."""
    return read_secret(path, "token", "name the file that the console told as it started, or a copy of it")


class Access:
    """Sessions of clients that know the token. Without a token every client on this machine is admitted."""

    def __init__(self, token: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._token = token
        self._clock = clock
        self._sessions: dict[str, float] = {}

    @property
    def needs_login(self) -> bool:
        """Whether a token is needed to open a session."""
        return self._token is not None

    def log_in(self, token: str) -> str | None:
        """Return a new session for the right token, else None. The comparison takes constant time."""
        right = secrets.compare_digest(token.strip().encode(), (self._token or "").encode())
        if not right or self._token is None:
            return None
        now_s = self._clock()
        self._sessions = {name: end_s for name, end_s in self._sessions.items() if end_s > now_s}
        if len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[min(self._sessions, key=lambda name: self._sessions[name])]
        session = secrets.token_urlsafe(32)
        self._sessions[session] = now_s + SESSION_S
        return session

    def admits(self, session: str | None) -> bool:
        """Whether a request with this cookie may pass."""
        if self._token is None:
            return True
        return session is not None and self._sessions.get(session, 0.0) > self._clock()

    def trusts_host(self, host: str) -> bool:
        """Whether a Host header may be served.

        Without a login only loopback names may: a web page can make another name resolve to this machine.
        """
        return self.needs_login or is_loopback(_name_of(host))


def same_origin(origin: str | None, host: str | None) -> bool:
    """Whether a request comes from a page of this server, by its Origin header."""
    try:
        return bool(origin and host) and urlsplit(origin or "").netloc.lower() == (host or "").lower()
    except ValueError:
        return False


def cookie_name(host: str) -> str:
    """Return the name of the session cookie for a Host header.

    Browsers share cookies between the ports of a host, so a console and a relay need different names.
    """
    port = host.rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isascii() and port.isdigit() else COOKIE


def _name_of(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
