"""Journals for tests: what is written, and a writer that is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.core.files import journal as journal_module
from outrider.core.files.journal import Journal

SAID = [("viewer 1", "say", "find(red chair)"), ("agent 2", "say", "turn(90)"), ("viewer 1", "e_stop", "")]


def lines_of(journal: Path) -> list[bytes]:
    return journal.read_bytes().splitlines(keepends=True)


def crash(writer: Journal, monkeypatch: pytest.MonkeyPatch, notes: int = 1) -> None:
    """Write like a process that is killed after its lines and before the head."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(journal_module, "write_head", killed)
        with pytest.raises(KeyboardInterrupt):
            writer.write_all([("killed", "say", str(n)) for n in range(notes)])
