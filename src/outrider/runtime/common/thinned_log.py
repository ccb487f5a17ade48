# SPDX-License-Identifier: Apache-2.0
"""A log that a flood does not fill."""

from __future__ import annotations

import logging
import sys
from collections import Counter


class ThinnedHandler(logging.StreamHandler):
    """Writes what comes from one place of the code the first time, the second, the fourth and so on.

    From the second on it says how often that was, and leaves the traceback out.
    """

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        self._counts: Counter[tuple[str, int]] = Counter()

    def handle(self, record: logging.LogRecord) -> bool:
        """Returns whether the record is written."""
        place = record.pathname, record.lineno
        self._counts[place] += 1
        count = self._counts[place]
        if count & (count - 1):
            return False
        if count > 1:
            told = {"msg": f"{record.getMessage()} ({count} times so far)", "args": (), "exc_info": None}
            record = logging.makeLogRecord({**record.__dict__, **told, "exc_text": None})
        return bool(super().handle(record))
