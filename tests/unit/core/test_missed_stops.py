"""Stops that were missed once, by kind, and sentences that resemble a stop but are none."""

import re
from collections.abc import Iterator

import pytest

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.plan import Plan, Stop
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.sentences.stops import says_to_stop
from outrider.core.language.words.phrasebook import LANGUAGES, phrasebook, stop_words
from outrider.core.language.words.things import SHAPES

WORDS = Vocabulary({"colour": ("red", "blue"), "kind": ("chair", "cup", "ball", "door")}, shapes=SHAPES)
PART = re.compile(r"[()\[\]|]|[^\s()\[\]|]+")


def spoken(parts: list[str]) -> Iterator[list[str]]:
    """Yield all wordings of the parts of a phrase, up to the bracket that closes them."""
    told: list[list[str]] = [[]]
    while parts and parts[0] not in ")]":
        part = parts.pop(0)
        if part == "|":
            yield from told
            told = [[]]
        elif part in "([":
            choices = [*([[]] if part == "[" else []), *spoken(parts)]
            parts.pop(0)
            told = [[*one, *choice] for one in told for choice in choices]
        else:
            told = [[*one, part] for one in told]
    yield from told


def stop_phrases(language: str) -> list[str]:
    space = "" if phrasebook(language).is_unspaced else " "
    phrases = phrasebook(language).phrases_by_group()["stop"]
    return [space.join(words) for phrase in phrases for words in spoken(PART.findall(phrase))]


def stops(said: str) -> bool:
    plans = [plan_of(said, vocabulary) for vocabulary in (WORDS, None)]
    return says_to_stop(said) and all(plan.steps == (Stop(),) for plan in plans)


def plan_or_none(said: str) -> Plan | None:
    try:
        return plan_of(said, None)
    except InstructionError:
        return None


@pytest.mark.lengthy
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_stop_phrase_counts_in_capitals_and_after_an_order(language: str) -> None:
    said = stop_phrases(language)
    assert len(said) > 30
    missed = [
        form
        for phrase in said
        for form in (phrase, phrase.upper(), f"{phrase}!", f"turn left, {phrase}")
        if not says_to_stop(form)
    ]
    assert not missed


EMERGENCIES = ("Halt", "Stopp", "Stop", "Aus", "Bremse")


@pytest.mark.parametrize("word", EMERGENCIES)
@pytest.mark.parametrize("joint", ["-", "", " - ", "–", "\u2011"])
def test_the_german_prefix_of_an_emergency_stop_is_no_negation(word: str, joint: str) -> None:
    said = f"Not{joint}{word if joint else word.lower()}"
    forms = ("{}", "{}!", "{} drücken", "den {} drücken", "sofort {}", "{} sofort", "drück den {}")
    for form in (*forms, "turn left, {}", "fahr zum Stuhl, {}", "fahr zum Stuhl {}", "{}-Knopf drücken"):
        for one in (form.format(said), form.format(said).upper(), form.format(said).lower()):
            assert stops(one), one


def test_an_emergency_stop_in_two_words_counts_at_the_start_of_a_clause() -> None:
    for said in ("not halt", "Not Halt", "not stopp", "Not Aus drücken", "turn left, not halt"):
        assert stops(said), said


@pytest.mark.parametrize(
    "said",
    ["not stop", "do not stop", "don't halt", "do-not-stop", "do not halt", "nicht anhalten", "kein Nothalt"],
)
def test_a_denied_stop_stays_denied(said: str) -> None:
    assert not says_to_stop(said) and plan_or_none(said) is None


def test_the_way_to_an_emergency_exit_is_no_stop() -> None:
    assert not says_to_stop("geh zum Notausgang")


SLIPS = {
    "en": (
        "dtop",
        "stp",
        "stio",
        "stoo",
        "sto",
        "sopt",
        "sotp",
        "srop",
        "stopo",
        "halr",
        "hlat",
        "freze",
        "abotr",
    ),
    "de": ("dtop", "stpp", "halr", "haltt", "hakt", "anhaltn", "anhslten", "sropp"),
    "fr": ("arretr", "arrere", "arretee", "halye", "haltz", "zrrête", "stol"),
    "es": ("detebte", "detene", "alyo", "paraa", "stoo"),
}
AROUND = {
    "en": (
        "{}",
        "{} now",
        "{} the robot",
        "please {}",
        "go to the chair {}",
        "go to the chair {} please",
        "{}, go home",
    ),
    "de": ("{}", "{} jetzt", "geh zum roten Stuhl {}", "geh zum roten Stuhl, {} bitte"),
    "fr": ("{}", "va à la chaise rouge {}", "va à la chaise rouge, {} maintenant"),
    "es": ("{}", "ve a la silla roja {}", "ve a la silla roja, {} por favor"),
}


@pytest.mark.parametrize(
    ("language", "slip"), [(language, slip) for language, slips in SLIPS.items() for slip in slips]
)
def test_a_slip_at_the_end_of_a_clause_is_a_stop(language: str, slip: str) -> None:
    for around in AROUND[language]:
        assert stops(around.format(slip)), around


@pytest.mark.parametrize("slip", ["dtop", "srop", "halr", "sotp", "frerze"])
def test_a_stop_word_with_a_neighbouring_key_counts_anywhere(slip: str) -> None:
    assert stops(f"go to the chair {slip} the robot")


@pytest.mark.parametrize(
    "said",
    ["go to the chairstop", "go to the ballstop", "find the redhalt", "geh zum Stuhlhalt", "turn leftstop"],
)
def test_a_stop_attached_to_the_last_word_counts(said: str) -> None:
    assert stops(said)


REAL_WORDS = (
    *(
        "shop",
        "step",
        "top",
        "slop",
        "stow",
        "strop",
        "salt",
        "hall",
        "malt",
        "halo",
        "hat",
        "shelf",
        "breeze",
    ),
    *(
        "frieze",
        "abbot",
        "freezer",
        "spot",
        "doorstop",
        "pitstop",
        "backstop",
        "post",
        "atop",
        "fridge",
        "stomp",
    ),
)


@pytest.mark.parametrize("word", REAL_WORDS)
def test_a_real_word_one_typing_error_from_a_stop_is_no_stop(word: str) -> None:
    for said in (
        f"find the {word}",
        f"go to the {word} please",
        f"find my {word} quickly",
        f"what is a {word}?",
    ):
        assert not says_to_stop(said), said
    assert plan_of(f"find the {word}", None).moves


@pytest.mark.parametrize(
    "said",
    [
        *(
            "go next to the step",
            "turn half left",
            "turn left alot",
            "whos there",
            "find the cup atop the table",
        ),
        *(
            "geh zum Haushalt",
            "was ist der Inhalt",
            "wie alt",
            "busca algo",
            "busca en otra parte",
            "busca la pata",
        ),
    ],
)
def test_other_sentences_with_such_words_are_none(said: str) -> None:
    assert not says_to_stop(said)


@pytest.mark.parametrize(
    "said",
    [
        *(
            "brakes",
            "woah",
            "hold up",
            "hold",
            "hold position",
            "hold it right there",
            "hold on",
            "never mind",
        ),
        *("don't go", "don't drive", "don't turn", "don't walk", "don't take another step", "nevermind"),
        *("don't you dare move", "cease all motion", "terminate", "kill it", "turn yourself off"),
        *("wait wait wait", "go home, never mind", "don't go now please"),
        *("fahr nicht", "nicht fahren", "geh nicht", "aufhören", "Schluss jetzt", "Schluss"),
        *("不准动", "不要走", "别再走", "不要前进"),
        *("n'avance pas", "ne roule pas", "stop tout", "laisse tomber"),
        *("no avances", "no te muevas", "no camines", "no vayas", "frena ya", "detente ya"),
    ],
)
def test_more_ways_to_say_stop(said: str) -> None:
    for form in (said, said.upper(), f"{said}!"):
        assert stops(form), form


@pytest.mark.parametrize(
    "said",
    [
        *("don't go to the red chair", "don't turn left", "do not drive to the door", "hold up the cup"),
        *("geh nicht zum Stuhl", "fahr nicht zur Tür", "ne va pas à la chaise", "no vayas a la silla"),
        *("不要走到椅子", "never mind the chair"),
    ],
)
def test_a_denied_order_with_more_after_it_is_refused_as_what_it_is(said: str) -> None:
    assert not says_to_stop(said) and plan_or_none(said) is None


@pytest.mark.parametrize(
    "asked", ["where are you going", "is that a person", "what do you see", "wohin fährst du", "que vois-tu"]
)
def test_a_stop_word_at_the_end_of_a_question_is_a_stop(asked: str) -> None:
    for word in filter(str.isascii, stop_words()):
        assert stops(f"{asked} {word}?") and stops(f"{asked}, {word}?!"), word
    assert stops("is that a person stop now?") and stops("你看到什么停？")


@pytest.mark.parametrize("said", ["why don't you stop?", "can't you stop?", "why can't you halt now?"])
def test_a_question_that_urges_is_a_stop(said: str) -> None:
    assert stops(said)


@pytest.mark.parametrize(
    "said", ["what does stop mean?", "why do you never stop?", "turn left, no, turn right"]
)
def test_a_stop_word_mentioned_or_denied_in_a_question_is_no_stop(said: str) -> None:
    assert not says_to_stop(said)


ONCE_REFUSED = {
    "en": (
        "slam on the brakes; motors off; power down; end mission; pause; interrupt; stay away from "
        "me; don't touch anything; don't continue; call it off; let it be; not one step; keep your "
        "distance; time out; heads up "
    ),
    "de": (
        "rühr dich nicht; Mission abbrechen; brechen Sie die Suche ab; schalt dich aus; passen Sie "
        "auf; weg da; bleib weg; komm mir nicht zu nahe; mach das nicht; keinen Zentimeter weiter; "
        "Pause "
    ),
    "fr": (
        "reste; restez; avance pas; bouge pas; coupe le moteur; annulez; annule la mission; ne "
        "t'approche pas; ne touche rien; pas si vite; éteins-toi; pause "
    ),
    "es": (
        "frena en seco; cancela todo; cancela la misión; cancele; quédate; no te acerques; no toques "
        "nada; apaga los motores; aléjate; olvídalo; pausa "
    ),
    "zh": ("关机; 不要过来; 别靠近; 取消任务; 住手; 踩刹车; 马上停; 待在原地 "),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_was_refused_once_stops_alone_and_after_an_order(language: str) -> None:
    said = ONCE_REFUSED[language].strip().split("; ")
    assert [one for one in said if not stops(one)] == []
    assert [one for one in said if not says_to_stop(f"go to the chair, {one}")] == []


@pytest.mark.parametrize(
    "said",
    [
        *("go to the sofa cancel!!!", "Go home cancel.", "go to the sofa then stop stop please"),
        *("turn left no rex.", "tourne à droite assez!!", "dreh dich um genug, bitte", "Reviens annule."),
        *("go to the chair and stop now, please", "geh zum stuhl und halt sofort an, bitte"),
        *("don't move for god's sake", "dotn move robot", "beweg dihc nicht mensch", "du beweg dihc nicht"),
        *("c'est bon merci", "oh c'est bon", "dotn move hi", "don't go thank you", "你压到我的脚了谢谢"),
    ],
)
def test_signs_and_meaningless_words_around_a_stop_take_nothing_from_it(said: str) -> None:
    assert says_to_stop(said)


@pytest.mark.parametrize(
    "said",
    [
        *("don't stop please", "hey, don't stop now ok", "arrête-toi devant la chaise s'il te plaît"),
        *("attends une minute s'il te plaît", "go to the chair, then stop please", "va à la chaise stp"),
        *("find the man please", "what is that, please?", "hold on for 20 s", "stop at the baby"),
        *("stop at the baby please", "non pas la rouge la bleue s'il te plaît"),
    ],
)
def test_signs_and_meaningless_words_around_no_stop_make_none(said: str) -> None:
    assert not says_to_stop(said)
