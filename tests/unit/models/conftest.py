"""Tiny models shared by the tests of `outrider.models`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.models import QwenModel, load_model


@pytest.fixture(scope="session")
def target(tiny_model_folder: Path) -> QwenModel:
    return load_model(tiny_model_folder / "target", "target")


@pytest.fixture(scope="module")
def graph_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give a test module its own folder for static graphs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUTRIDER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
