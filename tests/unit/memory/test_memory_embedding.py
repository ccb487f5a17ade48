"""Embeddings use only installed files, and only the files that they were measured with."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import numpy as np
import pytest

from outrider.core.errors import MemoryStoreError
from outrider.memory.embedding import MODEL_FILE, TOKENIZER_FILE, MiniLmEmbedder
from outrider.memory.store.store import MemoryStore


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an embedding must not open a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.lengthy
def test_vectors_are_of_length_one_equal_for_equal_texts_and_near_for_like_ones(no_network: None) -> None:
    embedder = MiniLmEmbedder()
    texts = ("my keys hang by the door", "where are the keys?", "the oven is hot")
    keys, asked, oven = (embedder.embed(text) for text in texts)
    assert keys.shape == (embedder.size,) and keys.dtype == np.float32
    assert np.linalg.norm(keys) == pytest.approx(1.0, abs=1e-5)
    assert np.array_equal(keys, MiniLmEmbedder().embed(texts[0]))
    assert keys @ asked > 0.5 > 0.3 > keys @ oven


@pytest.mark.lengthy
@pytest.mark.parametrize(("note", "query"), [("ＫＥＹ ｉｎ ｖａｓｅ", "key vase"), ("رمز ١٢٣٤", "1234")])
def test_full_width_letters_and_numbers_of_any_script_find_their_note_first(
    note: str, query: str, tmp_path: Path
) -> None:
    with MemoryStore(tmp_path / "m.db", MiniLmEmbedder()) as store:
        for number in range(12):
            store.add(f"The red box number {number} is in the cellar")
        store.add(note)
        store.add("lamp")
        assert store.recall(query)[0].record.text == note


def test_long_and_odd_texts_have_vectors_too(no_network: None) -> None:
    embedder = MiniLmEmbedder()
    for text in ("word " * 5000, "🔑鍵", "?", ""):
        assert np.isfinite(embedder.embed(text)).all()


@pytest.mark.parametrize(("package", "name"), [MODEL_FILE, TOKENIZER_FILE])
def test_other_or_missing_files_are_refused(
    package: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / package / name
    file.parent.mkdir(parents=True)
    (tmp_path / package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MemoryStoreError, match=f"{name} cannot be read"):
        MiniLmEmbedder().embed("x")
    file.write_text("other")
    with pytest.raises(MemoryStoreError, match=f"{name} is not the file"):
        MiniLmEmbedder().embed("x")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MemoryStoreError, match=f"{package} is not installed: run `make setup`"):
        MiniLmEmbedder().embed("x")
