# SPDX-License-Identifier: Apache-2.0
"""Erases deleted records from the store's file, its log and its free pages."""

from __future__ import annotations

import apsw


def erase(connection: apsw.Connection) -> None:
    """Erase deleted bytes from the file and its log.

    Raises apsw.BusyError while another process reads it. `secure_delete` alone is not enough: pages that
    SQLite moves leave copies in their gaps.
    """
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.execute("VACUUM")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.execute("UPDATE state SET unerased = 0")
