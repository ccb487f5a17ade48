"""Orders in every form of address, and with the verb in its dictionary form."""

from __future__ import annotations

import contextlib

import pytest

from outrider.core.errors import InstructionError
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.sentences.stops import says_to_stop

SAME = {
    "gehen Sie zum Stuhl": "geh zum Stuhl",
    "drehen Sie sich nach links": "dreh dich nach links",
    "fahren Sie einen Meter vor": "fahr einen Meter vor",
    "suchen Sie den roten Ball, dann kommen Sie zurück": "such den roten Ball, dann komm zurück",
    "warten Sie fünf Sekunden": "warte fünf Sekunden",
    "halten Sie beim Stuhl an": "halt beim Stuhl an",
    "allez à la chaise": "va à la chaise",
    "avancez d'un mètre": "avance d'un mètre",
    "tournez à gauche de 90 degrés": "tourne à gauche de 90 degrés",
    "cherchez la balle rouge puis revenez": "cherche la balle rouge puis reviens",
    "aller à la chaise": "va à la chaise",
    "arrêtez-vous devant la chaise": "arrête-toi devant la chaise",
    "vaya a la silla": "ve a la silla",
    "gire 90 grados a la derecha": "gira 90 grados a la derecha",
    "busque la pelota roja y luego vuelva": "busca la pelota roja y luego vuelve",
    "retroceda un metro": "retrocede un metro",
    "espere cinco segundos": "espera cinco segundos",
    "pare junto a la silla": "para junto a la silla",
}
STOPS = [
    *("halten Sie an", "halten Sie sofort an", "bleiben Sie stehen", "bewegen Sie sich nicht", "bremsen Sie"),
    *("hören Sie auf", "gehen Sie nicht weiter", "bleib wo du bist", "stoppe den Roboter", "Motoren aus"),
    *("detén", "deten", "detén el robot", "detenga", "deténganse", "pare el robot", "no se mueva", "parad"),
    *("estate quieto", "no siga", "inmóvil", "parada total", "pare de moverse", "frénalo", "ni te muevas"),
    *("ne bougez plus", "stoppez le robot", "restez immobile", "restez où vous êtes", "coupez tout"),
    *("immobilisez-vous", "bouge plus", "abandonnez", "n'avancez plus", "原地不动", "止步", "終止", "中止"),
    *(
        "come to a standstill",
        "keep still",
        "kill switch",
        "remain where you are",
        "que pares",
        "tienes que parar",
    ),
    *(
        "que te detengas",
        "quiero que pares",
        "debe detenerse",
        "que no te muevas",
        "veuillez arrêter",
        "stoppe-toi",
    ),
    *("stehen Sie still", "bleiben Sie bitte stehen", "brechen Sie bitte ab", "drehen Sie sich nicht"),
    *("bleibt wo ihr seid", "paren de moverse", "dejen de andar", "restez là", "freinez", "cessez de bouger"),
    *("pouvez-vous arrêter", "tu dois arrêter", "du musst bremsen", "Sie sollen aufhören", "il faut stopper"),
]
MOVES_NOTHING = [
    *(
        "gehen Sie zum Stuhl?",
        "gehen Sie nicht zum Stuhl",
        "Sie gehen zum Stuhl",
        "falls Sie zum Stuhl gehen",
    ),
    *("n'allez pas à la chaise", "vous allez à la chaise", "allez-vous à la chaise ?"),
    *("no vaya a la silla", "cuando vaya a la silla", "¿vaya a la silla?", "que gire a la izquierda"),
]


@pytest.mark.parametrize(("formal", "familiar"), SAME.items())
def test_every_form_of_address_is_the_same_order(formal: str, familiar: str) -> None:
    assert plan_of(formal, None).steps == plan_of(familiar, None).steps
    assert not says_to_stop(formal)


@pytest.mark.parametrize("sentence", STOPS)
def test_a_stop_counts_in_every_form(sentence: str) -> None:
    for said in (sentence, sentence.upper(), f"{sentence}!", f"robot, {sentence}"):
        assert says_to_stop(said), said


@pytest.mark.parametrize(
    "sentence",
    [
        *("go to the chair, let's stop", "fahr zum Stuhl, halt mal an", "fahr zum Stuhl, nun halt doch an"),
        *(
            "fahr zum Stuhl, halten Sie bitte sofort an",
            "去椅子，先停",
            "去椅子，先停一下",
            "ve a la silla, que pare",
        ),
        *("ve a la silla, ¡que pare ya!", "ve a la silla, que paren"),
        *(
            "go to the chair, stop please",
            "go to the chair, please stop right now",
            "turn left, stop at once, robot",
        ),
        *(
            "geh zum Stuhl, stopp bitte",
            "geh zum Stuhl, bitte sofort anhalten",
            "va à la chaise, arrête maintenant",
        ),
        *(
            "ve a la silla, para por favor",
            "ve a la silla, ¡que pares!",
            "ve a la silla, detente ahora mismo",
        ),
    ],
)
def test_a_polite_stop_after_a_comma_counts(sentence: str) -> None:
    assert says_to_stop(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        *(
            "ne pas arrêter",
            "nicht anhalten",
            "nicht aufhören",
            "ve a la pared",
            "busca los padres",
        ),
        *(
            "find the salt, then come back",
            "gehen Sie nicht zum Stuhl",
            "go to the chair, then stop please",
            "geh zum Stuhl, dann bitte anhalten",
        ),
    ],
)
def test_what_is_no_stop_by_itself_stays_none(sentence: str) -> None:
    assert not says_to_stop(sentence)


@pytest.mark.parametrize("sentence", MOVES_NOTHING)
def test_no_form_makes_an_order_of_what_is_none(sentence: str) -> None:
    with contextlib.suppress(InstructionError):
        assert not plan_of(sentence, None).moves
