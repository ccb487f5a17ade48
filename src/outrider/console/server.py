# SPDX-License-Identifier: Apache-2.0
"""The console's web server, in its own thread, and the interface for the robot's side."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from outrider.console import messages as m
from outrider.console.acceptor import REQUEST_S, ConnectionAcceptor
from outrider.console.access import DEFAULT_TOKEN_FILE, Access, is_loopback, load_token
from outrider.console.app import Console
from outrider.console.hub import Hub
from outrider.console.limits import ConsoleLimits
from outrider.console.messages import MAX_MESSAGE_BYTES
from outrider.console.notes import Note, note_nothing
from outrider.console.protocols.connections import HttpProtocol, WebSocketProtocol
from outrider.console.robot import RobotPort
from outrider.core.errors import ConfigError
from outrider.core.files.certificate import certificate_hint
from outrider.core.files.given_file import cause_of, in_home, read_file
from outrider.core.hearing import AsrEngine, TtsEngine
from outrider.core.sensors.camera import CameraModel
from outrider.core.values import Pose2D, RangeScan

START_S, STOP_S = 60.0, 5.0
"""Limits in seconds. A start loads libraries, which takes half a second, and longer on a busy machine."""
WAITING = 4096
"""The listen backlog: connections that the system keeps until they are accepted."""
PING_S = 5.0
BROKEN_AFTER_S = 4
"""A connection whose peer's system does not answer for this many seconds is broken."""
KEEPALIVE_OPTIONS = {
    socket.TCP_KEEPIDLE: 1,
    socket.TCP_KEEPINTVL: 1,
    socket.TCP_KEEPCNT: BROKEN_AFTER_S - 1,
    socket.TCP_USER_TIMEOUT: 1000 * BROKEN_AFTER_S,
}
"""TCP options, which accepted connections inherit from the listening socket."""
Opened = contextlib.AbstractAsyncContextManager[ASGIApp]


@dataclass(frozen=True)
class ConsoleSettings:
    """Where to serve. Off the loopback interface a login is needed; `login=True` needs one on it too.

    An empty `token_file` means the default one. With a certificate and its key, pages are served encrypted.
    A request is ended after `request_s`. A page is pinged every `ping_s`, and closed if it does not answer
    for as long. `limits` are the console's own.
    """

    host: str = "127.0.0.1"
    port: int = 8088
    login: bool = False
    token_file: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    request_s: float = REQUEST_S
    ping_s: float = PING_S
    limits: ConsoleLimits = field(default_factory=ConsoleLimits)

    @property
    def needs_login(self) -> bool:
        """Whether viewers have to log in."""
        return self.login or not is_loopback(self.host)

    @property
    def token_path(self) -> Path:
        """Returns the file of the login token."""
        return in_home(self.token_file or DEFAULT_TOKEN_FILE)

    def url_at(self, port: int) -> str:
        """Returns the address of a port, as it is opened from this machine or from another."""
        host = socket.gethostname() if self.host in ("0.0.0.0", "::") else self.host
        scheme = "https" if self.tls_cert else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"


class WebServer:
    """Serves one application in its own thread, from construction until `close`.

    `opened` yields the application, within the thread's event loop, for as long as it is served. Raises
    ConfigError if the address cannot be served, or the token or certificate is not usable.
    """

    def __init__(self, settings: ConsoleSettings, opened: Callable[[Access], Opened]) -> None:
        self.settings, self._opened = settings, opened
        self._access = Access(load_token(settings.token_path) if settings.needs_login else None)
        check_certificate(settings)
        listener = listen(settings.host, settings.port)
        self.port: int = listener.getsockname()[1]
        self._acceptor = ConnectionAcceptor(listener, settings.request_s)
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._server: uvicorn.Server
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="console", daemon=True
        )
        self._thread.start()
        if not self._ready.wait(START_S):
            raise ConfigError("the console's web server did not start: see its log")

    @property
    def url(self) -> str:
        """The address that a person opens."""
        return self.settings.url_at(self.port)

    @property
    def hints(self) -> str:
        """What to print after the address: the file of the login token, and faults of the certificate."""
        ends = certificate_hint(self.settings.tls_cert)
        if not self.settings.needs_login:
            return ends
        plain = "" if self.settings.tls_cert else "; it goes over the network unencrypted without tls_cert"
        return f", the login token is in {self.settings.token_path}{plain}{ends}"

    def call(self, function: Callable[..., None], *args: Any) -> None:
        """Calls a function soon, in the server's thread. May be called from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(function, *args)

    def close(self) -> None:
        """Ends the connections and the thread."""
        self._server.should_exit = True
        self._thread.join(STOP_S)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._opened(self._access) as application:
            config = web_config(
                application,
                self.settings,
                lifespan="off",
                ws_max_size=MAX_MESSAGE_BYTES,
                ws_ping_interval=self.settings.ping_s,
                ws_ping_timeout=self.settings.ping_s,
                # Pictures are compressed already, and the rest is small.
                ws_per_message_deflate=False,
            )
            self._server = AcceptorServer(config, self._acceptor, is_websocket)
            self._ready.set()
            await self._server.serve()


class ConsoleServer:
    """Serves the console until `close`. Its methods may be called from any thread; none blocks.

    `alongside` runs on the server's loop, with the console, for as long as it serves; it brings a relay's
    viewers. Raises ConfigError if the address cannot be served, or the token or certificate is not usable.
    """

    def __init__(
        self,
        robot: RobotPort,
        settings: ConsoleSettings,
        note: Note = note_nothing,
        engine: AsrEngine | None = None,
        alongside: Callable[[Console], Coroutine[Any, Any, None]] | None = None,
        voice: TtsEngine | None = None,
    ) -> None:
        self.settings, self._note, self._alongside = settings, note, alongside
        self._engine, self._voice = engine, voice
        self._robot = robot
        self._hub: Hub
        self._web = WebServer(settings, self._opened)

    @property
    def port(self) -> int:
        """Returns the TCP port."""
        return self._web.port

    @property
    def url(self) -> str:
        """The address that a person opens."""
        return self._web.url

    @property
    def hints(self) -> str:
        """What to print after the address: the file of the login token, and faults of the certificate."""
        return self._web.hints

    @property
    def num_viewers(self) -> int:
        """Returns the number of connected viewers."""
        return self._hub.num_viewers

    def show(self, event: m.ToPage) -> None:
        """Shows an event to all viewers."""
        self._web.call(self._hub.show, event)

    def show_picture(self, jpeg: bytes) -> None:
        """Shows a camera picture to all viewers."""
        self._web.call(self._hub.show_picture, jpeg)

    def set_camera_model(self, lens: CameraModel | None) -> None:
        """Sets the camera of all pictures from now on; without one nothing is drawn on them."""
        self._web.call(self._hub.set_camera_model, lens)

    def show_pose(self, pose: Pose2D) -> None:
        """Shows the robot's pose to all viewers."""
        self._web.call(self._hub.show_pose, pose)

    def show_scan(self, pose: Pose2D, scan: RangeScan) -> None:
        """Shows a range scan to all viewers."""
        self._web.call(self._hub.show_scan, pose, scan)

    def update(self, **fields: Any) -> None:
        """Updates fields of `messages.State`."""
        self._web.call(lambda: self._hub.update(**fields))

    def close(self) -> None:
        """Closes the pages' connections, which also takes a hand off the robot, and ends the thread."""
        self._web.close()

    @contextlib.asynccontextmanager
    async def _opened(self, access: Access) -> AsyncIterator[ASGIApp]:
        limits = self.settings.limits
        self._hub = Hub(self._robot, self._note, limits)
        console = Console(self._hub, access, bool(self.settings.tls_cert), self._engine, self._voice, limits)
        tasks = [asyncio.create_task(self._hub.run())]
        if self._alongside is not None:
            tasks.append(asyncio.create_task(self._alongside(console)))
        try:
            yield console.application()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            console.close()
            self._hub.close()


def web_config(application: ASGIApp, settings: ConsoleSettings, **more: Any) -> uvicorn.Config:
    """Returns the configuration that all web servers share, with `more` added."""
    return uvicorn.Config(
        application,
        http=HttpProtocol,
        ws=WebSocketProtocol,
        log_config=None,
        access_log=False,
        log_level="error",  # it warns of each request that is no HTTP, so strangers could fill the log
        server_header=False,
        timeout_graceful_shutdown=1,
        ssl_certfile=settings.tls_cert or None,
        ssl_keyfile=settings.tls_key or None,
        **more,
    )


class AcceptorServer(uvicorn.Server):
    """Uvicorn's server with a ConnectionAcceptor, which gets `is_long_lived`."""

    def __init__(
        self, config: uvicorn.Config, acceptor: ConnectionAcceptor, is_long_lived: Callable[[Any], bool]
    ) -> None:
        super().__init__(config)
        self._acceptor, self._is_long_lived = acceptor, is_long_lived

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts the server and its acceptor."""
        await super().startup(sockets=[])
        kind: Any = self.config.http_protocol_class
        options = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        self._acceptor.open(self._is_long_lived, lambda: kind(**options), self.config.ssl)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Closes the acceptor, and ends what is under way."""
        self._acceptor.close()
        await super().shutdown()


def is_websocket(protocol: Any) -> bool:
    """Whether a connection is a websocket."""
    return not isinstance(protocol, HttpProtocol)


def listen(host: str, port: int) -> socket.socket:
    """Returns a listening socket. Raises ConfigError for an address that cannot be served."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for option, value in KEEPALIVE_OPTIONS.items():
            listener.setsockopt(socket.IPPROTO_TCP, option, value)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listener.bind(address)
        listener.listen(WAITING)
    except (OSError, OverflowError, UnicodeError) as error:  # also for an invalid host name, such as `a..b`
        raise ConfigError(
            f"the console cannot listen at {host}, port {port} ({cause_of(error)}): "
            "choose another host or port"
        ) from None
    return listener


def check_certificate(settings: ConsoleSettings) -> None:
    """Raises ConfigError for a certificate that cannot be used with its key."""
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise ConfigError("tls_cert and tls_key belong together: give both files, or none")
    if not settings.tls_cert:
        return
    files = settings.tls_cert, settings.tls_key
    try:
        for file in files:
            read_file(Path(file))
        # Never ask for a pass phrase: often no person starts the server.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*files, password="")
    except ssl.SSLError as error:
        raise ConfigError(
            f"{' and '.join(files)} are no certificate and its key in PEM without a pass phrase: {error}"
        ) from None
    except OSError as error:
        raise ConfigError(
            f"tls_cert or tls_key, {' or '.join(files)}, cannot be read: {cause_of(error)}"
        ) from None
