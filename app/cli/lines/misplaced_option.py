"""An option before its command: the command line that was meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import typer
from typer.core import TyperGroup

from app.cli.failure import CommandFailed
from app.cli.lines.help_page import write_help
from app.cli.lines.plain_value import read_plainly

__all__ = ["Group"]

_WRONG_USE: Final = 2


class Group(TyperGroup):
    """A group of commands that knows the options of its commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raise ``CommandFailed`` with the right command line if options of a command stand before its name. Without
        words print the help, and end with exit code 2.
        """
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), color=ctx.color)
            ctx.exit(_WRONG_USE)
        if args and args[0].startswith("-") and not _takes(self, args[0]):
            import shlex

            for place in range(1, len(args)):
                names, command = _command_of(self.commands, args[place:])
                if command is not None and _are_options(command, args[:place]):
                    option = args[0].partition("=")[0]
                    path = [*_path(ctx), *names]
                    line = shlex.join((*path, *args[place + len(names) :], *args[:place]))
                    raise CommandFailed(f"{option} is an option of `{' '.join(path)}` and stands behind it: {line}", 2)
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options, ``--help`` too."""
        return read_plainly(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        write_help(self, ctx, formatter)


def _path(context: Any) -> list[str]:
    """Return the names of the groups that lead here."""
    names: list[str] = []
    while context.parent is not None:
        names.insert(0, str(context.info_name))
        context = context.parent
    return ["hookwire", *names]


def _command_of(commands: Mapping[str, Any], words: Sequence[str]) -> tuple[list[str], Any | None]:
    """Return the names at the beginning that lead to a command, and the command; None if they lead to none."""
    names: list[str] = []
    for word in words:
        found = commands.get(word)
        if found is None:
            break
        names.append(word)
        if not isinstance(found, TyperGroup):
            return names, found
        commands = found.commands
    return names, None


def _takes(command: Any, text: str) -> Any | None:
    """Return the parameter of a command that is written so; the help, too."""
    name = text.partition("=")[0]
    written = (one for one in command.params if name in (*one.opts, *one.secondary_opts))
    return next(written, None) or (name in ("-h", "--help") or None)


def _are_options(command: Any, words: Sequence[str]) -> bool:
    """Return whether these are options of a command with their values, and nothing else."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        option = _takes(command, word) if word.startswith("-") else None
        if option is None or option is True:
            return False
        if not getattr(option, "is_flag", False) and "=" not in word:
            if not rest:
                return False
            rest.pop(0)
    return True
