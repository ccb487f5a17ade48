"""Boxes around the things in a text, and points on map or picture as commands, gated like sentences."""

from __future__ import annotations

import math

import pytest
from support.consoles import FakeRobot, Page, wait_until

from outrider.console import messages as m
from outrider.console.drawing.boxes import SIZES_M, box_of
from outrider.console.drawing.pictures import FARTHEST_M, KEPT, Pictures, sentence_to_go
from outrider.console.hub import NO_FLOOR
from outrider.console.server import ConsoleServer
from outrider.core.errors import InstructionError
from outrider.core.language.plan import MAX_POINT_M, Go
from outrider.core.language.sentences.planner import plan_of
from outrider.core.sensors.camera import CAMERA_FORWARD_M, SIM_CAMERA, CameraView
from outrider.core.values import Pose2D, Velocity
from outrider.simulation.homes.home import generate_home
from outrider.simulation.homes.vocabulary import FURNITURE_KINDS, STANDING_KINDS, ObjectSpec
from outrider.simulation.looks.shapes import FURNITURE_PARTS, STANDING_PARTS, Part
from outrider.simulation.simulator import Simulator

HERE = Pose2D(1.0, -2.0, 0.7)
VIEW = CameraView(SIM_CAMERA, HERE)


def shown(server: ConsoleServer, *things: m.Thing) -> Page:
    """Yields a page with the robot's first picture, taken at the origin by the simulated camera."""
    page = Page(server)
    server.set_camera_model(SIM_CAMERA)
    server.show_pose(Pose2D(0.0, 0.0, 0.0))
    server.show(m.Sights(things))
    server.show_picture(b"picture")
    assert page.read_picture()[0] == 1
    return page


@pytest.mark.parametrize("across", [0.0, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("down", [0.6, 0.75, 1.0])
def test_a_point_of_the_floor_is_where_the_picture_has_it(across: float, down: float) -> None:
    floor = VIEW.floor_at(across, down)
    assert floor is not None
    x, y, ahead_m = floor
    assert VIEW.share_of(x, y, 0.0) == pytest.approx((across, down, ahead_m))


def test_left_is_left_and_near_is_low() -> None:
    ahead = Pose2D(0.0, 0.0, 0.0)
    view = CameraView(SIM_CAMERA, ahead)
    left, right = view.share_of(3.0, 1.0, 0.0), view.share_of(3.0, -1.0, 0.0)
    near, behind = view.share_of(1.5, 0.0, 0.0), view.share_of(-3.0, 0.0, 0.0)
    assert left and right and near and left[0] < 0.5 < right[0] and near[1] > left[1] > 0.5
    assert behind is None and view.floor_at(0.5, 0.5) is None and view.floor_at(0.5, 0.2) is None


@pytest.mark.parametrize("distance_m", [1.5, 2.5, 4.0])
def test_a_box_is_around_the_pixels_of_the_thing(distance_m: float) -> None:
    """The box has the middle of the thing's pixels in the simulated picture, and about their size."""
    home = generate_home(4, ObjectSpec("box", "red"), "in_view")
    simulator = Simulator(home)
    try:
        target = home.target
        heading = math.atan2(target.y - simulator.truth().y, target.x - simulator.truth().x)
        pose = Pose2D(
            target.x - distance_m * math.cos(heading),
            target.y - distance_m * math.sin(heading),
            heading + 0.1,
        )
        simulator.place(pose)
        rgb = simulator.render_camera().astype(int)
    finally:
        simulator.close()
    red = (rgb[:, :, 0] > 90) & (rgb[:, :, 1] < 60) & (rgb[:, :, 2] < 60)
    rows, columns = red.nonzero()
    assert len(rows) > 20
    box = box_of("red box", target.x, target.y, CameraView(SIM_CAMERA, pose))
    assert box is not None
    height, width = red.shape
    assert box.holds(columns.mean() / width, rows.mean() / height)
    assert 0.5 < (box.right - box.left) * width / (columns.max() - columns.min() + 1) < 1.5


def extent(parts: list[Part]) -> tuple[float, float]:
    """Returns a thing's width (the mean of its two sides) and its height, in metres."""
    sides = []
    for axis in range(3):
        halves = [_half(part, axis) for part in parts]
        low = min(part.pos[axis] - half for part, half in zip(parts, halves, strict=True))
        high = max(part.pos[axis] + half for part, half in zip(parts, halves, strict=True))
        sides.append(high - low)
    return (sides[0] + sides[1]) / 2.0, sides[2]


def _half(part: Part, axis: int) -> float:
    by_kind = {
        "mjGEOM_SPHERE": (part.size[0],) * 3,
        "mjGEOM_CYLINDER": (part.size[0], part.size[0], part.size[-1]),
    }
    return by_kind.get(part.geom.name, part.size)[axis]


@pytest.mark.parametrize("kind", [*STANDING_KINDS, *FURNITURE_KINDS])
def test_the_usual_sizes_are_those_of_the_simulated_things(kind: str) -> None:
    assert SIZES_M[kind] == pytest.approx(extent({**STANDING_PARTS, **FURNITURE_PARTS}[kind]), abs=0.06)


@pytest.mark.parametrize("what", ["red unicorn", "door", "chair lift"])
def test_nothing_is_drawn_of_unknown_size(what: str) -> None:
    assert box_of(what, 4.0, 0.0, CameraView(SIM_CAMERA, Pose2D(0.0, 0.0, 0.0))) is None


@pytest.mark.parametrize(("x", "y"), [(-2.0, 0.0), (2.0, 6.0), (CAMERA_FORWARD_M, 0.0)])
def test_nothing_is_drawn_of_what_is_out_of_view(x: float, y: float) -> None:
    assert box_of("red chair", x, y, CameraView(SIM_CAMERA, Pose2D(0.0, 0.0, 0.0))) is None


def test_without_a_lens_or_a_pose_nothing_is_known_of_a_picture() -> None:
    pictures, thing = Pictures(), ("red chair", 3.0, 0.0)
    assert pictures.take(1, Pose2D(0.0, 0.0, 0.0), [thing]) == ()
    pictures.lens = SIM_CAMERA
    assert pictures.take(2, None, [thing]) == ()
    assert [pictures.sentence(number, 0.5, 0.9) for number in (1, 2)] == ["", ""]


def test_pictures_are_kept_for_a_while() -> None:
    pictures = Pictures()
    pictures.lens = SIM_CAMERA
    for number in range(KEPT + 1):
        pictures.take(number, Pose2D(float(number), 0.0, 0.0), [])
    assert pictures.sentence(0, 0.5, 0.9) == ""
    (first,), (last,) = (plan_of(pictures.sentence(n, 0.5, 0.9), None).steps for n in (1, KEPT))
    assert isinstance(first, Go) and isinstance(last, Go) and last.x - first.x == pytest.approx(KEPT - 1)


def test_a_thing_in_front_of_the_floor_is_what_is_pointed_at() -> None:
    pictures = Pictures()
    pictures.lens = SIM_CAMERA
    here = Pose2D(0.0, 0.0, 0.0)
    near, far = pictures.take(1, here, [("red chair", 2.0, 0.0), ("blue sofa", 3.0, 0.0)])
    assert far.holds(0.5, near.bottom - 0.1), "the chair stands before the sofa"
    assert pictures.sentence(1, 0.5, near.bottom - 0.1) == "find the red chair"
    (step,) = plan_of(pictures.sentence(1, 0.1, 0.95), None).steps
    assert isinstance(step, Go) and 0.0 < step.x < FARTHEST_M and step.y > 0.0
    assert pictures.sentence(1, 0.0, 0.2) == pictures.sentence(1, 0.0, 0.501) == "", "sky, and far floor"


@pytest.mark.parametrize(("x", "y"), [(0.0, 0.0), (-0.004, MAX_POINT_M), (-123.567, 0.01), (12.345, -7.0)])
def test_any_point_is_a_sentence_that_the_grammar_takes(x: float, y: float) -> None:
    (step,) = plan_of(sentence_to_go(x, y), None).steps
    assert isinstance(step, Go) and (step.x, step.y) == pytest.approx((x, y), abs=0.0051)


def test_a_point_too_far_is_a_sentence_that_the_grammar_refuses_by_name() -> None:
    with pytest.raises(InstructionError, match=f"points up to {MAX_POINT_M:g} m .*, not -1234.57 0"):
        plan_of(sentence_to_go(-1234.567, 0.0), None)


def test_boxes_are_sent_before_their_picture(server: ConsoleServer) -> None:
    page = Page(server)
    server.set_camera_model(SIM_CAMERA)
    server.show_pose(Pose2D(0.0, 0.0, 0.0))
    server.show(m.Sights((m.Thing("red chair", 3.0, 0.0), m.Thing("red unicorn", 3.0, 0.0))))
    server.show_picture(b"picture")
    boxes = page.read("boxes")
    assert boxes["picture"] == 1 and [box["what"] for box in boxes["boxes"]] == ["red chair"]
    assert page.read_picture()[0] == 1
    server.show(m.Sights())
    server.show_picture(b"picture")
    assert page.read("boxes") == {"is": "boxes", "picture": 2, "boxes": []}


def test_a_point_of_the_map_is_a_command_in_words(server: ConsoleServer, robot: FakeRobot) -> None:
    page = Page(server).seated()
    page.send(do="go_to", x=1.234, y=-0.5)
    (goal,) = wait_until(lambda: robot.goals, "the command")
    assert goal[0] == "go to the point 1.23 -0.5"
    assert page.read("goal", state="running")["instruction"] == goal[0]
    assert page.read("state", driver=page.name) and set(robot.drives) <= {Velocity()}


def test_a_place_in_the_picture_is_a_command_in_words(server: ConsoleServer, robot: FakeRobot) -> None:
    page = shown(server, m.Thing("red chair", 3.0, 0.0)).seated()
    page.send(do="go_to_seen", picture=1, across=0.5, down=0.55)
    wait_until(lambda: robot.goals and robot.goals[-1][0] == "find the red chair", "the thing")
    page.send(do="go_to_seen", picture=1, across=0.5, down=0.1)
    assert page.read("notice")["text"] == NO_FLOOR
    page.send(do="go_to_seen", picture=7, across=0.5, down=0.9)
    page.send(do="ping", sent_ms=1.0)
    page.read("pong", sent_ms=1.0)
    assert len(robot.goals) == 1 and set(robot.drives) <= {Velocity()}


@pytest.mark.parametrize(
    "ask",
    [{"do": "go_to", "x": 1.0, "y": 0.0}, {"do": "go_to_seen", "picture": 1, "across": 0.5, "down": 0.9}],
)
def test_pointing_is_for_who_drives_and_for_no_agent(
    server: ConsoleServer, robot: FakeRobot, ask: dict[str, object]
) -> None:
    shown(server).seated()
    other, agent = Page(server), Page(server, agent="helper")
    for page in (other, agent):
        page.send(**ask)
        page.read("notice", level="warning")
    assert robot.goals == []


@pytest.mark.parametrize(
    "fields",
    [
        {"do": "go_to", "x": 1e5, "y": 0.0},
        {"do": "go_to", "x": 1.0},
        {"do": "go_to", "x": 1.0, "y": 0.0, "speed": 1.0},
        {"do": "go_to_seen", "picture": 1, "across": 1.5, "down": 0.5},
        {"do": "go_to_seen", "picture": -1, "across": 0.5, "down": 0.5},
    ],
)
def test_a_point_beyond_everything_ends_the_page(
    server: ConsoleServer, robot: FakeRobot, fields: dict[str, object]
) -> None:
    page = Page(server)
    page.send(**fields)
    assert page.closed() == 1008 and robot.goals == []
