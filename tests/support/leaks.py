"""A tap on a TCP connection, and a search for secrets in the captured bytes."""

from __future__ import annotations

import re
import selectors
import socket
import threading
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from outrider.core.ports import Embedder, Tokenizer
from outrider.decoding.acceptance.packing import encode_varints
from outrider.memory.store.ranking import sign_code

WORD_LETTERS = 5
TOKEN_RUN = 4
VECTOR_BYTES = 8


class Tap:
    """Relays connections to another local port and keeps every byte of both directions."""

    def __init__(self, upstream_port: int) -> None:
        self.captured = bytearray()
        self._upstream_port = upstream_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._peers: dict[socket.socket, socket.socket] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(10.0)
        for endpoint in [self._listener, *self._peers]:
            endpoint.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for key, _ in self._selector.select(0.02):
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._peers:
                    self._relay(key.fileobj)

    def _accept(self) -> None:
        client = self._listener.accept()[0]
        try:
            server = socket.create_connection(("127.0.0.1", self._upstream_port))
        except OSError:
            client.close()  # the server is not up yet: the client tries again
            return
        self._peers |= {client: server, server: client}
        for endpoint in (client, server):
            self._selector.register(endpoint, selectors.EVENT_READ)

    def _relay(self, source: socket.socket) -> None:
        try:
            data = source.recv(65_536)
        except OSError:
            data = b""
        if data:
            self.captured += data
            self._peers[source].sendall(data)
            return
        for endpoint in (source, self._peers.pop(source)):
            self._peers.pop(endpoint, None)
            self._selector.unregister(endpoint)
            endpoint.close()


def leaks(
    captured: bytes,
    secrets: Sequence[str],
    public: Sequence[str],
    tokenizer: Tokenizer,
    embedder: Embedder,
) -> list[str]:
    """Returns the parts of secrets in captured bytes: text, words, token runs and embeddings.

    Words and token runs of `public` texts are not secret.
    """
    plain = captured.lower()
    known_words = set(_words(public))
    known_runs = {run for text in public for run in _token_runs(tokenizer, text)}
    found = []
    for secret in secrets:
        needles = [("text", secret.lower().encode())]
        needles += [("word", word.encode()) for word in _words([secret]) if word not in known_words]
        found += [f"{form} {needle!r}" for form, needle in needles if needle in plain]
        for run in _token_runs(tokenizer, secret) - known_runs:
            forms = (packed_ids(run), encode_varints(np.array(run, dtype=np.int64)))
            found += [f"tokens {run}" for form in forms if form in captured]
        embedding = embedder.embed(secret)
        for vector in (
            embedding.astype("<f4").tobytes(),
            embedding.astype("<f2").tobytes(),
            sign_code(embedding),
        ):
            pieces = (vector[at : at + VECTOR_BYTES] for at in range(0, len(vector) - VECTOR_BYTES + 1, 2))
            found += [f"embedding of {secret!r}" for piece in pieces if piece in captured][:1]
    return found


def _words(texts: Iterable[str]) -> set[str]:
    return {
        word for text in texts for word in re.findall(r"[a-z0-9]+", text.lower()) if len(word) >= WORD_LETTERS
    }


def _token_runs(tokenizer: Tokenizer, text: str) -> set[tuple[int, ...]]:
    ids = [*tokenizer.encode(text)]
    return {tuple(ids[at : at + TOKEN_RUN]) for at in range(len(ids) - TOKEN_RUN + 1)}


def packed_ids(run: tuple[int, ...]) -> bytes:
    """Returns the ids as in a msgpack array, without its header."""
    return b"".join(msgspec.msgpack.encode(token) for token in run)
