"""A question moves nothing, and neither does a request to forget, whatever thing is named after it."""

import itertools
import random

import pytest

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.plan import Plan
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.words.things import SHAPES

WORDS = Vocabulary(
    {
        "colour": ("red", "blue"),
        "size": ("small", "large"),
        "side": ("left", "right"),
        "kind": ("chair", "cup", "ball", "table"),
    },
    shapes=SHAPES,
)
ASKED = {
    "en": (
        "where is the chair",
        "have you seen my keys",
        "what do you see",
        "what did you do",
        "who are you",
    ),
    "de": ("wo steht der Stuhl", "hast du meine Tasche gesehen", "was siehst du", "was hast du gemacht"),
    "fr": ("où est la chaise", "as-tu vu mes clés", "que vois-tu", "qu'as-tu fait"),
    "es": ("¿dónde está la silla", "¿has visto las llaves", "¿qué ves", "¿qué hiciste"),
    "zh": ("椅子在哪里", "你看到什么", "你做了什么", "谁来了"),
}
FORGOTTEN = {
    "en": ("forget my keys", "forget about the chair"),
    "de": ("vergiss meine Schlüssel",),
    "fr": ("oublie mes clés",),
    "es": ("olvida las llaves",),
    "zh": ("忘记我的钥匙",),
}
LINKS = {
    "en": (" and ", ", ", ", then ", "; ", " then "),
    "de": (" und ", ", ", ", dann "),
    "fr": (" et ", ", ", ", puis "),
    "es": (" y ", ", ", ", luego "),
    "zh": ("，", "然后", "；"),
}
THINGS = {
    "en": (
        "the table",
        "the red chair",
        "a cup",
        "my wallet",
        "the other one",
        "the small one",
        "left of it",
    ),
    "de": ("der Tisch", "den roten Ball", "eine Tasse", "die andere", "links davon", "zum Tisch"),
    "fr": ("la table", "la chaise rouge", "une tasse", "l'autre", "celle de gauche", "vers la table"),
    "es": ("la mesa", "la silla roja", "una taza", "la otra", "la de la izquierda", "a la mesa"),
    "zh": ("桌子", "红色的椅子", "那个杯子", "另一个", "左边的那个"),
}
NUM_TRIED = 12
ORDERS = {
    "en": ("turn left", "come back", "go to the red chair", "go home"),
    "de": ("dreh dich nach links", "komm zurück", "geh zum roten Stuhl"),
    "fr": ("tourne à gauche", "reviens", "va à la chaise rouge"),
    "es": ("gira a la izquierda", "vuelve", "ve a la silla roja"),
    "zh": ("向左转", "回来", "去红色的椅子那里"),
}


def plans(said: str) -> list[Plan]:
    found = []
    for vocabulary in (WORDS, None):
        try:
            found.append(plan_of(said, vocabulary))
        except InstructionError:
            continue
    return found


def moves(said: str) -> bool:
    return any(plan.moves for plan in plans(said))


@pytest.mark.parametrize("language", ASKED)
def test_a_question_and_a_thing_move_nothing(language: str) -> None:
    every = itertools.product(ASKED[language], LINKS[language], THINGS[language])
    for asked, link, thing in random.Random(35).sample(list(every), NUM_TRIED):
        for end in ("", "?"):
            assert not moves(f"{asked}{link}{thing}{end}"), f"{asked}{link}{thing}{end}"
        assert not moves(f"{asked}? {thing}?")


@pytest.mark.parametrize("language", FORGOTTEN)
def test_what_is_to_be_forgotten_and_a_thing_move_nothing(language: str) -> None:
    every = itertools.product(FORGOTTEN[language], LINKS[language], THINGS[language])
    for told, link, thing in random.Random(35).sample(list(every), NUM_TRIED):
        assert not moves(f"{told}{link}{thing}"), f"{told}{link}{thing}"


@pytest.mark.parametrize("language", ORDERS)
def test_an_order_that_ends_in_a_question_mark_moves_nothing(language: str) -> None:
    for order in ORDERS[language]:
        assert moves(order)
        for asked in ("", *(f"{question}, " for question in ASKED[language])):
            assert not moves(f"{asked}{order}?"), f"{asked}{order}?"
    assert "question mark" in refusal("turn left?")


def refusal(said: str) -> str:
    with pytest.raises(InstructionError) as error:
        plan_of(said, WORDS)
    return str(error.value)


@pytest.mark.parametrize(
    ("said", "intent"),
    [
        *(
            ("where is the chair and the table?", "where(chair); where(table)"),
            ("see the cup, a ball", "where(cup); where(ball)"),
        ),
        *(("have you seen my keys, my phone and my bag?", "where(keys); where(phone); where(bag)"),),
        *(
            ("forget my keys and my wallet", "forget(keys); forget(wallet)"),
            ("forget the cup and the ball, then go home", "forget(cup); forget(ball); home"),
        ),
        *(
            ("wo steht der Stuhl und der Tisch?", "where(chair); where(table)"),
            ("oublie mes clés et la chaise", "forget(keys); forget(chair)"),
        ),
        *(
            ("¿dónde está la silla y la mesa?", "where(chair); where(table)"),
            ("忘记我的钥匙，椅子", "forget(keys); forget(chair)"),
        ),
    ],
)
def test_a_thing_after_a_step_about_another_is_meant_for_it_too(said: str, intent: str) -> None:
    assert [plan.intent for plan in plans(said)] == [intent, intent]


@pytest.mark.parametrize(
    ("said", "intent"),
    [
        *(
            ("can you turn left?", "turn(30)"),
            ("could you find the red chair and come back?", "find(red chair); return"),
        ),
        *(
            ("go to the red chair, please?", "find(red chair)"),
            ("kannst du nach Hause gehen?", ""),
            ("你能向左转吗？", "turn(30)"),
        ),
        *(
            ("turn left, what do you see?", "turn(30); see"),
            ("what do you see? then turn left", "see; turn(30)"),
        ),
        *(
            ("find the chair and the table", "find(chair); find(table)"),
            ("turn left, then a chair", "turn(30); find(chair)"),
        ),
    ],
)
def test_polite_orders_and_those_apart_from_a_question_are_carried_out(said: str, intent: str) -> None:
    found = [plan.intent for plan in plans(said)]
    assert found[:1] == [intent] if intent else not found


@pytest.mark.parametrize(
    "said",
    [
        "forget my keys and dance",
        "vergiss meine Schlüssel und tanz",
        "forget it and the chair",
    ],
)
def test_what_is_no_thing_is_not_forgotten_besides(said: str) -> None:
    assert plans(said) == []


@pytest.mark.parametrize(
    ("said", "intent"),
    [
        *(
            ("no, the other chair, then come back", "correct(other chair); return"),
            ("no the other one and go home", "correct(other); home"),
        ),
        *(("nein, der andere Stuhl, dann komm zurück", "correct(other chair); return"),),
        *(("non, l'autre chaise, puis reviens", "correct(other chair); return"),),
        *(
            ("no, la otra silla, luego vuelve", "correct(other chair); return"),
            ("不，另一把椅子，然后回来", "correct(other chair); return"),
        ),
    ],
)
def test_a_correction_keeps_what_follows_it(said: str, intent: str) -> None:
    assert [plan.intent for plan in plans(said)] == [intent, intent]


@pytest.mark.parametrize(
    "said",
    [
        *(
            "no, the other chair, don't",
            "no, the other chair is nicer",
            "no, the other chair and never move again",
        ),
        *(
            "nein, den anderen Stuhl nicht",
            "no, la otra silla no",
            "non, l'autre chaise pas",
            "不，另一把椅子不要",
        ),
    ],
)
def test_a_correction_with_more_that_cannot_be_read_moves_nothing(said: str) -> None:
    assert not moves(said)


def test_no_way_in_any_words_after_what_is_to_be_forgotten_is_for_a_model_of_few() -> None:
    assert "blue one" in refusal("forget the red chair and go to the blue one")


@pytest.mark.parametrize(
    "said",
    [
        *("forget my keys and wallet", "forget me and my keys", "find my chair and my phone or my bag"),
        *("vergiss meine Schlüssel und mein", "oublie mes clés et", "olvida tus y llaves"),
    ],
)
def test_no_known_word_is_mended_into_another(said: str) -> None:
    for vocabulary in (WORDS, None):
        with pytest.raises(InstructionError) as error:
            plan_of(said, vocabulary)
        assert not error.value.meant
