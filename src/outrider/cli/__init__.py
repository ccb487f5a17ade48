"""The command `outrider`. Every command's body is a late import and one call, so that --help is quick."""

from __future__ import annotations

import os
import sys

import typer

from outrider.cli import benchmarks, corpora, evaluations, memories, robot, training
from outrider.core.errors import OutriderError

app = typer.Typer(
    help="Lossless edge-cloud decoding of vision-language navigation for a Unitree Go2.",
    epilog='Start with:  outrider demo "find the silver bottle"',
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(robot.app)
app.add_typer(evaluations.app, name="eval")
app.add_typer(benchmarks.app, name="bench")
app.add_typer(training.app, name="train")
app.add_typer(memories.app, name="memory")
app.add_typer(corpora.app, name="corpus")


def main() -> None:
    """Run the command line. Expected failures are one red line and exit status 1."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("MUJOCO_GL", "egl")
    try:
        app()
    except OutriderError as error:
        typer.secho(f"error: {error}", fg=typer.colors.RED, err=True)
        sys.exit(1)
