"""Checks of advisory locks: other holders of our own, and room in the server's lock table."""

from __future__ import annotations

from app.checks.check import Check
from db.bound import Bound
from db.pool import Row

__all__ = ["held_locks", "lock_table"]

_HELD_SECONDS_MAX = 60.0
_LOCKS_OF_A_COMMIT = 2 * (512 + 1_000)
"""Each draft of a commit takes the lock of its key and that of its idempotency key; its last unit may be a batch."""
_WRITERS = 2


async def held_locks(connection: Bound) -> list[Check]:
    """Find other holders of our locks. Every role that may connect can take our lock numbers."""
    rows = await connection.fetch("check.foreign_locks", _HELD_SECONDS_MAX)
    if not rows:
        return [Check("locks", "advisory locks", "ok", "held by publishers and by us alone")]
    return [Check("locks", "advisory locks", "warn", _detail(row), _cure(row)) for row in rows]


def lock_table(server: Row) -> Check:
    """Check the lock table: a commit takes a lock for each ordering key and each idempotency key."""
    slots, needed = int(server["lock_slots"]), _WRITERS * _LOCKS_OF_A_COMMIT
    detail = f"room for {slots:,} locks; a hub's largest commits take {needed:,}"
    if slots >= needed:
        return Check("FC-09", "lock table", "ok", detail)
    cure = "raise max_locks_per_transaction (a restart of PostgreSQL): 256, or more with many processes"
    return Check("FC-09", "lock table", "warn", f"{detail}, so some may be answered 503", cure)


def _detail(row: Row) -> str:
    return f"process {row['pid']} (role {row['role']}, {row['application']}) holds {row['locks']} of our locks"


def _cure(row: Row) -> str:
    return f"end it by pg_terminate_backend({row['pid']}); REVOKE CONNECT ON DATABASE {row['database']} FROM PUBLIC"
