"""Tell an exception that a client library throws out of its own internals from a programming error of ours.

A client library documents a few exceptions. When its peer does what it did not foresee, such as closing the connection
in the middle of a greeting, others leave it: ``StopAsyncIteration`` (aiormq, where a stream has ended),
``AssertionError`` (aiokafka, where no broker is known), a bare ``Exception`` (aiormq), ``InternalClientError``
(asyncpg, where its state machine was surprised), ``AttributeError``, ``KeyError``, ``IndexError`` or ``struct.error``
(all three, where an answer is cut short or missing). All of them mean that the peer or the connection has failed.

The type cannot say whose mistake it is: an ``AssertionError`` or a ``KeyError`` may as well be a bug of ours. The place
can. Each adapter's edge therefore asks where the exception was raised:

* in a frame of the client library, called by us: the client's; the edge maps it to the port's word for trouble;
* in a frame of ours, also in a callback that the client has called: ours; it passes and ends the process;
* ``TypeError`` or ``ValueError`` in the very function that we called: the client refuses our arguments, so it is ours.

Frames of the standard library and of the event loop are skipped: both run code for whoever called them.
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

    Return "" for an error of ours, and for whatever is no ``Exception`` (a cancellation, an exit).
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
