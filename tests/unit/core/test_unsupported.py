"""Words that no motion can obey are refused by name: negations, conditions, orders to others, lengths."""

from random import Random

import pytest

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.words.phrasebook import LANGUAGES, phrasebook
from outrider.core.language.words.unsupported_words import ANYWHERE

WORDS = Vocabulary({"colour": ("red", "blue"), "kind": ("chair", "ball", "cup", "door")})
MOVING = {
    "en": (
        "go home",
        "turn left 90 degrees",
        "go to the red chair",
        "find the red ball and come back",
        "go to the point 1 2",
        "half a metre back",
    ),
    "de": ("geh nach Hause", "dreh dich nach links", "geh zum roten Stuhl", "fahr zwei Meter vorwärts"),
    "fr": ("rentre à la maison", "tourne à gauche", "va à la chaise rouge", "avance de deux mètres"),
    "es": ("vuelve a casa", "gira a la izquierda", "ve a la silla roja", "avanza dos metros"),
    "zh": ("回家", "向左转", "去红色的椅子那里", "前进两米"),
}
FREE = "cross the big room"
"""An order that only a general model understands."""


def entries(language: str, kinds: tuple[str, ...] = ANYWHERE) -> list[str]:
    held = phrasebook(language)._data
    told = [entry for kind in kinds for entry in held["unsupported"].get(kind, ())]
    return [*told, *(held["negations"] if "negation" in kinds else ())]


def with_words(language: str, sentence: str, words: str, random: Random) -> str:
    parts = list(sentence) if language == "zh" else sentence.split()
    parts.insert(random.randint(0, len(parts)), words)
    return ("" if language == "zh" else " ").join(parts)


def moves(sentence: str, vocabulary: Vocabulary | None) -> bool:
    try:
        return plan_of(sentence, vocabulary).moves
    except InstructionError:
        return False


@pytest.mark.lengthy
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("vocabulary", [WORDS, None], ids=["trained", "general"])
def test_no_motion_has_words_that_it_cannot_carry_out(language: str, vocabulary: Vocabulary | None) -> None:
    random = Random(35)
    said = [
        with_words(language, random.choice(MOVING[language]), words, random) for words in entries(language)
    ]
    assert [one for one in said if moves(one, vocabulary)] == []
    assert all(moves(sentence, vocabulary) for sentence in MOVING[language])


@pytest.mark.parametrize("how", ["again and again", "over and over", "over and over again", "for ever"])
@pytest.mark.parametrize("order", ["turn left", "cross the big room", "find the red chair", "go home"])
def test_no_order_is_carried_out_without_its_repetition(order: str, how: str) -> None:
    assert not any(moves(f"{order} {how}", vocabulary) for vocabulary in (WORDS, None))


@pytest.mark.lengthy
def test_a_general_model_gets_no_route_with_words_that_it_cannot_carry_out() -> None:
    random = Random(36)
    foreign = [words for language in LANGUAGES for words in entries(language, ("negation",))]
    own = entries("en", (*ANYWHERE, "order_in_ways", "limit_in_ways"))
    said = [with_words("en", FREE, words, random) for words in (*foreign, *own)]
    assert moves(FREE, None) and [one for one in said if moves(one, None)] == []


@pytest.mark.parametrize(
    ("said", "named"),
    [
        *(("go to the door unless I say otherwise", "unless"), ("find the red chair if it is free", "if")),
        *(
            ("go to the red chair nope", "nope"),
            ("head for nothing", "nothing"),
            ("go home, never fear", "never"),
        ),
        *(("follow the instructions on the sign", "instructions"), ("walk where the sign says", "says")),
        *(
            ("geh zum roten Stuhl, wenn es hell wird", "wenn"),
            ("va à la porte sauf si elle est fermée", "sauf"),
        ),
        *(
            ("ve a la silla roja mientras espero", "mientras"),
            ("如果门开着就回家", "如果"),
            ("别去椅子那里", "别"),
        ),
        *(("go to the red chair nicht", "nicht"), ("geh zum roten Stuhl not", "not")),
    ],
)
def test_unsupported_words_are_named_for_both_kinds_of_models(said: str, named: str) -> None:
    for vocabulary in (WORDS, None):
        with pytest.raises(InstructionError, match=f'"{named}"'):
            plan_of(said, vocabulary)


@pytest.mark.parametrize(
    ("said", "named"),
    [
        *(
            ("walk 20 metres along the corridor", "20 metres"),
            ("drive at the wall for ten metres", "ten metres"),
        ),
        *(
            ("move along the wall for a few feet and 2 yards", "2 yards"),
            ("walk to the door at full speed", "speed"),
        ),
        *(
            ("go left 400 degrees at the door", "400 degrees"),
            ("find the chair two steps away", "two steps"),
        ),
        ("go forward five hundred paces to the sofa", "hundred paces"),
    ],
)
def test_a_way_in_words_takes_no_lengths(said: str, named: str) -> None:
    with pytest.raises(InstructionError, match=f'"{named}": a way in words'):
        plan_of(said, None)


def test_what_a_phrase_refuses_no_looser_one_takes() -> None:
    for said in ("go to the point 1,5 2", "go to the point 900 0", "go forward 1,000 metres along the wall"):
        with pytest.raises(InstructionError):
            plan_of(said, None)


@pytest.mark.parametrize(
    ("said", "intent"),
    [
        (f"{FREE} and turn left", f"follow({FREE} and turn left)"),
        ("go to the yard", "find(yard)"),
        ("find the instruction manual", "find(instruction manual)"),
        ("go to the fast food place", "find(fast food place)"),
        ("walk to the second door on the left", "find(second door on the left)"),
        ("walk along the wall until the next window", "follow(walk along the wall until the next window)"),
        ("remember that nobody is home unless it is Monday", "remember"),
        ("what did you do when I left?", "ask"),
        ("why is nothing on the table or the shelf?", "ask"),
    ],
)
def test_questions_and_routes_are_accepted(said: str, intent: str) -> None:
    assert plan_of(said, None).intent == intent
