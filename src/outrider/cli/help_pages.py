# SPDX-License-Identifier: Apache-2.0
"""Help pages that are whole in any terminal and in a pipe: lines end between words, and nothing is cut."""

from __future__ import annotations

import inspect
import re
import shutil
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from outrider.cli.checks import check_typed
from outrider.core.files.given_file import in_home
from outrider.core.files.writing import check_not_read

WIDEST, NARROWEST = 80, 20
TWO_COLUMN_WIDTH = 72
"""Characters of a line from which on many meanings stand beside what they explain."""
INDENT = 2
_Formatter: Any = typer.Context.formatter_class


class HelpPage(_Formatter):
    """The text of a help page, for the width of the terminal; only a word that is longer passes its edge."""

    def __init__(self) -> None:
        columns = shutil.get_terminal_size((WIDEST, 24)).columns
        super().__init__(width=max(NARROWEST, min(WIDEST, columns)))

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Adds how a command is called."""
        self.write(_wrapped(f"{prefix or 'Usage: '}{prog} {args}".rstrip(), self.width, "", " " * 4))

    def write_text(self, text: str) -> None:
        """Adds paragraphs, which have an empty line between."""
        indent = " " * self.current_indent
        paragraphs = [" ".join(part.splitlines()) for part in text.strip().split("\n\n")]
        self.write("\n".join(_wrapped(part, self.width, indent, indent) for part in paragraphs))

    def write_dl(self, rows: Sequence[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Adds terms with their meanings, beside a term where it is short and else below it."""
        longest = max((len(term) for term, _ in rows), default=0)
        term_width = self.width * 3 // 8 if self.width >= TWO_COLUMN_WIDTH else self.width // 4
        indent = " " * self.current_indent
        meaning_indent = indent + " " * (min(longest, term_width) + INDENT)
        for term, meaning in rows:
            fits_in_line = len(indent + term) + INDENT <= len(meaning_indent)
            if fits_in_line:
                first = (indent + term).ljust(len(meaning_indent))
                self.write(_wrapped(meaning, self.width, first, meaning_indent))
            else:
                self.write(_wrapped(term, self.width, indent, indent + " " * INDENT))
                self.write(_wrapped(meaning, self.width, meaning_indent, meaning_indent))


class WholeCommand(TyperCommand):
    """A command with a `HelpPage`, that never writes its figures over what it reads."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Returns what is left of the arguments. Raises BadParameter and ConfigError: see
        `check_typed` and `in_home`.
        """
        if not ctx.resilient_parsing:
            args = [_with_home(word) for word in args]
            check_typed(self, ctx, args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Returns what the command does. Raises ConfigError where --json names what it reads."""
        read = [value for name, value in ctx.params.items() if name != "json_file"]
        check_not_read(ctx.params.get("json_file"), read)
        return super().invoke(ctx)

    def get_help(self, ctx: Any) -> str:
        """The text of the help page."""
        return _page(ctx, self.format_help)


class WholeGroup(TyperGroup):
    """A group of commands with a `HelpPage`, which says of each command what it does."""

    def get_help(self, ctx: Any) -> str:
        """The text of the help page."""
        return _page(ctx, self.format_help)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Adds each command with the first sentence of its help."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(limit=len(command.help or "")))
                    for name, command in self.commands.items()
                    if not command.hidden
                ]
            )


class Commands(typer.Typer):
    """Commands whose help pages are whole."""

    def __init__(self, *, cls: type[WholeGroup] = WholeGroup, **settings: Any) -> None:
        super().__init__(cls=cls, rich_markup_mode=None, **settings)

    def command(  # type: ignore[override]
        self, name: str | None = None, *, cls: type[WholeCommand] = WholeCommand, **settings: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """The decorator that makes a function a command. Its annotations are read once, not at each use."""
        decorator = super().command(name, cls=cls, **settings)

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            function.__annotations__ = inspect.get_annotations(function, eval_str=True)
            return decorator(function)

        return decorate


def _with_home(word: str) -> str:
    """A word of the command line, with the home folder for the `~` of `~/file` and of `--option=~/file`."""
    option, sign, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return f"{option}{sign}{in_home(value)}" if re.match(r"~$|~([A-Za-z_][\w.-]*)?/", value) else word


def _page(context: Any, format_help: Callable[[Any, Any], None]) -> str:
    page = HelpPage()
    format_help(context, page)
    return str(page.getvalue()).rstrip("\n")


def _wrapped(text: str, width: int, first: str, rest: str) -> str:
    """The text in lines that end between words, each with a line end; `first` and `rest` begin them."""
    whole: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    lines = textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, **whole)
    return "".join(f"{line}\n" for line in lines or [first.rstrip()])
