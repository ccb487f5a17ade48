"""Tiny models shared by the tests of `outrider.models`."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.models import QwenModel, load_model


@pytest.fixture(scope="session")
def target(tiny_model_folder: Path) -> QwenModel:
    return load_model(tiny_model_folder / "target", "target")
