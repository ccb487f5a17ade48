"""Safety: velocity limits and the deadman."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.core.errors import ConfigError
from outrider.core.values import Velocity
from outrider.navigation.limits import MotionLimits
from outrider.navigation.motion.safety import Deadman, clamp

LIMITS = MotionLimits()


@given(st.floats(), st.floats(), st.floats())
def test_whatever_comes_in_is_finite_and_within_limits(vx, vy, wz):
    out = clamp(Velocity(vx, vy, wz), LIMITS)
    assert abs(out.vx) <= LIMITS.forward_mps
    assert abs(out.vy) <= LIMITS.lateral_mps
    assert abs(out.wz) <= LIMITS.yaw_rps
    if not all(map(math.isfinite, (vx, vy, wz))):
        assert out == Velocity()


def test_a_velocity_within_limits_is_untouched():
    assert clamp(Velocity(0.3, -0.1, 0.5), LIMITS) == Velocity(0.3, -0.1, 0.5)


def test_the_deadman_opens_only_for_fresh_commands():
    deadman = Deadman(0.3)
    assert deadman.expired(0.0)
    deadman.feed(Velocity(0.5), 10.0)
    assert deadman.velocity(10.25) == Velocity(0.5)
    assert deadman.velocity(10.35) == Velocity()
    assert deadman.velocity(9.9) == Velocity(), "a clock that went back is no fresh command"


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_limits_are_validated(value):
    with pytest.raises(ConfigError, match="forward_mps"):
        MotionLimits(forward_mps=value)
