"""A link that breaks without a word: what is open stays open, and leads nowhere."""

from __future__ import annotations

import contextlib
import socket
import threading


class BreakingLink:
    """Hands on the connections to a port of this machine, at its own `port`, in threads of its own."""

    def __init__(self, to: int) -> None:
        self._to, self._broken, self._forged = to, threading.Event(), ""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def break_(self) -> None:
        """Nothing more passes on what is open now, either way; new connections pass."""
        self._broken.set()
        self._broken = threading.Event()

    def forge(self, way: str) -> None:
        """A bit of what passes next, `up` to the port or `down` from it, is another; then all ends."""
        self._forged = way

    def end(self) -> None:
        """All connections end, as a broken link's do in time; new ones pass."""
        while self._open:
            with contextlib.suppress(OSError):
                self._open.pop().shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Nobody is let in any more."""
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
