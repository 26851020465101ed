"""Values on the command line that need no conversion: typer's own imports pydantic, two fifths of all imports."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from typer.core import TyperCommand

from app.cli.lines.help_page import write_help

__all__ = ["PlainCommand", "read_plainly"]

_NUMBERS: Final = {int: re.compile("[0-9]{1,15}"), float: re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")}


class PlainCommand(TyperCommand):
    """A command that reads plain values itself."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the arguments and options, ``--help`` too."""
        return read_plainly(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        write_help(self, ctx, formatter)


def read_plainly(parameters: list[Any]) -> list[Any]:
    """Let typer convert the values of these parameters only where they are not plain. An older typer, which has no
    need of pydantic, stays as it is.
    """
    for parameter in parameters:
        if hasattr(parameter, "get_runtime_param"):
            parameter.get_runtime_param = partial(_Conversion, type(parameter).get_runtime_param)
    return parameters


class _Conversion:
    """What typer asks for the value of a parameter."""

    def __init__(self, typers: Callable[[Any], Any]) -> None:
        self._typers = typers

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value of a parameter from its text or texts, or from its default."""
        several = param.multiple or param.nargs == -1
        if value is None or (several and not value):
            return () if several else None
        kind, parser = param.type_descriptor.annotation, param.type_descriptor.parameter_info.parser
        if parser is None and not several and (found := _plain(value, kind, param)) is not None:
            return found
        return self._typers(param).coerce(value, param=param, ctx=ctx)


def _plain(value: Any, kind: Any, param: Any) -> Any:
    """Return a text, a default, or a number in usual digits and within its limits; None for any other value."""
    if kind in (str, int, float) and type(value) is kind:
        return value
    if kind in _NUMBERS and isinstance(value, str) and _NUMBERS[kind].fullmatch(value):
        number = kind(value)
        if (param.min is None or number >= param.min) and (param.max is None or number <= param.max):
            return number
    return None
