"""Homes are pure functions of their arguments, and hold what their placement promises."""

import math

import pytest

from outrider.core.errors import SimulationError
from outrider.core.language.grammar import FIND_PHRASINGS, Instruction, parse
from outrider.simulation.homes import PLACEMENTS, generate_home, in_camera_view
from outrider.simulation.vocabulary import ObjectSpec, target_of, vocabulary

SEEDS = range(500, 530)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_placement_is_kept(placement):
    for seed in SEEDS:
        home = generate_home(seed, placement=placement)
        same_room = home.room_of(home.start.x, home.start.y) == home.target.room
        seen = in_camera_view(home, home.start, home.target.x, home.target.y)
        assert same_room == (placement != "other_room")
        assert seen == (placement == "in_view")


def test_homes_hold_the_target_once_and_look_alikes():
    for seed in SEEDS:
        home = generate_home(seed, ObjectSpec("bottle", "silver"))
        specs = [thing.spec for thing in home.objects]
        assert specs.count(ObjectSpec("bottle", "silver")) == 1
        assert len(specs) >= 5
        assert any((s.kind == "bottle") != (s.colour == "silver") for s in specs)


def test_same_seed_same_home():
    assert generate_home(3) == generate_home(3)
    assert generate_home(3) != generate_home(4)


def test_nothing_stands_in_anything():
    for seed in SEEDS:
        home = generate_home(seed)
        for index, thing in enumerate(home.objects):
            assert not any(f.rect.holds(thing.x, thing.y) for f in home.furniture)
            for other in home.objects[index + 1 :]:
                assert math.hypot(thing.x - other.x, thing.y - other.y) > thing.radius + other.radius


def test_unknown_placement_is_refused():
    with pytest.raises(SimulationError, match="attic"):
        generate_home(1, placement="attic")


@pytest.mark.parametrize("phrasing", FIND_PHRASINGS)
def test_every_phrasing_names_its_target_and_is_understood(phrasing):
    text = phrasing.format("green cup")
    assert target_of(text) == ObjectSpec("cup", "green")
    assert parse(text, vocabulary()) == Instruction(text, "green cup")
