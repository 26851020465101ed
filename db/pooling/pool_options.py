"""Options of connections: the address, the limits of every wait, and the settings of a session."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from db.holders import Holders
from db.replication.primary import Primary
from db.replication.standby_fence import StandbyFence

__all__ = ["PoolOptions"]

_DEFAULTS: Final = MappingProxyType(
    {
        "default_transaction_isolation": "read committed",
        "default_transaction_deferrable": "off",
        "idle_session_timeout": "0",
        "transaction_timeout": "0",
        "DateStyle": "ISO, MDY",
        "IntervalStyle": "postgres",
        "bytea_output": "hex",
        "extra_float_digits": "1",
        "standard_conforming_strings": "on",
        "backslash_quote": "safe_encoding",
        "array_nulls": "on",
        "transform_null_equals": "off",
        "quote_all_identifiers": "off",
        "restrict_nonsystem_relation_kind": "",
        "row_security": "on",
        "gin_fuzzy_search_limit": "0",
        "exit_on_error": "off",
        "plpgsql.extra_errors": "none",
    }
)
"""PostgreSQL's own defaults, which our statements and functions are written for. A role may have others."""


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """The database's address and time limits.

    ``url`` names one server or several; a session is opened on the one that takes writes. ``statement_seconds`` limits
    a statement in the server and, with a second added, in the client. ``lock_seconds`` limits any wait for a lock, and
    ``idle_in_transaction_seconds`` a forgotten transaction. ``connect_seconds`` limits a new connection, and
    ``acquire_seconds`` the wait for a free one.

    ``plan_seconds`` is how long a prepared statement and its plan are kept. A plan made for empty tables reads whole
    tables, and must not serve the first burst after a quiet day for long.

    ``reads_whole_tables`` is for migrations. ``primary`` is shared by all sessions that are opened with these options.
    ``holders`` names who holds a lock that a statement waited for in vain. ``fence``: what is read leaves only when the
    required standbys have it; None: at once.
    """

    url: str
    application_name: str = "hookwire"
    connections_min: int = 2
    connections_max: int = 12
    connect_seconds: float = 5.0
    acquire_seconds: float = 5.0
    statement_seconds: float = 30.0
    lock_seconds: float = 5.0
    idle_in_transaction_seconds: float = 30.0
    plan_seconds: int = 10
    reads_whole_tables: bool = False
    primary: Primary = field(default_factory=Primary, repr=False, compare=False)
    holders: Holders = field(default_factory=Holders, repr=False, compare=False)
    fence: StandbyFence | None = field(default=None, repr=False, compare=False)

    @property
    def cancelled_after_seconds(self) -> float | None:
        """Return after how long the client cancels a statement; with a fence it cancels none."""
        return self.statement_seconds + 1 if self.fence is None else None

    @property
    def dropped_after_seconds(self) -> float | None:
        """Return after how long the client leaves a statement and its connection; None without a fence."""
        return None if self.fence is None else self.statement_seconds + 1

    def server_settings(self) -> dict[str, str]:
        """Return the settings that a connection starts with, in PostgreSQL's units (milliseconds)."""
        return {
            "application_name": self.application_name,
            "statement_timeout": str(int(self.statement_seconds * 1000)),
            "lock_timeout": str(int(self.lock_seconds * 1000)),
            "idle_in_transaction_session_timeout": str(int(self.idle_in_transaction_seconds * 1000)),
            "tcp_keepalives_idle": "10",
            "tcp_keepalives_interval": "3",
            "tcp_keepalives_count": "3",
            "timezone": "UTC",
            "jit": "off",
            # Every statement has its index. A plan made for an empty table must not scan the full table later.
            "enable_seqscan": "on" if self.reads_whole_tables else "off",
            # Planning a statement at every call costs more than running it. ``fetch_filtered`` is the exception.
            "plan_cache_mode": "force_generic_plan",
        }

    def session_settings(self) -> dict[str, str]:
        """Return the settings that each session sets itself. A pooler may drop those of a connection's start, and
        refuses a start with a setting that it does not know.
        """
        return {**_DEFAULTS, **self.server_settings()}
