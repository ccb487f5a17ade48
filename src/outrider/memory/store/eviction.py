# SPDX-License-Identifier: Apache-2.0
"""Keeps a store within its limits: the order of eviction, and the time that has passed for the records."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import apsw

from outrider.memory.store.ageing import DAY_S, Passed
from outrider.memory.store.rows import delete_records
from outrider.memory.store.schema import EVICTED, as_damage
from outrider.memory.store.search import count_records

log = logging.getLogger(__name__)

EVICTED_SHARE = 0.01


@dataclass(frozen=True)
class StoreLimits:
    """The limits of a store. Beyond them the oldest sightings are forgotten first, statements last."""

    max_records: int = 50_000
    max_mb: float = 512.0
    max_age_days: float = 365.0


def count_time(connection: apsw.Connection, limits: StoreLimits | None, clock_s: float) -> Passed:
    """Returns how much time has passed for the records. Without limits no time is counted."""
    with as_damage():
        last_s, lived_s = connection.execute("SELECT clock_s, lived_s FROM state").get
        passed = Passed(clock_s if last_s is None else float(last_s), float(lived_s))
    if limits is None:
        return passed
    passed = passed.at(clock_s, limits.max_age_days * DAY_S)
    connection.execute("UPDATE state SET clock_s = ?, lived_s = ?", (passed.clock_s, passed.lived_s))
    return passed


def evict(connection: apsw.Connection, limits: StoreLimits | None) -> None:
    """Evict records beyond the limits, if any.

    If the file is too large, EVICTED_SHARE of the records is evicted at once, so that this is rare.
    """
    if limits is None:
        return
    with as_damage():
        lived_s = float(connection.execute("SELECT lived_s FROM state").get)
    oldest_s = Passed(0.0, lived_s).oldest_s(limits.max_age_days * DAY_S)
    old = connection.execute("SELECT id FROM records WHERE told IN (0, 1) AND lived_s < ?", (oldest_s,))
    delete_records(connection, [row[0] for row in old], EVICTED)
    excess = count_records(connection) - limits.max_records
    if excess > 0:
        _drop_oldest(connection, excess)
    while count_records(connection) > 1 and used_bytes(connection) > limits.max_mb * 1e6:
        _drop_oldest(connection, max(1, round(count_records(connection) * EVICTED_SHARE)))


def _drop_oldest(connection: apsw.Connection, number: int) -> None:
    rows = connection.execute("SELECT id, told FROM records ORDER BY told, lived_s, turn LIMIT ?", (number,))
    oldest: list[tuple[int, int]] = list(rows)
    with as_damage():
        lost = sum(told for _, told in oldest)
    if lost:
        log.warning("the memory is full: %d of the oldest things that were told are forgotten", lost)
    delete_records(connection, [record_id for record_id, _ in oldest], EVICTED)


def used_bytes(connection: apsw.Connection) -> int:
    """Returns the bytes that the records occupy in the file."""
    pages = connection.pragma("page_count") - connection.pragma("freelist_count")
    return int(pages * connection.pragma("page_size"))
