# SPDX-License-Identifier: Apache-2.0
"""Stops all processes of a launch once its goal has ended, except the mission, which draws pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from launch import EventHandler, LaunchContext
from launch.actions import EmitEvent, ExecuteProcess, OpaqueFunction, TimerAction, UnregisterEventHandler
from launch.events.process import ShutdownProcess

LOOK_S = 0.3


class ReportWatch:
    """Polls for the report of a run, which is written as soon as its goal has ended."""

    def __init__(
        self, report: Path, processes: Sequence[ExecuteProcess], handlers: Sequence[EventHandler]
    ) -> None:
        """When there is a report, `handlers` (of the processes' ends) are removed and `processes` stopped."""
        self._report, self._processes, self._handlers = report, processes, handlers

    def action(self) -> TimerAction:
        """Returns a timer that polls every LOOK_S, until there is a report or the launch ends."""
        return TimerAction(period=LOOK_S, actions=[OpaqueFunction(function=self._look)])

    def _look(self, _context: LaunchContext) -> list[Any]:
        if not self._report.is_file():
            return [self.action()]
        forgotten = [UnregisterEventHandler(handler) for handler in self._handlers]
        stop = ShutdownProcess(process_matcher=lambda process: process in self._processes)
        return [*forgotten, EmitEvent(event=stop)]
