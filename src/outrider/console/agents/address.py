# SPDX-License-Identifier: Apache-2.0
"""Address of a console, at a robot or at a relay, and the HTTP requests that need no websocket."""

from __future__ import annotations

import http.client
import re
import time
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from outrider.console.messages import AGENT_NAME
from outrider.core.errors import ConfigError, LinkError

CONNECT_S = 5.0
STOPPING_S, STOP_AGAIN_S = 3.0, 0.2
"""How long a failing stop is retried, and the pause after each failure, in seconds."""


@dataclass(frozen=True)
class ConsoleAddress:
    """Address of a console, and its login token if it needs one.

    Requests time out after `connect_s` seconds; a failing stop is retried for `stopping_s` seconds.
    """

    url: str
    token: str = ""
    connect_s: float = CONNECT_S
    stopping_s: float = STOPPING_S

    def __post_init__(self) -> None:
        """Raise ConfigError if the URL is not the address of a console."""
        try:
            parts = urlsplit(self.url)
            usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise ConfigError(f"--console {self.url!r}: give an address such as http://127.0.0.1:8088/")

    @property
    def origin(self) -> str:
        """The console's scheme, host and port, as browsers send them."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def path(self) -> str:
        """The path of the console's page, without a trailing slash; at a relay each robot has its own."""
        return urlsplit(self.url).path.rstrip("/")

    @property
    def websocket(self) -> str:
        """The address of the console's websocket."""
        return f"{self.origin.replace('http', 'ws', 1)}{self.path}/ws"

    def log_in(self) -> str:
        """Return the session cookie; empty if there is no token. Blocks. Raises LinkError, ConfigError."""
        if not self.token:
            return ""
        answer = self._post("/login", urlencode({"token": self.token}))
        cookie = answer.getheader("Set-Cookie", "").partition(";")[0]
        if not cookie:
            raise ConfigError(
                f"{self.url} does not take the login token: give its file with --console-token-file"
            )
        return cookie

    def not_let_in(self, status: int) -> LinkError:
        """Return the error for the HTTP status with which the console refuses the agent's websocket."""
        login = "" if self.token else "give the file of its login token with --console-token-file; "
        return LinkError(
            f"{self.url} does not let the agent in (HTTP {status}): {login}the address is that of the "
            "console's page, at a relay with the robot's name"
        )

    def e_stop(self) -> None:
        """Engage the emergency stop over HTTP, without a login. Blocks, and retries for `stopping_s` seconds.

        Raises LinkError if the console has not confirmed the stop by then.
        """
        until_s = time.monotonic() + self.stopping_s
        while problem := self._not_stopped():
            if time.monotonic() > until_s:
                raise LinkError(
                    f"the emergency stop could NOT be engaged, use the robot's own: {problem}. Where the "
                    "console has ended, what it had the robot do ends about 1 s later"
                )
            time.sleep(STOP_AGAIN_S)

    def _not_stopped(self) -> str:
        """Try once; return why the console has not confirmed the stop, or an empty string if it has."""
        try:
            status = self._post(f"{self.path}/e_stop", "").status
        except LinkError as error:
            return str(error)
        return "" if status == http.client.OK else f"{self.url} does not take it (status {status})"

    def _post(self, path: str, body: str) -> http.client.HTTPResponse:
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.netloc, timeout=self.connect_s)
        headers = {"Origin": self.origin, "Content-Type": "application/x-www-form-urlencoded"}
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            answer.read()
            return answer
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise no_console(self.url, error) from None
        finally:
            connection.close()


def check_name(name: str) -> None:
    """Raise ConfigError unless `name` is a valid agent name. An agent without one would count as a person."""
    if not name or not re.match(AGENT_NAME, name):
        raise ConfigError(
            f"--name {name!r}: give 1 to 32 letters of English, digits, - and _, such as robot-helper"
        )


def no_console(url: str, error: object) -> LinkError:
    """Return the error that no console answers at `url`, and what to do."""
    return LinkError(f"no console answers at {url} ({error}): start `outrider console`, or use --simulation")
