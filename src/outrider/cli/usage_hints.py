# SPDX-License-Identifier: Apache-2.0
"""What to type in place of likely slips: a sentence without its command, or without quotation marks."""

from __future__ import annotations

from typing import Any

from outrider.cli.help_pages import WholeCommand, WholeGroup

IN_PLACE_OF = {"help": "outrider -h", "version": "outrider --version"}


class HintingGroup(WholeGroup):
    """The commands; what is none of them is taken for a sentence to the robot."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Returns the command that is named; the error for an unknown one says what to type."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            _add_hint(error, command_hint(args))
            raise


class SentenceCommand(WholeCommand):
    """A command whose one argument is a sentence."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Returns what is left of the arguments; the error for too many names the quotation marks."""
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if "extra argument" in getattr(error, "message", ""):
                sentence = " ".join(word for word in words if not word.startswith("-"))
                _add_hint(error, f'Put a sentence between quotation marks: {ctx.command_path} "{sentence}"')
            raise


def command_hint(args: list[str]) -> str:
    """What to type in place of an unknown command; empty where a suggestion was made or nothing is likely."""
    if not args:
        return ""
    if args[0].lower() in IN_PLACE_OF:
        return f"Type: {IN_PLACE_OF[args[0].lower()]}"
    if len(args) > 1 or " " in args[0].strip():
        return f'To tell the robot: outrider demo "{" ".join(args)}"'
    return ""


def _add_hint(error: Exception, hint: str) -> None:
    message = getattr(error, "message", "")
    if message and hint and "Did you mean" not in message:
        vars(error)["message"] = f"{message.rstrip('.')}. {hint}"
