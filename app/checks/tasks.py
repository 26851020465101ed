"""Check of tasks: no two live ones of before the upgrade have one kind and description."""

from __future__ import annotations

from contextlib import aclosing

from app.checks.check import Check
from db.direct import connect_direct
from db.errors import DatabaseError
from db.pool import PoolOptions

__all__ = ["task_checks"]

_SEEN_MAX = 100_000
_CURE = (
    "each of them runs; end those that are not wanted: hookwire tasks cancel ID "
    "(docs/how-to/production.md, To one task for each description)"
)


async def task_checks(options: PoolOptions) -> list[Check]:
    """Return one check; the database is migrated. Newer tasks of kinds with ``is_unique`` cannot be doubled."""
    try:
        async with aclosing(await connect_direct(options)) as connection:
            twins = await connection.fetch("check.twins", _SEEN_MAX)
    except DatabaseError as error:
        return [Check("tasks", "tasks", "unreachable", str(error), "the connection broke during the check")]
    if not twins:
        return [Check("tasks", "tasks", "ok", "no two live ones have one kind and description")]
    named = "; ".join(f"{row['kind']}, {row['description']!r}: {', '.join(row['ids'])}" for row in twins)
    return [Check("tasks", "tasks", "warn", f"several live ones have one kind and description: {named}", _CURE)]
