"""Homes are pure functions of their arguments, and satisfy their placement."""

import math
from dataclasses import replace

import pytest

from outrider.core.errors import SimulationError
from outrider.core.language.grammar import FIND_PHRASINGS, Instruction, parse
from outrider.simulation.homes.furnishing import BESIDE_M, is_corridor
from outrider.simulation.homes.home import PLACEMENTS, generate_home, meant, sees_in_camera
from outrider.simulation.homes.vocabulary import ObjectSpec, target_of, vocabulary, wanted

SEEDS = range(500, 530)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_placement_is_kept(placement):
    for seed in SEEDS:
        home = generate_home(seed, placement=placement)
        same_room = home.room_of(home.start.x, home.start.y) == home.target.room
        seen = sees_in_camera(home, home.start, home.target)
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
        for index, thing in enumerate(home.standing):
            assert not any(rect.holds(thing.x, thing.y) for _, rect in home.furniture)
            for other in home.standing[index + 1 :]:
                assert math.hypot(thing.x - other.x, thing.y - other.y) > thing.radius + other.radius


def test_furniture_stands_at_a_wall_of_its_room_and_counts_as_near_at_its_edge():
    for seed in SEEDS:
        home = generate_home(seed)
        for piece, rect in home.furniture:
            room = home.rooms[piece.room]
            gaps = rect.x0 - room.x0, rect.y0 - room.y0, room.x1 - rect.x1, room.y1 - rect.y1
            assert 0.0 < min(gaps) < 0.1 and all(gap > 0.0 for gap in gaps)
            assert piece.distance_m(rect.x1 + 0.5, piece.y) == pytest.approx(0.5 + BESIDE_M)


def test_plans_have_one_to_eight_rooms_that_doors_join_and_nothing_stands_in_corridors():
    homes = [generate_home(seed, placement="hidden") for seed in range(120)]
    assert {len(home.rooms) for home in homes} == set(range(1, 9))
    assert any(is_corridor(room) for home in homes for room in home.rooms)
    for home in homes:
        joined = {0}
        for _ in home.rooms:
            joined |= {room for door in home.doors if joined & set(door.rooms) for room in door.rooms}
        assert joined == set(range(len(home.rooms)))
        assert not any(is_corridor(home.rooms[thing.room]) for thing in home.objects)
        for door in home.doors:
            assert not any(wall.holds(door.x, door.y) for wall in home.walls)


def test_a_home_for_a_thing_by_size_also_holds_the_thing_in_the_other_size():
    for seed in range(12):
        home = generate_home(seed, ObjectSpec("box", "red", "small"), "hidden")
        twins = [thing for thing in home.objects if thing.spec == ObjectSpec("box", "red", "large")]
        assert home.target.spec.size == "small"
        assert all(twin.room == home.target.room and twin.radius > home.target.radius for twin in twins)


def test_what_is_meant_follows_colour_size_and_side():
    home = generate_home(3)
    red, blue = ObjectSpec("ball", "red", "small"), ObjectSpec("ball", "blue")
    left = replace(home.target, spec=red, x=home.start.x + 2.0, y=home.start.y + 0.5)
    right = replace(home.target, spec=blue, x=home.start.x + 2.0, y=home.start.y - 0.5)
    start = replace(home.start, yaw=0.0)
    bare = replace(home, walls=(), objects=(left, right), target_index=0, start=start)
    asked = {
        "find the red ball": (left,),
        "find any ball": (left, right),
        "find the small ball": (left,),
        "find the large ball": (),
        "find the left ball": (left,),
        "find the right ball": (right,),
        "go to the room with the blue ball": (right,),
    }
    for instruction, things in asked.items():
        said = wanted(instruction)
        assert said is not None and meant(bare, said) == things, instruction


def test_unknown_placement_is_refused():
    with pytest.raises(SimulationError, match="attic"):
        generate_home(1, placement="attic")


@pytest.mark.parametrize("phrasing", FIND_PHRASINGS)
def test_every_phrasing_names_its_target_and_is_understood(phrasing):
    text = phrasing.format("green cup")
    assert target_of(text) == ObjectSpec("cup", "green")
    assert parse(text, vocabulary()) == Instruction(text, "green cup")
