# SPDX-License-Identifier: Apache-2.0
"""Where a console serves, at a robot or at a relay, and what is asked of it without a websocket."""

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
"""For so long a stop that fails is tried again, this long after each failure."""


@dataclass(frozen=True)
class ConsoleAddress:
    """Where a console serves, and its login token where it asks for one.

    An answer is waited for up to `connect_s`; a stop that fails is tried again for `stopping_s`.
    """

    url: str
    token: str = ""
    connect_s: float = CONNECT_S
    stopping_s: float = STOPPING_S

    def __post_init__(self) -> None:
        """Raises ConfigError for what is no address of a console."""
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
        """Where the console's page lies: at a relay each robot has a place of its own."""
        return urlsplit(self.url).path.rstrip("/")

    @property
    def websocket(self) -> str:
        """The address of the console's websocket."""
        return f"{self.origin.replace('http', 'ws', 1)}{self.path}/ws"

    def log_in(self) -> str:
        """The session's cookie; empty where no login is asked for. Blocks. Raises LinkError, ConfigError."""
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
        """Why the console answers the agent with this status, and no websocket."""
        login = "" if self.token else "give the file of its login token with --console-token-file; "
        return LinkError(
            f"{self.url} does not let the agent in (HTTP {status}): {login}the address is that of the "
            "console's page, at a relay with the robot's name"
        )

    def e_stop(self) -> None:
        """Engage the emergency stop without a login or a websocket. Blocks, and tries again for a while.

        Raises LinkError where the console has not confirmed it.
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
        """Tries once; why the console has not confirmed the stop, empty where it has."""
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
    """Raises ConfigError for what a console does not call an agent; without a name it would be a person."""
    if not name or not re.match(AGENT_NAME, name):
        raise ConfigError(
            f"--name {name!r}: give 1 to 32 letters of English, digits, - and _, such as robot-helper"
        )


def no_console(url: str, error: object) -> LinkError:
    """Says that nobody answers, and what to do."""
    return LinkError(f"no console answers at {url} ({error}): start `outrider console`, or use --simulation")
