# SPDX-License-Identifier: Apache-2.0
"""`outrider relay`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command(
    epilog="Example:  outrider relay --endpoint tcp://0.0.0.0:5758 --key-file keys/verifier.key "
    "--host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem"
)
def relay(
    key_file: Annotated[
        Path, typer.Option(help="verifier.key of `outrider keys`: the robots that are let in.")
    ],
    endpoint: Annotated[str, typer.Option(help="Where robots dial in.")] = "tcp://127.0.0.1:5758",
    host: Annotated[
        str, typer.Option(help="Address of the pages; 0.0.0.0 for all, where a login is asked for.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="TCP port of the pages; 0 for a free one.")
    ] = 8090,
    login: Annotated[bool, typer.Option("--login", help="Ask for the token on the loopback too.")] = False,
    token_file: Annotated[
        str, typer.Option(help="File of the login token, made where missing; ~/.outrider/relay.token.")
    ] = "",
    tls_cert: Annotated[str, typer.Option(help="Certificate to serve https with.")] = "",
    tls_key: Annotated[str, typer.Option(help="Key of the certificate.")] = "",
) -> None:
    """Consoles of robots that open no port: they dial in here with their keys, and people open them here."""
    from outrider.console.server import ConsoleSettings
    from outrider.runtime.wiring.console_relay import RELAY_TOKEN_FILE, run_relay

    token = token_file or str(RELAY_TOKEN_FILE)
    run_relay(endpoint, key_file, ConsoleSettings(host, port, login, token, tls_cert, tls_key))
