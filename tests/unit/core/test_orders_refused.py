"""Orders that are refused by their kind, in all languages: none is carried out in part."""

from __future__ import annotations

import random

import pytest

from outrider.core.errors import InstructionError
from outrider.core.language.sentences.planner import plan_of

POINTS = (
    "go to point {}",
    "go to the point {}",
    "geh zu punkt {}",
    "va au point {}",
    "ve al punto {}",
    "去点{}",
)
WAITS_FOR_SOMEONE = (
    *(
        "wait for me",
        "wait for me please",
        "wait here for me",
        "wait for me, then come back",
        "wait there for her",
    ),
    *("go to the door, wait for me, then come back", "wait for me and then go home", "wait for the children"),
    *(
        "warte auf mich",
        "warte hier auf mich",
        "attends-moi",
        "attends-moi ici",
        "espérame",
        "等我",
        "在门口等我",
    ),
    *("espérame en la puerta", "wait before turning left", "go to the sofa before leaving"),
)
STATEMENTS = (
    *("is a bad idea", "was a joke", "has failed", "looks dangerous", "must be avoided", "will be fun"),
    *("should be forbidden", "would be wrong", "had been a mistake", "sounds good", "feels wrong"),
    *("means trouble", "costs money", "became a habit", "can wait", "is what he wants", "might hurt"),
    *("yeah right", "in your dreams", "over my dead body", "fat chance", "you idiot", "you stupid machine"),
    *("i'm scared", "as if", "lol", "it's a trap"),
)
OTHER_STATEMENTS = (
    *("find the ball is boring", "visit the sofa is forbidden", "i want the ball is a song title"),
    *("geh zum Sofa ist eine schlechte Idee", "va au canapé est une mauvaise idée", "去沙发那里是个坏主意"),
    *("ve al sofá es una mala idea", "go to the door then go to the sofa is a bad idea"),
    *("geh zum Sofa du Idiot", "ve al sofá ja ja"),
)
EXCEPTIONS = (
    *("go everywhere bar the kitchen", "go to all rooms bar the kitchen", "find anything besides the cup"),
    *("go to the sofa minus the cat", "find the non-red chair", "find the chair ausgenommen die rote"),
    *("find zero chairs", "find two chairs", "find the two chairs"),
)
WRONG_TOPICS = (
    *("forget everything tomorrow", "forget everything later", "forget everything at midnight"),
    *("forget everything when i leave", "forget my keys when i leave", "oublie tout demain"),
    *("olvida todo mañana", "vergiss alles morgen", "forget everything except my keys"),
    *("oublie tout sauf mes clés", "olvida todo menos mis llaves", "vergiss alles außer meinen Schlüsseln"),
    *("忘记一切除了钥匙", "oublie ça", "olvida eso", "oublie-moi", "vergiss mich", "忘记我", "忘记这件事"),
    *("forget those", "forget something", "forget anything", "forget nothing", "forget about everything"),
    *("oublie ce que j'ai dit", "olvida todo lo que dije", "vergiss alles was ich gesagt habe"),
    *(
        "忘记我说的话",
        "forget the last thing",
        "vergiss den letzten Satz",
        "forget everything in the kitchen",
    ),
    *(
        "forget the sofa, go to the table",
        "forget the kitchen, go home",
        "forget the cup, i meant the bottle",
    ),
    *("forget about the sofa, go to the chair", "forget the sofa go to the table"),
    *("vergiss das Sofa, geh zum Tisch", "oublie le canapé, va à la table", "忘记沙发，去桌子那里"),
    *("olvida el sofá, ve a la mesa", "forget evrything", "forget my kyes"),
)
WRONG_MEMORIES = (
    *("remember my keys are here and forget my phone", "remember my keys are here and go to the kitchen"),
    *("remember that my name is anna, then forget everything", "remember that", "remember this"),
    *("merk dir, dass mein Name Anna ist, dann vergiss alles", "remember it", "remember nothing"),
    *("merk dir das", "记住了吗", "记得我吗", "remember that?", "remember my name?", "remember this place"),
    *("merke dir diesen Ort", "记住这里", "记住这个地方"),
)
MIXED = (
    *("go to the chair y vuelve", "go to the chair vuelve", "go to the chair und komm zurück", "find 椅子"),
    *("go to the chair 然后 回来", "go to 门", "去门左边的椅子那里"),
)
INTO_THINGS = (
    *("va dans la table", "va dans la lampe", "va dans le lit", "roule dans la chaise", "lauf in die Tür"),
    *("geh in die Vase", "fahr ins Sofa", "fahre in den Kühlschrank", "geh zum Stuhl und dann in die Tür"),
    *("führ mich in den Tisch",),
)
COME_HERE = (
    *("come here", "come over here", "come to me", "komm her", "komm mal her", "komm zu mir", "viens"),
    *("viens ici", "viens vers moi", "ven", "ven aquí", "过来", "到我这里来", "快过来"),
)
STEPS = (
    *("take two steps forward", "go three steps back", "take a step", "ein Schritt zurück", "da un paso"),
    *("mach zwei Schritte vor", "fais un pas", "fais un pas en avant", "走三步", "往前走两步"),
)
REFUSED = (
    *(WAITS_FOR_SOMEONE, [f"go to the sofa {said}" for said in STATEMENTS], OTHER_STATEMENTS, EXCEPTIONS),
    *(WRONG_TOPICS, WRONG_MEMORIES, MIXED, INTO_THINGS, COME_HERE, STEPS, ["no la roja", "no la silla roja"]),
)


def why_refused(sentence: str) -> str:
    with pytest.raises(InstructionError) as error:
        plan_of(sentence, None)
    return str(error.value)


@pytest.mark.lengthy
@pytest.mark.parametrize("said", [said for kind in REFUSED for said in kind])
def test_a_partly_recognised_sentence_is_refused_as_a_whole(said: str) -> None:
    assert why_refused(said)


@pytest.mark.parametrize("point", POINTS)
def test_a_minus_counts_right_before_its_number_after_a_blank(point: str) -> None:
    numbers = random.Random(4)
    for _ in range(5):
        x, y = numbers.randint(0, 20), numbers.randint(1, 20)
        assert plan_of(point.format(f" {x} -{y}"), None).intent == f"go({x}, {-y})"
        for written in ("{}-{}", "{}- {}", "{} - {}"):
            assert why_refused(point.format(f" {written.format(x, y)}"))


@pytest.mark.parametrize("said", COME_HERE)
def test_the_refusal_of_a_call_suggests_what_to_say(said: str) -> None:
    assert '"come back"' in why_refused(said)


@pytest.mark.parametrize("said", ["left", "right", "links", "gauche", "izquierda", "左边"])
def test_the_refusal_of_a_side_alone_suggests_a_turn(said: str) -> None:
    assert '"turn left"' in why_refused(said)


@pytest.mark.parametrize("said", STEPS)
def test_the_refusal_of_counted_steps_suggests_metres(said: str) -> None:
    assert "say it in metres" in why_refused(said)


def test_a_misspelt_topic_is_offered_mended() -> None:
    with pytest.raises(InstructionError) as error:
        plan_of("forget evrything", None)
    assert error.value.meant == "forget everything"
    assert '"keys"' in why_refused("forget my kyes")


@pytest.mark.parametrize(
    ("said", "intent"),
    {
        "find the cup that is on the table": "find(cup that is on the table)",
        "find the cup that i was using": "find(cup that i was using)",
        "go to the bar in the hall": "find(bar in the hall)",
        "go to room five": "find(room five)",
        "find the den": "find(den)",
        "go to the café": "find(cafe)",
        "go to the steps": "find(steps)",
        "walk down the hall, the kitchen is on the left": (
            "follow(walk down the hall the kitchen is on the left)"
        ),
        "geh in die Küche": "find(kitchen)",
        "va dans la cuisine": "find(kitchen)",
        "geh ins Zimmer mit dem Sofa": "find(room with the sofa)",
        "wait by the chair": "find(chair)",
        "wait 5 seconds for me": "wait(5)",
        "forget the cup and the ball, then go home": "forget(cup); forget(ball); home",
        "forget my wifi code": "forget(wifi code)",
        "忘记我的钥匙": "forget(keys)",
        "remember that you must look up and then turn left": "remember",
        "turn left, then remember that my keys hang here": "turn(30); remember",
        "geh zur Tür, dann merk dir, dass hier die Küche ist": "find(door); remember",
    }.items(),
)
def test_what_is_only_like_it_is_understood(said: str, intent: str) -> None:
    assert "; ".join(step.intent for step in plan_of(said, None).steps) == intent
