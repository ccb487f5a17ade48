"""Stops within another sentence, corrections that forbid, questions that erase nothing, long number words."""

from __future__ import annotations

import itertools

import pytest

from outrider.core.errors import InstructionError
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.sentences.stops import says_to_stop
from outrider.core.language.words.phrasebook import LANGUAGES, phrasebook


def intents(sentence: str) -> list[str] | None:
    """Return the intents of the plan for a general model, or None if the sentence is refused."""
    try:
        return [step.intent for step in plan_of(sentence, None).steps]
    except InstructionError:
        return None


@pytest.mark.parametrize("sign", ["…", "‥", "⋯", "︙", "...", "‼", "⁉", "｡", "﹗"])
@pytest.mark.parametrize(
    "said", ["walk on{} stop", "geh vor{} halt", "recule{} arrête", "gira{} para", "后退{}停"]
)
def test_a_sign_of_several_parts_a_stop_from_an_order(said: str, sign: str) -> None:
    assert says_to_stop(said.format(sign))


@pytest.mark.parametrize(
    "said",
    [
        *("where have you been stay right there", "why is it so loud hold it", "who are you watch out"),
        *(
            "come back that's far enough",
            "go to the sofa don't come any closer",
            "find my cat look out please",
        ),
        *("forget all of it stand still", "walk forward quit", "turn right enough", "go home cancel"),
        *(
            "wo fährst du hin bleib stehen",
            "geh zur Tür hör auf",
            "dreh dich um genug",
            "komm zurück abbrechen",
        ),
        *("où vas-tu ne bouge plus", "va à la porte ça suffit", "tourne à droite assez", "reviens annule"),
        *("adónde vas no te muevas", "ve a la puerta ya basta", "gira a la derecha basta", "vuelve quieto"),
        *("你要去哪里不要动", "去门那里别靠近", "前进够了", "n'avance pas là arrête", "ne va pas là stop"),
        *("go to the sofa then stop stop", "dreh dich um und dann stopp stopp"),
    ],
)
def test_a_stop_phrase_at_the_end_breaks_in(said: str) -> None:
    assert says_to_stop(said)


@pytest.mark.parametrize(
    "said",
    [
        *("find the chair then stand still", "geh zur Tür, dann bleib stehen", "what is a kill switch?"),
        *("is that far enough", "do you need help", "go to the red light", "remember that you must stay put"),
        *("where is the brake?", "is this the timeout", "hast du genug", "never cancel that"),
    ],
)
def test_a_step_a_name_or_a_question_breaks_into_nothing(said: str) -> None:
    assert not says_to_stop(said)


@pytest.mark.parametrize(
    "said",
    [
        *("stop at this very moment", "stop at the instant", "stop by this point", "stop near where you are"),
        *(
            "stop before it gets worse",
            "stop before backing up",
            "stop at that position",
            "halt at this place",
        ),
        *("halt an diesem Punkt", "para en este instante", "come to a complete halt"),
    ],
)
def test_a_stop_at_what_is_no_thing_is_one_at_once(said: str) -> None:
    assert says_to_stop(said)


@pytest.mark.parametrize(
    "said", ["stop at the sofa", "halt bei der Tür", "para ante la mesa", "stop by my desk"]
)
def test_a_stop_at_a_thing_goes_there(said: str) -> None:
    assert not says_to_stop(said)


@pytest.mark.parametrize(
    "said",
    [
        *("i meant no red ball", "sorry, no left turn", "rather not the blue one", "i said no back up"),
        *(
            "nein, nicht die blaue",
            "ich meinte nicht das linke",
            "nicht die grüne",
            "je veux dire non la rouge",
        ),
        *("quise decir no la azul", "no, no la mesa", "不是蓝色的那个", "我是说不是左边的", "不，不左边的"),
    ],
)
def test_what_a_correction_forbids_is_not_done(said: str) -> None:
    assert intents(said) in (None, ["stop"])


@pytest.mark.parametrize(
    ("said", "intent"),
    [
        ("no, the blue one", "correct(blue)"),
        ("no no the blue one", "correct(blue)"),
        ("no, no, the blue one", "correct(blue)"),
        ("i mean the blue one", "correct(blue)"),
        ("nein, nicht den, den blauen", "correct(blue)"),
        ("不，蓝色的那个", "correct(blue)"),
        ("不是，蓝色的那个", "correct(blue)"),
    ],
)
def test_what_a_correction_names_is_done(said: str, intent: str) -> None:
    assert intents(said) == [intent]


@pytest.mark.parametrize(
    "said", ["forget my keys?", "vergiss den Ball?", "oublie mes clés ?", "¿olvida mi bolso?", "忘记钥匙吗"]
)
def test_a_question_erases_nothing(said: str) -> None:
    assert intents(said) is None


def test_a_request_to_forget_is_an_order() -> None:
    assert intents("could you forget my keys?") == ["forget(keys)"]


@pytest.mark.parametrize(
    ("said", "intent"),
    [
        ("左转一百一度", "turn(110)"),
        ("右转一百八度", "turn(-180)"),
        ("左转一百零八度", "turn(108)"),
        ("左转一百八十度", "turn(180)"),
        ("前进三百二厘米", "move(3.2)"),
        ("前进三百零二厘米", "move(3.02)"),
    ],
)
def test_chinese_leaves_out_the_tens(said: str, intent: str) -> None:
    assert intents(said) == [intent]


USES = ("correction", ("polite_before", "requests", "firsts"), ("polite_after", "requests_after"))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("uses", USES)
def test_what_may_be_said_over_and_over_is_read_in_one_way(
    language: str, uses: str | tuple[str, ...]
) -> None:
    """If there were two ways, a search would try about 2^n readings of n words."""
    book = phrasebook(language)
    lists = (uses,) if isinstance(uses, str) else uses
    entries = {tuple(entry.split()) for use in lists for entry in book.spoken(use)}
    assert not _ambiguous(entries)


@pytest.mark.parametrize("language", LANGUAGES)
def test_number_words_on_end_are_searched_in_one_way(language: str) -> None:
    """Thirty number words without a unit: some billion readings, if there were more than one."""
    book = phrasebook(language)
    for word in sorted(book.numerals.values)[:40]:
        assert intents(book.as_written(f"{word} " * 30)) is None


def _ambiguous(entries: set[tuple[str, ...]]) -> bool:
    """Whether some words can be split into entries in two ways (Sardinas and Patterson, 1953)."""
    rests = {b[len(a) :] for a, b in itertools.permutations(entries, 2) if b[: len(a)] == a}
    seen: set[tuple[str, ...]] = set()
    while rests:
        if () in rests:
            return True
        seen |= rests
        pairs = [*itertools.product(entries, rests), *itertools.product(rests, entries)]
        rests = {b[len(a) :] for a, b in pairs if b[: len(a)] == a} - seen
    return False
