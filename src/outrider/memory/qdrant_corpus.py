# SPDX-License-Identifier: Apache-2.0
"""General knowledge for a fleet: the same passages in Qdrant, which many verifiers may share.

`http(s)://HOST:PORT` is a server, whose key is in $QDRANT_API_KEY. `qdrant:FOLDER` is the local mode of
Qdrant's client: this process answers the calls from a folder, for thousands of passages. The tests use it.
The collection's name contains the embedder's, so that vectors of different embedders never mix.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

from outrider.core.errors import MemoryStoreError, StoreInputError
from outrider.core.files.given_file import in_home
from outrider.core.files.private_files import make_private_folder
from outrider.core.ports import Embedder
from outrider.core.values import Recalled, Record, RecordKind, Visibility
from outrider.memory.language.passages import passage_spans
from outrider.memory.language.words import WORDS_FORM, holds_all, search_words
from outrider.memory.store.ranking import content_words, hybrid_score, lexical_weight, own_words
from outrider.memory.store.records import TO_FIND, TO_FORGET, checked_text

SERVER = re.compile(r"https?://\S+")
LOCAL = "qdrant:"
KEY_VARIABLE = "QDRANT_API_KEY"
TIMEOUT_S = 5
NEAREST, MATCHING, PAGE = 64, 32, 256


def is_fleet(where: str) -> bool:
    """Whether a corpus of this name is in Qdrant."""
    return where.startswith(LOCAL) or SERVER.fullmatch(where) is not None


class FleetCorpus:
    """Implements `core.ports.Corpus` in Qdrant."""

    def __init__(self, where: str, embedder: Embedder) -> None:
        """Raises MemoryStoreError without the package, a reachable server, a valid key or a usable folder."""
        self.where = where
        self._embedder = embedder
        self._models = _package().models
        self._collection = f"outrider_{re.sub('[^a-zA-Z0-9]+', '_', embedder.name)}"
        with self._translated():
            self._client = _client(where)
            self._prepare()

    def add(self, passages: Iterable[str]) -> int:
        """Store passages that are new. Returns their number."""
        texts = {_point_id(text): text for text in map(checked_text, passages)}
        with self._translated():
            found = self._client.retrieve(self._collection, list(texts), with_payload=False)
            new = [number for number in texts if number not in {point.id for point in found}]
            for start in range(0, len(new), PAGE):
                points = [self._point(number, texts[number]) for number in new[start : start + PAGE]]
                self._client.upsert(self._collection, points, wait=True)
        return len(new)

    def recall(self, query: str, limit: int = 3) -> list[Recalled]:
        """Returns the `limit` best passages for a query by vector and words, best first."""
        query = checked_text(query, TO_FIND)
        words = content_words(query)
        found: dict[int, Recalled] = {}
        for start, stop in passage_spans(query):
            vector = self._embedder.embed(query[start:stop]).tolist()
            points = self._nearest(vector, None, max(limit, NEAREST))
            if words:
                match = self._models.MatchAny(any=list(words))
                condition = self._models.FieldCondition(key="words", match=match)
                points += self._nearest(vector, self._models.Filter(must=[condition]), MATCHING)
            for one in (_recalled(point, words) for point in points):
                found[one.record.id] = max(one, found.get(one.record.id, one), key=lambda each: each.score)
        return sorted(found.values(), key=lambda one: -one.score)[:limit]

    def passages(self) -> Iterator[str]:
        """Returns all passages, in no particular order."""
        return (point.payload["text"] for point in self._all_points())

    def forget_matching(self, words: str) -> int:
        """Delete the passages that contain all of these words. Returns their number."""
        wanted = own_words(checked_text(words, TO_FORGET))
        if not wanted:
            raise StoreInputError(f"{words!r} holds no word to go by: give one of what is to be forgotten")
        models = self._models
        units = {unit for word in wanted for unit in word.split(" ")}
        values = (models.MatchValue(value=unit) for unit in units)
        conditions = [models.FieldCondition(key="words", match=value) for value in values]
        points = self._all_points(models.Filter(must=conditions))
        ids = [point.id for point in points if holds_all(point.payload["text"], wanted)]
        with self._translated():
            if ids:
                self._client.delete(self._collection, models.PointIdsList(points=ids), wait=True)
        return len(ids)

    def count(self) -> int:
        """Returns the number of passages."""
        with self._translated():
            return int(self._client.count(self._collection).count)

    def close(self) -> None:
        """Close the connection to the server."""
        self._client.close()

    def _all_points(self, only: Any = None) -> Iterator[Any]:
        """Yields the points that pass a filter, page by page."""
        offset = None
        while True:
            with self._translated():
                points, offset = self._client.scroll(
                    self._collection, scroll_filter=only, limit=PAGE, offset=offset
                )
            yield from points
            if offset is None:
                return

    def _prepare(self) -> None:
        if self._client.collection_exists(self._collection):
            self._index_anew()
            return
        vectors = self._models.VectorParams(size=self._embedder.size, distance=self._models.Distance.COSINE)
        self._client.create_collection(self._collection, vectors_config=vectors)
        if SERVER.fullmatch(self.where):  # the local mode has no indexes
            self._client.create_payload_index(
                self._collection, "words", self._models.PayloadSchemaType.KEYWORD
            )

    def _index_anew(self) -> None:
        """Index passages again that an older form of `words_of` indexed."""
        models = self._models
        is_new = models.FieldCondition(key="form", match=models.MatchValue(value=WORDS_FORM))
        for point in list(self._all_points(models.Filter(must_not=[is_new]))):
            words = {"words": _indexed(point.payload["text"]), "form": WORDS_FORM}
            self._client.set_payload(self._collection, words, points=[point.id], wait=True)

    def _point(self, number: int, text: str) -> Any:
        words = {"words": _indexed(text), "form": WORDS_FORM}
        payload = {"text": text, "added_s": time.time(), **words}
        return self._models.PointStruct(
            id=number, vector=self._embedder.embed(text).tolist(), payload=payload
        )

    def _nearest(self, vector: list[float], only: Any, limit: int) -> list[Any]:
        with self._translated():
            found = self._client.query_points(
                self._collection, query=vector, query_filter=only, limit=limit, with_payload=True
            )
            return list(found.points)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Translates errors of the package and of the disk to MemoryStoreError."""
        failures = _package().http.exceptions
        try:
            yield
        except failures.UnexpectedResponse as error:
            hint = f"set ${KEY_VARIABLE}" if error.status_code in (401, 403) else "see the server's log"
            raise MemoryStoreError(f"{self.where} refuses ({error.status_code}): {hint}") from error
        except (failures.ApiException, OSError) as error:
            raise MemoryStoreError(
                f"{self.where} cannot be reached ({error}): see that Qdrant runs there"
            ) from error
        except (RuntimeError, ValueError) as error:
            raise MemoryStoreError(
                f"{self.where} cannot be used ({error}): the local form is for one process at a time; "
                "give a server's address for more"
            ) from error


def _package() -> Any:
    try:
        import qdrant_client
        import qdrant_client.http.exceptions
    except ImportError as error:
        raise MemoryStoreError(
            "a corpus in Qdrant needs the package qdrant-client: pip install 'outrider[fleet]'"
        ) from error
    return qdrant_client


def _client(where: str) -> Any:
    make = _package().QdrantClient
    if not where.startswith(LOCAL):
        key = os.environ.get(KEY_VARIABLE)
        return make(url=where, api_key=key, timeout=TIMEOUT_S, check_compatibility=False)
    name = where.removeprefix(LOCAL)
    if name == ":memory:":
        return make(location=name)
    folder = in_home(name)
    make_private_folder(folder)
    return make(path=str(folder))


def _point_id(text: str) -> int:
    """Returns an id that depends only on the text, so that nothing is stored twice."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _recalled(point: Any, words: tuple[str, ...]) -> Recalled:
    payload, similarity = point.payload, float(point.score)
    record = Record(
        int(point.id),
        payload["text"],
        RecordKind.TOLD,
        Visibility.SHAREABLE,
        payload["added_s"],
        payload["added_s"],
    )
    matching = len(set(words) & set(payload["words"]))
    score = hybrid_score(similarity, matching, len(words), lexical_weight(words))
    return Recalled(record, similarity, score, record.text)


def _indexed(text: str) -> list[str]:
    """Returns a passage's index terms: units for forgetting, and pairs of units for searching."""
    found = search_words(text)
    return sorted({*found, *(unit for word in found for unit in word.split(" "))})
