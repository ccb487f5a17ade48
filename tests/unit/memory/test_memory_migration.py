"""A store of the first version opens as one of the current version, with everything that was in it."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
import sqlite_vec
from support.memories import WordEmbedder

from outrider.core.values import Place, RecordKind, Visibility
from outrider.memory.qdrant_corpus import FleetCorpus
from outrider.memory.store.eviction import StoreLimits
from outrider.memory.store.ranking import sign_code
from outrider.memory.store.schema import APPLICATION_ID, NOWHERE
from outrider.memory.store.store import MemoryStore

VERSION_1 = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE records (
    id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL, told INTEGER NOT NULL,
    shareable INTEGER NOT NULL, created_s REAL NOT NULL, updated_s REAL NOT NULL, x REAL, y REAL,
    home TEXT NOT NULL, embedding BLOB NOT NULL, thumbnail BLOB
);
CREATE TABLE totals (records INTEGER NOT NULL);
INSERT INTO totals VALUES (0);
CREATE TRIGGER records_counted AFTER INSERT ON records BEGIN UPDATE totals SET records = records + 1; END;
CREATE TRIGGER records_discounted AFTER DELETE ON records BEGIN UPDATE totals SET records = records - 1; END;
CREATE INDEX records_by_age ON records (told, updated_s);
CREATE INDEX records_by_place ON records (home, x, y) WHERE x IS NOT NULL;
CREATE INDEX records_seen ON records (text, home) WHERE told = 0;
CREATE VIRTUAL TABLE texts USING fts5(
    text, content = 'records', content_rowid = 'id', tokenize = 'porter unicode61'
);
CREATE VIRTUAL TABLE codes USING vec0(
    id INTEGER PRIMARY KEY, code bit[384],
    told boolean, shareable boolean, updated_s float, x float, y float, home text
);
INSERT INTO facts VALUES ('embedder', 'words');
INSERT INTO facts VALUES ('forgotten', 4);
PRAGMA user_version = 1;
"""
LONG = (
    "We walked in the park and read the news on the balcony today. " * 20
    + "The bicycle pump hangs under the stairs."
)
START_S = 1_700_000_000.0
TEXTS = [("my keys hang by the door", 1), ("钥匙在门边", 1), (LONG, 1), ("silver lamp", 0), ("gone later", 1)]


@pytest.fixture
def old_store(tmp_path: Path) -> Path:
    path, embedder = tmp_path / "m.db", WordEmbedder()
    connection = apsw.Connection(str(path))
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    connection.pragma("journal_mode", "WAL")
    connection.execute(VERSION_1)
    connection.pragma("application_id", APPLICATION_ID)
    for number, (text, told) in enumerate(TEXTS):
        vector, x = embedder.embed(text), None if told else 2.0
        row = (text, told, 1 - told, START_S + number, START_S + number, x, x, "h", vector.tobytes(), None)
        connection.execute("INSERT INTO records VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        row_id = connection.last_insert_rowid()
        connection.execute("INSERT INTO texts (rowid, text) VALUES (?, ?)", (row_id, text))
        spot = (NOWHERE if x is None else x,) * 2
        code = (row_id, sign_code(vector), told, 1 - told, START_S + number, *spot, "h")
        connection.execute("INSERT INTO codes VALUES (?, vec_bit(?), ?, ?, ?, ?, ?, ?)", code)
    connection.execute("INSERT INTO texts(texts, rowid, text) VALUES ('delete', 5, 'gone later')")
    connection.execute("DELETE FROM codes WHERE id = 5")
    connection.execute("DELETE FROM records WHERE id = 5")
    connection.close()
    return path


def test_a_store_whose_index_had_fewer_spellings_alike_is_indexed_anew(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with MemoryStore(path, WordEmbedder()) as store:
        for text in ("Søren has the key", "the lamp is red"):
            store.add(text)
        connection = store._connection
        connection.execute("INSERT INTO texts(texts, rowid, words) VALUES ('delete', 1, 'soren has the key')")
        connection.execute("UPDATE records SET words = 'søren has the key' WHERE id = 1")
        connection.execute("INSERT INTO texts (rowid, words) VALUES (1, 'søren has the key')")
        connection.pragma("user_version", 2)
    with MemoryStore(path, WordEmbedder()) as store:
        store.verify()
        assert store.holding("søren") == store.holding("Soren") == {1}
        assert store.forget_matching("SØREN") == 1 and store.count() == 1
        store.verify()


def test_a_fleets_corpus_of_earlier_words_is_indexed_anew(tmp_path: Path) -> None:
    corpus = FleetCorpus(f"qdrant:{tmp_path}", WordEmbedder())
    corpus.add(["Søren has the key", "the lamp is red"])
    points = list(corpus._all_points())
    for point in points:
        payload = {"text": point.payload["text"], "words": ["søren", "key"], "added_s": 0.0}
        corpus._client.overwrite_payload(corpus._collection, payload, points=[point.id])
    corpus.close()
    corpus = FleetCorpus(f"qdrant:{tmp_path}", WordEmbedder())
    assert corpus.forget_matching("Soren") == 1 and list(corpus.passages()) == ["the lamp is red"]
    corpus.close()


def test_everything_is_there_and_found_as_in_a_new_store(old_store: Path) -> None:
    for _ in range(2):
        with MemoryStore(old_store, WordEmbedder(), limits=StoreLimits()) as store:
            store.verify()
            assert [record.text for record in store.newest()] == [text for text, _ in reversed(TEXTS[:4])]
            [lamp] = store.seen("silver lamp")
            assert (lamp.id, lamp.kind, lamp.place) == (4, RecordKind.SEEN, Place(2.0, 2.0, "h"))
            assert lamp.visibility is Visibility.SHAREABLE and lamp.created_s == START_S + 3
            assert store.recall("where is the bicycle pump?")[0].passage.endswith("under the stairs.")
            assert store.recall("钥匙")[0].record.id == 2 and store.num_forgotten() == 4
    with MemoryStore(old_store, WordEmbedder()) as store:
        assert store.add("new").id == 6, "an id is never used twice"
        assert store.forget_matching("门边") == 1
