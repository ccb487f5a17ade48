# SPDX-License-Identifier: Apache-2.0
"""`outrider train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from outrider.cli import checks
from outrider.cli.checks import checked
from outrider.cli.help_pages import Commands
from outrider.cli.options import Processes, Recordings, Seed, showing_progress
from outrider.core.files.writing import checked_file, checked_folder

Data = Annotated[Path, typer.Argument(help="Folder of the data set.", callback=checked(checks.training_data))]
Precision = Annotated[
    Literal["fp32", "bf16", "int8", "int4"], typer.Option(help="Precision of a general checkpoint's weights.")
]
Device = Annotated[
    Literal["cpu", "cuda"],
    typer.Option(
        help="Device of a general checkpoint; the fit runs on the CPU.", callback=checked(checks.device)
    ),
]

app = Commands(help="Create training data and train the small pair.", no_args_is_help=True)
app.callback()(showing_progress("train"))


@app.command("data", epilog="Example:  outrider train data out/data --shards 120 --processes 2")
def train_data(
    folder: Annotated[Path, typer.Argument(help="Folder of the data set; existing shards are kept.")],
    shards: Annotated[int, typer.Option(min=1, help="Number of files, of a thousand frames each.")] = 120,
    seed: Seed = 0,
    dagger: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a model that drives instead of the expert (DAgger); adds shards.",
            callback=checked(checks.model),
        ),
    ] = None,
    looks: Annotated[
        str,
        typer.Option(
            help=(
                "Looks of the homes in turn, separated by commas: plain, textured, dim, warm, washed, "
                "noisy, all."
            ),
            callback=checked(checks.looks),
        ),
    ] = "plain",
    processes: Processes = 1,
) -> None:
    """Render homes with the expert's actions and descriptions, in resumable shards."""

    from outrider.core.files.terminal import tracked
    from outrider.runtime.datasets.shards import write_dataset

    dataset = write_dataset(folder, shards, seed, processes, dagger, looks.split(","))
    for _ in tracked(dataset, "shards", total=shards):
        pass


@app.command("tokenizer", epilog="Example:  outrider train tokenizer out/data --models out/models")
def train_tokenizer(
    data: Data,
    models: Annotated[Path, typer.Option(help="Folder in which tokenizer/ is written.")] = Path("out/models"),
) -> None:
    """Train the tokenizer that both small models share."""
    checked_folder(models / "tokenizer")
    from outrider.runtime.datasets.training_runs import make_tokenizer

    typer.echo(f"{make_tokenizer(data, models / 'tokenizer')} tokens in {models / 'tokenizer'}")


@app.command("model", epilog="Example:  outrider train model target out/data --steps 2400 --processes 2")
def train_model(
    role: Annotated[Literal["target", "draft"], typer.Argument(help="Role of the model.")],
    data: Data,
    run: Annotated[Path, typer.Option(help="Folder of checkpoints; a run found there continues.")] = Path(
        "out/run"
    ),
    models: Annotated[
        Path, typer.Option(help="Folder with tokenizer/; the model is written beside it.")
    ] = Path("out/models"),
    vision_steps: Annotated[int, typer.Option(min=0, help="Training steps of the vision tower alone.")] = 700,
    steps: Annotated[int, typer.Option(min=1, help="Training steps of imitation.")] = 2400,
    learning_rate: Annotated[float, typer.Option(min=1e-6, max=0.1)] = 3e-3,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from", help="Checkpoint or model folder with the initial weights of a new run.", exists=True
        ),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Frames per step, four tasks each.")] = 32,
    device: Annotated[
        Literal["cpu", "cuda"],
        typer.Option(
            help="Device; on cuda the processes pack batches for one GPU.", callback=checked(checks.device)
        ),
    ] = "cpu",
    processes: Processes = 1,
) -> None:
    """Train a model by imitation of the expert and export it; resumable."""
    from outrider.runtime.common.paths import check_tokenizer

    checked_folder(run)
    check_tokenizer(models, data)
    checked_folder(models / role)
    from outrider.runtime.datasets.training_runs import make_model
    from outrider.training.imitation import TrainingConfig

    config = TrainingConfig(
        role,
        vision_steps=vision_steps,
        steps=steps,
        batch_frames=batch,
        learning_rate=learning_rate,
        device=device,
    )
    typer.echo(str(make_model(config, data, run, models, processes, start)["figures"]))


@app.command("reader", epilog="Example:  outrider train reader --run out/reader")
def train_reader(
    run: Annotated[Path, typer.Option(help="Folder of checkpoints; a run found there continues.")] = Path(
        "out/run"
    ),
    models: Annotated[Path, typer.Option(help="Folder in which reader/, the model, is written.")] = Path(
        "out/models"
    ),
    steps: Annotated[int, typer.Option(min=1, help="Training steps of 16 questions each.")] = 10800,
    seed: Seed = 0,
) -> None:
    """Train the tiny model that answers questions from memories in its prompt; resumable."""
    checked_folder(run)
    checked_folder(models / "reader")
    from outrider.runtime.datasets.training_runs import make_reader

    typer.echo(str(make_reader(run, models, steps, seed)))


@app.command("stops", epilog="Example:  outrider train stops out/stops --weights out/stops.safetensors")
def train_stops(
    sounds: Annotated[Path, typer.Argument(help="Folder of speech examples; existing files are kept.")],
    weights: Annotated[Path, typer.Option(help="File for the weights of the network.")] = Path(
        "out/stops.safetensors"
    ),
    recordings: Recordings = None,
    choosing: Annotated[
        Path | None,
        typer.Option(
            help="Recordings of other voices, on which the threshold is chosen too.",
            callback=checked(checks.voices),
        ),
    ] = None,
    shards: Annotated[int, typer.Option(min=1, help="Number of files, of 250 sentences each.")] = 6,
    steps: Annotated[int, typer.Option(min=1, help="Training steps of 64 examples each.")] = 1250,
    seed: Seed = 0,
    processes: Processes = 1,
) -> None:
    """Train the small network that detects spoken stop words, on eSpeak NG and recordings; takes minutes.

    Needs the extras `voice` and `speech`.
    """
    checked_folder(sounds)
    checked_file(weights)
    from outrider.runtime.datasets.training_runs import make_stops

    typer.echo(str(make_stops(sounds, weights, recordings, choosing, shards, steps, seed, processes)))


@app.command("answers", epilog="Example:  outrider train answers out/answers --target MODEL.gguf")
def train_answers(
    folder: Annotated[Path, typer.Argument(help="Folder of the answers; existing ones are kept.")],
    target: Annotated[
        str,
        typer.Option(
            help="The language model: a folder, a GGUF file, or a name on the Hub.",
            callback=checked(checks.model),
        ),
    ],
    tokens: Annotated[int, typer.Option(min=2, max=512, help="Maximum number of tokens per answer.")] = 48,
    precision: Precision = "bf16",
    device: Device = "cpu",
) -> None:
    """Let a language model answer the training half of benchmarks/prompts.yaml, to train its early exits."""
    from outrider.runtime.common.paths import model_folder

    checked_folder(folder)
    from outrider.runtime.datasets.training_runs import make_answers

    make_answers(folder, model_folder(target), tokens, precision, device)


Target = Annotated[
    str,
    typer.Option(
        help="The target model: a folder or a name on the Hub.",
        callback=checked(checks.model),
    ),
]
Judged = Annotated[
    Path,
    typer.Argument(
        help="Folder of the data set; its last shard is held out for evaluation.",
        callback=checked(checks.training_data),
    ),
]
Frames = Annotated[int, typer.Option(min=1, help="Number of frames to train on.")]
StatesMb = Annotated[
    int, typer.Option(min=64, help="Memory for the states that are trained on at a time, in MB.")
]


@app.command("exits", epilog="Example:  outrider train exits out/data --target out/models/target")
def train_exits(
    data: Judged,
    target: Target = "models/target",
    layer: Annotated[
        list[int] | None,
        typer.Option(help="Place an exit after this layer; repeatable; by default after all but the last."),
    ] = None,
    rank: Annotated[int, typer.Option(min=1, help="Rank of the adapters.")] = 64,
    frames: Frames = 1600,
    seed: Seed = 0,
    precision: Precision = "fp32",
    device: Device = "cpu",
    memory_mb: StatesMb = 2048,
) -> None:
    """Train early exits for a frozen target; takes minutes on one core for the small one."""
    from outrider.runtime.common.paths import model_folder
    from outrider.runtime.datasets.training_runs import make_exits
    from outrider.training.frozen.exits import ExitsConfig

    config = ExitsConfig(tuple(layer or ()), rank=rank, frames=frames, seed=seed, memory_mb=memory_mb)
    typer.echo(str(make_exits(config, data, model_folder(target), precision, device)))


@app.command("head", epilog="Example:  outrider train head out/data --target out/models/target")
def train_head(
    data: Judged,
    target: Target = "models/target",
    rank: Annotated[int, typer.Option(min=1, help="Width of the head's hidden layer.")] = 160,
    frames: Frames = 4800,
    seed: Seed = 0,
    precision: Precision = "fp32",
    device: Device = "cpu",
    memory_mb: StatesMb = 2048,
) -> None:
    """Train a draft head for a target, which drafts in the cloud (`outrider verifier --draft-model head`)."""
    from outrider.runtime.common.paths import model_folder
    from outrider.runtime.datasets.training_runs import make_head
    from outrider.training.frozen.draft_head import HeadConfig

    config = HeadConfig(rank=rank, frames=frames, seed=seed, memory_mb=memory_mb)
    typer.echo(str(make_head(config, data, model_folder(target), precision, device)))
