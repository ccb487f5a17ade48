"""The simulated robot: left is left, limits hold, contacts are counted, and the expert sees the picture."""

import math
import os
import subprocess
import sys
from contextlib import closing

import pytest

from outrider.core.language.actions import split_answer
from outrider.core.language.prompt import PromptContext
from outrider.core.values import Pose2D, Velocity
from outrider.simulation.expert import answer, command_action
from outrider.simulation.homes.home import generate_home
from outrider.simulation.homes.vocabulary import Wanted
from outrider.simulation.perception import Eyes
from outrider.simulation.simulator import MAX_VX, Simulator


@pytest.fixture
def simulator():
    robot = Simulator(generate_home(7))
    yield robot
    robot.close()


def test_positive_yaw_rate_turns_left_and_odometry_follows(simulator):
    before = simulator.truth()
    simulator.drive(Velocity(wz=0.5), 1.0)
    turned = math.remainder(simulator.truth().yaw - before.yaw, 2 * math.pi)
    assert turned == pytest.approx(0.5, abs=0.08)
    assert simulator.odometry().pose.yaw == pytest.approx(simulator.truth().yaw, abs=1e-6)


def test_speed_is_clamped(simulator):
    before = simulator.truth()
    simulator.drive(Velocity(vx=50.0), 0.2)
    after = simulator.truth()
    assert before.distance_to(after.x, after.y) <= MAX_VX * 0.2 + 1e-3


def test_driving_into_a_wall_counts_one_collision():
    home = generate_home(11)
    room = home.rooms[home.room_of(home.start.x, home.start.y)]
    with closing(Simulator(home)) as simulator:
        simulator.place(Pose2D(room.x0 + 0.9, room.centre[1], math.pi))
        simulator.drive(Velocity(vx=0.8), 3.0)
        assert simulator.collisions >= 1


def test_an_object_on_the_left_is_seen_on_the_left(simulator):
    target = simulator.home.target
    heading = math.atan2(target.y - simulator.truth().y, target.x - simulator.truth().x)
    pose = simulator.truth()
    simulator.place(Pose2D(pose.x, pose.y, heading - math.radians(20)))
    seen = Eyes(simulator).look().find(Wanted(target.spec.thing))
    assert seen is not None and seen.bearing_rad == pytest.approx(math.radians(20), abs=0.02)
    columns = (Eyes(simulator).cell_labels(simulator.segment_camera())[..., 1] > 0).any(axis=0)
    assert columns[:4].any()
    text = answer(Eyes(simulator).look(), PromptContext(f"find the {target.spec.phrase}"), ())
    assert split_answer(text).action == "turn left small"


@pytest.mark.parametrize(
    ("command", "action"),
    [
        ("turn left at the door", "turn left medium"),
        ("turn slightly right", "turn right small"),
        ("walk forward a little", "move forward small"),
        ("stay where you are", "stop"),
        ("find the red chair", None),
    ],
)
def test_plain_commands(command, action):
    assert command_action(command) == action


RENDER_THEN_IMPORT = """
from outrider.simulation.homes.home import generate_home
from outrider.simulation.simulator import Simulator
Simulator(generate_home(7)).render_camera()
import triton
"""


def test_rendering_and_the_triton_of_a_cuda_torch_live_in_one_process():
    pytest.importorskip("triton")
    subprocess.run([sys.executable, "-c", RENDER_THEN_IMPORT], check=True, timeout=60)


DRAW = """
import ctypes, sys
real = ctypes.CDLL
def load(name, *more, **options):
    if "EGL" in str(name) and sys.argv[1] == "without the library":
        raise OSError(f"{name}: cannot open shared object file")
    return real(name, *more, **options)
ctypes.CDLL = load
import outrider
robot = outrider.open_simulator(outrider.generate_home(seed=7), 7, odometry_noise=0.0, legs=False)
from outrider.simulation.outside_view import OutsideView
for draw in (robot.frame_jpeg, lambda: OutsideView(robot.home, 64, 64)):
    try:
        draw()
    except outrider.OutriderError as error:
        print(error)
robot.close()
"""


@pytest.mark.lengthy
@pytest.mark.parametrize("system", ["without the library", "without a driver"])
def test_the_error_of_a_system_that_cannot_render_names_what_to_install(system):
    environment = {**os.environ, "__EGL_VENDOR_LIBRARY_FILENAMES": "/nowhere/driver.json"}
    for name in ("MUJOCO_GL", "MUJOCO_EGL_DEVICE_ID", "PYOPENGL_PLATFORM"):
        environment.pop(name, None)
    command = [sys.executable, "-c", DRAW, system]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    told = done.stdout.splitlines()
    assert len(told) == 2 and all("apt-get install -y libegl1" in one for one in told), told


WITHOUT_DRAWING = """
from outrider.runtime.node_graph.node_specs import NODES
from outrider.runtime.diagnosis.doctor import check_models
print(len(NODES) > 5)
"""


@pytest.mark.lengthy
def test_a_simulation_without_rendering_ignores_rendering_settings():
    """Nodes on a robot import the graph's names from this package, without MuJoCo."""
    environment, command = {**os.environ, "MUJOCO_GL": "nonsense"}, [sys.executable, "-c", WITHOUT_DRAWING]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "True\n"), done


DRAW_ONCE = """
import outrider
try:
    robot = outrider.open_simulator(outrider.generate_home(seed=7), 7, odometry_noise=0.0, legs=False)
    print(len(robot.frame_jpeg()) > 0)
except outrider.OutriderError as error:
    print(error)
"""


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("MUJOCO_GL", "nonsense", "run `unset MUJOCO_GL`"),
        ("MUJOCO_GL", "glfw", "run `unset MUJOCO_GL`"),
        ("MUJOCO_GL", "", "True"),
        ("MUJOCO_EGL_DEVICE_ID", "no", "run `unset MUJOCO_EGL_DEVICE_ID`"),
        ("PYOPENGL_PLATFORM", "x11", "run `unset PYOPENGL_PLATFORM`"),
    ],
)
def test_a_setting_with_which_nothing_can_be_drawn_is_to_be_unset(name, value, told):
    others = {one: os.environ[one] for one in os.environ if one not in ("MUJOCO_GL", "DISPLAY")}
    environment, command = {**others, name: value}, [sys.executable, "-c", DRAW_ONCE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and told in done.stdout, done
