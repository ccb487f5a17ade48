# SPDX-License-Identifier: Apache-2.0
"""`outrider replay FILE.journal`: checks that a journal is unchanged, and prints its entries."""

from __future__ import annotations

from pathlib import Path

from outrider.core.files.journal_files import CONTINUED
from outrider.core.files.journal_proof import Fault, Proof, prove
from outrider.core.files.terminal import make_console, print_rows, printable
from outrider.runtime.common.json_figures import write_figures

SHOWN = 20


def print_proof(file: Path, key_file: Path | None = None, json_file: Path | None = None) -> bool:
    """Print the newest entries and whether the chain holds. Returns whether it does. Raises ConfigError."""
    proof = prove(file, key_file)
    console = make_console()
    if newest := proof.entries[-SHOWN:]:
        rows = [
            (str(record.n), record.at, *map(printable, (record.who, record.did, record.what)))
            for record in newest
        ]
        print_rows(console, ("entry", "at", "who", "did", "what"), rows)
    console.print(verdict(proof), markup=False, highlight=False, soft_wrap=True)
    figures = {"entries": len(proof.entries), "holds": proof.holds, "closed": proof.is_closed}
    faults = [
        {"file": str(record.file), "line": record.line, "reason": record.reason} for record in proof.faults
    ]
    first = {"line": proof.first.line, "reason": proof.first.reason}
    write_figures(json_file, {**figures, **first, "faults": faults})
    return proof.holds


def verdict(proof: Proof) -> str:
    """Returns the proof's result in words."""
    if not proof.holds:
        return " ".join(_accusation(proof, fault) for fault in proof.faults) + _rest(proof)
    if not proof.entries:
        return "the journal is empty: nothing has been written"
    first, last = proof.entries[0], proof.entries[-1]
    words = [f"entries {first.n} to {last.n}, {first.at} to {last.at}: every line is as it was written"]
    words += [f"it continues another file, which has gone: {first.what}"] * (first.did == CONTINUED)
    words += ["the line after them was not written to its end"] * bool(proof.torn)
    words += ["there is no closing line: its writer still runs, or was killed"] * (not proof.is_closed)
    return "; ".join(words)


def _accusation(proof: Proof, fault: Fault) -> str:
    said = f"line {fault.line} of {fault.file} is not as it was written: {fault.reason}."
    is_first = fault is proof.first
    return f"{said} The {fault.after} lines before it are proven." if is_first else f"And {said}"


def _rest(proof: Proof) -> str:
    """Returns words about the entries that the writer has added after the first fault."""
    since = proof.entries[proof.first.after :]
    return f" After it entries {since[0].n} to {since[-1].n} are as they were written." if since else ""
