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
    """Time to the verified action and to the end of the text, at 0, 20 and 100 ms one way."""
    from outrider.evaluation.pair.latency import bench_latency

    bench_latency(frames, seed, models, json_file)


@app.command("aggregation", epilog="Example:  outrider bench aggregation --json aggregation.json")
def bench_aggregation(
    regime: Annotated[
        list[str] | None,
        typer.Option(
            help="A regime of benchmarks/aggregation.yaml; repeatable; all by default.",
            callback=checked(checks.aggregation_regime),
        ),
    ] = None,
    texts: Annotated[int, typer.Option(min=1, help="Made-up texts for each figure.")] = 5,
    seed: Seed = 0,
    json_file: Json = None,
    plots: Plots = None,
    live: Annotated[bool, typer.Option("--live", help="Also in real time over sockets.")] = False,
    models: Models = None,
    explain: Explain = False,
) -> None:
    """Two peers with documents of their own write one text: DRAGON, its baselines, and the coupled rule."""
    from outrider.evaluation.aggregation.bench import bench_aggregation

    bench_aggregation(tuple(regime or ()), texts, seed, models, json_file, plots, live)


@app.command("console", epilog="Example:  outrider bench console --viewers 10 --json console.json")
def bench_console(
    viewers: Annotated[int, typer.Option(min=1, max=30, help="Pages that watch.")] = 10,
    blocks: Annotated[int, typer.Option(min=1, help="Measurements with viewers, one without between.")] = 8,
    frames: Frames = 20,
    e_stops: Annotated[int, typer.Option(min=1, help="Clicks on the emergency stop.")] = 50,
    seed: Seed = 0,
    json_file: Json = None,
    models: Models = None,
    explain: Explain = False,
) -> None:
    """What viewers cost the decoding, and how soon a click on the emergency stop stops the robot."""
    from outrider.evaluation.robot.bench_console import bench_console

    bench_console(viewers, blocks, frames, e_stops, seed, models, json_file)


@app.command("relay", epilog="Example:  outrider bench relay --trials 200 --json relay.json")
def bench_relay(
    trials: Annotated[int, typer.Option(min=1, help="Pings, stops and pictures by each way.")] = 200,
    json_file: Json = None,
    explain: Explain = False,
) -> None:
    """What a relay adds to the console: pings, the emergency stop and pictures, on the loopback."""
    from outrider.evaluation.robot.bench_relay import bench_relay

    bench_relay(trials, json_file)


@app.command("hedging", epilog="Example:  outrider bench hedging --json hedging.json")
def bench_hedging(
    texts: Annotated[
        int, typer.Option(min=100, max=100_000, help="Texts over one link, and over two.")
    ] = 1000,
    seed: Seed = 0,
    json_file: Json = None,
    explain: Explain = False,
) -> None:
    """A second verifier over another link: the time to a verified action where links or verifiers fail."""
    from outrider.evaluation.decoding.hedging import bench_hedging

    bench_hedging(texts, seed, json_file)


@app.command("decoding", epilog="Example:  outrider bench decoding --regime fsd-go2 --plots out/plots")
def bench_decoding(
    context: typer.Context,
    regime: Annotated[
        list[str] | None,
        typer.Option(
            help="A regime of benchmarks/regimes.yaml; repeatable; all by default.",
            callback=checked(checks.regime),
        ),
    ] = None,
    texts: Annotated[int, typer.Option(min=1, help="Synthetic texts of 200 tokens a regime.")] = 20,
    seed: Seed = 0,
    json_file: Json = None,
    plots: Plots = None,
    ablations: Annotated[
        bool, typer.Option("--ablations", help="Also FSD's: workers, draft length, queue orders.")
    ] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Only: in real time over sockets, with the shipped pair.")
    ] = False,
    drafters: Drafters = "model",
    ablate: Annotated[
        list[str] | None,
        typer.Option(
            help="Only: the speed without this mechanism of the policy; repeatable; or all.",
            callback=checked(checks.mechanism),
        ),
    ] = None,
    number: Annotated[
        int | None,
        typer.Option(
            "--random-regimes",
            min=1,
            max=1000,
            help="Only: so many random conditions, on which nothing was tuned.",
        ),
    ] = None,
    round_trips: Annotated[
        bool, typer.Option("--round-trips", help="Also: as the round trip alone changes, 0 to 600 ms.")
    ] = False,
    alternatives: Annotated[
        bool,
        typer.Option("--alternatives", help="Only: against the best alternative, all tuned."),
    ] = False,
    variant: Annotated[
        Literal["rows", "full-head-exits", "whole-forwards", "fewer-second-choices"] | None,
        typer.Option(help="Of these three: other costs."),
    ] = None,
    changes: Annotated[
        int | None,
        typer.Option("--changes", help="Only: so many sessions through changes of link, server and drafts."),
    ] = None,
    models: Models = None,
    explain: Explain = False,
) -> None:
    """Every decoding strategy under the conditions of the papers, beside their formulas and measurements."""
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
    seconds: Annotated[float, typer.Option(min=5.0, help="How long to measure, in seconds.")] = 20.0,
    json_file: Json = None,
    explain: Explain = False,
) -> None:
    """What every node takes of a core while the sensors publish and no goal runs: what a battery pays."""
    from outrider.evaluation.robot.bench_idle import bench_idle

    bench_idle(seconds, json_file)


@app.command("drafting", epilog="Example:  outrider bench drafting --episodes 8 --json drafting.json")
def bench_drafting(
    episodes: Annotated[int, typer.Option(min=1, help="How many whole searches.")] = 8,
    frames: Frames = 60,
    questions: Annotated[int, typer.Option(min=1, help="How many questions to a household's memory.")] = 40,
    num_draft_tokens: Annotated[
        int, typer.Option(min=1, max=64, help="Tokens drafted for a verification.")
    ] = 8,
    seed: Seed = 0,
    json_file: Json = None,
    plots: Plots = None,
    models: Models = None,
    explain: Explain = False,
) -> None:
    """Tokens a verification with drafts retrieved from earlier text, alone and with the draft model's."""
    from outrider.evaluation.pair.drafting import bench_drafting

    bench_drafting(episodes, frames, questions, num_draft_tokens, seed, models, json_file, plots)


@app.command("serving", epilog="Example:  outrider bench serving --json serving.json")
def bench_serving(
    frames: Annotated[int, typer.Option(min=8, help="How many held-out frames the robots see.")] = 32,
    seed: Seed = 0,
    json_file: Json = None,
    plots: Plots = None,
    models: Models = None,
    explain: Explain = False,
) -> None:
    """Many robots on one verifier: throughput, latency, fairness, and what an API would cost."""
    from outrider.evaluation.serving.bench import bench_serving

    bench_serving(frames, seed, models, json_file, plots)


@app.command("fleets", epilog="Example:  outrider bench fleets --robots 8 --robots 32 --json fleets.json")
def bench_fleets(
    robots: Annotated[list[int] | None, typer.Option(min=1, max=64, help="Of a fleet; repeatable.")] = None,
    seed: Seed = 0,
    json_file: Json = None,
    explain: Explain = False,
) -> None:
    """Fleets on a published server: drafts at both ends, and every other way to serve them, tuned."""
    from outrider.evaluation.decoding.published_server import FLEET_SIZES
    from outrider.evaluation.serving.fleets_bench import bench_fleets

    bench_fleets(robots or FLEET_SIZES, seed, json_file)


@app.command("memory", epilog="Example:  outrider bench memory --json memory.json")
def bench_memory(
    records: Annotated[int, typer.Option(min=1, help="Records of the store that is searched.")] = 50_000,
    kills: Annotated[int, typer.Option(min=0, help="How often a writing process is killed.")] = 100,
    seed: Seed = 0,
    encrypted: Annotated[bool, typer.Option("--encrypted", help="With stores that are encrypted.")] = False,
    json_file: Json = None,
    explain: Explain = False,
) -> None:
    """Whether the memory finds what was told, how fast, and whether it survives kill -9."""
    from outrider.evaluation.robot.bench_memory import bench_memory

    bench_memory(records, kills, seed, encrypted, json_file)


@app.command("models", epilog="Example:  outrider bench models --frames 20 --json models.json")
def bench_models(
    frames: Frames = 20,
    seed: Seed = 0,
    json_file: Json = None,
    plots: Plots = None,
    graph_layers: Annotated[
        int, typer.Option(min=2, help="Layers of Qwen2-VL-2B's width that static graphs are tried on.")
    ] = 12,
    device: Annotated[
        Literal["cpu", "cuda"],
        typer.Option(help="Where a target of Qwen2-VL-7B's width is tried.", callback=checked(checks.device)),
    ] = "cpu",
    step_layers: Annotated[
        int | None, typer.Option(min=2, help="Layers of that target; all 28 on a GPU, else 3 by default.")
    ] = None,
    models: Models = None,
    explain: Explain = False,
) -> None:
    """A draft step, a verification with exits, weights of fewer bits and static graphs, as ratios."""
    from outrider.evaluation.models.bench import bench_models

    bench_models(frames, seed, models, json_file, plots, graph_layers, device, step_layers)


@app.command("weights", epilog="Example:  outrider bench weights --target-precision int8 --json weights.json")
def bench_weights(
    context: typer.Context,
    prompts: Prompts = 8,
    tokens: Annotated[int, typer.Option(min=2, max=128, help="Tokens of each text.")] = 24,
    target: PublishedTarget = "1.5b",
    target_precision: Precision = "bf16",
    draft_precision: Precision = "bf16",
    temperature: Temperature = 0.0,
    seed: Seed = 0,
    network: Annotated[
        list[str] | None,
        typer.Option(
            help='"20 ms", "100 ms", wifi6, lte or blackout; repeatable; all by default.',
            callback=checked(checks.network),
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Only: in real time over sockets and emulated links.")
    ] = False,
    run: Run = None,
    json_file: Json = None,
    explain: Explain = False,
) -> None:
    """Published language models, 1.5B as target and 0.5B as draft; `make weights` brings them."""
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
