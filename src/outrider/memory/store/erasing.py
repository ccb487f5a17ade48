# SPDX-License-Identifier: Apache-2.0
"""What was forgotten is wiped from the store's file, its log and its free pages."""

from __future__ import annotations

import apsw


def erase(connection: apsw.Connection) -> None:
    """Take what was deleted out of the file and its log. Raises apsw.BusyError while another reads it.

    `secure_delete` alone is not enough: what SQLite moves from page to page leaves copies in their gaps.
    """
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.execute("VACUUM")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.execute("UPDATE state SET unerased = 0")
