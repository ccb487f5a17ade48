"""The cloud's own draft: what a token takes, and when one that does not pay is tried again."""

from __future__ import annotations

from outrider.decoding.policy.cloud_drafting import CloudDrafting
from outrider.decoding.policy.step_times import ForwardTimes

STEP_S = 0.1


def drafting(share: float = 0.2) -> CloudDrafting:
    """A draft whose token takes that share of a step."""
    cloud = CloudDrafting()
    for _ in range(3):
        cloud.on_drafted(share * STEP_S, STEP_S)
    return cloud


def steps_to_probe(cloud: CloudDrafting, tokens_per_s: float = 10.0) -> int:
    """So many steps until a token is drafted only to see whether it is right."""
    count = 0
    while not cloud.probe_due(0.0, STEP_S, tokens_per_s):
        cloud.on_forward(STEP_S)
        count += 1
    return count


def test_a_token_follows_the_server_that_changes() -> None:
    assert abs(drafting(0.2).draft_s(0.3) - 0.06) < 1e-9


def test_a_draft_that_fails_is_tried_ever_more_seldom() -> None:
    cloud, waited = drafting(), []
    for _ in range(8):
        cloud.on_judged(0.5, False)
        waited.append(steps_to_probe(cloud))
    assert waited == sorted(waited)
    assert 15 <= waited[0] < waited[-1] <= 45


def test_a_draft_that_is_right_is_tried_again_at_once_where_it_can_pay() -> None:
    cloud = drafting()
    cloud.on_judged(0.5, False)
    cloud.on_judged(0.5, True)
    assert steps_to_probe(cloud) == 0
    assert not cloud.probe_due(0.0, STEP_S, tokens_per_s=60.0)


def test_two_forwards_prove_another_machine() -> None:
    times = ForwardTimes(interpolates=True)
    for drafted in (0, 2, 4, 8):
        times.on_forward(drafted, 0.1)
    times.on_forward(4, 0.3)
    assert times.draft_s(8) == 0.1, "one may be a hiccup"
    times.on_forward(4, 0.3)
    assert abs(times.draft_s(8) - 0.3) < 1e-9
    assert not times.step_known
