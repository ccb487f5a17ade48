"""After the link, server or exits change, `outrider` with drafts at both ends is soon as fast as `ar`."""

from __future__ import annotations

import pytest

from outrider.evaluation.decoding.changes import CHANGES, SETTLED, USUAL, window_speeds, write_session

SMALL = [one for name, one in CHANGES.items() if not name.startswith(("drafts", "all"))]
USELESS = [one for name, one in CHANGES.items() if name.startswith(("drafts", "all"))]
"""Little or nothing pays here except a plain step, so futile trials show in the speed."""


@pytest.mark.lengthy
def test_no_window_is_slower_than_ar() -> None:
    changes = [USUAL, *SMALL, USUAL]
    for text, now in zip(write_session(changes, "outrider"), changes, strict=True):
        assert min(window_speeds(text, now.step_s, SETTLED), default=1.0) >= 0.97, now
        assert min(window_speeds(text, now.step_s, 0)) >= 0.6, now


@pytest.mark.lengthy
def test_if_nothing_pays_trials_cost_little() -> None:
    changes = [USUAL, *USELESS, USUAL]
    *texts, back = write_session(changes, "outrider")
    for text, now in zip(texts, changes, strict=False):
        assert min(window_speeds(text, now.step_s, SETTLED)) >= 0.97, now
        assert min(window_speeds(text, now.step_s, 0)) >= 0.6, now
    assert min(window_speeds(back, USUAL.step_s, SETTLED)) >= 1.4, "drafts that pay again are soon used again"


def test_the_measure_gives_one_for_ar() -> None:
    for text in write_session([USUAL], "ar"):
        assert min(window_speeds(text, USUAL.step_s, SETTLED)) == pytest.approx(1.0, abs=0.01)
