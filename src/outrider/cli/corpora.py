# SPDX-License-Identifier: Apache-2.0
"""`outrider corpus`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrider.cli.help_pages import Commands
from outrider.cli.options import Corpus

app = Commands(help="Manage the general knowledge that a verifier answers from.", no_args_is_help=True)


@app.command("fill", epilog="Example:  outrider corpus fill handbook/")
def corpus_fill(
    source: Annotated[
        Path, typer.Argument(exists=True, help="Folder of .txt and .md files, or a single file.")
    ],
    corpus: Corpus = "",
) -> None:
    """Add texts, paragraph by paragraph; duplicates are left out."""
    from outrider.runtime.wiring.corpora import fill_corpus, opened_corpus

    with opened_corpus(corpus, may_make=True) as opened:
        typer.echo(fill_corpus(opened, source))


@app.command("search", epilog='Example:  outrider corpus search "where are keys cut?"')
def corpus_search(
    query: Annotated[str, typer.Argument(help="The question.")],
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of passages.")] = 3,
    corpus: Corpus = "",
) -> None:
    """Find the passages that answer a question best."""
    from outrider.runtime.wiring.corpora import opened_corpus

    with opened_corpus(corpus) as opened:
        passages = [f"{found.similarity:.2f}  {found.record.text}" for found in opened.recall(query, limit)]
        typer.echo("\n".join(passages) or "no passage fits")


@app.command("list")
def corpus_list(corpus: Corpus = "") -> None:
    """List all passages, one per line."""
    from outrider.runtime.wiring.corpora import opened_corpus

    with opened_corpus(corpus) as opened:
        typer.echo("\n".join(opened.passages()) or "the corpus is empty: fill it by `outrider corpus fill`")


@app.command("forget", epilog="Example:  outrider corpus forget harbour kiosk")
def corpus_forget(
    words: Annotated[
        list[str], typer.Argument(help="Delete every passage that contains all of these words.")
    ],
    corpus: Corpus = "",
) -> None:
    """Delete passages permanently; exit status 1 if no passage matches."""
    from outrider.runtime.wiring.corpora import opened_corpus

    with opened_corpus(corpus) as opened:
        forgotten = opened.forget_matching(" ".join(words))
    typer.echo(f"forgot {forgotten} {'passage' if forgotten == 1 else 'passages'}")
    raise typer.Exit(0 if forgotten else 1)
