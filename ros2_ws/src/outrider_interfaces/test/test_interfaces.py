"""Tests that every interface is generated, can be imported and keeps its values."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1]
FILES = sorted(path for kind in ("action", "msg", "srv") for path in (PACKAGE / kind).iterdir())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_interface_is_generated(path: Path) -> None:
    module = importlib.import_module(f"outrider_interfaces.{path.parent.name}")
    interface = getattr(module, path.stem)
    parts = {"msg": (), "srv": ("Request", "Response"), "action": ("Goal", "Result", "Feedback")}
    for message in [getattr(interface, name) for name in parts[path.parent.name]] or [interface]:
        assert message() == message() and message.get_fields_and_field_types() is not None


def test_a_goal_and_its_result_hold_what_they_are_given() -> None:
    from outrider_interfaces.action import Navigate

    assert Navigate.Goal(instruction="find the red chair").instruction == "find the red chair"
    result = Navigate.Result(success=True, message="there")
    assert result.success and result.message == "there"


def test_the_states_of_a_text_differ() -> None:
    from outrider_interfaces.msg import VerifiedText

    states = (VerifiedText.DECODING, VerifiedText.FINISHED, VerifiedText.WITHDRAWN)
    assert len(set(states)) == 3
