"""Things named without a colour, by size or by side, and rooms by what stands in them, as cards list them."""

import pytest

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import (
    ANY_PHRASINGS,
    FIND_PHRASINGS,
    ROOM_PHRASINGS,
    Instruction,
    Vocabulary,
    example,
    parse,
)
from outrider.core.language.plan import Correct, Find, Where
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.words.things import SHAPES, Thing, may_be, seen_as

SLOTS = {
    "side": ("left", "right"),
    "size": ("small", "large"),
    "colour": ("red", "silver", "green"),
    "kind": ("bottle", "chair", "ball", "box", "bed", "cup", "sofa", "teddy"),
}
RICH = Vocabulary(SLOTS, SHAPES, rooms=True)
POOR = Vocabulary({"colour": SLOTS["colour"], "kind": SLOTS["kind"]})
TOLD = {
    "chair": [
        *("find the chair", "Find a chair, please", "suche den Stuhl", "cherche la chaise", "busca la silla"),
        *("找椅子", "finde irgendeinen Stuhl", "busca cualquier silla"),
    ],
    "red chair": ["find any red chair", "geh zum roten Stuhl", "va à la chaise rouge"],
    "large red ball": [
        *("find the big red ball", "find the red large ball", "geh zum großen roten Ball"),
        *("trouve la grande balle rouge", "busca la pelota roja grande", "找大的红球", "找红色的大球"),
    ],
    "small chair": ["find the little chair", "such den kleinen Stuhl", "trouve la petite chaise", "找小椅子"],
    "left box": [
        *("go to the left box", "finde die linke Kiste", "va à la boîte de gauche"),
        *("ve a la caja de la izquierda", "找左边的盒子"),
    ],
    "right red ball": ["find the right red ball", "trouve la balle rouge à droite"],
    "sofa": ["find the couch"],
    "teddy": ["find my teddy bear"],
    "room with the bed": [
        *("go to the room with the bed", "find the room where the bed is", "take me to a room with a bed"),
        *("geh in das Zimmer mit dem Bett", "va dans la pièce avec le lit"),
        *("ve a la habitación con la cama", "去有床的房间"),
    ],
    "room with the red chair": ["walk to the room that has the red chair"],
}


def intent(sentence: str, vocabulary: Vocabulary | None = RICH) -> str:
    return plan_of(sentence, vocabulary).intent


def refusal(sentence: str, vocabulary: Vocabulary) -> str:
    with pytest.raises(InstructionError) as error:
        plan_of(sentence, vocabulary)
    return str(error.value)


@pytest.mark.parametrize(("thing", "sentence"), [(t, s) for t, all_said in TOLD.items() for s in all_said])
def test_all_languages_name_things_and_rooms_alike(thing: str, sentence: str) -> None:
    (step,) = plan_of(sentence, RICH).steps
    assert isinstance(step, Find) and step.known and step.intent == f"find({thing})"
    trained = parse(step.instruction, RICH)
    assert trained == Instruction(step.instruction, step.thing, step.room), "it is told as it was trained"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_thing_is_asked_for_in_every_sentence_of_its_shape_and_in_no_other(shape: tuple[str, ...]) -> None:
    thing = Thing(**{slot: SLOTS[slot][-1] for slot in shape})
    forms = RICH.phrasings(shape)
    assert set(forms) >= {form for form in FIND_PHRASINGS if " a {}" not in form}
    assert set(ANY_PHRASINGS).issubset(forms) == (shape == ("kind",))
    assert ("find a {}" in forms) == (not thing.size and not thing.side), "a size or a side tells which one"
    for form in forms:
        said = parse(form.format(thing.phrase), RICH)
        assert said == Instruction(form.format(thing.phrase), thing.phrase)
        assert RICH.thing(said.thing) == thing
        assert intent(said.text) in (f"find({thing.phrase})", f"where({thing.phrase})")
    assert RICH.phrasings(shape, room=True) == (() if thing.size or thing.side else ROOM_PHRASINGS)


@pytest.mark.lengthy
@pytest.mark.parametrize("form", [*FIND_PHRASINGS, *ANY_PHRASINGS, *ROOM_PHRASINGS])
@pytest.mark.parametrize("thing", ["chair", "small chair", "large red ball", "left box", "right red box"])
def test_a_card_of_colours_and_kinds_takes_nothing_else(form: str, thing: str) -> None:
    sentence = form.format(thing)
    assert parse(sentence, POOR) is None
    try:
        assert not plan_of(sentence, POOR).moves, "a question is for memory"
    except InstructionError as error:
        assert not error.meant


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("find the chair", "names no colour"),
        ("find the small chair", "no things apart by their size"),
        ("va à la boîte de gauche", "no things apart by their side"),
        ("go to the room with the chair", 'knows no "room with the chair"'),
    ],
)
def test_what_a_card_of_colours_and_kinds_lacks_is_named(sentence: str, words: str) -> None:
    assert words in refusal(sentence, POOR) and "find the silver" in refusal(sentence, POOR)


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("find the piano", 'no kind "piano"'),
        ("go to the room with the piano", 'no kind "piano"'),
        ("find the pink chair", 'no colour "pink"'),
        ("find the large", "names no kind"),
        ("go to the room with the left box", 'knows no "room with the left box"'),
        ("go to the room with the small chair", 'knows no "room with the small chair"'),
        ("find the left small box", 'knows no "left small box"'),
        ("find the bottle red", 'knows no "bottle red"'),
        ("find the chair in the kitchen", 'knows no "chair in the kitchen"'),
        ("find the smal chiar", 'did you mean "find the small chair"?'),
        ("go to the rom with the bed", 'did you mean "go to the room with the bed"?'),
    ],
)
def test_what_no_model_knows_is_refused_by_what_is_wrong_with_it(sentence: str, words: str) -> None:
    assert words in refusal(sentence, RICH)


@pytest.mark.parametrize(
    ("sentence", "step"),
    [
        ("no, the other chair", Correct(other=True, kind="chair")),
        ("the left one", Correct(side="left")),
        ("no, the one on the right", Correct(side="right")),
        ("no, the small one", Correct(size="small")),
        ("I mean the big red one", Correct(size="large", colour="red")),
        ("to the left of it", Correct(beside="left")),
        ("nein, die linke", Correct(side="left")),
        ("nein, den kleinen roten", Correct(size="small", colour="red")),
        ("nein, die rechte davon", Correct(side="right")),
        ("non, celle de gauche", Correct(side="left")),
        ("non, la petite", Correct(size="small")),
        ("no, la de la derecha", Correct(side="right")),
        ("no, la pequeña", Correct(size="small")),
        ("不，左边的那个", Correct(side="left")),
        ("不，小的", Correct(size="small")),
    ],
)
def test_corrections_by_what_tells_things_apart(sentence: str, step: Correct) -> None:
    assert plan_of(sentence, RICH).steps == (step,)


def test_a_side_is_relative_to_the_last_thing_for_models_without_sides() -> None:
    for sentence in ("the one on the left", "nein, die linke", "non, celle de gauche", "不，左边的那个"):
        assert plan_of(sentence, POOR).steps == (Correct(beside="left"),)
    for sentence in ("the left one", "no, the small one"):
        refusal(sentence, POOR)


def test_a_question_for_a_room_asks_for_the_thing_in_it() -> None:
    assert plan_of("where is the room with the bed?", RICH).steps == (Where("bed"),)
    assert intent("where did you last see the chair?") == "where(chair)"


def test_a_general_model_takes_rooms_sizes_and_sides_as_they_are_said() -> None:
    for sentence in ("find the big chair", "go to the left box", "go to the room with the bed"):
        (step,) = plan_of(sentence, None).steps
        assert isinstance(step, Find) and not step.known
        assert step.instruction.split()[-2:] == sentence.split()[-2:]


def test_examples_keep_what_is_known() -> None:
    assert example("the left box", RICH) == "find the left box"
    assert example("a chair", RICH) == "find the chair"
    assert example("a small one, the red ball", RICH) == "find the small red ball"
    assert example("the chair", POOR) == "find the silver chair"


def test_a_card_names_things_by_known_shapes_and_words() -> None:
    with pytest.raises(ValueError, match="colour"):
        Vocabulary(SLOTS, (("kind", "colour"),))
    with pytest.raises(ValueError, match="empty"):
        Vocabulary({"kind": ("ball", "")})
    assert Vocabulary({}, SHAPES, rooms=True).named_shapes == ()


def test_a_sighting_is_recalled_by_colour_and_kind_alone() -> None:
    assert seen_as("left red box") == "red box" and seen_as("small chair") == "chair"
    assert Thing.of("large red ball") == Thing("ball", "red", "large")
    assert (
        may_be("red chair", "chair") and may_be("red chair", "small red chair") and may_be("bed", "left bed")
    )
    assert not may_be("red chair", "green chair") and not may_be("armchair", "chair")
