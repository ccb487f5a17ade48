"""A stop is never refused, however it is spelt and whatever surrounds it, in five languages."""

import random
import time
import unicodedata

import pytest

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.plan import Plan, Stop
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.sentences.stops import says_to_stop
from outrider.core.language.words.phrasebook import LANGUAGES, phrasebook, stop_words
from outrider.core.language.words.things import SHAPES

WORDS = Vocabulary({"colour": ("red", "blue"), "kind": ("chair", "cup", "ball", "door")}, shapes=SHAPES)
ORDERS = {
    "en": (
        "go to the red chair",
        "find my keys",
        "turn left 90 degrees",
        "where is the chair",
        "forget my keys",
    ),
    "de": ("geh zum roten Stuhl", "fahr zwei Meter vorwärts", "wo liegt der Stuhl", "nein, der andere Stuhl"),
    "fr": ("va à la chaise rouge", "tourne à gauche", "que vois-tu", "non, l'autre chaise"),
    "es": ("ve a la silla roja", "vuelve a casa", "qué ves", "no, la otra silla"),
    "zh": ("去 红色的 椅子 那里", "向左 转", "你 看到 什么", "不， 另一把 椅子"),
}
INVISIBLE = ("\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u202e", "\u034f", "\ufe0f", "\u3164")


def plan_or_none(said: str, vocabulary: Vocabulary | None) -> Plan | None:
    try:
        return plan_of(said, vocabulary)
    except InstructionError:
        return None


def stops(said: str) -> bool:
    plans = [plan_or_none(said, vocabulary) for vocabulary in (WORDS, None)]
    return says_to_stop(said) and all(plan is not None and plan.steps == (Stop(),) for plan in plans)


@pytest.mark.parametrize(
    "said",
    [
        *("sotp now", "pls stpo", "stpo the robot!", "go to the chair sotp", "stopp the robot", "hatl now"),
        *("st0p", "please st0p now", "s t o p", "s.t.o.p.", "s-t-o-p", "stopstop", "stooooooop", "STOP!!!1"),
        *(
            "sТop the robot",
            "h4lt",
            "ｓｔｏｐ",
            "𝐬𝐭𝐨𝐩 it",
            "anhlaten",
            "停停停",
            "don't moove",
            "beweg dihc nicht",
        ),
    ],
)
def test_a_stop_in_any_spelling_counts_at_once(said: str) -> None:
    assert stops(said)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_stop_counts_wherever_its_spaces_are(language: str) -> None:
    """Each phrase of two or more words, written as one word or split at a random letter."""
    rng = random.Random(language)
    said = ["stop right now", "please stop it", "don't move", "do not move any further", "stop moving now"]
    said = said if language == "en" else [one for one in STILL[language] if " " in one]
    for sentence in said:
        glued = sentence.replace(" ", "").replace("'", "")
        at = rng.randrange(1, len(glued))
        for spelt in (glued, f"{glued[:at]} {glued[at:]}", sentence.replace("'", ""), glued.upper()):
            assert stops(spelt), spelt


STILL = {
    "de": (
        "bleib sofort stehen",
        "nicht bewegen",
        "beweg dich nicht",
        "sofort anhalten",
        "keinen schritt weiter",
    ),
    "fr": ("ne bouge pas", "arrête toi", "reste là", "ne bouge plus", "pas un pas de plus"),
    "es": ("no te muevas", "alto ahí", "no avances más", "deja de moverte", "quédate quieto"),
    "zh": ("不 要 动", "停 下 来"),
}


@pytest.mark.parametrize(
    "said",
    [
        *(
            "do nto move",
            "dont mvoe",
            "stay stlil",
            "no moving",
            "not move",
            "stopping",
            "stopping now",
            "stopall",
        ),
        *("don't you move", "dont you move", "dont' move", "don tmove", "niht bewegen", "nciht bewegen"),
        *("no te meuvas", "ne boueg pas"),
    ],
)
def test_a_slip_in_a_word_that_forbids_motion_hides_no_stop(said: str) -> None:
    assert says_to_stop(said)


@pytest.mark.parametrize(
    "said",
    [
        *(
            "dontstop",
            "donotstop",
            "neverstop",
            "nonstop",
            "unstoppable",
            "the doorstop",
            "stopwatch",
        ),
        *(
            "nothanks",
            "nichtanhalten",
            "stopstopstopstopstopstopstopstopstopstopstopstopstopstopstopx",
        ),
    ],
)
def test_letters_that_forbid_no_motion_are_no_stop(said: str) -> None:
    assert not says_to_stop(said)


@pytest.mark.parametrize("sign", INVISIBLE)
def test_what_shows_nothing_hides_no_stop(sign: str) -> None:
    for said in ("stop", "don't move", "arrête"):
        assert stops(sign.join(said)), said
    assert stops(unicodedata.normalize("NFD", "arrête"))
    assert plan_of(f"find{sign} the red ch{sign}air", WORDS).intent == "find(red chair)"


@pytest.mark.parametrize(
    "said",
    [
        *("can't you stop?", "won't you stop", "why don't you stop", "could you not stop", "can you stop?"),
        *("kannst du nicht anhalten?", "ne peux-tu pas stop", "¿no puedes parar?", "能不能停"),
    ],
)
def test_a_question_that_urges_to_stop_is_a_stop(said: str) -> None:
    assert stops(said)


@pytest.mark.parametrize(
    "said",
    [
        *("help", "hold it right there", "do not move any further", "not another step", "hit the brakes"),
        *(
            "cancel the mission",
            "no further",
            "don't go any closer",
            "look, a cat, don't move",
            "oh god stand still",
        ),
        *("Hilfe", "nicht weiter", "keine Bewegung", "sofort stehen bleiben", "hör sofort auf", "brich ab"),
        *("keinen Schritt weiter", "fahr nicht weiter", "bremsen", "beweg dich nicht mehr"),
        *("à l'aide", "n'avance plus", "ne bouge plus", "pas un pas de plus", "freine", "arrêt"),
        *("ayuda", "no te muevas más", "no sigas", "ni un paso más", "frena", "deja de moverte"),
        *("救命", "别走了", "不要再走了", "刹车", "暂停", "别靠近"),
    ],
)
def test_a_stop_in_other_words(said: str) -> None:
    assert stops(said)


@pytest.mark.parametrize("said", ["stop", "do not move", "stpo", "停下来", "n'avance plus"])
def test_a_sentence_too_long_to_be_read_is_searched_to_its_end(said: str) -> None:
    for many in ("please " * 500, "bla " * 700, "请" * 2000):
        assert says_to_stop(f"{many}{said}") and says_to_stop(f"{said}, {many}")


def test_a_long_sentence_is_searched_at_once() -> None:
    began_s = time.process_time()
    assert not says_to_stop("don't stop " * 5000)
    assert time.process_time() - began_s < 2.0


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_stop_word_anywhere_is_a_stop_or_moves_nothing(language: str) -> None:
    draw = random.Random(35)
    words = sorted(stop_words())
    for _ in range(60):
        told = draw.choice(ORDERS[language]).split()
        told.insert(draw.randrange(len(told) + 1), draw.choice(words))
        said = " ".join(told)
        for vocabulary in (WORDS, None):
            plan = plan_or_none(said, vocabulary)
            assert plan is None or not plan.moves, said


@pytest.mark.lengthy
@pytest.mark.parametrize("language", LANGUAGES)
def test_an_own_stop_word_after_any_sentence_is_a_stop(language: str) -> None:
    for told in ORDERS[language]:
        for word in phrasebook(language).words("stop_words"):
            assert stops(f"{told} {word}"), (told, word)
            assert stops(f"{told}, {word}!"), (told, word)


@pytest.mark.parametrize(
    ("said", "intent"),
    [
        *(
            ("find the red chair, then stop", "find(red chair); stop"),
            ("turn left and stop", "turn(30); stop"),
        ),
        *(("stop at the red chair", "find(red chair)"), ("what does stop mean?", "ask")),
        *(("remember that the bus stops here", "remember"), ("remember to stop at the door", "remember")),
    ],
)
def test_a_stop_that_is_a_later_step_or_only_mentioned_is_no_stop_at_once(said: str, intent: str) -> None:
    assert not says_to_stop(said) and plan_of(said, WORDS).intent == intent


@pytest.mark.parametrize("said", ["go to the shop", "find the hat", "go to the hall", "find the post"])
def test_a_word_that_is_much_like_a_stop_is_none(said: str) -> None:
    assert not says_to_stop(said) and plan_of(said, None).moves


@pytest.mark.parametrize(
    "said",
    ["don't stop", "never ever stop", "do not st0p", "nicht anhalten", "n'arrête pas", "别停下", "不要再停"],
)
def test_a_stop_that_is_denied_moves_nothing_either(said: str) -> None:
    assert not says_to_stop(said) and plan_or_none(said, WORDS) is None


@pytest.mark.parametrize(
    "said",
    [
        "that's enough, go home",
        "whoa, go to the red chair",
        "stay there, then find the red chair",
        "don't move, then turn left",
    ],
)
def test_the_plan_of_a_stop_with_more_after_it_notes_that_the_rest_is_dropped(said: str) -> None:
    assert stops(said) and "anew" in plan_of(said, WORDS).notes[0]
