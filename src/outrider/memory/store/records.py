# SPDX-License-Identifier: Apache-2.0
"""Records in the store: their validity, filters over them, and their form in rows."""

from __future__ import annotations

import base64
import math
import unicodedata
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from outrider.core.errors import FrameError, StoreInputError
from outrider.core.sensors.jpeg import jpeg_size
from outrider.core.values import Place, Record, RecordKind, Visibility
from outrider.memory.store.schema import as_damage

MAX_CHARACTERS = 2000
MAX_THUMBNAIL_BYTES = 65_536
COLUMNS = "id, text, told, shareable, created_s, updated_s, x, y, home, thumbnail IS NOT NULL"


@dataclass(frozen=True)
class RecordFilter:
    """Selects records; None means any. `near` selects those in the same home within `radius_m`."""

    kind: RecordKind | None = None
    visibility: Visibility | None = None
    since_s: float | None = None
    until_s: float | None = None
    near: Place | None = None
    radius_m: float = 3.0

    def conditions(self) -> tuple[list[str], dict[str, Any]]:
        """Returns SQL conditions with their values, for the tables `records` and `codes` alike."""
        terms: list[str] = []
        values: dict[str, Any] = {}

        def require(term: str, **named: Any) -> None:
            terms.append(term)
            values.update(named)

        if self.kind is not None:
            require("told = :told", told=int(self.kind is RecordKind.TOLD))
        if self.visibility is not None:
            require("shareable = :shareable", shareable=int(self.visibility is Visibility.SHAREABLE))
        if self.since_s is not None:
            require("updated_s >= :since_s", since_s=float(self.since_s))
        if self.until_s is not None:
            require("updated_s <= :until_s", until_s=float(self.until_s))
        if self.near is not None:
            require("home = :home", home=self.near.home)
            for axis, middle in (("x", self.near.x), ("y", self.near.y)):
                require(f"{axis} >= :{axis}0", **{f"{axis}0": float(middle - self.radius_m)})
                require(f"{axis} <= :{axis}1", **{f"{axis}1": float(middle + self.radius_m)})
        return terms, values

    def holds_place(self, place: Place | None) -> bool:
        """Whether a place is within the exact circle; `conditions` only has the square around it."""
        if self.near is None:
            return True
        return place is not None and distance_m(place, self.near) <= self.radius_m


ANY = RecordFilter()
TO_REMEMBER = 'what to remember, for example "my keys are by the door"'
TO_FIND = 'what to look for, for example "keys"'
TO_FORGET = 'what to forget, for example "keys"'


def checked_text(text: str, wanted: str = TO_REMEMBER) -> str:
    """Returns a text without surrounding blanks.

    Raises StoreInputError if it is empty, too long or not plain text. `wanted` says what to enter instead
    of an empty text.
    """
    if len(text) > MAX_CHARACTERS:
        raise StoreInputError(
            f"the text has {len(text)} characters, at most {MAX_CHARACTERS} are kept: say it shorter"
        )
    text = text.strip()
    if not text:
        raise StoreInputError(f"the text is empty; say {wanted}")
    if any(unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\t" for character in text):
        raise StoreInputError("the text holds control characters or bytes that are no text: use plain words")
    return text


def distance_m(one: Place, other: Place) -> float:
    """Returns the metres between two places of one home."""
    return math.hypot(one.x - other.x, one.y - other.y)


def check_thumbnail(thumbnail: bytes) -> None:
    """Raise StoreInputError for bytes that are no JPEG, or too many; empty means no thumbnail."""
    if len(thumbnail) > MAX_THUMBNAIL_BYTES:
        raise StoreInputError(f"a thumbnail may have {MAX_THUMBNAIL_BYTES} bytes, this has {len(thumbnail)}")
    if thumbnail:
        try:
            jpeg_size(thumbnail)
        except FrameError as error:
            raise StoreInputError(f"the thumbnail is no JPEG: {error}") from error


def check_place(place: Place | None) -> None:
    """Raise StoreInputError for coordinates that are not finite."""
    if place is not None and not (math.isfinite(place.x) and math.isfinite(place.y)):
        raise StoreInputError(f"x={place.x} and y={place.y} are no place: both must be finite metres")


_NUMBER, _NUMBER_OR_NONE = (int, float), (int, float, type(None))
_KINDS: tuple[Any, ...] = (int, str, int, int, _NUMBER, _NUMBER, _NUMBER_OR_NONE, _NUMBER_OR_NONE, str, int)


@as_damage()
def record_of(row: tuple[Any, ...]) -> Record:
    """Returns the record in a row of `COLUMNS`. Raises apsw.CorruptError if it is none."""
    if not all(isinstance(value, kind) for value, kind in zip(row, _KINDS, strict=True)):
        raise TypeError("a row holds no record")
    record_id, text, told, shareable, created_s, updated_s, x, y, home, has_thumbnail = row
    kind = RecordKind.TOLD if told else RecordKind.SEEN
    visibility = Visibility.SHAREABLE if shareable else Visibility.PRIVATE
    place = None if x is None else Place(x, y, home)
    return Record(record_id, text, kind, visibility, created_s, updated_s, place, bool(has_thumbnail))


@as_damage()
def plain_record(record: Record, thumbnail: bytes) -> dict[str, Any]:
    """Returns a record in JSON's types, with times in ISO 8601.

    Raises apsw.CorruptError if its values are invalid.
    """
    plain: dict[str, Any] = {
        "id": record.id,
        "text": record.text,
        "kind": record.kind.value,
        "visibility": record.visibility.value,
        "created": _iso(record.created_s),
        "updated": _iso(record.updated_s),
    }
    if record.place is not None:
        plain |= {"x": record.place.x, "y": record.place.y, "home": record.place.home}
    if thumbnail:
        plain["thumbnail"] = base64.b64encode(thumbnail).decode()
    return plain


def _iso(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, timezone.utc).isoformat(timespec="milliseconds")
