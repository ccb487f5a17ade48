# SPDX-License-Identifier: Apache-2.0
"""The commands of a run: demo, record, replay, console."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from outrider.cli import checks
from outrider.cli.checks import check_login, checked, not_with, only_with, refuse
from outrider.cli.help_pages import Commands
from outrider.cli.options import (
    Drafters,
    Json,
    KeyFile,
    Legs,
    Link,
    Models,
    Motion,
    Namespace,
    Placement,
    RequiredObject,
    SamplingSeed,
    StoreKey,
    Strategy,
    Temperature,
    TopK,
    TopP,
)
from outrider.cli.sentences import confirmed
from outrider.cli.usage_hints import SentenceCommand
from outrider.core.files.journal_files import JOURNAL_SUFFIX

app = Commands()
Relay = Annotated[
    str,
    typer.Option(
        help="Also serve the console through the relay at tcp://HOST:5758.", callback=checked(checks.endpoint)
    ),
]
Speech = Annotated[
    Literal["moonshine", "whisper"] | None,
    typer.Option(help="Speech recogniser, such as moonshine (extra `voice`); none by default."),
]
Voice = Annotated[
    str,
    typer.Option(
        help="Piper voice (.onnx file) for spoken answers; espeak-ng by default.",
        callback=checked(checks.voice),
    ),
]
RelayKey = Annotated[
    str, typer.Option(help="This robot's key file for the relay.", callback=checked(checks.robot_key))
]
NODE_OPTIONS = (
    *("--endpoint", "--link", "--motion", "--store", "--store-key-file"),
    *("--real-time-factor", "--record", "--console", "--port", "--namespace"),
)
"""Options of a demo that only nodes have."""
DECODING_OPTIONS = (
    *("--strategy", "--drafters", "--temperature", "--top-p", "--top-k", "--sampling-seed"),
    *("--endpoint", "--key-file", "--link", "--models"),
)
"""Options of a replay that decodes."""
RunningVerifier = Annotated[
    str | None,
    typer.Option(
        help="Endpoint of a running verifier; by default one is started.", callback=checked(checks.endpoint)
    ),
]


@app.command(
    cls=SentenceCommand,
    epilog='Example:  outrider demo "go to the blue chair" --placement other_room --seed 7',
)
def demo(
    context: typer.Context,
    instruction: Annotated[str, typer.Argument(help="The instruction.")] = "find the silver bottle",
    out: Annotated[Path, typer.Option(help="Folder for the report, film, map and logs.")] = Path("out/demo"),
    strategy: Strategy = "outrider",
    motion: Annotated[
        Motion | None,
        typer.Option(
            help=(
                "continuous: the robot takes the next picture while it moves (the default); stepwise: while "
                "it stands."
            ),
            show_default=False,
        ),
    ] = None,
    drafters: Drafters = "model,suffix",
    temperature: Temperature = 0.0,
    top_p: TopP = 1.0,
    top_k: TopK = 0,
    sampling_seed: SamplingSeed = 0,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=2**31 - 1, help="Seed of the home; 1 by default.", show_default=False),
    ] = None,
    placement: Annotated[
        Placement | None,
        typer.Option(help="Where the target is at the start; hidden by default.", show_default=False),
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(
            help="Endpoint of the verifier that is started; a free local port by default.",
            callback=checked(checks.endpoint),
        ),
    ] = None,
    link: Link = None,
    holds: Annotated[
        str | None,
        typer.Option(
            help="Object that the home must contain; by default what the instruction names.",
            callback=checked(checks.thing),
        ),
    ] = None,
    store: Annotated[
        str, typer.Option(help="File of the memory store; by default an empty one beside the report.")
    ] = "",
    store_key_file: StoreKey = "",
    models: Models = None,
    real_time_factor: Annotated[
        float, typer.Option(min=0.1, max=10.0, help="Simulated seconds per second of real time.")
    ] = 1.0,
    record: Annotated[Path | None, typer.Option(help="Record the run as this MCAP file.")] = None,
    legs: Legs = False,
    console: Annotated[
        bool, typer.Option("--console", help="Serve the console, to watch and steer the robot in a browser.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="TCP port of the console; 0 for a free one, 8088 by default.",
            show_default=False,
        ),
    ] = None,
    video: Annotated[bool, typer.Option("--video/--no-video", help="Record a video of the run.")] = True,
    animation: Annotated[
        Path | None,
        typer.Option(help="Also write an animation of the run, a .webp file of at most 3 MB."),
    ] = None,
    namespace: Namespace = "",
    no_ros: Annotated[
        bool,
        typer.Option("--no-ros", help="Run both models and the simulation in this process, without ROS 2."),
    ] = False,
) -> None:
    """Run the whole edge-cloud graph with a simulated robot that finds what it is told to find."""
    not_with(context, "--no-ros", *NODE_OPTIONS)
    only_with(context, "--console", "--port")
    from outrider.runtime.mission.words import check_for_pair

    # At once; the rest takes longer to import.
    instruction = confirmed(instruction, lambda said: check_for_pair(said, models, remembers=bool(store)))
    if no_ros:
        from outrider.decoding.config import DecodingConfig, drafter_names
        from outrider.runtime.no_ros.one_process import run_in_one_process

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
    from outrider.runtime.processes.demo import run_demo

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
    file: Annotated[
        Path, typer.Argument(help="MCAP file to write; an existing file is not overwritten.")
    ] = Path("run.mcap"),
    namespace: Namespace = "",
) -> None:
    """Record what the nodes of this ROS domain publish, until interrupted."""
    from outrider.runtime.node_graph.namespaces import checked_namespace
    from outrider.runtime.processes.supervisor import run_recorder

    raise typer.Exit(run_recorder(file, checked_namespace(namespace)))


@app.command(epilog="Example:  outrider replay run.mcap --strategy sd --link lte")
def replay(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(help="MCAP file, rosbag2 folder of MCAP files, or journal (.journal)."),
    ],
    strategy: Strategy = "outrider",
    drafters: Drafters = "model,suffix",
    temperature: Temperature = 0.0,
    top_p: TopP = 1.0,
    top_k: TopK = 0,
    sampling_seed: SamplingSeed = 0,
    endpoint: RunningVerifier = None,
    key_file: KeyFile = None,
    journal_key: Annotated[
        Path | None, typer.Option(help="Key file of a journal; by default the one beside it.")
    ] = None,
    link: Link = None,
    models: Models = None,
    json_file: Json = None,
) -> None:
    """Decode a recorded run again, without a robot; exit status 1 if a text differs from the recorded one.

    Of a journal it proves that no line was changed or left out, or names the first that was.
    """
    only_with(context, "--endpoint", "--key-file")
    if file.name.endswith(JOURNAL_SUFFIX):
        refuse(context, "cannot go with a journal: leave one of them away", *DECODING_OPTIONS)
        from outrider.runtime.reports.journal_report import print_proof

        raise typer.Exit(0 if print_proof(file, journal_key, json_file) else 1)
    refuse(context, f"is for a journal, a file that ends in {JOURNAL_SUFFIX}", "--journal-key")
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
    context: typer.Context,
    sim: Annotated[
        bool,
        typer.Option("--sim", help="Start a simulated robot; else connect to running nodes."),
    ] = False,
    host: Annotated[
        str, typer.Option(help="Address to serve at; 0.0.0.0 for all interfaces, which requires a login.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="TCP port; 0 for a free one.")] = 8088,
    login: Annotated[bool, typer.Option("--login", help="Require the token on the loopback too.")] = False,
    token_file: Annotated[str, typer.Option(help="File with the login token, created if missing.")] = "",
    tls_cert: Annotated[str, typer.Option(help="Certificate file for HTTPS.")] = "",
    tls_key: Annotated[str, typer.Option(help="Private key file of the certificate.")] = "",
    speech: Speech = None,
    voice: Voice = "",
    relay: Relay = "",
    relay_key_file: RelayKey = "",
    namespace: Namespace = "",
    holds: RequiredObject = "silver bottle",
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of the simulated home.")] = 1,
    placement: Annotated[Placement, typer.Option(help="Where the target is at the start.")] = "hidden",
) -> None:
    """Serve the console: see the robot, command it in words, drive and stop it in a browser."""
    only_with(context, "--sim", "--holds", "--seed", "--placement")
    not_with(context, "--sim", "--namespace")
    only_with(context, "--relay", "--relay-key-file")
    check_login(context, host, login)
    from outrider.runtime.processes.teleop import run_console, run_simulated

    settings: dict[str, bool | int | float | str] = {
        "host": host,
        "port": port,
        "login": login,
        "token_file": token_file,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "speech": speech or "",
        "voice": voice,
        "relay": relay,
        "relay_key_file": relay_key_file,
    }
    if sim:
        raise typer.Exit(run_simulated(settings, {"holds": holds, "seed": seed, "placement": placement}))
    raise typer.Exit(run_console(settings, namespace))
