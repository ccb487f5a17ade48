"""What it is worth to give a running verification up, settled for tests of what happens then."""

from __future__ import annotations

import pytest

from outrider.decoding.policy.session_estimates import SessionEstimates


@pytest.fixture
def aims_pay_where_a_branch_is_ready(monkeypatch):
    monkeypatch.setattr(
        SessionEstimates, "gain_of_restart", lambda pace, chance, *sizes: (1.0 + chance) * (sizes[2] > 0)
    )


@pytest.fixture
def every_aim_pays(monkeypatch):
    monkeypatch.setattr(SessionEstimates, "gain_of_restart", lambda pace, chance, *sizes: 1.0 + chance)
