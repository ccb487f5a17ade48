"""Records golden schedules and frames again and prints the changes. From the root of the repository:

    python -m tests.golden.regenerate            record
    python -m tests.golden.regenerate --check    write nothing; fail if anything changed

Record only after an intended change of behaviour or of the protocol, and commit the files with it.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from . import frames, schedules


def main() -> int:
    recorded = {name: record() for name, record in schedules.conditions().items()}
    sessions = frames.record_all()
    changes = changed_schedules(recorded) + changed_frames(sessions)
    print("\n".join(changes) or "nothing changed")
    if "--check" in sys.argv[1:]:
        return bool(changes)
    schedules.write(recorded)
    frames.write(sessions)
    return 0


def changed_schedules(now: dict[str, schedules.Schedules]) -> list[str]:
    before = schedules.read() if schedules.FILE.exists() else {}
    return [
        f"{name}: {line}"
        for name in {**before, **now}
        for line in schedules.differences(before.get(name, {}), now.get(name, {}))
    ]


def changed_frames(now: dict[str, list[frames.Sent]]) -> list[str]:
    before = frames.read() if frames.FILE.exists() else {}
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return [f"frames of {name}: changed" for name in changed]


if __name__ == "__main__":
    sys.exit(main())
