"""General knowledge: passages of texts, taken in once, found by meaning."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.memories import WordEmbedder

from outrider.core.errors import MemoryStoreError
from outrider.memory.corpus import PASSAGE_CHARACTERS, EmbeddedCorpus, passages_of, read_folder

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


def test_a_folder_is_taken_in_once_and_stays(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.md").write_text(f"{KEYS}\n\nThe bakery opens at nine.")
    (tmp_path / "b.txt").write_text(KEYS)
    (tmp_path / "c.png").write_bytes(b"\x89PNG")
    with_embedder = WordEmbedder()
    corpus = EmbeddedCorpus(tmp_path / "corpus.db", with_embedder)
    assert [corpus.add(read_folder(tmp_path)), corpus.add(read_folder(tmp_path))] == [2, 0]
    corpus.close()
    corpus = EmbeddedCorpus(tmp_path / "corpus.db", with_embedder)
    assert corpus.count() == 2 and set(corpus.passages()) == {KEYS, "The bakery opens at nine."}
    assert corpus.recall("where are keys cut?", 1)[0].record.text == KEYS
    assert corpus.forget_matching("kiosk") == 1 and corpus.count() == 1
    corpus.close()


def test_what_is_no_text_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(MemoryStoreError, match="holds no text"):
        list(read_folder(tmp_path))
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MemoryStoreError, match="UTF-8"):
        list(read_folder(tmp_path))
