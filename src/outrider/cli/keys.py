# SPDX-License-Identifier: Apache-2.0
"""`outrider keys`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrider.cli.help_pages import Commands

Folder = Annotated[Path, typer.Argument(help="Folder with verifier.key and the robots' key files.")]
Robots = Annotated[list[str], typer.Argument(help="Names of robots.")]


app = Commands(
    help="Make, add, list and revoke the keys with which a verifier and its robots know each other.",
    no_args_is_help=True,
)


@app.command("make", epilog="Example:  outrider keys make keys/ --robot go2-a --robot go2-b")
def keys_make(
    folder: Annotated[Path, typer.Argument(help="Folder for the key files; none is overwritten.")],
    robot: Annotated[list[str] | None, typer.Option(help="Name of a robot; repeatable.")] = None,
) -> None:
    """Make the keys of a verifier and of its first robots."""
    from outrider.wire.keys import create_keys

    for path in create_keys(folder, tuple(robot or ["robot"])):
        typer.echo(path)


@app.command("add", epilog="Example:  outrider keys add keys/ go2-c")
def keys_add(folder: Folder, robots: Robots) -> None:
    """Make keys of more robots; a verifier that runs with this folder's verifier.key lets them in."""
    from outrider.wire.keys import add_robots

    for path in add_robots(folder, tuple(robots)):
        typer.echo(path)


@app.command("list", epilog="Example:  outrider keys list keys/")
def keys_list(folder: Folder) -> None:
    """Print the robots that the verifier lets in, with their public keys."""
    from outrider.wire.keys import SERVER_KEY_FILE, load_server_keys

    for name, public in sorted(load_server_keys(folder / SERVER_KEY_FILE).robots.items()):
        typer.echo(f"{name:24} {public}")


@app.command("revoke", epilog="Example:  outrider keys revoke keys/ go2-c")
def keys_revoke(folder: Folder, robots: Robots) -> None:
    """Let robots in no more; a verifier that runs ends their connections a second later."""
    from outrider.wire.keys import revoke_robots

    revoke_robots(folder, tuple(robots))
    typer.echo(f"revoked: {', '.join(robots)}")
