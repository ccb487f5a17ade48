# SPDX-License-Identifier: Apache-2.0
"""`outrider graphs`: builds and profiles a draft's static graphs in advance, as the robot will use them."""

from __future__ import annotations

from rich.table import Table

from outrider.core.files.terminal import loading, make_console
from outrider.core.model_options import Precision
from outrider.runtime.common.paths import model_folder


def build_graphs(model: str, precision: Precision, provider: str, max_length: int, threads: int) -> None:
    """Build the missing graphs, run each block, and print its times.

    Raises ModelError, OutOfMemoryError, and ConfigError for a provider that is not available.
    """
    folder = model_folder(model)
    with loading(f"{model}, and building what is not there yet"):
        from outrider.models import load_graph_model  # takes seconds to import

        language = load_graph_model(
            folder, threads=threads, max_length=max_length, precision=precision, provider=provider
        ).language
    times, console = language.profile, make_console()
    table = Table(title=f"{model} in {precision} on {provider}: ms of each block")
    rows = language.blocks.sizes
    for heading in (
        "layers",
        f"load graph for {rows.prefill_rows} tokens",
        f"load graph for {rows.decode_rows}",
        f"{rows.prefill_rows} tokens on the first",
        "on the second",
    ):
        table.add_column(heading, justify="right", overflow="fold")
    of_blocks = times.load_prefill, times.load_decode, times.chunk_prefill, times.chunk_decode
    for layers, *seconds in zip(rows.layers, *of_blocks, strict=True):
        table.add_row(str(layers), *(f"{1e3 * duration_s:.1f}" for duration_s in seconds))
    console.print(table)
    held_mb = sum(path.stat().st_size for path in language.folder.rglob("*") if path.is_file()) / 2**20
    console.print(f"{held_mb:.1f} MB in {language.folder}", soft_wrap=True)
