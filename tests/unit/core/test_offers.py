"""A correction offered for a refused sentence keeps its meaning; words for one thing must not conflict."""

import pytest

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.words.things import SHAPES

WORDS = Vocabulary(
    {
        "colour": ("red", "blue"),
        "size": ("small", "large"),
        "side": ("left", "right"),
        "kind": ("chair", "ball", "box", "door"),
    },
    shapes=SHAPES,
)


def refused(said: str, vocabulary: Vocabulary | None) -> InstructionError:
    with pytest.raises(InstructionError) as error:
        plan_of(said, vocabulary)
    return error.value


@pytest.mark.parametrize("vocabulary", [WORDS, None], ids=["trained", "general"])
@pytest.mark.parametrize(
    "said",
    [
        *("maybe turn left", "or turn left", "turn left repeatedly", "turn left forever", "turn left twice"),
        *("turn", "turn one eighty", "turn at the door", "go forward 2-metre steps", "go forward . m"),
        *("go forward .5", "turn left nine", "bring me the red ball", "I went to the red chair"),
        *("turned left", "lift the red ball", "trun left forever", "mayb turn left or right"),
        *("turn left banana", "go to the", "banana go home", "look", "turn left at the"),
    ],
)
def test_no_offer_leaves_out_or_adds_what_changes_the_order(said: str, vocabulary: Vocabulary | None) -> None:
    assert not refused(said, vocabulary).meant


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        *(("go the red chair", "go to the red chair"), ("look the red chair", "look for the red chair")),
        *(("move", "move forward"), ("serch for the red box", "search for the red box")),
        *(("trun left 90 degres", "turn left 90 degrees"), ("turn lft", "turn left")),
        *(("turn left ninty degrees", "turn left ninety degrees"), ("please go hom", "please go home")),
        *(("go forward .5 metrs", "go forward .5 meters"), ("komm zurük", "komm zuruck")),
    ],
)
def test_slips_and_little_words_are_offered(said: str, meant: str) -> None:
    assert refused(said, WORDS).meant == meant
    assert plan_of(meant, WORDS).moves


@pytest.mark.parametrize("vocabulary", [WORDS, None], ids=["trained", "general"])
@pytest.mark.parametrize(
    ("said", "named"),
    [
        *(("come back later", '"later"'), ("come back tomorrow", '"tomorrow"'), ("come back soon", '"soon"')),
        *(
            ("come back when I call", '"when"'),
            ("komm bald zurück", '"bald"'),
            ("turn left twice", '"twice"'),
        ),
        *(("lie down", "no instruction"), ("come to think of it", "no instruction")),
    ],
)
def test_no_order_becomes_a_question_by_mending(said: str, named: str, vocabulary: Vocabulary | None) -> None:
    error = refused(said, vocabulary)
    assert named in str(error) and not error.meant


@pytest.mark.parametrize("vocabulary", [WORDS, None], ids=["trained", "general"])
@pytest.mark.parametrize(
    ("said", "one", "other"),
    [
        *(("go to the left right chair", "left", "right"), ("find the small large box", "small", "large")),
        *(("go to the chair on the left on the right", "on the left", "on the right"),),
        *(("find the red blue chair", "red", "blue"), ("walk to the left red right door", "left", "right")),
        *(("find the left chair on the right", "left", "on the right"),),
        *(
            ("finde den linken rechten Stuhl", "linken", "rechten"),
            ("geh zur roten blauen Tür", "roten", "blauen"),
        ),
        *(("trouve la petite grande chaise", "petite", "grande"), ("找到红色的蓝色的球", "红色的", "蓝色的")),
        *(("turn left, then find the small large box", "small", "large"),),
    ],
)
def test_a_thing_that_cannot_be_is_refused_by_what_contradicts(
    said: str, one: str, other: str, vocabulary: Vocabulary | None
) -> None:
    assert f'says "{one}" and "{other}" of one thing' in str(refused(said, vocabulary))


@pytest.mark.parametrize(
    "thing",
    [
        *(
            "red cup next to the blue cup",
            "left chair to the right of the door",
            "small box by the large table",
        ),
        *("orange juice", "left-hand chair on the left", "small red box"),
    ],
)
def test_words_of_two_things_contradict_nothing(thing: str) -> None:
    assert plan_of(f"find the {thing}", None).intent == f"find({thing})"


@pytest.mark.parametrize("vocabulary", [WORDS, None], ids=["trained", "general"])
@pytest.mark.parametrize(
    "said",
    [
        *("turn light", "turn loft", "turn bright", "go forward too metres", "go forward tin metres"),
        *("turn tight 90 degrees", "resume", "geh eis meter vor"),
    ],
)
def test_an_ordinary_word_is_no_slip_for_a_side_or_a_number(said: str, vocabulary: Vocabulary | None) -> None:
    assert not refused(said, vocabulary).meant


@pytest.mark.parametrize("said", ["go to the light chair", "find the loft chair", "find the smell ball"])
def test_an_ordinary_word_is_no_slip_for_what_tells_things_apart(said: str) -> None:
    assert not refused(said, WORDS).meant


@pytest.mark.parametrize("word", ["second", "nearest", "next", "two"])
def test_what_counts_or_ranks_things_is_named_as_such(word: str) -> None:
    message = str(refused(f"find the {word} chair", WORDS))
    assert f'"{word}"' in message and "one thing is found at a time" in message
    assert "knows no colour" not in message
