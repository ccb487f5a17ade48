# SPDX-License-Identifier: Apache-2.0
"""`outrider keys`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrider.cli.help_pages import Commands

Folder = Annotated[Path, typer.Argument(help="Folder with verifier.key and the key files of the robots.")]
Robots = Annotated[list[str], typer.Argument(help="Names of robots.")]


app = Commands(
    help=(
        "Create, add, list and revoke the keys by which a verifier and its robots authenticate each other."
    ),
    no_args_is_help=True,
)


@app.command("make", epilog="Example:  outrider keys make keys/ --robot go2-a --robot go2-b")
def keys_make(
    folder: Annotated[
        Path, typer.Argument(help="Folder for the key files; existing files are not overwritten.")
    ],
    robot: Annotated[list[str] | None, typer.Option(help="Name of a robot; repeatable.")] = None,
) -> None:
    """Create the keys of a verifier and of its first robots."""
    from outrider.wire.keys import create_keys

    for path in create_keys(folder, tuple(robot or ["robot"])):
        typer.echo(path)


@app.command("add", epilog="Example:  outrider keys add keys/ go2-c")
def keys_add(folder: Folder, robots: Robots) -> None:
    """Create keys for more robots; a running verifier with this folder's verifier.key admits them."""
    from outrider.wire.keys import add_robots

    for path in add_robots(folder, tuple(robots)):
        typer.echo(path)


@app.command("list", epilog="Example:  outrider keys list keys/")
def keys_list(folder: Folder) -> None:
    """List the robots that the verifier admits, with their public keys."""
    from outrider.wire.keys import SERVER_KEY_FILE, load_server_keys

    for name, public in sorted(load_server_keys(folder / SERVER_KEY_FILE).robots.items()):
        typer.echo(f"{name:24} {public}")


@app.command("revoke", epilog="Example:  outrider keys revoke keys/ go2-c")
def keys_revoke(folder: Folder, robots: Robots) -> None:
    """Revoke the keys of robots; a running verifier ends their connections within about a second."""
    from outrider.wire.keys import revoke_robots

    revoke_robots(folder, tuple(robots))
    typer.echo(f"revoked: {', '.join(robots)}")
