"""A relay with a robot, for the tests of the console through a relay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.relays import DialledRobot, Relays, relay_and_robot


@pytest.fixture
def relayed(tmp_path: Path) -> Iterator[tuple[Relays, DialledRobot]]:
    with relay_and_robot(tmp_path) as made:
        yield made
