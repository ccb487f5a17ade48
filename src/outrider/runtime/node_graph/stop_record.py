# SPDX-License-Identifier: Apache-2.0
"""Keeps an engaged emergency stop on disk for the process that replaces a node that died."""

from __future__ import annotations

import os
from pathlib import Path

from outrider.core.files.private_files import home_folder, make_private_folder, write_private
from outrider.runtime.common.ending_signals import PARENT_VARIABLE


class StopRecord:
    """A file that exists while the emergency stop of one node is engaged.

    It is valid while the process that restarts the node (PARENT_VARIABLE) lives. A node that a person starts
    has no record: that person decides about the stop.
    """

    def __init__(self, node: str) -> None:
        """`node` is its full name, such as /go2/action.

        Removes the records of processes that have ended.
        """
        parent = _identity(os.environ.get(PARENT_VARIABLE, ""))
        self._folder = home_folder() / "emergency_stops"
        self._file = self._folder / f"{parent}{node.replace('/', '.')}" if parent else None
        if self._file is not None:
            self._remove_outdated()

    @property
    def engaged(self) -> bool:
        """Whether the stop was engaged when the node's last process ended."""
        return self._file is not None and self._file.is_file()

    def keep(self, engaged: bool) -> None:
        """Write or remove the record. Raises ConfigError if it cannot be written."""
        if self._file is None:
            return
        if engaged:
            make_private_folder(self._folder)
            write_private(self._file, "")
        else:
            self._file.unlink(missing_ok=True)

    def _remove_outdated(self) -> None:
        for file in self._folder.glob("*"):
            process = file.name.partition(".")[0]
            if _identity(process.partition("-")[0]) != process:
                file.unlink(missing_ok=True)


def _identity(pid: str) -> str:
    """Returns a process's id with its start time, so that a later process of the same id differs.

    Empty if there is no such process.
    """
    try:
        # The name in brackets may contain anything. Of the fields after it, the start time is the 20th.
        started = Path(f"/proc/{int(pid)}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, ValueError):
        return ""
    return f"{int(pid)}-{started}"
