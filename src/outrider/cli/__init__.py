# SPDX-License-Identifier: Apache-2.0
"""The command `outrider`. Every command's body is a late import and one call, so that --help is quick.

Exit status: 0 done, 1 not reached or failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

import outrider
from outrider.cli import (
    agents,
    benchmarks,
    corpora,
    evaluations,
    keys,
    memories,
    robot,
    sentences,
    servers,
    training,
)
from outrider.cli.help_pages import Commands
from outrider.cli.options import showing_progress
from outrider.cli.usage_hints import HintingGroup
from outrider.core.errors import ConfigError, InstructionError, OutriderError
from outrider.core.files.private_files import NO_ROOM

app = Commands(
    cls=HintingGroup,
    help="Lossless edge-cloud decoding of vision-language navigation for a Unitree Go2.",
    epilog='Start with:  outrider demo "find the silver bottle"\n\n'
    "Exit status: 0 done, 1 not reached or failed, 2 wrong usage, 130 interrupted. "
    "What runs until it is interrupted (verifier, console, relay, record) ends with 0.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
FAILED, USAGE, INTERRUPTED = 1, 2, 130
ANOTHER_PATH = "give another path"
UNUSABLE = {
    errno.EACCES: f"ask for the right to use it, or {ANOTHER_PATH}",
    errno.EPERM: f"ask for the right to use it, or {ANOTHER_PATH}",
    errno.ENOENT: f"make it, or {ANOTHER_PATH}",
    errno.EEXIST: f"remove it, or {ANOTHER_PATH}",
    errno.ENOTDIR: "give a path through folders alone",
    errno.EISDIR: "give a file",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ELOOP: f"its links lead in a circle: {ANOTHER_PATH}",
    errno.EROFS: f"nothing can be written there: {ANOTHER_PATH}",
}
"""What to do about a path that the system refuses; the other errors of the system are defects."""
app.add_typer(robot.app)
app.add_typer(servers.app)
app.add_typer(sentences.app)
app.add_typer(agents.app)
app.add_typer(keys.app, name="keys")
app.add_typer(evaluations.app, name="eval")
app.add_typer(benchmarks.app, name="bench")
app.add_typer(training.app, name="train")
app.add_typer(memories.app, name="memory")
app.add_typer(corpora.app, name="corpus")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"outrider {outrider.__version__}")
        raise typer.Exit


_show_progress = showing_progress("", but=("demo", "verifier", "console", "relay", "record", "mcp", "plan"))
"""Most of these run on and on, and print what goes on; `plan` may wait for its person."""


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Lossless edge-cloud decoding of vision-language navigation for a Unitree Go2."""
    from outrider.runtime.common.ending_signals import interrupted_by_signals

    context.with_resource(interrupted_by_signals())
    _show_progress(context)


def _refused_path(error: OSError) -> str:
    """What to say of a path that cannot be used, or of a current folder that is gone; empty for a defect."""
    advice = UNUSABLE.get(error.errno or 0)
    if advice is None:
        return ""
    try:
        Path.cwd()
    except OSError:
        return "the current folder is gone, or cannot be used: change to another one"
    if not isinstance(error.filename, (str, bytes)):
        return ""
    return f"{os.fsdecode(error.filename)}: {error.strerror}: {advice}"


def _is_wrong_usage(error: OutriderError) -> bool:
    """Whether another command line mends it; a full disk is no fault of what was typed."""
    is_full = isinstance(error.__cause__, OSError) and error.__cause__.errno in NO_ROOM
    return isinstance(error, (ConfigError, InstructionError)) and not is_full


def _was_interrupted() -> bool:
    from outrider.runtime.common.ending_signals import was_interrupted

    return was_interrupted()


def main() -> None:
    """Run the command line. Expected failures are one red line, and no trace."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ["MUJOCO_GL"] = os.environ.get("MUJOCO_GL") or "egl"
    try:
        app()
    except OutriderError as error:
        typer.secho(f"error: {error}", fg=typer.colors.RED, err=True)
        sys.exit(USAGE if _is_wrong_usage(error) else FAILED)
    except OSError as error:
        message = _refused_path(error)
        if error.errno in NO_ROOM:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what it still holds fits nowhere
            message = f"{error.strerror}: make room, or write elsewhere"
        if not message:
            raise
        typer.secho(f"error: {message}", fg=typer.colors.RED, err=True)
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception:
        if not _was_interrupted():
            raise
        sys.exit(INTERRUPTED)
