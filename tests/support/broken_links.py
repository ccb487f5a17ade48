"""A link that breaks silently: open connections stay open but pass no data."""

from __future__ import annotations

import contextlib
import socket
import threading


class BreakingLink:
    """Forwards connections at its own `port` to another port of this machine, in threads of its own."""

    def __init__(self, to: int) -> None:
        self._to, self._broken, self._forged = to, threading.Event(), ""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def break_(self) -> None:
        """Silences the open connections in both directions. New connections work."""
        self._broken.set()
        self._broken = threading.Event()

    def forge(self, way: str) -> None:
        """Flips a bit of the next data in one direction (`up` to the port, `down` from it), then ends all."""
        self._forged = way

    def end(self) -> None:
        """Ends all connections, as those of a broken link end in time. New connections work."""
        while self._open:
            with contextlib.suppress(OSError):
                self._open.pop().shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stops listening, and ends all connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.end()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far, broken = socket.create_connection(("127.0.0.1", self._to)), self._broken
                self._open += near, far
                for way in (("up", near, far), ("down", far, near)):
                    threading.Thread(target=self._hand_on, args=(*way, broken), daemon=True).start()

    def _hand_on(self, way: str, source: socket.socket, sink: socket.socket, broken: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while content := source.recv(65536):
                if self._forged == way:
                    sink.sendall(content[:-1] + bytes([content[-1] ^ 1]))
                    self._forged = ""
                    self.end()
                elif not broken.is_set():
                    sink.sendall(content)
            if not broken.is_set():
                sink.shutdown(socket.SHUT_WR)
