"""Replacing: put another function in the place of one of the product, if that one still has the expected parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["StaleBug", "expect", "replace"]


class StaleBug(Exception):
    """The product has changed, and the bug does not fit it any more; the text says where."""


def expect(owner: object, name: str, shape: str) -> Any:
    """Return the function of that name, if its parameters are these; raises :class:`StaleBug`.

    ``shape`` is "(self, batch)", with "async " before it for a coroutine function.
    """
    function = getattr(owner, name, None)
    found = _shape(function) if callable(function) else "nothing"
    if found != shape:
        raise StaleBug(f"{getattr(owner, '__name__', owner)}.{name} is {found}, no longer {shape}")
    return function


def _shape(function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    plain = signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)
    return f"{'async ' if inspect.iscoroutinefunction(function) else ''}{plain}"


def replace(owner: object, name: str, shape: str, make: Callable[[Any], Any]) -> None:
    """Put ``make(original)`` in the place of a function with these parameters; it has to have them too.

    A replacement with ``*arguments`` passes them on unchanged. Raise :class:`StaleBug`.
    """
    setattr(owner, name, make(expect(owner, name, shape)))
