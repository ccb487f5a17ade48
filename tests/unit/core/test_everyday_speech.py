"""Speech of people in other languages than the five, in feet, with sounds and faces."""

from __future__ import annotations

from importlib.resources import files

import pytest
import yaml

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.plan import Plan, Stop
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.sentences.stops import says_to_stop
from outrider.core.language.words import other_stops
from outrider.core.language.words.phrasebook import LANGUAGES, phrasebook
from outrider.core.language.words.signs import plain, visible
from outrider.core.language.words.things import SHAPES

WORDS = Vocabulary({"colour": ("red", "blue"), "kind": ("chair", "ball", "door")}, shapes=SHAPES)
FILE = files(other_stops.__package__) / "phrases" / "other_stops.yaml"
OTHERS = yaml.safe_load(FILE.read_text(encoding="utf-8"))
ANSWERED = ("which ball is it?", "remember that ferma is a town", "remember that the word стой is russian")


def plan_or_none(said: str, vocabulary: Vocabulary | None = None) -> Plan | None:
    try:
        return plan_of(said, vocabulary)
    except InstructionError:
        return None


def intents(said: str) -> set[str]:
    """Return what a sentence becomes for a model of few words, and for a general one."""
    plans = [plan_or_none(said, vocabulary) for vocabulary in (WORDS, None)]
    return {plan.intent if plan else "refused" for plan in plans}


@pytest.mark.lengthy
@pytest.mark.parametrize("language", OTHERS)
def test_an_order_to_stop_in_another_language_stops(language: str) -> None:
    ways = ("{}", "{}!", "{} rex", "{0} {0}", "go to the chair {}", "what are you doing? {}")
    said = [way.format(order) for order in OTHERS[language] for way in ways]
    said += [order.upper() for order in OTHERS[language]]
    assert not [one for one in said if not says_to_stop(one)]


@pytest.mark.parametrize(
    "said", ["ferma", "Стоп", "стой!", "止まれ", "멈춰", "قف", "bleib steh", "Bleib mal steh!"]
)
def test_the_plan_of_a_stop_in_another_language_is_to_stop(said: str) -> None:
    assert intents(said) == {"stop"}


def test_no_order_of_another_language_is_a_word_of_one_that_is_understood() -> None:
    """The Spanish "pare junto a la silla" goes to the chair."""
    known = frozenset().union(*(phrasebook(language).lexicon for language in LANGUAGES))
    assert not [one for orders in OTHERS.values() for one in orders if plain(visible(one)) in known]


@pytest.mark.parametrize("said", ANSWERED)
def test_what_only_names_an_order_of_another_language_is_no_stop(said: str) -> None:
    assert not says_to_stop(said)


@pytest.mark.parametrize(
    "said",
    [
        "🚫",
        "🚫 go to the chair",
        "⏹️",
        "⏸",
        "🤚🏽",
        "🖐",
        "🫷",
        "go to the chair 🫸",
        "🙅‍♂️",
        "go to the chair ✋🏾",
    ],
)
def test_a_sign_that_shows_a_stop_is_one(said: str) -> None:
    assert intents(said) == {"stop"}


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("go to the red chair 🙂", "find(red chair)"),
        ("👍🏽 turn left 🙏", "turn(30)"),
        ("um go to the uh red chair", "find(red chair)"),
        ("fahr ähm zum Stuhl", "find(chair)"),
        ("va euh à la chaise", "find(chair)"),
        ("ve eh a la silla", "find(chair)"),
    ],
)
def test_faces_and_sounds_say_nothing(said: str, meant: str) -> None:
    assert intents(said) == {meant}


@pytest.mark.parametrize(
    "said",
    [
        "go to the chair 👎",
        "go to the chair ❌",
        "turn left ➡️",
        "🙂",
        "move ➖ 2 m",
        "go to the chair ×",
        "go to the chair ⊘",
        "go to the chair 🤛",
    ],
)
def test_other_signs_are_not_left_out_of_an_order(said: str) -> None:
    assert intents(said) == {"refused"}


@pytest.mark.parametrize(
    "said",
    [
        "turn a hundred um twenty degrees left",
        "dreh dich um neunzig äh fünf grad nach links",
        "gire noventa eh cinco grados a la izquierda",
        "tourne de vingt euh cinq degrés à gauche",
        "左转二十嗯五度",
    ],
)
def test_a_sound_within_a_number_may_be_a_correction_and_is_refused(said: str) -> None:
    assert intents(said) == {"refused"}
    assert intents("turn um twenty degrees left") == {"turn(20)"}


@pytest.mark.parametrize("said", ["go to stans room", "fahr nach Stans", "go to fermi lab", "where is chega"])
def test_names_of_places_and_people_are_no_stops(said: str) -> None:
    assert "stop" not in intents(said)


@pytest.mark.parametrize(
    ("said", "metres"),
    [("2 feet", 0.6096), ("a foot", 0.3048), ("ten inches", 0.254), ("one yard", 0.9144), ("3 ft", 0.9144)],
)
def test_feet_inches_and_yards_are_lengths(said: str, metres: float) -> None:
    plan = plan_of(f"go forward {said}", None)
    assert plan.intent == f"move({metres:g})"
    assert "ways go by 0.25 m" in plan.notes[0]


@pytest.mark.parametrize(
    "said", ["go forward 20 feet", "turn left 3 feet", "go to the chair 3 feet", "go 5 feet 6 inches"]
)
def test_feet_keep_to_the_limits(said: str) -> None:
    assert intents(said) == {"refused"}


def test_a_misspelt_question_to_a_general_model_keeps_the_names_of_known_things() -> None:
    plan = plan_of("whatt is the ball", None)
    assert "ball" in plan.notes[-1]
    assert "all" not in plan.notes[-1].replace("ball", "")


@pytest.mark.parametrize("order", ["go home", "go to the red chair", "dance", "find the ball", "turn left"])
@pytest.mark.parametrize("asks", ["show me how to", "show me how you", "show me why you", "stand by to"])
def test_who_wants_to_be_shown_how_or_to_be_awaited_moves_nothing(asks: str, order: str) -> None:
    assert intents(f"{asks} {order}") == {"refused"}


@pytest.mark.parametrize("text", ["หยุด", "रुक", "กุญแจอยู่ที่นี่"])
def test_vowels_that_are_written_as_marks_are_kept(text: str) -> None:
    assert visible(text) == text


def test_accents_without_a_letter_of_their_own_are_still_dropped() -> None:
    assert visible("s\u0336t\u0336o\u0336p\u0336 ✋\ufe0f") == "stop ✋"
    assert plan_of("s\u0336t\u0336o\u0336p\u0336", None).steps == (Stop(),)
