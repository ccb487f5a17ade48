# SPDX-License-Identifier: Apache-2.0
"""The trials of `outrider eval kills` that end a process: one end at a time, while the robot moves."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from outrider.core.errors import OutriderError
from outrider.evaluation.common.polling import wait_until
from outrider.evaluation.kills import failing
from outrider.evaluation.kills.end_stages import RobotStage, Stage, SupervisedStage, is_alive
from outrider.evaluation.kills.ends import (
    DEACTIVATE,
    DEFECTS,
    ENDED_S,
    ENDS,
    FREEZE,
    GAZEBO,
    LIMIT_S,
    MISFITS,
    ORPHANS_ENDED_S,
    SHUTDOWN,
    SUPERVISOR,
    WATCHDOG,
    End,
)
from outrider.evaluation.kills.gazebo_stage import GazeboStage
from outrider.evaluation.kills.kill_scene import Sample, run_to_the_end
from outrider.evaluation.kills.kill_trials import (
    HELD_UP_S,
    IN_FLIGHT_S,
    WATCH_S,
    last_action,
    motion_since,
    to_zero_s,
)
from outrider.evaluation.kills.process_ends import Trial, trial_line, write_trials

# Lifecycle transitions that an active node does not have, and some that it has.
NOT_FOR_ACTIVE, DEACTIVATION, ACTIVE_SHUTDOWN = (1, 2, 3, 5, 6, 99), 4, 7
FROZEN_S, GO_ON_S, MOMENT_S = 2.5, 30.0, 1e-6
# A navigator waits 15 s for the report of a motion before it says that none came.
REASON_S = 20.0
TRIES = 2
SHOWN = 6
ROBOT = "robot"
STAGES = (GAZEBO, ROBOT, SUPERVISOR)


def inflict(stage: Stage, end: End) -> float:
    """Bring about an end; return its time by the system's clock."""
    pid = stage.pids()[end.process]
    if end.way == FREEZE:
        # In a separate process: nothing stays frozen, whatever happens to this one.
        thaw = f"sleep {FROZEN_S}; kill -CONT {pid}"
        subprocess.Popen(["sh", "-c", thaw], start_new_session=True, stderr=subprocess.DEVNULL)
    at_s = time.time()
    if end.way == MISFITS:
        if any(stage.request_transitions(end.process, NOT_FOR_ACTIVE)):
            raise OutriderError(f"{end.process} took a transition that an active node does not have")
    elif end.way in (DEACTIVATE, SHUTDOWN):
        stage.request_transitions(end.process, [DEACTIVATION if end.way == DEACTIVATE else ACTIVE_SHUTDOWN])
    elif end.way in DEFECTS:
        os.kill(pid, failing.THREAD if end.way == "thread" else failing.CALLBACK)
    else:
        os.kill(pid, signal.Signals[end.way.upper()])
    return at_s


def run_end(stage: Stage, end: End, rng: np.random.Generator) -> Trial:
    """Run one trial. Raises OutriderError if the robot does not move, or was not watched all the time."""
    stage.start_motion(rng)
    pids, num_reasons = stage.pids(), len(stage.reasons)
    at_s = inflict(stage, end)
    time.sleep(IN_FLIGHT_S)
    action = last_action(list(stage.texts))
    time.sleep(max(0.0, at_s + WATCH_S - time.time()))
    samples, steady = _commands_since(stage, end, at_s)
    metres, degrees = motion_since(samples, at_s)
    stood_s = to_zero_s(samples, at_s, time.time(), steady)
    outlived = _still_running(end, pids)
    if end.stands:
        wait_until(lambda: any(stage.reasons[num_reasons:]), REASON_S)
    reason = next(filter(None, stage.reasons[num_reasons:]), "") if end.stands else ""
    went_on = end.stands or wait_until(lambda: stage.moves, GO_ON_S)
    is_there = is_alive(pids[end.process])
    is_as_required = is_there == end.survives and stood_s < WATCH_S
    observations = "" if is_as_required else _observations(stage, end, samples, at_s, num_reasons)
    return Trial(
        end.kind, stood_s, metres, degrees, action, is_there, outlived, went_on, reason, seen=observations
    )


def _commands_since(stage: Stage, end: End, at_s: float) -> tuple[list[Sample], bool]:
    """Return the base's commands in the time watched, and whether they are timed by its own clock."""
    until_s = time.time()
    samples, steady = stage.commands(end.process)
    if not steady:
        stalled_s = stage.longest_stall_s(at_s)
        if stalled_s > LIMIT_S:
            raise OutriderError(f"this process stood still for {stalled_s:.2f} s while it watched the base")
        return samples_from(samples, at_s), False
    # A machine that was held up takes longer to report the base's commands.
    wait_until(lambda: stage.commands(end.process)[0][-1].time_s > until_s, HELD_UP_S)
    return stage.commands(end.process)


def samples_from(samples: Sequence[Sample], at_s: float) -> list[Sample]:
    """Return samples from a time on, with the one that held at that time.

    The samples come only when the velocity changes.
    """
    before = [sample for sample in samples if sample.time_s <= at_s][-1:]
    samples_held = [Sample(at_s + MOMENT_S, sample.velocity) for sample in before]
    return samples_held + [sample for sample in samples if sample.time_s > at_s]


def _still_running(end: End, pids: dict[str, int]) -> tuple[str, ...]:
    """Return the processes that should have ended in time and have not."""
    if end.survives:
        return ()
    of_all = end.process == SUPERVISOR
    ending = pids if of_all else {end.process: pids[end.process]}
    wait_until(lambda: not any(map(is_alive, ending.values())), ORPHANS_ENDED_S if of_all else ENDED_S)
    return tuple(name for name, pid in ending.items() if is_alive(pid))


def _observations(stage: Stage, end: End, samples: Sequence[Sample], at_s: float, num_reasons: int) -> str:
    """Return the last velocities that moved the robot, what it said, and the end of the process's log."""
    moving = [sample for sample in samples if sample.moves and sample.time_s > at_s][-SHOWN:]
    lines = [f"{sample.time_s - at_s:.2f} s: {sample.velocity}" for sample in moving]
    lines += [f"said: {reason}" for reason in stage.reasons[num_reasons:][-SHOWN:]]
    return "\n".join([*lines, *stage.supervisor.log_tail(end.process)])


@contextlib.contextmanager
def _stage(name: str, folder: Path, seed: int, models: Path, motion: str) -> Iterator[Stage]:
    """Open a new stage; a supervisor can be killed only once."""
    if name == GAZEBO:
        with GazeboStage(folder) as gazebo:
            yield gazebo
    elif name == SUPERVISOR:
        with SupervisedStage(folder, seed, models, motion) as held:
            yield held
    else:
        with RobotStage(folder, seed, models, motion) as robot:
            yield robot


def _stage_name(end: End) -> str:
    """Return the name in STAGES of an end's stage."""
    if end.process in (GAZEBO, WATCHDOG):
        return GAZEBO
    return SUPERVISOR if end.process == SUPERVISOR else ROBOT


def run_ends(
    folder: Path, ends: Sequence[End], trials: int, seed: int, models: Path, file: Path, motion: str
) -> None:
    """Run all trials; write the result after each. A trial with an error is tried again on a new stage."""
    finished: list[Trial] = []
    rng = np.random.default_rng([seed, 29])
    waiting = sorted([*ends] * trials, key=lambda end: STAGES.index(_stage_name(end)))
    total, tries, number = len(waiting), 0, 0
    while waiting:
        name = _stage_name(waiting[0])
        with _stage(name, folder / f"end{number:03}", seed + number, models, motion) as stage:
            while waiting and _stage_name(waiting[0]) == name:
                end, trial = waiting[0], _try(stage, waiting[0], rng)
                tries += 1
                if not trial.error or tries == TRIES:
                    tries = 0
                    finished.append(trial)
                    waiting.pop(0)
                    write_trials(file, finished)
                    print(f"{len(finished)} of {total} {trial_line(trial)}", file=sys.stderr, flush=True)
                if trial.error or name == SUPERVISOR:
                    break
                if end.way in (DEACTIVATE, SHUTDOWN):  # `start_motion` restarts only ended processes
                    stage.replace(end.process)
        number += 1


def _try(stage: Stage, end: End, rng: np.random.Generator) -> Trial:
    try:
        return run_end(stage, end, rng)
    except OutriderError as error:
        return Trial(end.kind, error=str(error))


def main() -> int:
    """Run with the arguments: folder, result file, trials of each kind, seed, models, motion, kinds."""
    folder, file, trials, seed, models, motion, *kinds = sys.argv[1:]
    ends = [ENDS[kind] for kind in kinds]
    arguments = Path(folder), ends, int(trials), int(seed), Path(models), Path(file), motion
    return run_to_the_end(lambda: run_ends(*arguments))


if __name__ == "__main__":
    raise SystemExit(main())
