"""Training examples: the robot in the data moves and remembers like the robot at run time."""

import math
from itertools import islice

import cv2
import numpy as np
import pytest

from outrider.core.language.actions import Motion
from outrider.core.values import Pose2D
from outrider.navigation.goal.history import SearchHistory
from outrider.navigation.motion.driving import carry_out
from outrider.runtime.datasets.dataset import home_examples, take_step
from outrider.simulation.homes.home import Home, generate_home
from outrider.simulation.simulator import Simulator


def facing_something(home: Home) -> Pose2D:
    """Returns a pose before an object, a little to its side: too near to walk straight ahead."""
    thing = home.objects[0]
    gap = thing.radius + 0.65
    return Pose2D(thing.x - gap, thing.y + 0.12, 0.0)


@pytest.fixture
def home() -> Home:
    return generate_home(5)


def test_a_step_past_something_in_the_way_ends_where_the_robots_own_controller_ends(home):
    start = facing_something(home)
    ours, robots = Simulator(home), Simulator(home)
    try:
        for simulator in (ours, robots):
            simulator.place(start)
        history = SearchHistory(start)
        take_step(ours, history, "move forward large", "search")
        carry_out(robots, Motion(forward_m=0.75))
        assert ours.truth() == robots.truth() and ours.collisions == 0
        straight = math.hypot(ours.truth().x - start.x - 0.75, ours.truth().y - start.y)
        assert straight > 0.1, "something must be in the way"
        assert history.last_action == "move forward large"
    finally:
        ours.close()
        robots.close()


@pytest.mark.lengthy
def test_some_homes_have_memories_in_their_prompts_and_the_expert_goes_by_them():
    queries = [query for seed in range(4) for example in home_examples(seed) for query in example.queries]
    remembered = [query for query in queries if "saw " in query.user_text.split("\n")[1]]
    assert 0.1 < len(remembered) / len(queries) < 0.7
    assert any("\nrecall: " in query.answer for query in remembered)
    assert not any("\nrecall: " in query.answer for query in queries if query not in remembered)


@pytest.mark.lengthy
def test_homes_take_looks_in_turn():
    brightness = []
    for seed, looks in ((6, ("plain",)), (6, ("plain", "washed")), (7, ("plain",)), (7, ("plain", "washed"))):
        frames = [example.jpeg for example in islice(home_examples(seed, looks), 3)]
        brightness.append(np.mean([cv2.imdecode(np.frombuffer(one, np.uint8), 0).mean() for one in frames]))
    assert brightness[0] == brightness[1] and brightness[3] > brightness[2] + 10.0


@pytest.mark.lengthy
def test_a_look_changes_no_task_and_no_answer():
    plain, noisy = (list(islice(home_examples(7, (look,)), 3)) for look in ("plain", "noisy"))
    assert [one.queries[0].user_text for one in plain] == [one.queries[0].user_text for one in noisy]
    assert [one.queries[0].answer for one in plain] == [one.queries[0].answer for one in noisy]
