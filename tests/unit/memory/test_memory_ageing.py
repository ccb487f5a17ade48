"""A clock that is wrong for a while deletes no record; a right clock lets records age."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memories import WordEmbedder

from outrider.core.values import Place
from outrider.memory.answers import seen_answer
from outrider.memory.store.ageing import DAY_S, Passed, longest_step_s
from outrider.memory.store.eviction import StoreLimits
from outrider.memory.store.store import MemoryStore

NOW_S = 1_790_000_000.0
YEAR_S = 365 * DAY_S
WRONG = {
    "1970": 30.0,
    "2099": 4_070_000_000.0,
    "a month ahead": NOW_S + 29 * DAY_S,
    "2 years ahead": NOW_S + 2 * YEAR_S,
}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a list whose only item is the time that time.time() returns."""
    now_s = [NOW_S]
    monkeypatch.setattr("time.time", lambda: now_s[0])
    return now_s


def opened(path: Path, **limits: float) -> MemoryStore:
    return MemoryStore(path / "m.db", WordEmbedder(), limits=StoreLimits(**limits))  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("max_age_days", [1.0, 365.0])
def test_one_wrong_reading_loses_nothing(
    wrong: str, max_age_days: float, clock: list[float], tmp_path: Path
) -> None:
    with opened(tmp_path, max_age_days=max_age_days) as store:
        store.add("told before")
        store.see("silver lamp", Place(1.0, 2.0))
    clock[0] = WRONG[wrong]
    for number in range(3):
        with opened(tmp_path, max_age_days=max_age_days) as store:
            store.add(f"told meanwhile {number}")
            assert store.count() == 3 + number
            clock[0] += 60.0
    clock[0] = NOW_S + 600.0
    for _ in range(3):
        with opened(tmp_path, max_age_days=max_age_days) as store:
            store.see("silver lamp", Place(1.0, 2.0))
            assert store.count() == 5
        clock[0] += 60.0


@pytest.mark.parametrize("wrong", WRONG)
def test_what_was_told_under_a_wrong_clock_ages_like_the_rest(
    wrong: str, clock: list[float], tmp_path: Path
) -> None:
    clock[0] = WRONG[wrong]
    with opened(tmp_path, max_age_days=20.0) as store:
        store.add("told at a wrong time")
    clock[0] = NOW_S
    days = 0
    while days < 60:
        with opened(tmp_path, max_age_days=20.0) as store:
            if store.count() == 0:
                break
        clock[0] += DAY_S
        days += 1
    assert 20 <= days <= 31, "no sooner than its age, and by half of it later at the latest"


def test_the_newest_by_a_wrong_clock_is_not_the_newest_for_good(clock: list[float], tmp_path: Path) -> None:
    """Records stamped in 1970 are not the first ones to be dropped from a full store either."""
    with opened(tmp_path, max_records=3) as store:
        clock[0] = WRONG["2099"]
        store.add("a")
        clock[0] = WRONG["1970"]
        store.add("b")
        clock[0] = NOW_S
        store.add("c")
        assert [record.text for record in store.newest()] == ["c", "b", "a"]
        store.add("d")
        assert [record.text for record in store.newest()] == ["d", "c", "b"]
    with opened(tmp_path, max_records=9) as store:
        for stamp, x in ((WRONG["2099"], 0.0), (NOW_S, 5.0)):
            store.see("ball", Place(x, 0.0, "h"), time_s=stamp)
        assert [sighting.x for sighting in store.sightings("ball", "h")] == [0.0, 5.0]


@pytest.mark.parametrize("stamp_s", [WRONG["1970"], WRONG["2099"], NOW_S + 100.0])
def test_an_impossible_stamp_is_reported_as_unknown(stamp_s: float, tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        wrong, right = store.add("wrong", time_s=stamp_s), store.add("right", time_s=NOW_S - 7200.0)
    assert seen_answer(wrong, None, "", NOW_S) == 'i was told at an unknown time: "wrong"'
    assert seen_answer(right, None, "", NOW_S) == 'i was told 2 hours ago: "right"'
    still_1970 = replace(right, updated_s=1000.0)
    assert seen_answer(still_1970, None, "", 1000.0 + 7200.0) == 'i was told 2 hours ago: "right"'


@given(
    st.lists(st.floats(0.0, 0.4), min_size=1, max_size=60),
    st.integers(0, 60),
    st.floats(-1e10, 1e10),
    st.floats(0.1, 400.0),
)
def test_no_single_wrong_reading_makes_anything_older_than_it_may_be(
    steps: list[float], at: int, offset_s: float, max_age_days: float
) -> None:
    """A record that the rule drops is older than the maximum age by the right clock."""
    max_age_s = max_age_days * DAY_S
    passed, right_s = Passed(NOW_S), NOW_S
    for number, step in enumerate(steps):
        right_s += step * max_age_s
        passed = passed.at(right_s + (offset_s if number == at else 0.0), max_age_s)
        if passed.oldest_s(max_age_s) > 0.0:
            assert right_s - NOW_S >= max_age_s * (1.0 - 1e-6) - 1e-3


def test_a_right_clock_counts_every_step() -> None:
    rng, passed, clock_s = random.Random(0), Passed(NOW_S), NOW_S
    for _ in range(500):
        clock_s += rng.uniform(0.0, longest_step_s(YEAR_S))
        passed = passed.at(clock_s, YEAR_S)
    assert passed.lived_s == pytest.approx(clock_s - NOW_S)
