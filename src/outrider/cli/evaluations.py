# SPDX-License-Identifier: Apache-2.0
"""`outrider eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from outrider.cli import checks
from outrider.cli.checks import checked, refuse
from outrider.cli.help_pages import Commands
from outrider.cli.options import (
    AnsweringModel,
    DocumentQuestions,
    DraftModel,
    EndKinds,
    Engine,
    Explain,
    Frames,
    GoalsFolder,
    HedgedKills,
    HomesFolder,
    Json,
    Legs,
    Look,
    MemoryOption,
    ModelOrExpert,
    Models,
    MotionOption,
    PacedMotion,
    Precision,
    Processes,
    Prompts,
    PublishedTarget,
    Recordings,
    Run,
    Seed,
    Temperature,
    showing_progress,
)

app = Commands(help="Evaluate the models, the decoding and the robot's safety.", no_args_is_help=True)
app.callback()(showing_progress("eval"))


@app.command(
    "navigation", epilog="Example:  outrider eval navigation --episodes 40 --model pair --json n.json"
)
def eval_navigation(
    episodes: Annotated[int, typer.Option(min=1, help="Number of homes.")] = 200,
    seed: Seed = 0,
    model: ModelOrExpert = "target",
    json_file: Json = None,
    models: Models = None,
    processes: Processes = 1,
    max_steps: Annotated[int, typer.Option(min=1, help="Maximum number of steps per episode.")] = 300,
    memory: MemoryOption = "off",
    legs: Legs = False,
    look: Look = "plain",
    motion: PacedMotion = None,
    round_trip_ms: Annotated[
        float, typer.Option(min=0.0, help="Round trip of the link in milliseconds; with --motion.")
    ] = 0.0,
    explain: Explain = False,
) -> None:
    """Measure success, collisions and path length in closed loop in newly generated homes."""
    from outrider.evaluation.common.choices import check_paced

    check_paced(motion or "", round_trip_ms, model, memory)
    from outrider.evaluation.robot.navigation import evaluate_navigation

    evaluate_navigation(
        episodes,
        seed,
        model,
        models,
        json_file,
        processes,
        max_steps,
        memory,
        legs,
        look,
        motion or "",
        round_trip_ms,
    )


@app.command("plans", epilog="Example:  outrider eval plans --homes 50 --run out/plans --json plans.json")
def eval_plans(
    homes: Annotated[int, typer.Option(min=1, help="Number of homes.")] = 50,
    seed: Seed = 0,
    finds: Annotated[int, typer.Option(min=1, max=3, help="Number of things to find per plan.")] = 3,
    model: AnsweringModel = "pair",
    json_file: Json = None,
    models: Models = None,
    run: HomesFolder = None,
    processes: Processes = 1,
    max_steps: Annotated[int, typer.Option(min=1, help="Maximum number of steps per find.")] = 300,
    explain: Explain = False,
) -> None:
    """Run plans of several finds in newly generated homes, and each of their finds alone."""
    from outrider.evaluation.pair.plans import evaluate_plans

    evaluate_plans(homes, seed, finds, model, models, run, json_file, processes, max_steps)


@app.command("signs", epilog="Example:  outrider eval signs --homes 1000 --run out/signs --json signs.json")
def eval_signs(
    homes: Annotated[int, typer.Option(min=1, help="Number of homes.")] = 50,
    seed: Seed = 0,
    model: AnsweringModel = "pair",
    json_file: Json = None,
    models: Models = None,
    run: HomesFolder = None,
    processes: Processes = 1,
    max_steps: Annotated[int, typer.Option(min=1, help="Maximum number of steps per goal.")] = 300,
    explain: Explain = False,
) -> None:
    """Compare homes with printed orders, control tokens and QR codes on their walls to the same without.

    Exit status 1 if a motion was outside the envelope of the grammar, control tokens entered a prompt, or an
    emergency stop took more than 0.3 s.
    """
    from outrider.evaluation.signs.suite import evaluate_signs

    figures = evaluate_signs(homes, seed, model, models, run, json_file, processes, max_steps)
    raise typer.Exit(0 if figures["holds"] else 1)


@app.command("frames", epilog="Example:  outrider eval frames pictures/ --poses 40 --json frames.json")
def eval_frames(
    context: typer.Context,
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Folder with index.jsonl and its pictures; generated homes by default.",
            callback=checked(checks.frames_folder),
        ),
    ] = None,
    model: Annotated[Literal["target", "draft"], typer.Option(help="Which model answers.")] = "target",
    models: Models = None,
    poses: Annotated[
        int | None, typer.Option(min=1, help="Number of poses; by default all of a folder, or 200 per look.")
    ] = None,
    looks: Annotated[
        str,
        typer.Option(
            "--look", help="Looks of the homes, such as plain,dim,all.", callback=checked(checks.looks)
        ),
    ] = "plain",
    seed: Seed = 0,
    json_file: Json = None,
    explain: Explain = False,
) -> None:
    """Compare actions and objects named for pictures, of any camera or simulator, with the expert's."""
    if folder is not None:
        refuse(context, "is for generated homes: leave it or FOLDER away", "--look", "--seed")
    from outrider.evaluation.robot.frames import evaluate_frames

    evaluate_frames(folder, model, models, json_file, poses, looks.split(","), seed)


@app.command("lossless", epilog="Example:  outrider eval lossless --frames 500")
def eval_lossless(
    frames: Frames = 500,
    seed: Seed = 0,
    json_file: Json = None,
    models: Models = None,
    explain: Explain = False,
) -> None:
    """Check that the pair's text is the target's own, token for token; exit status 1 if it is not."""
    from outrider.evaluation.pair.lossless import evaluate_lossless

    figures = evaluate_lossless(frames, seed, models, json_file)
    raise typer.Exit(0 if figures["lossless"] else 1)


@app.command("weights", epilog="Example:  outrider eval weights --texts 100 --run out/weights")
def eval_weights(
    texts: Annotated[int, typer.Option(min=1, help="Number of texts over each of three networks.")] = 100,
    tokens: Annotated[int, typer.Option(min=2, max=128, help="Tokens per text.")] = 8,
    target: PublishedTarget = "1.5b",
    target_precision: Precision = "bf16",
    draft_precision: Precision = "bf16",
    run: Run = None,
    json_file: Json = None,
    explain: Explain = False,
) -> None:
    """Check that published models write the target's own texts over sockets; exit status 1 if they do not."""
    from outrider.evaluation.weights.lossless import evaluate_weights

    figures = evaluate_weights(texts, tokens, target, target_precision, draft_precision, run, json_file)
    raise typer.Exit(0 if figures["lossless"] else 1)


@app.command("precisions", epilog="Example:  outrider eval precisions --prompts 16 --run out/precisions")
def eval_precisions(
    prompts: Prompts = 16,
    tokens: Annotated[int, typer.Option(min=2, max=128, help="Tokens per text.")] = 24,
    target: PublishedTarget = "1.5b",
    temperature: Temperature = 0.0,
    run: Run = None,
    json_file: Json = None,
    explain: Explain = False,
) -> None:
    """Measure the acceptance of drafts of published models with bf16, int8 and int4 drafts and targets."""
    from outrider.evaluation.weights.precisions import evaluate_precisions

    evaluate_precisions(prompts, tokens, target, temperature, run, json_file)


@app.command("documents", epilog="Example:  outrider eval documents --questions 8 --json documents.json")
def eval_documents(
    questions: DocumentQuestions = 8,
    model: Annotated[
        Literal["1.5b", "0.5b"],
        typer.Option(help="The published model that answers.", callback=checked(checks.published_target)),
    ] = "0.5b",
    precision: Precision = "bf16",
    json_file: Json = None,
    explain: Explain = False,
) -> None:
    """Measure a published model's answers from private and public documents: their content and time."""
    from outrider.evaluation.weights.documents import evaluate_documents

    evaluate_documents(questions, model, precision, json_file)


@app.command("exits", epilog="Example:  outrider eval exits --frames 200 --json exits.json")
def eval_exits(
    frames: Frames = 200,
    seed: Seed = 0,
    json_file: Json = None,
    models: Models = None,
    explain: Explain = False,
) -> None:
    """Measure how often the target's early exits predict its choice, and what they cost."""
    from outrider.evaluation.pair.exit_quality import evaluate_exits

    evaluate_exits(frames, seed, models, json_file)


@app.command("head", epilog="Example:  outrider eval head --frames 60 --json head.json")
def eval_head(
    frames: Frames = 60,
    seed: Seed = 0,
    json_file: Json = None,
    models: Models = None,
    explain: Explain = False,
) -> None:
    """Compare the target's draft head with a draft model, for a robot that has none."""
    from outrider.evaluation.pair.head_quality import evaluate_head

    evaluate_head(frames, seed, models, json_file)


@app.command("safety", epilog="Example:  outrider eval safety --injections 300 --json safety.json")
def eval_safety(
    injections: Annotated[int, typer.Option(min=1, help="Faults to inject, each kind in turn.")] = 300,
    seed: Seed = 0,
    json_file: Json = None,
    motion: MotionOption = "continuous",
    explain: Explain = False,
) -> None:
    """Measure how soon the robot stands after a fault; exit status 1 if it is ever too late."""
    from outrider.evaluation.safety.injection import run_safety

    raise typer.Exit(run_safety(injections, seed, json_file, motion))


@app.command("agents", epilog="Example:  outrider eval agents --calls 10000 --json agents.json")
def eval_agents(
    calls: Annotated[int, typer.Option(min=1, help="Number of hostile calls.")] = 10_000,
    http: Annotated[bool, typer.Option("--http", help="Send them over eight HTTP connections.")] = False,
    seed: Seed = 0,
    json_file: Json = None,
    explain: Explain = False,
) -> None:
    """Send hostile calls to `outrider mcp` (extra `mcp`); exit status 1 for a wrong motion or a late stop."""
    from outrider.evaluation.agents.hostile_agents import evaluate_agents

    raise typer.Exit(0 if evaluate_agents(calls, seed, json_file, http).holds else 1)


@app.command("voice", epilog="Example:  outrider eval voice --commands 200 --seed 1 --json voice.json")
def eval_voice(
    commands: Annotated[int, typer.Option(min=1, help="Spoken commands, clean and in noise.")] = 200,
    stops: Annotated[int, typer.Option(min=1, help="Spoken orders to stop, clean and in noise.")] = 200,
    seed: Seed = 0,
    engine: Engine = "moonshine",
    model: DraftModel = "models/draft",
    recordings: Recordings = None,
    json_file: Json = None,
    explain: Explain = False,
) -> None:
    """Measure plans and stops from synthetic speech at several speeds, pitches and levels of noise.

    Needs the extras `voice` and `speech`.
    """
    from outrider.evaluation.voice.recognition import evaluate_voice

    evaluate_voice(commands, stops, seed, engine, model, recordings, json_file)


@app.command("kills", epilog="Example:  outrider eval kills --kinds sigterm,sigkill-action --trials 2")
def eval_kills(
    context: typer.Context,
    verifier: Annotated[
        int | None, typer.Option(min=0, help="Kills of the verifier during goals; 50, or 0 with --kinds.")
    ] = None,
    nodes: Annotated[
        int | None, typer.Option(min=0, help="Kills of the robot's processes in turn; 40, or 0 with --kinds.")
    ] = None,
    trials: Annotated[int, typer.Option(min=0, help="Number of trials per kind of end.")] = 2,
    kinds: EndKinds = "",
    hedged: HedgedKills = 0,
    run: GoalsFolder = None,
    seed: Seed = 0,
    models: Models = None,
    json_file: Json = None,
    motion: MotionOption = "continuous",
    explain: Explain = False,
) -> None:
    """End real processes in every way while the robot moves; exit status 1 if it does not stand and say why.

    Under kill -9 texts stay the target's own, and goals are reached. Takes a machine with nothing else to do.
    """
    if hedged:
        refuse(context, "is not for --hedged: leave one away", "--verifier", "--nodes", "--trials", "--kinds")
        from outrider.evaluation.kills.hedged_kills import evaluate_hedged_kills

        figures = evaluate_hedged_kills(hedged, seed, models, run, json_file, motion)
        raise typer.Exit(1 if figures["failed"] else 0)
    refuse(context, "is for --hedged", "--run")
    from outrider.evaluation.kills.ends import chosen_ends
    from outrider.evaluation.kills.process_ends import evaluate_ends
    from outrider.evaluation.kills.process_kills import evaluate_kills

    ends, usual = chosen_ends(kinds), (0, 0) if kinds else (50, 40)
    verifier_kills = usual[0] if verifier is None else verifier
    node_kills = usual[1] if nodes is None else nodes
    figures = {}
    if verifier_kills + node_kills or not trials:
        figures = evaluate_kills(verifier_kills, node_kills, seed, models, json_file, motion)
    failed = figures.get("failed", 0)
    if trials:
        failed += evaluate_ends(ends, trials, seed, models, json_file, figures, motion)["failed"]
    raise typer.Exit(1 if failed else 0)
