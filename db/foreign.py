"""Tell failures inside a client library from our programming errors.

A client library documents a few exceptions. Others leave it when its peer behaves in an unforeseen way, such as closing
the connection in the middle of a greeting. aiormq raises ``StopAsyncIteration`` (a stream has ended) or a bare
``Exception``. aiokafka raises ``AssertionError`` (no broker is known), and asyncpg ``InternalClientError``. All three
raise ``AttributeError``, ``KeyError``, ``IndexError`` or ``struct.error`` where an answer is cut short or missing. All
of them mean that the peer or the connection has failed.

The type cannot tell the cause: an ``AssertionError`` or a ``KeyError`` may as well be our own bug. The place can. Each
adapter therefore asks where the exception was raised:

* in a frame of the client library that we called: the client's failure, which the adapter maps to the port's error;
* in our own frame, also in a callback of the client: it is our bug, which passes and ends the process;
* ``TypeError`` or ``ValueError`` in the very function that we called: the client refuses our arguments, so our bug.

Frames of the standard library and of the event loop are skipped: both run code for their callers.
"""

from __future__ import annotations

import sys
import traceback
from typing import NamedTuple

__all__ = ["origin"]

_SKIPPED = sys.stdlib_module_names | {"uvloop"}


class _Frame(NamedTuple):
    package: str
    module: str
    line: int


def origin(error: BaseException, *packages: str) -> str:
    """Return where one of these packages raised the error, such as "aiormq.connection, line 173".

    Return "" for our own error, and for anything that is no ``Exception`` (a cancellation, an exit).
    """
    frames = _frames(error) if isinstance(error, Exception) else []
    if not frames or frames[-1].package not in packages:
        return ""
    called_by_us = len(frames) < 2 or frames[-2].package not in packages
    if called_by_us and isinstance(error, TypeError | ValueError):
        return ""
    return f"{frames[-1].module}, line {frames[-1].line}"


def _frames(error: BaseException) -> list[_Frame]:
    modules = [(str(f.f_globals.get("__name__", "")), line) for f, line in traceback.walk_tb(error.__traceback__)]
    frames = [_Frame(module.partition(".")[0], module, line) for module, line in modules]
    return [frame for frame in frames if frame.package not in _SKIPPED]
