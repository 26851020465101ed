"""Tasks: enqueueing in the caller's transaction. A task exists if and only if that transaction commits."""

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
    """Enqueue a task in the connection's open transaction. Return its id, or an awaitable of it.

    ``args`` is any value that JSON can encode; the default is ``{}``. ``unique`` True: if a task with the same kind and
    arguments exists, return its id and add no task. None: as the kind's settings say.

    Raise :class:`hookwire.NotInTransaction`, and TypeError or ValueError for a value that JSON cannot encode.
    Exceptions of the driver pass.
    """
    text = json.dumps({} if args is None else args, ensure_ascii=False, allow_nan=False)
    arguments = (kind, text, float(delay_seconds), unique)
    return call(connection, _ENQUEUE, arguments, lambda rows: str(rows[0][0]), name="enqueue_task")
