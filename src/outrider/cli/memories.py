# SPDX-License-Identifier: Apache-2.0
"""`outrider memory`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrider.cli.checks import only_with
from outrider.cli.help_pages import Commands
from outrider.cli.options import Store, StoreKey
from outrider.core.errors import ConfigError

app = Commands(
    help="Manage the robot's memories; a memory is private unless it is added as public.",
    no_args_is_help=True,
)


OnlyPrivate = Annotated[
    bool | None, typer.Option("--private/--shareable", help="Only memories of this visibility.")
]
Since = Annotated[str, typer.Option(help="Only memories of this last period, such as 30m, 12h or 7d.")]


@app.command("add", epilog='Example:  outrider memory add "my keys hang by the door"')
def memory_add(
    context: typer.Context,
    text: Annotated[str, typer.Argument(help="The text to remember.")],
    shareable: Annotated[
        bool, typer.Option("--shareable/--private", help="Whether it may leave the robot.")
    ] = False,
    at: Annotated[tuple[float, float] | None, typer.Option(help="Its position: x and y in metres.")] = None,
    home: Annotated[
        str, typer.Option(help="The home in which x and y are valid: the memory node's `home`.")
    ] = "",
    store: Store = "",
    store_key_file: StoreKey = "",
) -> None:
    """Add a memory."""
    only_with(context, "--at", "--home")
    from outrider.runtime.wiring.memory_stores import add_memory, open_memory

    with open_memory(store, store_key_file) as memory:
        typer.echo(add_memory(memory, text, shareable, at, home))


@app.command("list", epilog="Example:  outrider memory list --since 7d --private")
def memory_list(
    limit: Annotated[int, typer.Option(min=1, help="Maximum number, the newest first.")] = 20,
    private: OnlyPrivate = None,
    since: Since = "",
    store: Store = "",
    store_key_file: StoreKey = "",
) -> None:
    """List the newest memories."""
    from outrider.runtime.wiring.memory_stores import make_filter, open_known_memory, print_records

    with open_known_memory(store, store_key_file) as memory:
        print_records(memory.newest(limit, make_filter(private, since)))


@app.command("search", epilog='Example:  outrider memory search "where are my keys?"')
def memory_search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="A question or a topic.")],
    limit: Annotated[int, typer.Option(min=1, help="Maximum number, the best first.")] = 3,
    private: OnlyPrivate = None,
    since: Since = "",
    near: Annotated[
        tuple[float, float] | None, typer.Option(help="Only memories near x and y, in metres.")
    ] = None,
    radius: Annotated[float, typer.Option(min=0.0, help="Maximum distance, in metres.")] = 3.0,
    home: Annotated[str, typer.Option(help="The home in which x and y are valid.")] = "",
    store: Store = "",
    store_key_file: StoreKey = "",
) -> None:
    """Find the memories that answer a question best, by meaning and by words."""
    only_with(context, "--near", "--radius", "--home")
    from outrider.runtime.wiring.memory_stores import make_filter, open_known_memory, search_memory

    with open_known_memory(store, store_key_file) as memory:
        search_memory(memory, query, limit, make_filter(private, since, near, home, radius))


@app.command("forget", epilog="Example:  outrider memory forget 3 7")
def memory_forget(
    ids: Annotated[list[int] | None, typer.Argument(help="Ids of the records.")] = None,
    matching: Annotated[str, typer.Option(help="Delete every record that contains all of these words.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Delete everything.")] = False,
    store: Store = "",
    store_key_file: StoreKey = "",
) -> None:
    """Delete memories permanently from the file; exit status 1 if no record matches.

    Where another process reads the file, the command says so, and the bytes go once that has ended.
    """
    from outrider.runtime.wiring.memory_stores import forget_memory, open_known_memory

    if sum((bool(ids), bool(matching), everything)) != 1:
        raise ConfigError("say what to forget by one of: ids of `outrider memory list`, --matching, --all")
    with open_known_memory(store, store_key_file) as memory:
        forgotten, message = forget_memory(memory, ids or [], [matching], everything)
    typer.echo(message)
    raise typer.Exit(0 if forgotten or everything else 1)


@app.command("export", epilog="Example:  outrider memory export memories.jsonl")
def memory_export(
    file: Annotated[Path | None, typer.Argument(help="File to write; standard output by default.")] = None,
    store: Store = "",
    store_key_file: StoreKey = "",
) -> None:
    """Export all memories as lines of JSON, the oldest first; only the user can read the file."""
    from outrider.runtime.wiring.memory_stores import export_memory, open_known_memory

    with open_known_memory(store, store_key_file) as memory:
        export_memory(memory, file, store_key_file)
