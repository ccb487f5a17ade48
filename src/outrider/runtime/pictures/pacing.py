# SPDX-License-Identifier: Apache-2.0
"""The speed of a video: slow while a text is decoded, else twice the run's pace."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SPEED = 2.0
READ_S, MAX_READING_S = 2.2, 60.0
"""Video time for one text, and for all texts of a run together."""
HOLD_LAST_S = 3.0


@dataclass(frozen=True)
class Stretch:
    """A part of the run, in its seconds. `pace` is the number of them per second of the video."""

    start_s: float
    end_s: float
    pace: float

    @property
    def film_s(self) -> float:
        """Returns its duration in the video, in seconds."""
        return (self.end_s - self.start_s) / self.pace


def stretches(start_s: float, end_s: float, texts: Iterable[tuple[float, float]]) -> list[Stretch]:
    """Returns the run cut where a text begins and ends.

    `texts` are in order. All times are in the run's seconds.
    """
    texts = [(max(start_s, began), min(end_s, done)) for began, done in texts]
    read_s = min(READ_S, MAX_READING_S / max(1, len(texts)))
    parts, now_s = [], start_s
    for began_s, done_s in texts:
        began_s = max(began_s, now_s)
        if done_s <= began_s:
            continue
        parts.append(Stretch(now_s, began_s, SPEED))
        parts.append(Stretch(began_s, done_s, min(SPEED, (done_s - began_s) / read_s)))
        now_s = done_s
    parts.append(Stretch(now_s, max(now_s, end_s), SPEED))
    return [part for part in parts if part.end_s > part.start_s] or parts[-1:]


def instants(parts: list[Stretch], frames_per_s: float) -> Iterator[tuple[float, float]]:
    """Yields the run's second and the pace for each picture of the video; the last one is held."""
    ends, film_s = [], 0.0
    for part in parts:
        film_s += part.film_s
        ends.append(film_s)
    for index in range(round((film_s + HOLD_LAST_S) * frames_per_s)):
        at_s = index / frames_per_s
        place = bisect_right(ends, at_s)
        if place >= len(parts):
            yield (parts[-1].end_s if parts else 0.0), SPEED
            continue
        part = parts[place]
        yield part.end_s - (ends[place] - at_s) * part.pace, part.pace
