"""Questions, politeness, corrections and things without a verb, as people say them."""

import pytest
from planner_words import ANY_WORDS, WORDS, refusal, refused

from outrider.core.language.plan import Remember
from outrider.core.language.sentences.planner import plan_of


@pytest.mark.parametrize(
    ("said", "intent"),
    [
        *(
            ("a chair", "find(chair)"),
            ("any cup", "find(cup)"),
            ("The small red ball, please", "find(small red ball)"),
        ),
        *(("ein Stuhl", "find(chair)"), ("irgendeine Tasse", "find(cup)")),
        *(("une chaise", "find(chair)"), ("n'importe quelle tasse", "find(cup)")),
        *(
            ("cualquier taza", "find(cup)"),
            ("随便一个杯子", "find(cup)"),
            ("turn left, then a chair", "turn(30); find(chair)"),
        ),
    ],
)
def test_a_known_thing_with_its_article_is_to_be_found(said: str, intent: str) -> None:
    assert plan_of(said, ANY_WORDS).intent == intent
    refused(
        said.partition(" then ")[2] or said, None
    )  # a general model may know any word, so nothing is guessed


@pytest.mark.parametrize(
    "said", ["chair", "red chair", "the", "a fridge", "the chair is nice", "not a chair", "me"]
)
def test_what_is_no_known_thing_with_its_article_is_refused(said: str) -> None:
    refused(said, ANY_WORDS)


@pytest.mark.parametrize(
    ("said", "intent"),
    [
        *(
            ("what do you see, then turn left", "see; turn(30)"),
            ("what did you do? turn left", "did; turn(30)"),
        ),
        *(
            ("was siehst du, dann dreh dich nach links", "see; turn(30)"),
            ("que vois-tu, puis avance", "see; move(0.5)"),
        ),
        *(
            ("¿qué ves? y luego gira a la izquierda", "see; turn(30)"),
            ("你看到什么？然后向左转", "see; turn(30)"),
        ),
        *(
            ("tell me a joke? then turn left", "ask; turn(30)"),
            ("turn left, then what do you see", "turn(30); see"),
        ),
        *(("do you know how to turn left and go back?", "ask"), ("who came first and who came last", "ask")),
    ],
)
def test_a_question_is_a_step_like_any_other(said: str, intent: str) -> None:
    assert plan_of(said, ANY_WORDS).intent == plan_of(said, None).intent == intent


@pytest.mark.parametrize(
    "said",
    [
        *(
            "tell me a joke, then turn left",
            "tell me where my bag is and come back",
            "who am i and forget everything",
        ),
        *("erzähl mir einen Witz, dann geh vorwärts", "pourquoi ris-tu et avance"),
    ],
)
def test_where_a_question_ends_is_not_guessed_before_an_order(said: str) -> None:
    assert "question mark" in str(refused(said, ANY_WORDS)) and "question mark" in str(refused(said, None))


@pytest.mark.parametrize(
    ("said", "intent"),
    [
        *(
            ("go please to the red chair", "find(red chair)"),
            ("geh bitte zum roten Stuhl", "find(red chair)"),
        ),
        *(
            ("dreh dich dann bitte nach links", "turn(30)"),
            ("such mir bitte den roten Stuhl und komm dann zurück", "find(red chair); return"),
        ),
        *(
            ("va s'il te plaît à la porte et reviens ensuite", "find(door); return"),
            ("ve por favor a la puerta", "find(door)"),
        ),
        ("remember that i say please to Ann", "remember"),
    ],
)
def test_politeness_may_stand_anywhere(said: str, intent: str) -> None:
    assert plan_of(said, ANY_WORDS).intent == intent


def test_what_is_remembered_keeps_its_politeness() -> None:
    assert plan_of("remember that i say please to Ann", None).steps == (Remember("i say please to Ann"),)


@pytest.mark.parametrize(
    ("said", "intent"),
    [
        *(
            ("the chair on the left", "find(left chair)"),
            ("find the red cup on the right", "find(right red cup)"),
        ),
        *(
            ("finde den Stuhl auf der linken Seite", "find(left chair)"),
            ("trouve la chaise à gauche", "find(left chair)"),
        ),
    ],
)
def test_a_side_may_follow_its_thing(said: str, intent: str) -> None:
    assert plan_of(said, ANY_WORDS).intent == intent


@pytest.mark.parametrize(
    ("said", "intent"),
    [
        *(("no the other one", "correct(other)"), ("no left of it", "correct(left)")),
        *(("nein der andere Stuhl", "correct(other chair)"), ("non l'autre chaise", "correct(other chair)")),
        *(("no la otra silla", "correct(other chair)"), ("不另一把椅子", "correct(other chair)")),
    ],
)
def test_a_correction_needs_no_comma_which_no_recogniser_writes(said: str, intent: str) -> None:
    assert plan_of(said, ANY_WORDS).intent == intent
    assert "not to do" in refusal("no the red cup")


@pytest.mark.parametrize(
    ("said", "intent"),
    [
        *(("do a 180", "turn(180)"), ("face the other way", "turn(180)"), ("umdrehen", "turn(180)")),
        *(("media vuelta", "turn(180)"), ("do a 360", "turn(360)")),
        *(("rotate clockwise", "turn(-30)"), ("turn 90 degrees anticlockwise", "turn(90)")),
        *(("can you see a chair?", "where(chair)"), ("siehst du einen Stuhl?", "where(chair)")),
        *(("kannst du einen Stuhl sehen?", "where(chair)"), ("tu vois une chaise ?", "where(chair)")),
        *(("ves una silla?", "where(chair)"), ("你能看到椅子吗？", "where(chair)")),
    ],
)
def test_turns_and_questions_in_everyday_words(said: str, intent: str) -> None:
    assert [step.intent for step in plan_of(said, WORDS).steps] == [intent]
