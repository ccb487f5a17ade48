"""A long note is found by its end, and the matching part is reported."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memories import WordEmbedder

from outrider.memory.embedding import MiniLmEmbedder
from outrider.memory.language.passages import PASSAGE_LENGTH, passage_spans
from outrider.memory.store.store import MemoryStore

FILLER = "Today we cleaned the windows, watered the plants, went for a walk and read the newspaper. " * 18
END = "The garage code is written behind the mirror."


@given(st.text(max_size=3000))
def test_passages_are_short_in_order_and_leave_out_blanks_alone(text: str) -> None:
    spans = passage_spans(text)
    end = 0
    for start, stop in spans:
        assert text[end:start].strip() == "" and start >= end
        assert stop - start <= PASSAGE_LENGTH
        end = stop
    assert text[end:].strip() == ""


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(
            ("short", 1),
            (FILLER + END, 9),
            ("鍵は青い植木鉢の下。" * 60, 10),
            ("x" * 1000, 5),
            ("a\n" * 100, 1),
        ),
        ("long text " * 30_000, 1250),  # nothing may be measured anew for each of its passages
    ],
)
def test_how_many_passages_a_text_has(text: str, number: int) -> None:
    assert len(passage_spans(text)) == number


def test_an_embedding_reads_each_passage_whole() -> None:
    tokenizer = MiniLmEmbedder()._load()[0]
    tokenizer.no_truncation()
    for text in (FILLER + END, "鍵は青い植木鉢の下。" * 150, "Der Schlüssel hängt im Flur. " * 60):
        for start, stop in passage_spans(text):
            assert len(tokenizer.encode(text[start:stop]).ids) <= 128


@pytest.mark.lengthy
def test_a_long_note_is_found_by_its_end(tmp_path: Path) -> None:
    with MemoryStore(tmp_path / "m.db", MiniLmEmbedder()) as store:
        for number in range(40):
            store.add(f"the {['red', 'old'][number % 2]} box number {number} is in the attic")
        note = store.add(FILLER + END)
        short = store.add("the bins go out on Monday")
        for query in (
            "how do I open the garage?",
            "what is behind the mirror?",
            "code of the carport",
        ):
            [best, *_] = store.recall(query)
            assert best.record.id == note.id and END in best.passage and best.is_part
            assert len(best.passage) <= PASSAGE_LENGTH
        [best, *_] = store.recall("when is the rubbish collected?")
        assert best.record.id == short.id and not best.is_part and best.passage == short.text
        store.verify()
        assert store.forget_matching("garage windows mirror") == 1, "its words are of the whole note"
        store.verify()


@pytest.mark.lengthy
def test_a_long_question_is_answered_by_its_end(tmp_path: Path) -> None:
    """Among 60 notes; the embedding reads only the first 128 tokens of a text."""
    question = "I came home late and sat down in the kitchen. " * 20 + "Where is the bicycle pump?"
    with MemoryStore(tmp_path / "m.db", MiniLmEmbedder()) as store:
        for number in range(60):
            store.add(f"I sat down at home in the kitchen late, {number}")
        store.add("The bicycle pump hangs under the stairs.")
        assert any(one.record.text.startswith("The bicycle pump") for one in store.recall(question))


def test_words_say_which_part_was_matched(tmp_path: Path) -> None:
    with MemoryStore(tmp_path / "m.db", WordEmbedder()) as store:
        store.add(FILLER + "Ask Zbigniew. " + FILLER[:200])
        [found] = store.recall("zbigniew")
        assert "Zbigniew" in found.passage
