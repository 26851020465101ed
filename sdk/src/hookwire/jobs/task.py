"""Tasks: work that exists if and only if the caller's transaction commits."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from typing import Any, Final, overload

from hookwire.call import AsyncConnection, Statement, SyncConnection, call

__all__ = ["enqueue_task"]

_ENQUEUE: Final = Statement(
    "SELECT CAST(hookwire.enqueue_task(kind => CAST({kind} AS text), args => CAST(CAST({args} AS text) AS jsonb),"
    " delay_seconds => CAST({delay_seconds} AS double precision), is_unique => CAST({is_unique} AS boolean)) AS text)",
    "kind", "args", "delay_seconds", "is_unique",
)  # fmt: skip


@overload
def enqueue_task(
    connection: AsyncConnection, kind: str, args: Any = ..., *, delay_seconds: float = ..., unique: bool | None = ...
) -> Awaitable[str]: ...
@overload
def enqueue_task(
    connection: SyncConnection, kind: str, args: Any = ..., *, delay_seconds: float = ..., unique: bool | None = ...
) -> str: ...
def enqueue_task(
    connection: Any, kind: str, args: Any = None, *, delay_seconds: float = 0.0, unique: bool | None = None
) -> Any:
    """Enqueue a task in the connection's open transaction; returns its id.

    ``args`` is anything that JSON has a form for; none: ``{}``. The same kind and arguments are the same task while it
    lives, unless ``unique`` or the kind's settings say otherwise. Raises :class:`hookwire.NotInTransaction`, TypeError
    and ValueError for what JSON has no form for, and whatever the driver raises.
    """
    text = json.dumps({} if args is None else args, ensure_ascii=False, allow_nan=False)
    arguments = (kind, text, float(delay_seconds), unique)
    return call(connection, _ENQUEUE, arguments, lambda rows: str(rows[0][0]), name="enqueue_task")
