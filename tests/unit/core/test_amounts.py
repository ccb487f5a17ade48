"""Numbers: one plain number is read, anything else is none."""

import pytest

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.phrasebook import LANGUAGES, phrasebook
from outrider.core.language.planner import plan_of

WORDS = Vocabulary({"colour": ("red",), "kind": ("chair",)})
FORWARD = {
    "en": "go forward {} metres",
    "de": "fahr {} Meter vorwärts",
    "fr": "avance de {} mètres",
    "es": "avanza {} metros",
    "zh": "前进{}米",
}


def refusal(said: str) -> str:
    with pytest.raises(InstructionError) as general:
        plan_of(said, None)
    with pytest.raises(InstructionError) as trained:
        plan_of(said, WORDS)
    assert str(general.value).split(": say")[0] == str(trained.value).split(": say")[0]
    return str(trained.value)


@pytest.mark.parametrize(
    ("language", "said", "number"),
    [
        *(("en", "two and a half", 2.5), ("en", "half a", 0.5), ("en", "one half", 0.5), ("en", "a", 1.0)),
        *(("en", "one hundred and twenty", 120.0), ("en", "a hundred", 100.0), ("en", "ninety five", 95.0)),
        *(("en", "2 and a half", 2.5), ("en", "1,000", 1000.0), ("en", "12,345,678", 12345678.0)),
        *(
            ("en", "two thousand five hundred", 2500.0),
            ("en", "a quarter of a", 0.25),
            ("en", "0.125", 0.125),
        ),
        *(("de", "einen halben", 0.5), ("de", "1,5", 1.5), ("de", "1.5", 1.5), ("de", "1.000", 1000.0)),
        *(("fr", "quatre vingt dix", 90.0), ("fr", "quatre vingt cinq", 85.0), ("fr", "dix sept", 17.0)),
        *(("fr", "vingt et un", 21.0), ("fr", "un demi", 0.5), ("es", "ciento ochenta", 180.0)),
        *(("es", "cuarenta y cinco", 45.0), ("es", "10.000", 10000.0), ("zh", "一 百 二 十", 120.0)),
        *(("zh", "十 五", 15.0), ("zh", "九 十", 90.0), ("zh", "两 个", 2.0), ("zh", "1.5", 1.5)),
    ],
)
def test_one_plain_number(language: str, said: str, number: float) -> None:
    assert phrasebook(language).numerals.read(said.split()) == number


@pytest.mark.parametrize(
    ("language", "said"),
    [
        *(
            ("en", one)
            for one in ("1 2", "one two", "five five", "nine ninety", "90 45", "90 5", "twenty 5", "1 000")
        ),
        *(
            ("en", one)
            for one in (
                "and",
                "of",
                "a of",
                "and a",
                "five and",
                "two half",
                "1.000",
                "2.500",
                "1,5",
                "1.2.3",
            )
        ),
        *(("en", one) for one in ("1,00", "1,000.5", "٣", "", "banana", "one one", "a 2 3")),
        *(("de", one) for one in ("1,000", "eins zwei", "zwei drei", "und", "1.00.0")),
        *(("fr", one) for one in ("1,000", "deux trois", "et", "vingt trente")),
        *(("es", one) for one in ("1,000", "dos tres", "y", "diez veinte")),
        *(("zh", one) for one in ("二 三", "九 九", "1.000", "十 百 十 十")),
    ],
)
def test_what_is_not_one_plain_number(language: str, said: str) -> None:
    assert phrasebook(language).numerals.read(said.split()) is None


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "number", ["1,000", "1.000", "2,500", "2.500", "1 000", "1'000", "1 2", "1.000.000", "²", "1²"]
)
def test_a_thousand_is_never_one_and_two_numbers_are_no_sum(language: str, number: str) -> None:
    assert refusal(FORWARD[language].format(number))
    for vocabulary in (WORDS, None):
        assert plan_of(FORWARD[language].format("2.5"), vocabulary).intent == "move(2.5)"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        *(("go forward 1,000 metres", "not 1000 m"), ("turn left 1,000 degrees", "not 1000")),
        *(("fahr 1.000 Meter vorwärts", "not 1000 m"), ("wait 1,000 seconds", "not 1000 s")),
        *(
            ("go forward 1 2 metres", '"1 2", which is not one plain number'),
            ("前进二三米", '"二三", which is not'),
        ),
        *(
            ("go forward and metres", '"and", which is not'),
            ("turn left 90 45 degrees", '"90 45", which is not'),
        ),
        ("go to the point 1,5 2", '"1,5", which is not'),
        *(("go to the point 1000 -2", "up to 500 m"), ("geh zum Punkt 2 -1.000", "up to 500 m")),
    ],
)
def test_the_reason_tells_the_number(said: str, reason: str) -> None:
    assert reason in refusal(said)
