"""What people say who never read the manual: cries of pain, typing errors in questions, afterthoughts."""

from __future__ import annotations

import pytest
from planner_words import ANY_WORDS, refused

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.sentences.stops import says_to_stop


def intent(said: str, vocabulary: Vocabulary | None = None) -> str:
    """Return what a sentence becomes; "refused" for one that is refused."""
    try:
        return plan_of(said, vocabulary).intent
    except InstructionError as error:
        return f"offer {error.meant}" if error.meant else "refused"


@pytest.mark.parametrize(
    "said",
    [
        "ow",
        "ow that hurts",
        "you're hurting me",
        "youre standing on my foot",
        "you ran over the cat",
        "it's rolling over my toe",
        "hands off",
        "you're driving into the wall",
        "aua",
        "aua das tut weh",
        "du tust mir weh",
        "du stehst auf meinem Fuß",
        "du fährst gegen die Wand",
        "Finger weg",
        "jetzt reicht's aber",
        "aïe",
        "aïe mon pied",
        "ça fait mal",
        "tu roules sur mon pied",
        "tu fonces dans le mur",
        "ay",
        "me haces daño",
        "me estás pisando el pie",
        "好痛",
        "你压到我的脚了",
        "你踩到我了",
    ],
)
def test_a_cry_of_pain_or_a_warning_of_a_collision_stops(said: str) -> None:
    assert says_to_stop(said)


@pytest.mark.parametrize(
    "said",
    [
        *("dnt move", "dotn move", "dnt touch me", "doont move", "dnt", "top it", "top now", "please top"),
        *("park!", "rex park", "attention gaffe", "turn left, ow", "geh zum Tisch, autsch"),
    ],
)
def test_a_misspelt_stop_still_stops(said: str) -> None:
    assert says_to_stop(said)


@pytest.mark.parametrize(
    "said",
    [
        *("wow", "oh wow", "aww", "eww", "owl", "find the owl", "aye", "auch zum tisch", "au revoir"),
        *("au jardin", "tourne à gauche, au revoir", "tu rentres dans la cuisine", "te vas a dar la vuelta"),
        *("vas a tirar a la izquierda", "it went over the table", "park at the red chair", "go to the park"),
    ],
)
def test_what_only_resembles_a_cry_or_a_warning_does_not_stop(said: str) -> None:
    assert not says_to_stop(said)


@pytest.mark.parametrize(
    ("said", "becomes"),
    [
        ("go to the suite", "find(suite)"),
        ("find the nun", "find(nun)"),
        ("find the book on cooking", "find(book on cooking)"),
        ("find the chair against the wall", "find(chair against the wall)"),
        ("drive against the wall", "refused"),
        ("atrás", "refused"),
    ],
)
def test_a_name_with_a_word_of_another_use_is_understood(said: str, becomes: str) -> None:
    assert intent(said) == becomes


@pytest.mark.parametrize(
    "said",
    [
        "theres a kid in the way",
        "youre going to hit it",
        "its not stopping",
        "dont come any closer",
        "don´t move",
        "don`t you move",
        "donʼt take another step",
        "n´avance pas",
        "not one more inch",
    ],
)
def test_a_stop_phrase_needs_no_apostrophe(said: str) -> None:
    assert says_to_stop(said)


@pytest.mark.parametrize("said", ["don´t turn left", "you can`t turn left", "dont turn left"])
def test_a_negation_with_another_apostrophe_moves_nothing(said: str) -> None:
    assert intent(said) in ("stop", "refused")


@pytest.mark.parametrize(
    ("said", "becomes"),
    [
        ("lets go to the chair", "find(chair)"),
        ("id like you to go to the chair", "find(chair)"),
        ("im looking for the chair", "find(chair)"),
        ("I´d like you to go to the chair", "find(chair)"),
        ("l´autre chaise", "correct(other chair)"),
    ],
)
def test_an_order_needs_no_apostrophe(said: str, becomes: str) -> None:
    assert intent(said) == becomes


@pytest.mark.parametrize("vocabulary", [None, ANY_WORDS])
@pytest.mark.parametrize("said", ["wher is the chair", "whre is the chair?", "wehre is the chair"])
def test_a_misspelt_where_asks_where_and_not_when(said: str, vocabulary: Vocabulary | None) -> None:
    assert intent(said, vocabulary).startswith("where(")


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("wait for one minute please", 60),
        ("wait one second", 1),
        ("hang on for ten seconds", 10),
        ("attends une minute", 60),
        ("attends une minute et demie", 90),
        ("warte einen Augenblick", 5),
        ("10 Sekunden warten", 10),
        ("bleib zehn Sekunden stehen", 10),
        ("espera un segundo", 1),
        ("warte 10 sek", 10),
        ("espera 10 seg", 10),
        ("attends 10 sec", 10),
    ],
)
def test_how_long_to_wait_is_no_stop_in_an_order_to_wait(said: str, seconds: int) -> None:
    assert intent(said) == f"wait({seconds})"


@pytest.mark.parametrize("said", ["one minute", "une minute", "un segundo", "einen Augenblick"])
def test_a_moment_without_an_order_to_wait_stops(said: str) -> None:
    assert says_to_stop(said)


@pytest.mark.parametrize(
    "said",
    [
        "plz find the red chair",
        "can u find the red chair pls",
        "find the red chair thx",
        "find the fucking red chair",
        "go to the damn red chair",
        "yo, find the red chair",
        "good morning, could you find the red chair",
        "you have to find the red chair",
        "go ahead and find the red chair",
        "would you be so kind as to find the red chair?",
        "find the red chair if you don't mind",
        "find the red chair, thank you very much",
        "i wanna see the red chair",
        "Können Sie bitte zum roten Stuhl fahren?",
        "du musst zum roten Stuhl gehen",
        "geh jetzt endlich zum roten Stuhl",
        "geh zum verdammten roten Stuhl",
        "moin, fahr mal eben zum roten Stuhl",
        "begib dich zum roten Stuhl",
        "va à la chaise rouge stp",
        "svp va à la chaise rouge",
        "vas à la chaise rouge",
        "il faut que tu ailles à la chaise rouge",
        "trouve la putain de chaise rouge",
        "va à la chaise rouge si tu veux bien",
        "ve a la silla roja porfa",
        "tienes que ir a la silla roja",
        "¿te importaría ir a la silla roja?",
        "busca la maldita silla roja",
        "busca la silla roja si no te importa",
        "快去红色的椅子那里",
        "你去红色的椅子那里吧",
        "你可以去红色的椅子那里吗？",
        "我想让你去红色的椅子那里",
        "机器人，去红色的椅子那里",
    ],
)
def test_short_forms_greetings_and_oaths_say_nothing(said: str) -> None:
    assert intent(said, ANY_WORDS) == "find(red chair)"


@pytest.mark.parametrize(
    "said",
    [
        "no tienes que ir a la cocina",
        "no debes ir a la cocina",
        "tu ne dois pas aller à la cuisine",
        "du musst nicht zur Küche gehen",
        "you must not go to the kitchen",
        "you don't have to go to the kitchen",
        "你不可以去厨房",
        "你可以不去厨房",
        "我要你别去厨房",
        "你去厨房吗",
        "你去厨房了",
        "do you have to go to the kitchen",
        "must you go to the kitchen?",
        "tu dois aller à la cuisine ?",
        "¿tienes que ir a la cocina?",
    ],
)
def test_what_you_must_not_do_or_are_asked_about_moves_nothing(said: str) -> None:
    assert intent(said) == "refused" or not plan_of(said, None).moves


@pytest.mark.parametrize("said", ["stp", "go to the chair stp", "stp!"])
def test_stp_alone_or_in_english_is_a_misspelt_stop(said: str) -> None:
    assert says_to_stop(said)


@pytest.mark.parametrize(
    "after",
    [
        "in a sec",
        "some other time",
        "another day",
        "upon hearing the bell",
        "on three",
        "avoiding the carpet",
        "quietly",
        "through the wall",
        "jk",
        "nvm",
        "april fools",
        "that was a joke",
        "i think",
        "on my behalf",
        "bitte",
        "a few times",
    ],
)
def test_what_comes_after_a_name_is_no_part_of_it(after: str) -> None:
    refused(f"go to the kitchen {after}", None)


@pytest.mark.parametrize(
    ("said", "becomes"),
    [
        ("go to the chair and back", "find(chair); return"),
        ("va à la chaise et retour", "find(chair); return"),
        ("ve a la silla y de vuelta", "find(chair); return"),
        ("geh zum Stuhl und zurück", "find(chair); return"),
        ("去椅子那里再回来", "find(chair); return"),
    ],
)
def test_there_and_back(said: str, becomes: str) -> None:
    assert intent(said) == becomes
