"""The cloud's own draft: the time of a token, and when a draft that does not pay is tried again."""

from __future__ import annotations

import pytest

from outrider.decoding.policy.cloud_drafting import CloudDrafting
from outrider.decoding.policy.step_times import ForwardTimes

STEP_S = 0.1


def drafting(share: float = 0.2) -> CloudDrafting:
    """Return a CloudDrafting for a draft whose token takes `share` of a step."""
    cloud = CloudDrafting()
    for _ in range(3):
        cloud.on_drafted(share * STEP_S, STEP_S)
    return cloud


def steps_to_probe(cloud: CloudDrafting, tokens_per_s: float = 10.0) -> int:
    """Return the number of steps until a token is drafted only to test whether it is right."""
    count = 0
    while not cloud.probe_due(0.0, STEP_S, tokens_per_s):
        cloud.on_forward(STEP_S)
        count += 1
    return count


def test_a_draft_tokens_time_follows_the_time_of_a_step() -> None:
    assert abs(drafting(0.2).draft_s(0.3) - 0.06) < 1e-9


def test_one_slow_draft_token_is_ignored_and_a_lasting_change_is_followed() -> None:
    cloud = drafting(0.2)
    for _ in range(5):
        for share in (0.2, 30.0, 0.2, 0.2):
            cloud.on_drafted(share * STEP_S, STEP_S)
            assert abs(cloud.draft_s(STEP_S) - 0.2 * STEP_S) < 1e-9
    for share in (1.0, 0.1):
        for _ in range(3):
            cloud.on_drafted(share * STEP_S, STEP_S)
        assert abs(cloud.draft_s(STEP_S) - share * STEP_S) < 1e-9


def texts_until_timed_again(cloud: CloudDrafting, steps_a_text: int, tokens_per_s: float) -> int:
    """Return the number of texts until a draft that is right and fast, but seemed slow, is timed as fast."""
    for text in range(1, 1000):
        cloud.begin_text()
        for _ in range(steps_a_text):
            cloud.on_forward(STEP_S)
            if cloud.probe_due(0.0, STEP_S, tokens_per_s):
                cloud.on_drafted(0.2 * STEP_S, STEP_S)
                cloud.on_judged(0.9, True)
        if cloud.draft_s(STEP_S) < 0.3 * STEP_S:
            return text
    raise AssertionError("never")


@pytest.mark.parametrize("right_before", [True, False])
@pytest.mark.parametrize("steps_a_text", [4, 20, 200])
def test_a_draft_that_seemed_too_slow_is_timed_again(right_before: bool, steps_a_text: int) -> None:
    cloud = drafting(1.2)
    cloud.on_judged(0.9, right_before)
    assert texts_until_timed_again(cloud, steps_a_text, 1.0 / STEP_S) <= max(2, 200 // steps_a_text)


def test_the_time_of_a_prompt_is_not_counted_as_a_draft_tokens() -> None:
    cloud = drafting(0.2)
    cloud.begin_text()
    cloud.on_drafted(9 * STEP_S, STEP_S)
    cloud.on_drafted(0.2 * STEP_S, STEP_S)
    assert abs(cloud.draft_s(STEP_S) - 0.2 * STEP_S) < 1e-9


def test_a_draft_that_fails_is_probed_ever_more_rarely() -> None:
    cloud, waited = drafting(), []
    for _ in range(8):
        cloud.on_judged(0.5, False)
        waited.append(steps_to_probe(cloud))
    assert waited == sorted(waited)
    assert 15 <= waited[0] < waited[-1] <= 45


def test_a_draft_that_was_right_is_probed_at_once_if_it_can_pay() -> None:
    cloud = drafting()
    cloud.on_judged(0.5, False)
    cloud.on_judged(0.5, True)
    assert steps_to_probe(cloud) == 0
    assert not cloud.probe_due(0.0, STEP_S, tokens_per_s=60.0)


def test_two_slow_forwards_in_a_row_show_a_change_of_speed() -> None:
    times = ForwardTimes(interpolates=True)
    for drafted in (0, 2, 4, 8):
        times.on_forward(drafted, 0.1)
    times.on_forward(4, 0.3)
    assert times.draft_s(8) == 0.1, "one may be a hiccup"
    times.on_forward(4, 0.3)
    assert abs(times.draft_s(8) - 0.3) < 1e-9
    assert not times.step_known
