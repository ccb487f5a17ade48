# SPDX-License-Identifier: Apache-2.0
"""The command `outrider`. Every command's body is a late import and one call, so that --help is quick.

Exit status: 0 done, 1 not reached or failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
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
from outrider.cli.mistyped import HintingGroup
from outrider.cli.options import showing_life
from outrider.core.errors import ConfigError, InstructionError, OutriderError

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
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
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


_show_life = showing_life("", but=("demo", "verifier", "console", "relay", "record", "mcp", "plan"))
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
    _show_life(context)


def main() -> None:
    """Run the command line. Expected failures are one red line, and no trace."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("MUJOCO_GL", "egl")
    try:
        app()
    except OutriderError as error:
        typer.secho(f"error: {error}", fg=typer.colors.RED, err=True)
        sys.exit(USAGE if isinstance(error, (ConfigError, InstructionError)) else FAILED)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what it still holds fits nowhere
        typer.secho(f"error: {error.strerror}: make room, or write elsewhere", fg=typer.colors.RED, err=True)
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
