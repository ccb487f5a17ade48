# SPDX-License-Identifier: Apache-2.0
"""The ends that `outrider eval kills` accepts: a way, a process, and what must follow."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from outrider.core.errors import ConfigError
from outrider.runtime.node_graph.parameters import near_name

LIMIT_S = 0.3
SIGNALS = (signal.SIGHUP, signal.SIGQUIT, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
DEFECTS = ("thread", "callback")
FREEZE, MISFITS, DEACTIVATE, SHUTDOWN = "sigstop", "misfits", "deactivate", "shutdown"
GOES_ON = "goes on"
SUPERVISOR, GAZEBO, WATCHDOG = "supervisor", "gazebo", "gazebo_watchdog"
ROBOT_NODES = ("action", "navigator", "camera", "verifier")
# For a node to end in order, and for all nodes to end after their supervisor was killed.
ENDED_S, ORPHANS_ENDED_S = 10.0, 20.0


@dataclass(frozen=True)
class End:
    """One way of ending one process; `kind` is `WAY-PROCESS`.

    `stands`: the robot must stand within LIMIT_S, else it must go on. `bounded`: it may first finish the
    action that was verified last. `survives`: the process must still be there.
    """

    way: str
    process: str
    stands: bool = True
    survives: bool = False
    bounded: bool = False

    @property
    def kind(self) -> str:
        """The way and the process, as one name."""
        return f"{self.way}-{self.process}"

    @property
    def bound(self) -> str:
        """The time within which the robot must stand, in words."""
        if not self.stands:
            return GOES_ON
        return "one action" if self.bounded else f"{LIMIT_S:g} s"


def _ends() -> tuple[End, ...]:
    ways = (*(number.name.lower() for number in SIGNALS), *DEFECTS)
    ended = [End(way, node, bounded=node == "verifier") for node in ROBOT_NODES for way in ways]
    ended += [End(way, GAZEBO) for way in ways]
    frozen = [End(FREEZE, node, survives=True) for node in ("action", "navigator", "camera", GAZEBO)]
    requested = [End(MISFITS, node, stands=False, survives=True) for node in (*ROBOT_NODES, GAZEBO)]
    requested += [
        End(way, node, survives=True, bounded=node == "verifier")
        for way in (DEACTIVATE, SHUTDOWN)
        for node in (*ROBOT_NODES, GAZEBO)
    ]
    more = (End("sigkill", WATCHDOG, stands=False), End("sigkill", SUPERVISOR))
    return (*ended, *frozen, *requested, *more)


ENDS = {end.kind: end for end in _ends()}


def chosen_ends(names: str) -> list[End]:
    """Return the ends of a comma-separated list of kinds, ways or processes; all for an empty list.

    A way is such as `sigterm`, a process such as `camera`. Raises ConfigError for an unknown name.
    """
    if not names.strip():
        return list(ENDS.values())
    wanted = [name.strip().lower() for name in names.split(",") if name.strip()]
    known = {name for end in ENDS.values() for name in (end.kind, end.way, end.process)}
    for name in wanted:
        if name not in known:
            suggestion = near_name(name, known)
            hint = f"did you mean {suggestion}?" if suggestion else f"known: {', '.join(sorted(known))}"
            raise ConfigError(f"--kinds: no kind, way or process {name!r}; {hint}")
    return [end for end in ENDS.values() if {end.kind, end.way, end.process} & set(wanted)]
