# SPDX-License-Identifier: Apache-2.0
"""One open page of the console, with its queue and its rate limits."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Container
from dataclasses import dataclass, field

from outrider.console import messages as m
from outrider.console.protocols.mailbox import Mailbox
from outrider.console.protocols.pace import Pace

WARNING_PERIOD_S = 1.0
MAX_NAMES = 256


@dataclass(eq=False)
class Viewer:
    """One open page, or an agent. `name` is for everybody, `secret` for the page alone."""

    name: str
    secret: str
    is_agent: bool = False
    mailbox: Mailbox = field(default_factory=Mailbox)
    pace: Pace = field(default_factory=Pace)
    _warned_s: float = -math.inf

    def warn(self, text: str, now_s: float) -> bool:
        """Warn a person at most once a period, an agent each time; return whether to note the warning."""
        is_due = self._is_due(now_s)
        if is_due or self.is_agent:
            self.mailbox.put(m.write(m.Notice("warning", text)))
        return is_due

    def is_to_sit(self, request: m.Gated, now_s: float) -> bool:
        """Ask a person to take the seat for a request; return whether to note that."""
        self.mailbox.put_latest("unseated", m.write(m.Unseated(request)))
        return self._is_due(now_s)

    def _is_due(self, now_s: float) -> bool:
        """Whether another warning is due: a held key sends twenty messages a second."""
        if now_s - self._warned_s < WARNING_PERIOD_S:
            return False
        self._warned_s = now_s
        return True


class Viewers(dict[str, Viewer]):
    """The viewers by their secrets. `welcome` makes the complete state, for a viewer that missed events."""

    def __init__(self, welcome: Callable[[Viewer], m.Welcome]) -> None:
        super().__init__()
        self._welcome = welcome

    def broadcast(self, event: m.ToPage) -> None:
        """Send the same event to all viewers."""
        content = m.write(event) if self else ""
        for viewer in self.values():
            self._put(viewer, content)

    def broadcast_each(self, event_for: Callable[[Viewer], m.ToPage]) -> None:
        """Send each viewer its own event."""
        for viewer in self.values():
            self.put(viewer, event_for(viewer))

    def broadcast_latest(self, kind: str, status_for: Callable[[Viewer], m.ToPage]) -> None:
        """Send each viewer its own status, in place of an older one that waits."""
        for viewer in self.values():
            viewer.mailbox.put_latest(kind, m.write(status_for(viewer)))

    def broadcast_text(self, text: m.Text) -> None:
        """Send a text to all viewers; of a text in decoding, only the newest state."""
        if text.state == "decoding":
            self.broadcast_latest("text", lambda _: text)
            return
        for viewer in self.values():
            viewer.mailbox.drop_latest("text")
        self.broadcast(text)

    def put(self, viewer: Viewer, event: m.ToPage) -> None:
        """Send an event to one viewer."""
        self._put(viewer, m.write(event))

    def _put(self, viewer: Viewer, content: str) -> None:
        if not viewer.mailbox.put(content):
            viewer.mailbox.put_first(m.write(self._welcome(viewer)))


class Names:
    """The names of viewers by their secrets, also of viewers that have gone."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._count = 0

    def knows(self, secret: str) -> bool:
        """Whether a viewer with this secret has been here."""
        return secret in self._names

    def viewer(self, hello: m.Hello, here: Container[str]) -> Viewer:
        """Return a new viewer, or one that comes back. `here` holds the secrets of connected viewers."""
        secret = hello.resume if self.knows(hello.resume) else secrets.token_urlsafe(16)
        if not self.knows(secret):
            self._count += 1
            self._names[secret] = f"{f'agent {hello.agent}' if hello.agent else 'viewer'} {self._count}"
        if len(self._names) > MAX_NAMES:
            del self._names[next(name for name in self._names if name not in here)]
        return Viewer(self._names[secret], secret, bool(hello.agent))
