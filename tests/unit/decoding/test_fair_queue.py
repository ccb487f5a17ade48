"""Shares of the model's time."""

from outrider.decoding.cloud.scheduler import StartTimeFairQueue
from outrider.decoding.tuning import DEFAULT_TUNING


def test_the_least_served_comes_first() -> None:
    shares = StartTimeFairQueue()
    served = []
    costs = {"a": 0.03, "b": 0.01}
    for _ in range(12):
        shares.advance("ab")
        first = min("ab", key=shares.start_tag_s)
        shares.charge(first, costs[first])
        served.append(first)
    assert served.count("b") == 3 * served.count("a")


def test_an_idle_owner_earns_no_credit() -> None:
    shares = StartTimeFairQueue()
    for _ in range(100):
        shares.advance("a")
        shares.charge("a", 0.01)
    shares.advance("ab")
    assert shares.start_tag_s("b") >= shares.start_tag_s("a") - 0.02


def test_a_lead_is_forgotten_in_time() -> None:
    shares = StartTimeFairQueue()
    shares.advance("ab")
    shares.charge("a", 1000.0)
    assert shares.start_tag_s("a") - shares.start_tag_s("b") == DEFAULT_TUNING.max_lead_s
    shares.keep_only("b")
    assert shares.start_tag_s("a") == shares.start_tag_s("b")
