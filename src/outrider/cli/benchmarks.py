# SPDX-License-Identifier: Apache-2.0
"""`outrider bench`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from outrider.cli import checks
from outrider.cli.checks import checked, not_with, only_with
from outrider.cli.help_pages import Commands
from outrider.cli.options import (
    Drafters,
    Explain,
    Frames,
    Json,
    Models,
    Plots,
    Precision,
    Prompts,
    PublishedTarget,
    Run,
    Seed,
    Temperature,
    showing_progress,
)
from outrider.core.errors import ConfigError

UNTUNED = ("--plots", "--ablations", "--drafters", "--round-trips")
"""Options of `outrider bench decoding` that compare the papers' strategies as they are."""
EXCLUSIVE = ("--changes", "--alternatives", "--random-regimes", "--ablate")
"""Options of the same that measure something else."""
FROM_FILE = ("--regime", "--texts", "--models")
"""Options of the same for conditions that come from a file."""

app = Commands(help="Measure speed.", no_args_is_help=True)
app.callback()(showing_progress("bench"))


@app.command("latency", epilog="Example:  outrider bench latency --frames 50 --json latency.json")
def bench_latency(
    frames: Frames = 50,
    seed: Seed = 0,
    json_file: Json = None,
    models: Models = None,
    explain: Explain = False,
) -> None:
    """Measure the time to the verified action and to the end of the text, at 0, 20 and 100 ms one way."""
    from outrider.evaluation.pair.latency import bench_latency

    bench_latency(frames, seed, models, json_file)


@app.command("aggregation", epilog="Example:  outrider bench aggregation --json aggregation.json")
def bench_aggregation(
    regime: Annotated[
        list[str] | None,
        typer.Option(
            help="A condition from benchmarks/aggregation.yaml; repeatable; all by default.",
            callback=checked(checks.aggregation_regime),
        ),
    ] = None,
    texts: Annotated[int, typer.Option(min=1, help="Number of synthetic texts per figure.")] = 5,
    seed: Seed = 0,
    json_file: Json = None,
    plots: Plots = None,
    live: Annotated[bool, typer.Option("--live", help="Also measure in real time over sockets.")] = False,
    models: Models = None,
    explain: Explain = False,
) -> None:
    """Compare DRAGON, its baselines and the coupled rule, for two peers that write one text."""
    from outrider.evaluation.aggregation.bench import bench_aggregation

    bench_aggregation(tuple(regime or ()), texts, seed, models, json_file, plots, live)


@app.command("console", epilog="Example:  outrider bench console --viewers 10 --json console.json")
def bench_console(
    viewers: Annotated[int, typer.Option(min=1, max=30, help="Number of pages that watch.")] = 10,
    blocks: Annotated[int, typer.Option(min=1, help="Measurements with viewers, and one more without.")] = 8,
    frames: Frames = 20,
    e_stops: Annotated[int, typer.Option(min=1, help="Number of clicks on the emergency stop.")] = 50,
    seed: Seed = 0,
    json_file: Json = None,
    models: Models = None,
    explain: Explain = False,
) -> None:
    """Measure what viewers cost the decoding, and how soon a click on the emergency stop stops the robot."""
    from outrider.evaluation.robot.bench_console import bench_console

    bench_console(viewers, blocks, frames, e_stops, seed, models, json_file)


@app.command("relay", epilog="Example:  outrider bench relay --trials 200 --json relay.json")
def bench_relay(
    trials: Annotated[int, typer.Option(min=1, help="Trials with the relay, and as many without.")] = 200,
    json_file: Json = None,
    explain: Explain = False,
) -> None:
    """Measure what a relay adds to pings, the emergency stop and pictures of the console, on the loopback."""
    from outrider.evaluation.robot.bench_relay import bench_relay

    bench_relay(trials, json_file)


@app.command("hedging", epilog="Example:  outrider bench hedging --json hedging.json")
def bench_hedging(
    texts: Annotated[
        int, typer.Option(min=100, max=100_000, help="Number of texts over one link, and over two.")
    ] = 1000,
    seed: Seed = 0,
    json_file: Json = None,
    explain: Explain = False,
) -> None:
    """Measure the time to a verified action with one verifier and with two, while links or verifiers fail."""
    from outrider.evaluation.decoding.hedging import bench_hedging

    bench_hedging(texts, seed, json_file)


@app.command("decoding", epilog="Example:  outrider bench decoding --regime fsd-go2 --plots out/plots")
def bench_decoding(
    context: typer.Context,
    regime: Annotated[
        list[str] | None,
        typer.Option(
            help="A condition from benchmarks/regimes.yaml; repeatable; all by default.",
            callback=checked(checks.regime),
        ),
    ] = None,
    texts: Annotated[int, typer.Option(min=1, help="Synthetic texts of 200 tokens per condition.")] = 20,
    seed: Seed = 0,
    json_file: Json = None,
    plots: Plots = None,
    ablations: Annotated[
        bool, typer.Option("--ablations", help="Also FSD's ablations: workers, draft length, queue orders.")
    ] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Only measure in real time over sockets, with the shipped pair.")
    ] = False,
    drafters: Drafters = "model",
    ablate: Annotated[
        list[str] | None,
        typer.Option(
            help="Only measure the speed without this mechanism of the policy; repeatable; or all.",
            callback=checked(checks.mechanism),
        ),
    ] = None,
    number: Annotated[
        int | None,
        typer.Option(
            "--random-regimes",
            min=1,
            max=1000,
            help="Only measure this many random conditions, on which nothing was tuned.",
        ),
    ] = None,
    round_trips: Annotated[
        bool, typer.Option("--round-trips", help="Also vary the round trip alone, from 0 to 600 ms.")
    ] = False,
    alternatives: Annotated[
        bool, typer.Option("--alternatives", help="Only compare with the best alternative, each tuned.")
    ] = False,
    variant: Annotated[
        Literal["rows", "full-head-exits", "whole-forwards", "fewer-second-choices"] | None,
        typer.Option(help="Other costs, with any of the three options above."),
    ] = None,
    changes: Annotated[
        int | None,
        typer.Option(
            "--changes", help="Only run this many sessions with changes of link, server and drafts."
        ),
    ] = None,
    models: Models = None,
    explain: Explain = False,
) -> None:
    """Compare all decoding strategies under the conditions of the papers, with their formulas and figures."""
    not_with(context, "--live", *UNTUNED, *EXCLUSIVE, "--texts", "--variant")
    not_with(context, "--changes", *UNTUNED, *FROM_FILE, "--alternatives", "--random-regimes", "--variant")
    not_with(context, "--alternatives", *UNTUNED, "--ablate", "--random-regimes")
    not_with(context, "--random-regimes", *UNTUNED, "--regime", "--models")
    not_with(context, "--ablate", *UNTUNED)
    has_exclusive = alternatives or ablate or number is not None or changes is not None
    if variant is not None and not has_exclusive:
        raise ConfigError("--variant goes with --alternatives, --ablate or --random-regimes")
    from outrider.evaluation.alternatives.bench import bench_alternatives
    from outrider.evaluation.alternatives.random_bench import bench_random
    from outrider.evaluation.decoding.bench import ROUND_TRIPS_MS, bench_decoding, bench_policy
    from outrider.evaluation.decoding.changes import bench_changes
    from outrider.evaluation.decoding.live import bench_live

    regimes = tuple(regime or ())
    if live:
        bench_live(regimes, seed, models, json_file)
    elif changes is not None:
        bench_changes(changes, seed, tuple(ablate or ()), json_file)
    elif alternatives:
        bench_alternatives(regimes, variant, texts, seed, models, json_file)
    elif ablate:
        bench_policy(regimes, tuple(ablate), number, variant, texts, seed, models, json_file)
    elif number is not None:
        bench_random(number, variant, texts, seed, json_file)
    else:
        bench_decoding(
            *(regimes, texts, seed, models, json_file, plots, ablations),
            drafters=drafters,
            round_trips_ms=ROUND_TRIPS_MS if round_trips else (),
        )


@app.command("idle", epilog="Example:  outrider bench idle --seconds 30 --json idle.json")
def bench_idle(
    seconds: Annotated[float, typer.Option(min=5.0, help="Duration of the measurement, in seconds.")] = 20.0,
    json_file: Json = None,
    explain: Explain = False,
) -> None:
    """Measure each node's share of a core while the sensors publish and no goal runs."""
    from outrider.evaluation.robot.bench_idle import bench_idle

    bench_idle(seconds, json_file)


@app.command("drafting", epilog="Example:  outrider bench drafting --episodes 8 --json drafting.json")
def bench_drafting(
    episodes: Annotated[int, typer.Option(min=1, help="Number of whole searches.")] = 8,
    frames: Frames = 60,
    questions: Annotated[int, typer.Option(min=1, help="Number of questions to a household's memory.")] = 40,
    num_draft_tokens: Annotated[
        int, typer.Option(min=1, max=64, help="Tokens drafted per verification.")
    ] = 8,
    seed: Seed = 0,
    json_file: Json = None,
    plots: Plots = None,
    models: Models = None,
    explain: Explain = False,
) -> None:
    """Measure tokens per verification with drafts from earlier text, with and without a draft model."""
    from outrider.evaluation.pair.drafting import bench_drafting

    bench_drafting(episodes, frames, questions, num_draft_tokens, seed, models, json_file, plots)


@app.command("serving", epilog="Example:  outrider bench serving --json serving.json")
def bench_serving(
    frames: Annotated[int, typer.Option(min=8, help="Number of held-out frames that the robots see.")] = 32,
    seed: Seed = 0,
    json_file: Json = None,
    plots: Plots = None,
    models: Models = None,
    explain: Explain = False,
) -> None:
    """Measure throughput, latency, fairness and API cost of many robots on one verifier."""
    from outrider.evaluation.serving.bench import bench_serving

    bench_serving(frames, seed, models, json_file, plots)


@app.command("fleets", epilog="Example:  outrider bench fleets --robots 8 --robots 32 --json fleets.json")
def bench_fleets(
    robots: Annotated[list[int] | None, typer.Option(min=1, max=64, help="Fleet size; repeatable.")] = None,
    seed: Seed = 0,
    json_file: Json = None,
    explain: Explain = False,
) -> None:
    """Compare drafts at both ends with all other ways to serve a fleet, each tuned, on a published server."""
    from outrider.evaluation.decoding.published_server import FLEET_SIZES
    from outrider.evaluation.serving.fleets_bench import bench_fleets

    bench_fleets(robots or FLEET_SIZES, seed, json_file)


@app.command("memory", epilog="Example:  outrider bench memory --json memory.json")
def bench_memory(
    records: Annotated[int, typer.Option(min=1, help="Records in the searched store.")] = 50_000,
    kills: Annotated[int, typer.Option(min=0, help="Number of kills of a writing process.")] = 100,
    seed: Seed = 0,
    encrypted: Annotated[bool, typer.Option("--encrypted", help="Use encrypted stores.")] = False,
    json_file: Json = None,
    explain: Explain = False,
) -> None:
    """Measure whether the memory finds what it was told, how fast, and whether it survives kill -9."""
    from outrider.evaluation.robot.bench_memory import bench_memory

    bench_memory(records, kills, seed, encrypted, json_file)


@app.command("models", epilog="Example:  outrider bench models --frames 20 --json models.json")
def bench_models(
    frames: Frames = 20,
    seed: Seed = 0,
    json_file: Json = None,
    plots: Plots = None,
    graph_layers: Annotated[
        int, typer.Option(min=2, help="Layers of Qwen2-VL-2B's width that static graphs are measured on.")
    ] = 12,
    device: Annotated[
        Literal["cpu", "cuda"],
        typer.Option(help="Device of a target of Qwen2-VL-7B's width.", callback=checked(checks.device)),
    ] = "cpu",
    step_layers: Annotated[
        int | None, typer.Option(min=2, help="Layers of that target; all 28 on a GPU, else 3 by default.")
    ] = None,
    models: Models = None,
    explain: Explain = False,
) -> None:
    """Measure a draft step, a verification with exits, quantized weights and static graphs, as ratios."""
    from outrider.evaluation.models.bench import bench_models

    bench_models(frames, seed, models, json_file, plots, graph_layers, device, step_layers)


@app.command("weights", epilog="Example:  outrider bench weights --target-precision int8 --json weights.json")
def bench_weights(
    context: typer.Context,
    prompts: Prompts = 8,
    tokens: Annotated[int, typer.Option(min=2, max=128, help="Tokens per text.")] = 24,
    target: PublishedTarget = "1.5b",
    target_precision: Precision = "bf16",
    draft_precision: Precision = "bf16",
    temperature: Temperature = 0.0,
    seed: Seed = 0,
    network: Annotated[
        list[str] | None,
        typer.Option(
            help='Network: "20 ms", "100 ms", wifi6, lte or blackout; repeatable; all by default.',
            callback=checked(checks.network),
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Only measure in real time over sockets and emulated links.")
    ] = False,
    run: Run = None,
    json_file: Json = None,
    explain: Explain = False,
) -> None:
    """Measure published language models, 1.5B as target and 0.5B as draft; `make weights` downloads them."""
    only_with(context, "--live", "--run")
    from outrider.evaluation.weights.bench import WeightsBench, bench_live, bench_weights

    bench = WeightsBench(
        *(prompts, tokens, target, target_precision, draft_precision, temperature, seed),
        network_names=tuple(network or ()),
    )
    if live:
        bench_live(bench, run, json_file)
    else:
        bench_weights(bench, json_file)
