"""Kinds of everyday sentences that were misread: what to do first, urged stops, and what is no order."""

from __future__ import annotations

import pytest

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.plan import Forget, Where
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.sentences.stops import says_to_stop
from outrider.core.language.words.things import SHAPES

WORDS = Vocabulary({"side": ("left", "right"), "colour": ("red",), "kind": ("chair", "door")}, shapes=SHAPES)


def intent(said: str) -> str | None:
    """Return the intent of a general model's plan, or None if there is no plan."""
    try:
        return plan_of(said, None).intent
    except InstructionError:
        return None


URGED = (
    *("don't even move", "don't fucking move", "stand completely still", "stay exactly where you are"),
    *("don't take a single step", "don't go another step", "that's more than enough"),
    *("bleib einfach stehen", "bleib gefälligst stehen", "beweg dich ja nicht", "hör jetzt sofort auf"),
    *("ne bouge surtout pas", "tu ne bouges plus", "deja ya de moverte", "ni siquiera te muevas", "别再继续"),
    *(
        "ich will dass du stehen bleibst",
        "hältst du bitte an",
        "stoppst du jetzt",
        "warum bleibst du nicht stehen",
    ),
)
ALARMS = (
    *("it won't stop", "it's not stopping", "you're about to hit the vase", "mind the cat", "watch the baby"),
    *("der stoppt nicht", "er hält nicht an", "no se detiene", "ojo la escalera", "attention la marche"),
    *(
        "要撞墙了",
        "快撞上了",
        "moment mal",
        "lass den quatsch",
        "un momento",
        "éteins ça",
        "煞车",
        "forget about going home",
    ),
)
MORE_ALARMS = (
    *("don't go one more step", "there's a child in the way", "just a second", "you're not stopping"),
    *("beweg dich auf keinen fall", "bleib um gottes willen stehen", "da ist ein kind", "es langt"),
    *(
        "personne ne bouge",
        "tu restes là",
        "hasta aquí",
        "ni se te ocurra moverte",
        "不能再往前了",
        "会摔下去",
    ),
)
REFUSALS = (
    *(
        "no rex",
        "rex no",
        "no buddy",
        "god no",
        "nein bello",
        "oh nein",
        "ah non",
        "no perro",
        "ay no",
        "哦不",
        "别啊",
    ),
)


@pytest.mark.parametrize("said", [*URGED, *ALARMS, *MORE_ALARMS, *REFUSALS])
def test_an_urged_stop_or_a_stop_with_a_name_counts(said: str) -> None:
    assert says_to_stop(said)
    assert plan_of(said, None).intent == "stop"


@pytest.mark.parametrize(
    "said",
    [
        "come back, first find the ball",
        "go forward two metres, first turn left 90 degrees",
        "geh zur tür, zuerst dreh dich um",
        "va à la porte, d'abord tourne à gauche",
        "ve a casa, primero ve a la puerta",
        "回家，先去椅子那里",
    ],
)
def test_what_is_to_come_first_is_not_done_last(said: str) -> None:
    with pytest.raises(InstructionError):
        plan_of(said, None)


@pytest.mark.parametrize("said", ["first turn left, then come back", "zuerst dreh dich um, dann komm zurück"])
def test_what_comes_first_and_is_said_first_is_taken(said: str) -> None:
    assert plan_of(said, None).intent.endswith("; return")


@pytest.mark.parametrize(
    "said",
    [
        *(
            "go ahead",
            "go right ahead",
            "go ahead, find the red chair",
            "cherche personne",
            *(
                "va vers personne",
                "go down the stairs",
                "go to the sofa yesterday",
                "go to the door my boss screamed",
            ),
            "go to the door, first turn left",
        ),
        *("approche-toi de personne", "j'ai besoin de personne"),
    ],
)
def test_what_is_no_order_moves_nothing(said: str) -> None:
    with pytest.raises(InstructionError):
        plan_of(said, None)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("go ahead 1 m", "move(1)"),
        ("go straight ahead", "move(0.5)"),
        ("cherche une personne", "find(person)"),
        ("geh zur tuer", "find(door)"),
        ("geh zurueck", "return"),
        ("dreh dich um fünf grad nach rechts", "turn(-5)"),
        ("geh um zwoelf meter zurück", None),
        ("go to the chair then home", "find(chair); home"),
        ("geh zum stuhl, dann nach hause", "find(chair); home"),
        ("turn clockwise 90 degrees", "turn(-90)"),
        ("dreh dich gegen den uhrzeigersinn", "turn(30)"),
        ("顺时针转九十度", "turn(-90)"),
        ("make a 90 degree left turn", "turn(90)"),
        ("ninety degrees right", "turn(-90)"),
        ("prends à gauche", "turn(30)"),
        ("dobla a la derecha", "turn(-30)"),
        ("um go to the chair", "find(chair)"),
        ("ok so go to the chair", "find(chair)"),
        ("also geh jetzt zum stuhl", "find(chair)"),
        ("bueno ahora ve a la silla", "find(chair)"),
    ],
)
def test_everyday_orders_are_read(said: str, meant: str | None) -> None:
    assert intent(said) == meant


@pytest.mark.parametrize(
    ("said", "name", "others"),
    [
        ("vergiss meine Schlüssel", "keys", {"Schlüssel"}),
        ("oublie mes clés", "keys", {"clés"}),
        ("忘记我的钥匙", "keys", {"钥匙"}),
        ("vergiss den roten Stuhl", "red chair", {"roten Stuhl", "rote stuhl", "roter stuhl"}),
    ],
)
def test_what_is_to_be_forgotten_keeps_its_name(said: str, name: str, others: set[str]) -> None:
    (step,) = plan_of(said, None).steps
    assert isinstance(step, Forget) and step.about == name and others <= set(step.others)


def test_what_is_asked_for_keeps_its_name() -> None:
    (step,) = plan_of("wo sind meine Schlüssel?", None).steps
    assert isinstance(step, Where) and (step.what, step.original_words) == ("keys", "Schlüssel")


def test_a_remembered_place_is_known_by_its_original_name() -> None:
    assert plan_of("geh in die Küche", WORDS, {"Küche"}.__contains__).intent == "find(Küche)"


@pytest.mark.parametrize("said", ["find the chair on your left", "finde den stuhl zu deiner linken"])
def test_the_robots_left_is_left(said: str) -> None:
    assert plan_of(said, WORDS).intent == plan_of("find the chair on the left", WORDS).intent
