"""An aborted forward ends with a segment, and not before the device has run what is in its queue."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.decoding.simulation.compute import NO_QUEUE, DeviceQueue

WHOLE_S = 0.5


@given(st.integers(1, 200), st.floats(0.0, WHOLE_S), st.floats(0.0, 0.1))
def test_running_and_queued_segments_finish_before_the_device_is_free(segments, after_s, host_s):
    segment_s = WHOLE_S / segments
    left_s = DeviceQueue(segments, host_s).left_s(after_s, WHOLE_S)
    assert left_s / segment_s == pytest.approx(round(left_s / segment_s), abs=1e-6)
    assert min(after_s + max(segment_s, host_s), WHOLE_S) <= left_s + 1e-6 * WHOLE_S
    assert left_s <= min(after_s + max(segment_s, host_s) + 2.0 * segment_s, WHOLE_S) + 1e-6


def test_a_device_without_a_queue_is_free_at_once():
    assert NO_QUEUE.left_s(0.123, WHOLE_S) == 0.123
    assert DeviceQueue(4).left_s(0.0, 0.0) == 0.0


def test_at_the_end_of_a_segment_the_next_one_runs():
    queue = DeviceQueue(10)
    assert queue.left_s(3 * 0.1, 1.0) == pytest.approx(0.4)
    assert queue.left_s(0.31, 1.0) == pytest.approx(0.5)
