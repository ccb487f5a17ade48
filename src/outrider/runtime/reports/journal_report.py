# SPDX-License-Identifier: Apache-2.0
"""`outrider replay FILE.journal`: whether a journal is as it was written, and what is in it."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from outrider.core.files.journal_files import CONTINUED, Entry
from outrider.core.files.journal_proof import Proof, prove
from outrider.core.files.terminal import make_console
from outrider.runtime.common.json_figures import write_figures

SHOWN = 20


def print_proof(file: Path, key_file: Path | None = None, json_file: Path | None = None) -> bool:
    """Prints the newest entries and whether the chain holds, which is also returned. Raises ConfigError."""
    proof = prove(file, key_file)
    console = make_console()
    if proof.entries:
        console.print(_table(proof.entries[-SHOWN:]))
    console.print(verdict(proof), markup=False, highlight=False, soft_wrap=True)
    figures = {"entries": len(proof.entries), "holds": proof.holds, "closed": proof.is_closed}
    write_figures(json_file, {**figures, "line": proof.line, "reason": proof.reason})
    return proof.holds


def verdict(proof: Proof) -> str:
    """What the proof comes to, in words."""
    if not proof.holds:
        return (
            f"line {proof.line} of {proof.file} is not as it was written: {proof.reason}. "
            f"The {len(proof.entries)} lines before it are proven."
        )
    if not proof.entries:
        return "the journal is empty: nothing has been written"
    first, last = proof.entries[0], proof.entries[-1]
    words = [f"entries {first.n} to {last.n}, {first.at} to {last.at}: every line is as it was written"]
    words += [f"it continues another file: {first.what}"] * (first.did == CONTINUED)
    words += ["the line after them was not written to its end"] * bool(proof.torn)
    words += ["there is no closing line: its writer still runs, or was killed"] * (not proof.is_closed)
    return "; ".join(words)


def _table(entries: tuple[Entry, ...]) -> Table:
    table = Table("entry", "at", "who", "did", "what")
    for entry in entries:
        table.add_row(str(entry.n), entry.at, *map(_printable, (entry.who, entry.did, entry.what)))
    return table


def _printable(text: str) -> str:
    """Without what would steer a terminal, or rich."""
    return "".join(c if c.isprintable() else "?" for c in text).replace("[", "\\[")
