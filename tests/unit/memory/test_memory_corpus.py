"""General knowledge: passages of texts, read in once and found by meaning."""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from support.memories import WordEmbedder

from outrider.core.errors import MemoryStoreError, StoreInputError
from outrider.core.values import Visibility
from outrider.memory.corpus import PASSAGE_CHARACTERS, EmbeddedCorpus, passages_of, read_folder
from outrider.memory.qdrant_corpus import FleetCorpus, is_fleet
from outrider.memory.store.store import MemoryStore

KEYS = "Keys are cut at the kiosk in Mill Street."


def test_paragraphs_are_passages_and_long_ones_are_cut_between_sentences() -> None:
    assert list(passages_of("One.\nTwo.\n\n \nThree.")) == ["One. Two.", "Three."]
    sentences = [f"Sentence {number} says a little." for number in range(40)]
    pieces = list(passages_of(" ".join(sentences)))
    assert " ".join(pieces) == " ".join(sentences) and len(pieces) > 1
    assert all(len(piece) <= PASSAGE_CHARACTERS and piece.endswith(".") for piece in pieces)
    assert list(passages_of("")) == []


@pytest.mark.parametrize("long", ["word " * 200, "x" * 1000])
def test_a_sentence_longer_than_a_passage_is_cut_too(long: str) -> None:
    pieces = list(passages_of(long))
    assert all(0 < len(piece) <= PASSAGE_CHARACTERS for piece in pieces)
    assert "".join(pieces).replace(" ", "") == long.replace(" ", "")


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", [EmbeddedCorpus, FleetCorpus])
def test_a_folder_is_taken_in_once_and_stays(kind: type, tmp_path: Path) -> None:
    (tmp_path / "texts" / "deep").mkdir(parents=True)
    (tmp_path / "texts" / "deep" / "a.md").write_text(f"{KEYS}\n\nThe bakery opens at nine.")
    (tmp_path / "texts" / "b.txt").write_text(KEYS)
    (tmp_path / "texts" / "c.png").write_bytes(b"\x89PNG")
    corpus = opened(kind, tmp_path)
    assert [corpus.add(read_folder(tmp_path / "texts")) for _ in range(2)] == [2, 0]
    corpus.close()
    corpus = opened(kind, tmp_path)
    assert corpus.count() == 2 and set(corpus.passages()) == {KEYS, "The bakery opens at nine."}
    best, other = corpus.recall("where are keys cut?", 2)
    assert best.record.text == KEYS and best.score > other.score and len(corpus.recall("keys", 1)) == 1
    assert best.record.visibility is Visibility.SHAREABLE
    assert corpus.forget_matching("kiosk Street") == 1 and corpus.count() == 1
    assert corpus.forget_matching("kiosk") == 0
    for bad in ("", "the of", "\x00"):
        with pytest.raises(MemoryStoreError):
            corpus.forget_matching(bad)
    corpus.close()


def opened(kind: type, folder: Path) -> EmbeddedCorpus | FleetCorpus:
    where = folder / "corpus.db" if kind is EmbeddedCorpus else f"qdrant:{folder / 'qdrant'}"
    return kind(where, WordEmbedder())


@pytest.mark.lengthy
def test_many_passages_come_in_pages_and_words_find_what_meaning_does_not() -> None:
    corpus = FleetCorpus("qdrant::memory:", WordEmbedder())
    assert corpus.add(f"fact {number} about number{number}" for number in range(300)) == 300
    assert len(set(corpus.passages())) == 300
    assert corpus.recall("number217", 1)[0].record.text == "fact 217 about number217"
    corpus.close()


@pytest.mark.lengthy
def test_vectors_of_another_embedder_are_kept_apart(tmp_path: Path) -> None:
    corpus = opened(FleetCorpus, tmp_path)
    corpus.add([KEYS])
    corpus.close()
    other = WordEmbedder()
    other.name = "others"
    corpus = FleetCorpus(f"qdrant:{tmp_path / 'qdrant'}", other)
    assert corpus.count() == 0
    corpus.close()


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(MemoryStoreError, match=r"http://127.0.0.1:9 cannot be reached.*Qdrant runs"):
        FleetCorpus("http://127.0.0.1:9", WordEmbedder())


@pytest.mark.parametrize(("status", "hint"), [(401, "QDRANT_API_KEY"), (500, "server's log")])
def test_a_server_that_refuses_is_named_with_what_to_do(status: int, hint: str) -> None:
    class Refuses(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(status)

        def log_message(self, *_: object) -> None:
            """Keep the log out of the test's output."""

    with HTTPServer(("127.0.0.1", 0), Refuses) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(MemoryStoreError, match=f"refuses .{status}.*{hint}"):
            FleetCorpus(f"http://127.0.0.1:{server.server_port}", WordEmbedder())
        server.shutdown()


def test_a_local_form_that_another_has_open_is_named(tmp_path: Path) -> None:
    corpus = opened(FleetCorpus, tmp_path)
    with pytest.raises(MemoryStoreError, match="one process at a time"):
        opened(FleetCorpus, tmp_path)
    corpus.close()


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    with pytest.raises(MemoryStoreError, match=r"outrider\[fleet\]"):
        FleetCorpus("qdrant::memory:", WordEmbedder())


@pytest.mark.parametrize(
    ("where", "fleet"),
    [
        ("http://cloud:6333", True),
        ("https://a.b", True),
        ("qdrant:x", True),
        ("x.db", False),
        ("http.db", False),
    ],
)
def test_where_a_corpus_is_kept_shows_in_its_name(where: str, fleet: bool) -> None:
    assert is_fleet(where) is fleet


def test_what_is_no_text_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(MemoryStoreError, match="holds no text"):
        list(read_folder(tmp_path))
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MemoryStoreError, match="UTF-8"):
        list(read_folder(tmp_path))


def test_what_is_private_is_neither_served_nor_listed(tmp_path: Path) -> None:
    memory = tmp_path / "memory.db"
    corpus = EmbeddedCorpus(memory, WordEmbedder())
    corpus.add([KEYS])
    with MemoryStore(memory, WordEmbedder()) as store:
        store.add("my keys hang by the silver lamp")
        assert [found.record.text for found in corpus.recall("keys", 9)] == [KEYS]
        assert list(corpus.passages()) == [KEYS]
        corpus.close()
        with pytest.raises(StoreInputError, match="robot's memory"):
            EmbeddedCorpus(memory, WordEmbedder())
        assert store.count() == 2


@pytest.mark.parametrize("content", [b"man page \x1b[1mbold", b"nul\0here", b"caf\xe9", b"\xff\xfeh\0i\0"])
def test_a_file_that_is_no_plain_text_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(KEYS)
    (tmp_path / "odd.md").write_bytes(content)
    corpus = EmbeddedCorpus(tmp_path / "corpus.db", WordEmbedder())
    with pytest.raises(StoreInputError, match=r"odd\.md"):
        corpus.add(read_folder(tmp_path))
    assert corpus.count() == 0
    corpus.close()


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf" + KEYS.encode())
    assert list(read_folder(tmp_path)) == [KEYS]


def test_a_link_that_leads_out_of_the_folder_is_refused_by_name(tmp_path: Path) -> None:
    outside, folder = tmp_path / "console.token", tmp_path / "handbook"
    (folder / "deep").mkdir(parents=True)
    outside.write_text("a secret of the machine")
    (folder / "a.txt").write_text(KEYS)
    (folder / "deep" / "same.md").symlink_to("../a.txt")
    assert list(read_folder(folder)) == [KEYS, KEYS]
    (folder / "deep" / "notes.md").symlink_to(outside)
    with pytest.raises(StoreInputError, match=r"notes\.md is a link that leads out"):
        list(read_folder(folder))
    (tmp_path / "named.txt").symlink_to(folder / "a.txt")
    assert list(read_folder(tmp_path / "named.txt")) == [KEYS], "who names a link means its file"
    (folder / "deep" / "notes.md").unlink()
    (tmp_path / "books").symlink_to(folder)
    assert list(read_folder(tmp_path / "books")) == [KEYS, KEYS]
