"""A strategy's own acceptance scheme fits it, and a configuration can be checked without torch."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import pytest

from outrider.core.frames import AcceptanceName
from outrider.decoding.acceptance.schemes import SCHEMES
from outrider.decoding.config import STRATEGIES, DecodingConfig


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_strategys_default_scheme_can_be_configured(strategy: str, temperature: float) -> None:
    own = DecodingConfig(strategy=strategy, temperature=temperature).scheme
    assert DecodingConfig(strategy=strategy, temperature=temperature, acceptance=own.name).scheme == own


def test_every_scheme_name_has_a_scheme() -> None:
    assert set(SCHEMES) == set(get_args(AcceptanceName))


def test_a_configuration_is_checked_without_torch() -> None:
    code = (
        "import sys; from outrider.decoding.config import STRATEGIES, DecodingConfig\n"
        "[DecodingConfig(strategy=name) for name in STRATEGIES]\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
