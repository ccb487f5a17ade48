"""Numbers: one plain number is read, and anything else is refused."""

import pytest

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.words.phrasebook import LANGUAGES, phrasebook

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
def test_the_refusal_names_the_number(said: str, reason: str) -> None:
    assert reason in refusal(said)


@pytest.mark.parametrize(
    ("said", "intent"),
    [
        *(("go forward .5 m", "move(0.5)"), ("go back .75 m", "move(-0.75)"), ("move 0.5 m", "move(0.5)")),
        *(("wait .5 seconds", "wait(0.5)"), ("go to the point .5 .75", "go(0.5, 0.75)")),
        *(("go to the point -.5 -.25", "go(-0.5, -0.25)"), ("go to the point 0 .75", "go(0, 0.75)")),
        *(("geh ,5 m vor", "move(0.5)"), ("geh .5 m vor", "move(0.5)")),
        *(("geh zum Punkt -,5 ,25", "go(-0.5, 0.25)"), ("avance de ,5 m", "move(0.5)")),
        *(("avanza ,5 m", "move(0.5)"), ("前进.5米", "move(0.5)"), ("前进 .5 米", "move(0.5)")),
        *(
            ("turn left 90, go forward .5 m", "turn(90); move(0.5)"),
            ("wait 5 s. 2 m forward", "wait(5); move(2)"),
        ),
        ("find the red chair, 3 m back!", "find(red chair); move(-3)"),
    ],
)
def test_a_number_may_begin_with_its_decimal_sign(said: str, intent: str) -> None:
    for vocabulary in (WORDS, None):
        assert plan_of(said, vocabulary).intent == intent


@pytest.mark.parametrize(
    "said", ["go forward .05 m", "turn left .9 degrees", "turn left .9", "avance de ,05 m"]
)
def test_a_number_that_begins_with_its_sign_keeps_to_the_limits(said: str) -> None:
    assert "0.05 m" in refusal(said) or "not 0.9" in refusal(said)


@pytest.mark.lengthy
@pytest.mark.parametrize("sign", [",", ".", ";", "!", "?", ":", "。", "，", "．"])
@pytest.mark.parametrize(
    "said",
    [
        *("go forward{} 5 m", "go forward 5{} m", "go forward {}{} 5 m", "turn left{} 90 degrees"),
        *("turn 20{} left", "wait{} 5 seconds", "wait five{} seconds", "go to the point{} 1 2"),
        *("go to the point 1{} 2", "fahr{} 2 m vor", "avance de{} 2 m", "avanza 2{} m", "前进{} 5米"),
    ],
)
def test_no_number_is_read_without_the_sign_at_it(said: str, sign: str) -> None:
    assert f'has "{sign}" at a number' in refusal(said.replace("{}", sign))


@pytest.mark.parametrize("said", ["go to the point 3-4", "go to the point 3 - 4", "fahr zum Punkt 3-4"])
def test_the_advice_on_a_minus_leads_to_the_intended_point(said: str) -> None:
    told = refusal(said)
    assert 'as in "3 -4"' in told
    assert plan_of(said.replace(" - ", "-").replace("3-4", "3 -4"), WORDS).intent == "go(3, -4)"


@pytest.mark.parametrize(
    "number",
    [
        "5 .5",
        "1 . 5",
        "1. 5",
        "1 ,5",
        "٫5",
        ".5.5",
        "..5",
        ",5",
        "1:5",
        "1·5",
        "- .5",
        "-.5",
        "5-10",
        "1..5",
    ],
)
def test_no_sign_makes_two_numbers_of_one(number: str) -> None:
    for said in (f"go forward {number} m", f"turn left {number} degrees", f"wait {number} seconds"):
        for vocabulary in (WORDS, None):
            with pytest.raises(InstructionError) as error:
                plan_of(said, vocabulary)
            assert not error.value.meant


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("said", "intent"),
    [
        *(("turn left forty-five degrees", "turn(45)"), ("wait twenty-five seconds", "wait(25)")),
        *(("go forward one-and-a-half metres", "move(1.5)"), ("go forward 2-metres", "move(2)")),
        *(("turn left 90-degrees", "turn(90)"), ("dreh dich 90-Grad nach links", "turn(90)")),
        *(("make a u-turn", "turn(180)"), ("do a half-turn", "turn(180)"), ("do a half turn", "turn(180)")),
        *(("go forward zero point five metres", "move(0.5)"), ("go forward point five metres", "move(0.5)")),
        *(
            ("go forward two point two five metres", "move(2.25)"),
            ("geh null Komma fünf Meter vor", "move(0.5)"),
        ),
        *(
            ("avance de deux virgule cinq mètres", "move(2.5)"),
            ("avanza cero coma cinco metros", "move(0.5)"),
        ),
        *(("往前走一点五米", "move(1.5)"), ("前进零点五米", "move(0.5)"), ("向左转一百零五度", "turn(105)")),
        *(("avance d'un mètre et demi", "move(1.5)"), ("avanza metro y medio", "move(1.5)")),
        *(("go forward two metres and a half", "move(2.5)"), ("前进一米半", "move(1.5)")),
        *(("dreißig Grad links", "turn(30)"), ("kannst du nach links drehen?", "turn(30)")),
        *(("puedes girar a la izquierda?", "turn(30)"), ("peux-tu tourner à gauche ?", "turn(30)")),
        *(("return to base", "home"), ("let's go home", "home")),
        ("first find the red chair, then turn left", "find(red chair); turn(30)"),
        ("finde zuerst den roten Stuhl", ""),
        ("先找到红色的椅子，然后回来", "find(red chair); return"),
    ],
)
def test_numbers_and_orders_as_people_say_them(said: str, intent: str) -> None:
    for vocabulary in (WORDS, None) if intent else ():
        assert plan_of(said, vocabulary).intent == intent


@pytest.mark.parametrize(
    ("language", "said"),
    [
        *(("en", one) for one in ("point", "two point", "point twenty", "a point five", "half point five")),
        *(
            ("en", one)
            for one in ("one point two point three", "one zero", "zero five", "zero zero", "five zero")
        ),
        *(("de", one) for one in ("komma", "eins komma zehn")),
        *(("zh", one) for one in ("一点", "五 零 五", "二 十 零", "点")),
    ],
)
def test_what_is_no_number_with_a_point(language: str, said: str) -> None:
    assert phrasebook(language).numerals.read(said.split()) is None


@pytest.mark.parametrize(
    "said",
    [
        *(
            "go forward 5-10 m",
            "go forward half a metre and a half",
            "go forward 2 - metres",
            "wait two-twenty seconds",
        ),
        *("turn left one zero degrees", "avance d'un mètre et demi tour", "go forward 1.5 metres and a half"),
    ],
)
def test_what_is_no_hyphenated_amount(said: str) -> None:
    assert refusal(said)
