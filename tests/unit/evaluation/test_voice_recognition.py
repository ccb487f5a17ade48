"""When a stop counts as heard, with an engine that hears it at a byte."""

from __future__ import annotations

import math

import pytest
from support.speakers import STOP_SOUND, FakeEngine

from outrider.core.hearing import BYTES_A_SECOND
from outrider.evaluation.voice.recognition import stop_heard_s


@pytest.mark.parametrize("at_s", [0.2, 1.0])
def test_a_stop_is_heard_with_the_piece_that_holds_it(at_s: float) -> None:
    before = bytes(round(at_s * BYTES_A_SECOND))
    heard_s = stop_heard_s(FakeEngine(), before + STOP_SOUND + bytes(BYTES_A_SECOND))
    assert at_s <= heard_s < at_s + 0.2


def test_what_holds_no_stop_is_never_heard_as_one() -> None:
    assert stop_heard_s(FakeEngine(), bytes(BYTES_A_SECOND)) == math.inf
