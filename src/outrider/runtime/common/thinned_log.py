# SPDX-License-Identifier: Apache-2.0
"""A log handler that repeated messages cannot flood."""

from __future__ import annotations

import logging
import sys
from collections import Counter


class ThinnedHandler(logging.StreamHandler):
    """Writes the first, second, fourth, eighth and so on message from one line of code.

    From the second on it adds their number and leaves out the traceback.
    """

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        self._counts: Counter[tuple[str, int]] = Counter()

    def handle(self, record: logging.LogRecord) -> bool:
        """Write the record if it is due. Returns whether it was written."""
        location = record.pathname, record.lineno
        self._counts[location] += 1
        count = self._counts[location]
        if count & (count - 1):
            return False
        if count > 1:
            changes = {"msg": f"{record.getMessage()} ({count} times so far)", "args": (), "exc_info": None}
            record = logging.makeLogRecord({**record.__dict__, **changes, "exc_text": None})
        return bool(super().handle(record))
