"""Check for a pooler: the hub needs its own sessions for session locks, LISTEN and prepared statements."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

from app.checks.check import Check
from db.direct import Direct, connect_direct
from db.errors import DatabaseError, ServerTrouble
from db.pool import PoolOptions

__all__ = ["is_of_a_pooler", "pooler_check", "refusal"]

_ROUNDS: Final = 3
_NO_SUCH_STATEMENT: Final = "26000"
_STATEMENT_EXISTS: Final = "42P05"


async def pooler_check(connection: Direct, options: PoolOptions) -> Check:
    """Return whether ``connection`` is one session; raises ``db.errors.DatabaseError``."""
    async with aclosing(await connect_direct(options)) as other:
        is_shared = await _is_shared(connection, other)
    return refusal() if is_shared else Check("SC-25", "sessions", "ok", "each connection is a session")


def is_of_a_pooler(error: DatabaseError) -> bool:
    """Return whether the error shows that a prepared statement is in another session than its connection."""
    return isinstance(error, ServerTrouble) and error.sqlstate in (_NO_SUCH_STATEMENT, _STATEMENT_EXISTS)


def refusal() -> Check:
    """Return the check that refuses a pooler which does not keep sessions."""
    detail = "a pooler gives each transaction another session: locks, LISTEN and prepared statements would be lost"
    cure = "connect directly, or through a pooler in session mode (HOOKWIRE_DATABASE_URL)"
    return Check("SC-25", "sessions", "refuse", detail, cure)


async def _is_shared(connection: Direct, other: Direct) -> bool:
    """Prepare a statement and run it in two transactions, while another of our clients has one open.

    A pooler may give our connection to the other client, or give us another connection. The statement is then unknown
    there, or shows another process.
    """
    for _ in range(_ROUNDS):
        ours = await connection.fetchval("check.backend")
        await other.execute("check.begin")
        theirs = await other.fetchval("check.backend")
        if theirs == ours or await connection.fetchval("check.backend") != ours:
            return True
        await other.execute("check.rollback")
    return False
