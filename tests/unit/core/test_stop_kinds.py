"""Stops with names, oaths and reasons around them, stops within other names, and hidden stops."""

import itertools
import random

import pytest

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.plan import Plan, Stop
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.sentences.stops import begins_to_stand, says_to_stop
from outrider.core.language.words.phrasebook import phrasebook, stop_words
from outrider.core.language.words.things import SHAPES

WORDS = Vocabulary({"colour": ("red", "blue"), "kind": ("chair", "cup", "ball", "sofa")}, shapes=SHAPES)
NAMES = ("rex", "buddy", "dammit", "zorbo", "man")


def plan_or_none(said: str, vocabulary: Vocabulary | None = None) -> Plan | None:
    try:
        return plan_of(said, vocabulary)
    except InstructionError:
        return None


def stops(said: str) -> bool:
    plans = [plan_or_none(said, vocabulary) for vocabulary in (WORDS, None)]
    return says_to_stop(said) and all(plan is not None and plan.steps == (Stop(),) for plan in plans)


LONG = ("stand still", "stay put", "hold still", "keep still", "watch out", "shut down", "power off")
LONG += ("too close", "that's far enough", "that's enough", "don't move", "hold on")
SHORT = ("emergency", "enough", "pause", "cancel", "brakes", "careful", "danger")
TOLD = ("go to the sofa", "move forward", "turn left", "find the ball", "come back")
BEFORE = ("i said", "sorry", "rather", "uh", "quick", "wow", "hey", "no", "oh god", "look")


@pytest.mark.lengthy
@pytest.mark.parametrize("name", ["", *NAMES])
@pytest.mark.parametrize("phrase", [*LONG, *SHORT])
def test_a_name_after_a_stop_hides_none(phrase: str, name: str) -> None:
    missed = [said for told in (*TOLD, *BEFORE, "") if not stops(said := f"{told} {phrase} {name}".strip())]
    assert not missed


@pytest.mark.parametrize("phrase", LONG)
def test_a_stop_within_a_question_or_a_request_to_forget_counts(phrase: str) -> None:
    told = ("where is the ball", "forget everything", "forget my keys", "what do you see", "find my old keys")
    assert not [said for one in told if not stops(said := f"{one} {phrase} rex")]


@pytest.mark.parametrize(
    "said",
    [
        *("go to the sofa danger ahead", "go to the sofa careful there", "hold on rex", "wow hold on man"),
        *("move forward hold on for a sec", "quick hold on there's a kid", "don't go rex", "hold up buddy"),
        *("go to the sofa cancel", "i said that's enough buddy", "uh hold on dammit"),
    ],
)
def test_few_words_after_a_stop_hide_none(said: str) -> None:
    assert stops(said)


@pytest.mark.parametrize(
    "said",
    [
        *(
            "go to the red light",
            "find the big red light",
            "find help",
            "go to the sofa rex",
            "go home buddy",
        ),
        *("where is the kill switch", "forget the red light", "is that far enough", "no, the blue one"),
        *(
            "remember that rex must stay put",
            "hold on a minute",
            "stay there for 5 seconds",
            "no, no, the cup",
        ),
        *(
            "what is danger",
            "hold up the cup",
            "never mind the chair",
            "don't go to the sofa",
            "get back home",
        ),
        *(
            "come back here",
            "get back to the sofa",
            "back off",
            "geh zum Tisch aus Holz",
            "nein, den anderen",
        ),
        *(
            "non, l'autre chaise",
            "no, la otra silla",
            "vete a la puerta",
            "vete a casa",
            "find the chair, then stop",
        ),
        *("你看到什么", "去椅子那里", "不，蓝色的那个", "等一下", "再左转", "别去厨房", "不要走到椅子"),
    ],
)
def test_what_is_much_like_a_stop_with_a_name_is_none(said: str) -> None:
    assert not says_to_stop(said)


SINGLE = {
    "de": ("abbruch", "genug", "brems", "vollbremsung"),
    "fr": ("immobile", "pause", "freine", "assez"),
    "es": ("quieto", "basta", "frena", "cancela"),
    "en": ("cancel", "enough", "brakes", "pause", "quit"),
}
AROUND = {
    "de": (
        ("", "ok", "rex", "äh ähm", "mensch"),
        ("", "bitte", "sofort", "rex", "verdammt", "du tust mir weh"),
    ),
    "fr": (("", "bon", "rex", "mon dieu", "hé"), ("", "rex", "merde", "sinon tu tombes", "il y a un enfant")),
    "es": (("", "oye", "rex", "dios mío", "eh"), ("", "un momento", "rex", "me haces daño", "que te caes")),
    "en": (("", "ok", "rex", "oh god", "i said"), ("", "please", "rex", "dammit", "there's a kid")),
}


@pytest.mark.parametrize("language", AROUND)
def test_a_stop_of_one_word_counts_with_what_says_nothing_around_it(language: str) -> None:
    before, after = AROUND[language]
    said = (" ".join(filter(None, one)) for one in itertools.product(before, SINGLE[language], after))
    assert not [one for one in said if not stops(one)]


@pytest.mark.parametrize("said", ["avance freine enfin", "rex frena me haces daño", "geh vor brems mann"])
def test_a_plain_stop_word_breaks_into_anything(said: str) -> None:
    assert stops(said)


CHINESE = "你停一下; 喂停一下; 麻烦停一下; 嗯停一下嘛; 前进停一下吧; 左转停一下了"
CHINESE += "; 小狗停一下啊; 求你停一下啊; 我叫你停一下啊; 请你停一下别撞到孩子"


def test_a_longer_word_of_unspaced_writing_hides_no_stop() -> None:
    book = phrasebook("zh")
    holding = [
        word for word in sorted(book.lexicon) if any(stop in word for stop in book.words("stop_words"))
    ]
    assert {"停一下", "紧急停止"} & set(holding) and len(holding) > 15
    draw = random.Random(3)
    for word in holding:
        assert word in stop_words()
        for before, after in itertools.product(("", "你", "前进", "去沙发那里"), ("", "吧", "别撞到孩子")):
            assert says_to_stop(f"{before}{word}{after}"), (before, word, after)
        assert stops(f"{draw.choice(['喂', '小狗', '左转'])}{word}")
    assert not [said for said in CHINESE.split("; ") if not stops(said)]


@pytest.mark.parametrize(
    "said", ["stop at the baby", "halt near grandma's leg", "stop by the edge", "para en el borde"]
)
def test_what_begins_with_a_stop_and_is_not_understood_stops(said: str) -> None:
    plan = plan_or_none(said, WORDS)
    assert plan is not None and plan.steps == (Stop(),)


WAITING = (
    "wait!; hey rex wait; wait for me; wait what are you doing; no, wait; warte; nein, warten Sie; attendez; "
    "non, attends un moment; espera!; 等一下; hold on; pause; stop at the baby; waaait!; "
    "warteee; 'wait'; \U0001f600 wait"
)
NOT_WAITING = "find the chair, then wait; do not wait; waiter; why wait; turn left; 去椅子那里; ; ?!"


def test_a_sentence_that_begins_with_a_wait_orders_a_stop_during_motion() -> None:
    assert [said for said in WAITING.split("; ") if not begins_to_stand(said)] == []
    assert [said for said in NOT_WAITING.split("; ") if begins_to_stand(said)] == []


def test_no_before_wait_alone_is_a_stop_and_before_a_wait_of_some_length_is_none() -> None:
    for said in (
        "nooo",
        "Neeein!",
        "no wait",
        "no... wait!",
        "go to the sofa no wait",
        "wait no",
        "nein warte",
        "nein warten Sie",
        "non attends",
        "no espera",
    ):
        assert stops(said), said
    for said in ("one moment", "give me a second", "einen Moment!", "un moment", "un momento", "稍等"):
        assert stops(said), said
    for said in ("no wait 5 seconds", "nein warte zehn Sekunden", "non attends dix secondes", "wait"):
        assert not says_to_stop(said), said


@pytest.mark.parametrize("said", ["stop at the red chair", "halt bei der Tasse"])
def test_what_begins_with_a_stop_and_is_understood_is_done(said: str) -> None:
    plan = plan_or_none(said, WORDS)
    assert plan is not None and plan.moves


@pytest.mark.parametrize("said", ["not stop", "do not stop at the baby", "nicht anhalten", "别停"])
def test_a_stop_that_is_denied_is_still_refused(said: str) -> None:
    assert plan_or_none(said, WORDS) is None


EVERYDAY = {
    "en": (
        "stay in place; remain in place; would you mind stopping; do you mind stopping; don't run; don't go "
        "there; nobody move; not any further; enough already; use your brakes; hold up a sec; get back; "
        "help me; find the ball help me; 🛑; "
        "✋; ⛔; 🅂🅃🄾🄿; 🆂🆃🅾🅿; ꜱᴛᴏᴘ"
    ),
    "de": (
        "bleib kurz stehen; bleibst du stehen; bleibst du wohl stehen; hörst du auf; hörst du wohl auf; nun "
        "hör schon auf; bleib jetzt endlich stehen; nicht mehr weiter; reicht; das reicht; das genügt; das "
        "ist weit genug; stehengeblieben; hiergeblieben; Vorsicht Kind; nicht dahin; hilf mir"
    ),
    "fr": "aide-moi; fais une pause; attends attends; éloigne-toi; coupez; non pas là",
    "es": (
        "ayúdame; deja de seguirme; basta de moverte; haz una pausa; se acabó; acaba ya; apágalo; "
        "desconéctate; abortar misión; déjame en paz"
    ),
    "zh": (
        "别再往前了; 不要再往前走了; 别去了; 别找了; 算了; 不去了; 不用了; 结束; "
        "到此为止; 可以了; 好了; 要撞了; 不要！; 不要"
    ),
}


@pytest.mark.parametrize("said", [one for said in EVERYDAY.values() for one in said.split("; ")])
def test_everyday_stops(said: str) -> None:
    assert stops(said) and stops(f"{said}!") and says_to_stop(f"go to the chair, {said}")
