"""Orders that people give every day, in all languages, and the intents that they become."""

from __future__ import annotations

import pytest

from outrider.core.errors import InstructionError
from outrider.core.language.plan import Remember
from outrider.core.language.sentences.planner import plan_of

TURNS = {
    "turn(30)": (
        *("go left", "to the left", "turn to your left", "nach links", "geh nach links"),
        *("à gauche", "va à gauche", "ve a la izquierda", "a la izquierda", "往左走", "take a left"),
    ),
    "turn(-30)": ("go right", "nach rechts", "à droite", "ve a la derecha", "往右走"),
    "turn(90)": ("turn left ninety",),
    "turn(35)": ("dreh dich um fünfunddreißig Grad nach links",),
    "turn(120)": ("dreh dich um hundertzwanzig Grad nach links",),
    "turn(180)": ("dreh dich um einhundertachtzig Grad", "turn left a hundred and eighty"),
    "turn(360)": ("dreh dich um dreihundertsechzig Grad",),
    "turn(25)": ("gira veinticinco grados a la izquierda",),
    "turn(200)": ("gira doscientos grados a la izquierda",),
}
MOVES = {
    "move(0.5)": (
        *("forward", "straight ahead", "geradeaus", "fahr vor", "tout droit", "en avant", "todo recto"),
        *("adelante", "一直走"),
    ),
    "move(-0.5)": ("ve hacia atrás", "va en arrière"),
    "move(2)": ("camina dos metros", "marche deux mètres", "geh zwei Meter", "走两米"),
    "move(1.5)": ("geh eineinhalb Meter vor",),
    "move(2.5)": ("geh zweieinhalb Meter vor",),
    "home": ("vuelve a tu base", "retourne à ta base", "zurück nach Hause", "回到起点"),
    "return": ("come back to me", "快回来"),
}
WAITS = {
    "wait(5)": (
        *("wait a bit", "warte dort", "warte ein bisschen", "attends là", "attends un peu", "espera ahí"),
        *("espera un poco", "在这里等"),
    ),
    "find(door); wait(5)": ("geh zur Tür und warte dort",),
    "find(door)": ("去门口等着", "去门口", "du sollst zur Tür fahren"),
}
FINDS = {
    "find(chair)": (
        *("trouve-moi une chaise", "búscame una silla", "encuéntrame una silla", "ve a buscar la silla"),
        *("va chercher la chaise", "je cherche la chaise", "tu peux aller à la chaise", "我需要椅子"),
        *("帮我找一下椅子", "ich möchte, dass du zum Stuhl gehst", "i need you to go to the chair"),
        *("je veux que tu ailles à la chaise", "quiero que vayas a la silla", "puedes ir a la silla"),
    ),
    "find(keys)": ("cherche-moi mes clés", "帮我找一下我的钥匙", "help me find my keys"),
    "find(red ball)": (
        *("can you help me to find the red ball?", "hilf mir den roten Ball zu finden"),
        *("aide-moi à trouver la balle rouge", "ayúdame a encontrar la pelota roja"),
    ),
    "find(red chair)": ("kannst du zum roten Stuhl gehen",),
    "find(red cup)": ("könntest du bitte die rote Tasse suchen",),
    "find(table)": ("去桌子那边", "到桌子那边去", "去桌子旁边"),
    "find(bed)": ("去床边",),
    "find(bathroom)": ("ve al baño", "geh ins Badezimmer", "va à la salle de bain", "去卫生间"),
    "find(living room)": ("ve al salón", "geh ins Wohnzimmer", "va dans le salon", "去客厅"),
    "find(exit)": ("va à la sortie", "geh zum Ausgang", "ve a la salida", "去出口"),
    "find(window)": ("geh zum Fenster", "va à la fenêtre", "ve a la ventana", "去窗户那里"),
    "find(office)": ("geh ins Büro", "va au bureau", "ve a la oficina", "去办公室"),
    "find(school)": ("go to the school",),
    "find(doctor)": ("find the doctor",),
}
CORRECTIONS = {
    "correct(other)": (
        "l'autre",
        "la otra",
        "den anderen",
        "另一个",
        "不是这个，是另一个",
        "the other one",
        "no la otra",
    ),
    "correct(blue)": ("不对，是蓝色的",),
    "correct(red)": ("no, la roja",),
}
QUESTIONS = {
    "where(keys)": ("你看到我的钥匙了吗", "你看到过我的钥匙吗"),
    "where(red chair)": ("你看到红色的椅子了吗",),
    "see": (
        *("你能看到什么", "你能看见什么", "你看得到什么", "你看见什么了", "tu vois quoi"),
        *("was kannst du sehen", "was siehst du"),
    ),
    "ask": (
        *("你在哪里", "我在哪里", "where are we", "siehst du mich", "tu me vois", "me ves", "was kannst du"),
        *("do you see anyone",),
    ),
}
ALL = (TURNS, MOVES, WAITS, FINDS, CORRECTIONS, QUESTIONS)


@pytest.mark.parametrize(
    ("said", "intent"), [(said, intent) for kind in ALL for intent, some in kind.items() for said in some]
)
def test_everyday_orders_are_understood(said: str, intent: str) -> None:
    assert "; ".join(step.intent.partition(":")[0] for step in plan_of(said, None).steps) == intent


TENS = ("zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig")


@pytest.mark.parametrize(("tens", "name"), list(enumerate(TENS, 2)))
def test_german_numbers_are_joined_by_rule(tens: int, name: str) -> None:
    ones = ["", "ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]
    for one, word in enumerate(ones):
        said = f"{word}und{name}" if word else name
        assert plan_of(f"dreh dich um {said} Grad nach links", None).intent == f"turn({10 * tens + one})"


@pytest.mark.parametrize(
    "said", ["right, go to the chair", "go to the chair, right", "nach links, geh zum Stuhl"]
)
def test_a_side_next_to_an_order_turns_nowhere(said: str) -> None:
    try:
        steps = [step.intent for step in plan_of(said, None).steps]
    except InstructionError:
        return
    assert not any(step.startswith("turn") for step in steps)


@pytest.mark.parametrize(
    "said",
    [
        *("remember my keys are here", "remember this is the kitchen", "merk dir: hier ist die Küche"),
        *("merk dir, dass meine Schlüssel hier sind", "souviens-toi que mes clés sont ici", "记住这里是厨房"),
        *("recuerda que mis llaves están aquí", "记住我的钥匙在这里"),
        *("remember this place as the workshop", "remember your current position as the dock"),
        *("merk dir diesen Ort als Werkstatt", "merk dir das hier als Ladestation", "记住这里叫基地"),
        *("souviens-toi que cet endroit est l'atelier", "recuerda que este lugar se llama la base"),
    ],
)
def test_here_is_set_in_every_language(said: str) -> None:
    (step,) = plan_of(said, None).steps
    assert isinstance(step, Remember) and step.here


@pytest.mark.parametrize(
    "said", ["move closer to the chair", "get nearer to the chair", "geh näher an den Stuhl heran"]
)
def test_closer_to_a_thing_is_to_it(said: str) -> None:
    (step,) = plan_of(said, None).steps
    assert step.intent == "find(chair)"


@pytest.mark.parametrize(
    "said", ["move closer to me", "move closer", "don't get closer to the chair", "geh näher an mich heran"]
)
def test_closer_to_nothing_known_moves_nothing(said: str) -> None:
    with pytest.raises(InstructionError):
        plan_of(said, None)
