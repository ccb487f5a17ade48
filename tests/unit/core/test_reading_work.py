"""Reading a sentence takes little work for any words, so that no stop is delayed. Nothing is timed."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from outrider.core import edit_distance
from outrider.core.edit_distance import Spellings, closest, num_slips
from outrider.core.errors import InstructionError
from outrider.core.language.clauses import Clauses
from outrider.core.language.refusals import MAX_READ
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.sentences.stops import says_to_stop
from outrider.core.language.words.phrasebook import LANGUAGES, Phrasebook, phrasebook

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def plan_or_none(said: str) -> str | None:
    try:
        return plan_of(said, None).intent
    except InstructionError:
        return None


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Counter[str]:
    """Count the calls of a function, and the characters of the longest text that it is given."""
    calls: Counter[str] = Counter()
    real: Callable[..., Any] = getattr(owner, name)

    def call(*given: Any) -> Any:
        calls["times"] += 1
        calls["longest"] = max(calls["longest"], *(len(one) for one in given if isinstance(one, str)), 0)
        return real(*given)

    monkeypatch.setattr(owner, name, call)
    return calls


@pytest.mark.lengthy
@pytest.mark.parametrize("ending", ["", " stop", ", stop!"])
@pytest.mark.parametrize(
    ("clause", "link", "num"),
    [
        *(("is it", " and ", 26), ("what is it", " and ", 19), ("why me", " and ", 24)),
        *(("who is there", ", ", 24), ("where is the ball", " and ", 15), ("forget the sofa", " and ", 18)),
        *(("tell me", " then ", 24), ("walk past the old chair", " and ", 13), ("find it", " and ", 24)),
        *(("wer war da", " und ", 19), ("qué es", " y ", 25), ("qui est là", " et ", 19)),
        *(("什么球", "然后", 19), ("谁", "再", 38), ("去椅子", "然后", 19)),
    ],
)
def test_the_ways_to_part_a_sentence_do_not_double_with_each_clause(
    monkeypatch: pytest.MonkeyPatch, clause: str, link: str, num: int, ending: str
) -> None:
    reads = counted(monkeypatch, Clauses, "read")
    for said in (link.join([clause] * num), link.join(["go to the chair", *[clause] * (num - 1)])):
        assert says_to_stop(said + ending) or not ending
        plan_or_none(said + ending)
    assert reads["times"] < 60 * num * num


TOLD = {
    "en": ("turn left", "go forward", "wait"),
    "de": ("dreh dich um", "geh", "warte"),
    "fr": ("tourne à gauche", "tourne de", "avance de", "attends"),
    "es": ("gira a la izquierda", "avanza", "espera"),
    "zh": ("左转", "前进", "等"),
}


@pytest.mark.lengthy
@pytest.mark.parametrize("language", LANGUAGES)
def test_number_words_on_end_can_be_read_in_one_way(language: str) -> None:
    """If "dix sept" could also be read as "dix" and "sept", this would not end."""
    draw, book = random.Random(language), phrasebook(language)
    blank = "" if book.is_unspaced else " "
    long = [word for word in book.numerals.words if " " in word] or list(book.numerals.words)
    for told in TOLD[language]:
        for words in (*long, *(blank.join(draw.sample(book.numerals.words, 2)) for _ in range(5))):
            numbers = blank.join([words] * (300 // len(words)))
            for end in ("banana", "!", ""):
                says_to_stop(f"{told}{blank}{numbers}{blank}{end}")


def test_a_question_of_many_clauses_stays_one() -> None:
    assert plan_or_none("tell me of red and blue and green and pink and black") == "ask"
    assert plan_or_none("what is it? and who is there? and turn left") is not None
    assert plan_or_none("is it and is it and turn left") is None


@pytest.mark.lengthy
@pytest.mark.parametrize("many", ["x", "chair ", "stop ", "é", "\u4e00", "s t o p ", "?!", "s\u0301"])
def test_of_a_text_that_is_no_sentence_only_its_ends_are_read(
    monkeypatch: pytest.MonkeyPatch, many: str
) -> None:
    read = counted(monkeypatch, Phrasebook, "tokens")
    said = many * 50_000
    for end in ("stop", "stay where you are", "别动"):
        assert says_to_stop(f"{said} {end}") and says_to_stop(f"{end} {said}")
        assert plan_or_none(f"{said} {end}") == "stop"
    plan_or_none(said)
    assert read["longest"] <= MAX_READ and read["times"] < 4000


@pytest.mark.parametrize("word", ["stop", "don't halt", "arrête", "停下来", "别停"])
def test_a_stop_word_in_nonsense_counts_unless_it_is_denied(word: str) -> None:
    said = "bla " * 1000
    assert says_to_stop(f"{said}{word} {said}") is (word not in ("don't halt", "别停"))


def test_what_is_far_too_long_is_refused_for_its_length() -> None:
    with pytest.raises(InstructionError, match="6013 characters; at most 400"):
        plan_of("remember that " + "x" * 5999, None)


def test_strange_words_are_compared_with_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(71)
    plan_or_none("warm up")
    compared = counted(monkeypatch, edit_distance, "num_slips")
    for said in ("portami un gelato per favore", "can you dance with grandma tonight"):
        plan_or_none(said)
    for _ in range(3):
        plan_or_none(" ".join("".join(draw.choices(LETTERS, k=6)) for _ in range(8)))
    assert compared["times"] < 2500


@pytest.mark.lengthy
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_nearest_word_is_found_as_if_all_were_compared(language: str) -> None:
    draw = random.Random(language)
    words = sorted(phrasebook(language).lexicon)
    held = Spellings(words)
    for _ in range(60):
        letters = list(draw.choice(words))
        for _ in range(draw.randrange(1, 4)):
            letters.insert(draw.randrange(len(letters) + 1), draw.choice(LETTERS))
            letters.pop(draw.randrange(len(letters)))
        word = "".join(letters)
        most = 0 if len(word) < 3 else 1 if len(word) < 6 else 2
        ranks = [
            (num_slips(word, one), (one[0] != word[0]) + (one[-1] != word[-1]), one)
            for one in words
            if abs(len(one) - len(word)) <= most
        ]
        near = sorted((one for one in ranks if one[0] <= most), key=lambda one: one[:2])
        assert held.near(word) == tuple(one for *_, one in near[:2])
        assert closest(word, words) == (near[0][-1] if near else "")
