# SPDX-License-Identifier: Apache-2.0
"""The commands about what people say: plan, words, ask, hear, eval sentences."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from outrider.cli import checks
from outrider.cli.checks import checked, only_with
from outrider.cli.evaluations import app as evaluations
from outrider.cli.help_pages import Commands
from outrider.cli.options import (
    AnswerModel,
    DraftModel,
    Endpoint,
    Engine,
    Explain,
    Json,
    KeyFile,
    Link,
    Store,
    StoreKey,
)
from outrider.cli.usage_hints import SentenceCommand
from outrider.core.errors import InstructionError

app = Commands()


def _is_interactive() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()  # None: it is closed


def confirmed(sentence: str, check: Callable[[str], object]) -> str:
    """The sentence, or the one that was meant, if a person at a terminal says so. Raises InstructionError."""
    try:
        check(sentence)
    except InstructionError as error:
        if not error.meant or not _is_interactive():
            raise
        typer.secho(str(error), err=True)
        if not typer.confirm(f'Go on with "{error.meant}"?', err=True):
            raise
        return error.meant
    return sentence


@app.command(cls=SentenceCommand, epilog='Example:  outrider plan "find the red chair, then come back"')
def plan(
    sentence: Annotated[str, typer.Argument(help="The sentence.")],
    model: DraftModel = "models/draft",
) -> None:
    """Print the plan of a sentence, or why it is refused. Nothing moves."""
    from outrider.core.language.sentences.planner import plan_of
    from outrider.runtime.mission.words import check_sentence, vocabulary_of

    vocabulary = vocabulary_of(model)
    sentence = confirmed(sentence, lambda text: check_sentence(text, vocabulary))
    typer.echo(plan_of(sentence, vocabulary).text())


@app.command(epilog="Example:  outrider words --model models/draft")
def words(
    model: DraftModel = "models/draft",
) -> None:
    """List the words that a model knows."""
    from outrider.runtime.mission.words import vocabulary_of, words_text

    typer.echo(words_text(model, vocabulary_of(model)))


@app.command(
    cls=SentenceCommand, epilog='Example:  outrider ask "tell me where my keys are" --answers aggregate'
)
def ask(
    context: typer.Context,
    question: Annotated[str, typer.Argument(help="The question.")],
    answers: Annotated[
        str,
        typer.Option(help="memory: the robot answers alone; aggregate: robot and cloud write one answer."),
    ] = "memory",
    endpoint: Endpoint = "tcp://127.0.0.1:5757",
    key_file: KeyFile = None,
    link: Link = None,
    answer_model: AnswerModel = "quotes",
    store: Store = "",
    store_key_file: StoreKey = "",
) -> None:
    """Ask the robot's memory a question, as while the robot runs; nothing private leaves it."""
    from outrider.runtime.mission.questions import question_to_memory

    only_with(context, "--answers aggregate", "--endpoint", "--key-file", "--link", "--answer-model")
    question_to_memory(question, answers)  # at once: what answers takes seconds to import
    if answers == "aggregate":
        from outrider.runtime.wiring.probe import probe_verifier

        probe_verifier(endpoint, timeout_s=1.5, key_file=key_file)
    from outrider.runtime.mission.answers import ask_once

    typer.echo(
        ask_once(
            question, answers, endpoint, str(key_file or ""), link or "", answer_model, store, store_key_file
        )
    )


@app.command(epilog="Example:  outrider hear command.wav")
def hear(
    file: Annotated[Path, typer.Argument(help="A WAV file of one command, at most a minute.")],
    engine: Engine = "moonshine",
    model: DraftModel = "models/draft",
) -> None:
    """Transcribe a sound file and print its plan, or why it is refused (extra `voice`)."""
    from outrider.core.language.sentences.planner import plan_of
    from outrider.runtime.mission.words import vocabulary_of
    from outrider.voice.engines import make_engine
    from outrider.voice.hearing import heard_in
    from outrider.voice.sound import read_wav

    samples = read_wav(file)
    vocabulary = vocabulary_of(model)
    utterance = heard_in(make_engine(engine, vocabulary), samples)
    typer.echo(
        f"heard: {utterance.sentence or 'no words'}"
        f"{' (a stop, while it was said)' if utterance.stopped else ''}"
    )
    if utterance.sentence:
        typer.echo(plan_of(utterance.sentence, vocabulary).text())
    raise typer.Exit(0 if utterance.sentence else 1)


@evaluations.command("sentences", epilog="Example:  outrider eval sentences --json sentences.json")
def eval_sentences(
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Folder with building.tsv, held_out.tsv and words.yaml, like benchmarks/sentences.",
            callback=checked(checks.sentences),
        ),
    ] = None,
    json_file: Json = None,
    explain: Explain = False,
) -> None:
    """Evaluate the grammar on sentences that were written before it; nothing moves.

    Exit status 1 if one becomes a plan that moves and must not.
    """
    from outrider.evaluation.voice.sentence_sets import evaluate_sentences

    raise typer.Exit(1 if evaluate_sentences(folder, json_file)["moved"] else 0)
