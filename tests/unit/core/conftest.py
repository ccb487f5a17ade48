"""Fixtures that tests of core share."""

from __future__ import annotations

from pathlib import Path

import pytest
from journals import SAID

from outrider.core.files.journal import Journal


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "of a robot.journal"
    writer = Journal(path)
    for entry in SAID * 4:
        writer.write(*entry)
    return path
