# SPDX-License-Identifier: Apache-2.0
"""The commands of servers and what they need: verifier, relay, graphs, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from outrider.cli import checks
from outrider.cli.checks import check_login, checked, only_with
from outrider.cli.help_pages import Commands
from outrider.cli.options import AnswerModel, Endpoint, KeyFile
from outrider.core.errors import ConfigError
from outrider.core.files.terminal import loading
from outrider.core.model_options import DEFAULT_MAX_LENGTH, MAX_THREADS

app = Commands()


@app.command(epilog="Example:  outrider verifier --endpoint tcp://127.0.0.1:5757 --model models/target")
def verifier(
    context: typer.Context,
    endpoint: Annotated[str, typer.Option(help="Endpoint to listen on.")] = "tcp://127.0.0.1:5757",
    model: Annotated[
        str,
        typer.Option(
            help="The target model: a folder, a GGUF file, or a name such as Qwen/Qwen2-VL-7B-Instruct.",
            callback=checked(checks.model),
        ),
    ] = "models/target",
    max_sessions: Annotated[int, typer.Option(min=1, help="Maximum number of robots at a time.")] = 8,
    threads: Annotated[
        int, typer.Option(min=1, max=MAX_THREADS, help="Number of threads for the model's arithmetic.")
    ] = 1,
    precision: Annotated[
        Literal["fp32", "bf16", "int8", "int4"], typer.Option(help="Precision of the weights.")
    ] = "fp32",
    max_length: Annotated[
        int, typer.Option(min=64, help="Maximum length of prompt, image and text together, in tokens.")
    ] = DEFAULT_MAX_LENGTH,
    device: Annotated[
        Literal["cpu", "cuda"],
        typer.Option(help="Device of the model.", callback=checked(checks.device)),
    ] = "cpu",
    constrained: Annotated[
        bool, typer.Option("--constrained", help="Constrain every text to begin with a known action.")
    ] = False,
    key_file: Annotated[
        Path | None, typer.Option(help="The verifier's key file (CURVE) for the link: verifier.key.")
    ] = None,
    corpus: Annotated[
        str,
        typer.Option(help="Also answer questions together with robots, from this corpus."),
    ] = "",
    answer_model: AnswerModel = "quotes",
    replicas: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of verifiers behind the endpoint, by Ray Serve (extra `replicas`).",
            callback=checked(checks.replicas),
        ),
    ] = 1,
    tokens_per_s: Annotated[
        float,
        typer.Option(
            min=0.1, help="Maximum number of tokens verified per second and robot, accepted or not."
        ),
    ] = float("inf"),
    metrics_port: Annotated[
        int,
        typer.Option(min=0, max=65535, help="Port of a metrics page for Prometheus on 127.0.0.1; 0: none."),
    ] = 0,
    draft_model: Annotated[
        str,
        typer.Option(
            help=(
                "Draft model in the cloud: a folder or name, or `head` for the target's own head; none by "
                "default."
            ),
            callback=checked(checks.cloud_draft),
        ),
    ] = "",
    draft_device: Annotated[
        str,
        typer.Option(
            help="Separate device for the draft model, which then drafts while the target verifies.",
            callback=checked(checks.device),
        ),
    ] = "",
) -> None:
    """Serve the target model to robots until interrupted."""
    from outrider.runtime.common.paths import model_folder
    from outrider.runtime.wiring.binding import check_binding

    only_with(context, "--corpus", "--answer-model")
    only_with(context, "--draft-model", "--draft-device")
    if replicas > 1 and (corpus or draft_model):
        raise ConfigError("--corpus and --draft-model go with one verifier: leave --replicas away")
    check_binding(endpoint, key_file, metrics_port)
    if corpus:
        from outrider.runtime.wiring.corpora import open_corpus

        open_corpus(corpus).close()
    with loading("the engine"):
        from outrider.runtime.wiring.decoders import serve  # seconds to import

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
        draft_model=draft_model,
        draft_device=draft_device,
    )


@app.command(
    epilog="Example:  outrider relay --endpoint tcp://0.0.0.0:5758 --key-file keys/verifier.key "
    "--host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem"
)
def relay(
    context: typer.Context,
    key_file: Annotated[
        Path,
        typer.Option(
            help="verifier.key of `outrider keys`, which lists the admitted robots.",
            callback=checked(checks.server_key),
        ),
    ],
    endpoint: Annotated[
        str,
        typer.Option(help="Endpoint that robots connect to.", callback=checked(checks.listening_endpoint)),
    ] = "tcp://127.0.0.1:5758",
    host: Annotated[
        str, typer.Option(help="Address of the pages; 0.0.0.0 for all interfaces, which requires a login.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="TCP port of the pages; 0 for a free one.")
    ] = 8090,
    login: Annotated[bool, typer.Option("--login", help="Require the token on the loopback too.")] = False,
    token_file: Annotated[
        str,
        typer.Option(
            help="File with the login token, created if missing; ~/.outrider/relay.token by default."
        ),
    ] = "",
    tls_cert: Annotated[str, typer.Option(help="Certificate file for HTTPS.")] = "",
    tls_key: Annotated[str, typer.Option(help="Private key file of the certificate.")] = "",
) -> None:
    """Serve the consoles of robots behind firewalls, which connect here with their keys."""
    check_login(context, host, login)
    from outrider.console.server import ConsoleSettings
    from outrider.runtime.wiring.console_relay import RELAY_TOKEN_FILE, run_relay

    token = token_file or str(RELAY_TOKEN_FILE)
    run_relay(endpoint, key_file, ConsoleSettings(host, port, login, token, tls_cert, tls_key))


@app.command(epilog="Example:  outrider graphs Qwen/Qwen2-VL-2B-Instruct --precision int4 --max-length 2048")
def graphs(
    model: Annotated[
        str,
        typer.Argument(
            help="The draft model: a folder or a name on the Hub.", callback=checked(checks.model)
        ),
    ] = "models/draft",
    precision: Annotated[
        Literal["fp32", "bf16", "int8", "int4"], typer.Option(help="Precision of the weights.")
    ] = "fp32",
    provider: Annotated[
        Literal["cpu", "cuda", "tensorrt", "openvino", "qnn"],
        typer.Option(help="Device on which onnxruntime runs them."),
    ] = "cpu",
    max_length: Annotated[
        int, typer.Option(min=64, help="Maximum length of prompt, image and text together, in tokens.")
    ] = DEFAULT_MAX_LENGTH,
    threads: Annotated[
        int, typer.Option(min=1, max=MAX_THREADS, help="Number of threads for the arithmetic.")
    ] = 1,
) -> None:
    """Build a draft model's static graphs in advance, for a robot with draft_runtime:=graphs."""
    from outrider.runtime.wiring.prebuild_graphs import build_graphs

    build_graphs(model, precision, provider, max_length, threads)


@app.command(epilog="Example:  outrider doctor --endpoint tcp://127.0.0.1:5757")
def doctor(
    endpoint: Endpoint = "tcp://127.0.0.1:5757",
    key_file: KeyFile = None,
) -> None:
    """Check the installation, the ROS graph and the link to the verifier, and say what to do."""
    from outrider.runtime.diagnosis.doctor import run

    raise typer.Exit(run(endpoint, key_file))
