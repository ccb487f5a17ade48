# SPDX-License-Identifier: Apache-2.0
"""The report of a run that ended before its mission could write one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.core.files.terminal import say
from outrider.core.language.sentences.planner import brief
from outrider.runtime.plans.progress import tells_private
from outrider.runtime.reports.conditions import host, versions

BEFORE_A_GOAL = "interrupted before there was a goal"


def leave_report(
    report: Path, reason: str, instruction: str, strategy: str, conditions: Mapping[str, Any]
) -> None:
    """Write a report, without private words, for a run whose mission wrote none.

    Does nothing if the report exists.
    """
    if report.is_file():
        return
    from outrider.runtime.reports.report import RunRecord, write_summary  # draws pictures too: slow to import

    known = {**conditions, "versions": versions(), "host": host()}
    task = brief(instruction) if tells_private(instruction) else instruction
    record = RunRecord(task, False, "cancelled", reason, strategy, 0.0, conditions=known)
    say(f"report: {write_summary(record, report.parent)}")
