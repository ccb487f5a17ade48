# SPDX-License-Identifier: Apache-2.0
"""`outrider hear`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()
Engine = Annotated[str, typer.Option(help="What recognises speech: sphinx or whisper.")]


@app.command(epilog="Example:  outrider hear command.wav")
def hear(
    file: Annotated[Path, typer.Argument(help="A WAV file of one command, at most a minute.")],
    engine: Engine = "sphinx",
    model: Annotated[
        str, typer.Option(help="The draft model: it says which words can be said.")
    ] = "models/draft",
) -> None:
    """Print what is said in a sound file, and its plan or why it is refused (extra `voice`)."""
    from outrider.core.language.planner import plan_of
    from outrider.runtime.mission.words import vocabulary_of
    from outrider.voice.engines import make_engine
    from outrider.voice.hearing import heard_in
    from outrider.voice.sound import read_wav

    samples = read_wav(file)
    vocabulary = vocabulary_of(model)
    said = heard_in(make_engine(engine, vocabulary), samples)
    typer.echo(
        f"heard: {said.sentence or 'no words'}{' (a stop, while it was said)' if said.stopped else ''}"
    )
    if said.sentence:
        typer.echo(plan_of(said.sentence, vocabulary).text())
    raise typer.Exit(0 if said.sentence else 1)
