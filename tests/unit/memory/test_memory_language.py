"""What people say about memory, what texts say was seen, and how the robot answers."""

from __future__ import annotations

import math

import pytest

from outrider.core.values import Place, Pose2D, Record, RecordKind, Visibility
from outrider.memory.answers import place_words, seen_answer, time_words
from outrider.memory.language.landmarks import landmark_of
from outrider.memory.language.scene import Seen, place_of, things_seen

SHAREABLE = Visibility.SHAREABLE


@pytest.mark.parametrize(
    ("reason", "seen"),
    [
        (
            "approach: silver bottle left 20 at 2.3 m; red bottle right 10 at 3.0 m, not silver.",
            [("silver bottle", 20, 2.3), ("red bottle", -10, 3.0)],
        ),
        (
            "search: no red ball; blue cup ahead at 2.2 m; free left 2, ahead 0.5, right 1 m; turned 9 of 9.",
            [("blue cup", 0, 2.2)],
        ),
        (
            "door: way out right 20 at 3.0 m, no silver bottle in here; door right 30 at 2.2 m, searched.",
            [("door", -20, 3.0), ("door", -30, 2.2)],
        ),
        ("approach: lost sight of red cone, moving closer; red box left 5 at 1.0 m.", [("red box", 5, 1.0)]),
        ("arrived: red cup ahead at 0.9 m, within reach.", [("red cup", 0, 0.9)]),
        ("search: no red ball left 10 at 2.0 m; turned 0 of 360.", []),
        ("x: red ball left 999 at 2.0 m; ball ahead at 0.0 m; cup ahead at 99.0 m", []),
        ("recall: going to a remembered place.", []),
        ("", []),
    ],
)
def test_things_that_a_text_places(reason: str, seen: list[tuple[str, int, float]]) -> None:
    expected = [Seen(what, math.radians(degrees), metres) for what, degrees, metres in seen]
    assert things_seen(f"turn left small\n{reason}") == expected
    assert things_seen(reason) == [], "an action line places nothing"


def test_a_thing_to_the_left_of_a_robot_that_looks_along_y_is_at_lower_x() -> None:
    place = place_of(Seen("cup", math.radians(90.0), 2.0), Pose2D(1.0, 1.0, math.radians(90.0)), "h")
    assert (place.x, place.y, place.home) == (pytest.approx(-1.0), pytest.approx(1.0), "h")


@pytest.mark.parametrize(
    ("text", "landmark"),
    [
        ("my keys hang by the silver lamp", "silver lamp"),
        ("my keys hang by the lamp", None),
        ("my keys lie under the chair", "red chair"),
        ("my keys hang by the door", "door"),
        ("the lampshade is broken", None),
        ("my keys lie under the green chair", None),
        ("the silver lamp is a gift", "silver lamp"),
    ],
)
def test_the_landmark_of_a_sentence(text: str, landmark: str | None) -> None:
    assert landmark_of(text, ["red chair", "silver lamp", "red lamp", "door"]) == landmark


def test_what_is_wanted_is_no_landmark_of_itself() -> None:
    things = ["silver lamp", "red lamp", "door"]
    assert landmark_of("the silver lamp stands by the door", things, "silver lamp") == "door"
    assert landmark_of("the silver lamp is a gift", things, "silver lamp") is None


@pytest.mark.parametrize(
    ("age_s", "words"), [(0, "just now"), (61, "1 minute ago"), (7300, "2 hours ago"), (90_000, "1 day ago")]
)
def test_time_words(age_s: float, words: str) -> None:
    assert time_words(age_s) == words


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (Place(2.0, 0.0, "h"), "2.0 m ahead (x 2.0, y 0.0)"),
        (Place(0.0, 2.0, "h"), "2.0 m to the far left (x 0.0, y 2.0)"),
        (Place(0.1, 0.0, "h"), "here (x 0.1, y 0.0)"),
        (Place(2.0, 0.0, "g"), "in another home (g: x 2.0, y 0.0)"),
    ],
)
def test_place_words(place: Place, words: str) -> None:
    assert place_words(place, Pose2D(0.0, 0.0, 0.0), "h") == words


def test_an_answer_says_what_when_and_where() -> None:
    seen = Record(1, "red ball", RecordKind.SEEN, SHAREABLE, 0.0, 40.0, Place(2.0, 0.0, "h"))
    assert seen_answer(seen, None, "h", 100.0) == "i saw the red ball 1 minute ago, at x 2.0, y 0.0"
    told = Record(2, "the ball is gone", RecordKind.TOLD, Visibility.PRIVATE, 0.0, 40.0)
    assert seen_answer(told, None, "h", 100.0) == 'i was told 1 minute ago: "the ball is gone"'
