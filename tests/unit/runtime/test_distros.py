"""The table of ROS distributions, and the other files that must agree with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from outrider.runtime.node_graph.distros import DISTROS, FIRST_PYTHON, LAST_PYTHON, distro_name, stay_local
from outrider.runtime.node_graph.gazebo import release_of
from outrider.simulation.sdf import RELEASES

ROOT = Path(__file__).resolve().parents[3]


def test_every_distribution_has_a_gazebo_that_worlds_are_written_for() -> None:
    assert set(DISTROS) == {"humble", "jazzy", "kilted", "lyrical"}
    assert {distro.gazebo for distro in DISTROS.values()} == set(RELEASES)


@pytest.mark.parametrize(
    ("distro", "variable"),
    [
        ("humble", "ROS_LOCALHOST_ONLY"),
        ("jazzy", "ROS_AUTOMATIC_DISCOVERY_RANGE"),
        ("kilted", "ROS_AUTOMATIC_DISCOVERY_RANGE"),
        ("lyrical", "ROS_AUTOMATIC_DISCOVERY_RANGE"),
        ("rolling", "ROS_AUTOMATIC_DISCOVERY_RANGE"),
    ],
)
def test_discovery_stays_on_this_machine_as_each_distribution_says_it(distro: str, variable: str) -> None:
    assert list(stay_local({"ROS_DISTRO": distro})) == [variable]
    assert "ROS_AUTOMATIC_DISCOVERY_RANGE" in stay_local({})


def test_the_sourced_distribution_decides_gazebo(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, distro in DISTROS.items():
        monkeypatch.setenv("ROS_DISTRO", name)
        assert distro_name() == name and release_of("") == distro.gazebo
    monkeypatch.setenv("ROS_DISTRO", "")
    assert distro_name() == "jazzy"


def test_what_differs_in_stamps_is_stated_and_not_left_to_the_default() -> None:
    """The shipped chain carries Twist, which is not every distribution's default."""
    for field, file, line in (
        ("mux_stamps", "twist_mux", "use_stamped: false"),
        ("nav2_stamps", "collision_monitor", "enable_stamped_cmd_vel: false"),
    ):
        assert {getattr(distro, field) for distro in DISTROS.values()} == {True, False}
        assert line in (ROOT / f"config/{file}.yaml").read_text()


def test_the_versions_of_python_are_everywhere_the_same() -> None:
    assert (FIRST_PYTHON, LAST_PYTHON) == ((3, 10), (3, 14))
    for file in ("scripts/setup_env.py", "scripts/find_python.sh"):
        assert "(3, 10) <= sys.version_info[:2] <= (3, 14)" in (ROOT / file).read_text()
    said = re.findall(
        r"3\.10 to 3\.(\d+)", "".join((ROOT / f).read_text() for f in ("README.md", "Makefile"))
    )
    assert said and set(said) == {"14"}
