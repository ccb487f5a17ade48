# SPDX-License-Identifier: Apache-2.0
"""`outrider mcp`."""

from __future__ import annotations

from typing import Annotated

import typer

from outrider.cli import checks
from outrider.cli.checks import checked, not_with, only_with
from outrider.cli.help_pages import Commands
from outrider.cli.options import DraftModel, Placement, RequiredObject

app = Commands()


@app.command(
    epilog="Example:  outrider mcp --simulation, as the command that an agent starts its server with"
)
def mcp(
    context: typer.Context,
    console: Annotated[
        str, typer.Option(help="Address of the robot's console.", callback=checked(checks.console))
    ] = "http://127.0.0.1:8088/",
    simulation: Annotated[
        bool, typer.Option("--simulation", help="Use a simulated robot in this process instead, without ROS.")
    ] = False,
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP, not stdin and stdout.")] = False,
    host: Annotated[str, typer.Option(help="Address to serve HTTP at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="TCP port for HTTP; 0 for a free one.")] = 8089,
    token_file: Annotated[
        str, typer.Option(help="File of the agents' token; by default ~/.outrider/agents.token.")
    ] = "",
    tls_cert: Annotated[str, typer.Option(help="Certificate file for HTTPS.")] = "",
    tls_key: Annotated[str, typer.Option(help="Private key file of the certificate.")] = "",
    console_token_file: Annotated[str, typer.Option(help="Login token of the console, if it asks.")] = "",
    name: Annotated[
        str, typer.Option(help="Name of the agent in the console.", callback=checked(checks.agent_name))
    ] = "mcp",
    private: Annotated[
        bool, typer.Option("--private", help="Give the agent access to the robot's private memories.")
    ] = False,
    model: DraftModel = "models/draft",
    holds: RequiredObject = "silver bottle",
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of the simulated home.")] = 1,
    placement: Annotated[Placement, typer.Option(help="Where the target is at the start.")] = "hidden",
) -> None:
    """Let an agent speak to the robot in words, by the Model Context Protocol (extra `mcp`)."""
    only_with(context, "--http", "--host", "--port", "--token-file", "--tls-cert", "--tls-key")
    only_with(context, "--simulation", "--holds", "--seed", "--placement")
    not_with(context, "--simulation", "--console", "--console-token-file")
    from outrider.runtime.no_ros.agents import AgentOptions, serve_agents

    serve_agents(
        AgentOptions(console, console_token_file, model, name, private),
        {"holds": holds, "seed": seed, "placement": placement} if simulation else None,
        {"host": host, "port": port, "token_file": token_file, "tls_cert": tls_cert, "tls_key": tls_key}
        if http
        else None,
    )
