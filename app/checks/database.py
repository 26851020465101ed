"""Checks of the database: it is durable and writable, has our schema in our version, and has partitions ahead."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator

from app.checks.check import Check, stricter_in_production
from app.checks.collations import collation_checks
from app.checks.locks import held_locks, lock_table
from app.checks.numbers import number_checks
from app.checks.pooler import is_of_a_pooler, pooler_check, refusal
from app.settings.settings import Settings
from db.bound import Bound
from db.direct import Direct, connect_direct
from db.errors import CannotServe, DatabaseError, TooManyConnections
from db.migrate import MigrationRefused, pending
from db.pool import Database, PoolOptions, Row

__all__ = ["database_checks", "opened_checks", "server_checks", "server_only_checks"]

_VERSION_MIN = 15
_SNAPSHOT_SECONDS_MAX = 900.0
_TIMEOUTS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")


async def database_checks(settings: Settings, options: PoolOptions) -> list[Check]:
    """Return all checks, on one connection like the pool's; ``unreachable`` is an answer too."""

    async def ask(connection: Direct) -> list[Check]:
        found = await _judged(settings, connection, await pooler_check(connection, options))
        return found if _is_refused(found[0]) else [*found, *await _schema(options.url)]

    return await _asked(options, ask)


async def server_only_checks(settings: Settings, options: PoolOptions) -> list[Check]:
    """Return the checks of the server and its sessions, for a start that has not migrated yet."""

    async def ask(connection: Direct) -> list[Check]:
        return await _judged(settings, connection, await pooler_check(connection, options), is_made=False)

    return await _asked(options, ask)


async def opened_checks(
    settings: Settings, options: PoolOptions, sessions: Check | None, pool: Database | None = None
) -> list[Check]:
    """Return all checks but that of the schema's version. ``sessions``: the check of the sessions, if it was made.

    They are made over a session of the ``pool``, if it is given: the server has read the catalogue for it already.
    """
    if pool is not None and sessions is not None:
        try:
            async with pool.session() as session:
                return await _judged(settings, session, sessions)
        except DatabaseError as error:
            return [_not_reached(error, "the connection broke during the check")]

    async def ask(connection: Direct) -> list[Check]:
        return await _judged(settings, connection, sessions or await pooler_check(connection, options))

    return await _asked(options, ask)


async def _asked(options: PoolOptions, ask: Callable[[Direct], Awaitable[list[Check]]]) -> list[Check]:
    try:
        connection = await connect_direct(options)
    except DatabaseError as error:
        return [_not_reached(error, "check HOOKWIRE_DATABASE_URL and the server behind it")]
    try:
        return await ask(connection)
    except DatabaseError as error:
        return [_not_reached(error, "the connection broke during the check")]
    finally:
        await connection.aclose()


async def _judged(settings: Settings, connection: Bound, sessions: Check, *, is_made: bool = True) -> list[Check]:
    """Return the checks of the server, and of what migrations have made there if ``is_made``; the first is of the
    sessions.
    """
    if _is_refused(sessions):  # through such a pooler no other check is reliable
        return [sessions]
    asked_at = time.time()
    server = await connection.fetchrow("check.server")
    assert server is not None, "a row of scalars"
    middle = (asked_at + time.time()) / 2
    roles = await _roles(settings, connection)
    found = [sessions, *server_checks(settings, server), *_clock(server, middle), *roles]
    if is_made and server["is_made"]:
        found += [*await _tables(connection), *await _care(connection), *await held_locks(connection)]
        found += await collation_checks(connection)
    if is_made and server["has_numbers"]:
        found += await number_checks(connection)
    return found


def _is_refused(sessions: Check) -> bool:
    return sessions.level == "refuse"


def _not_reached(error: DatabaseError, cure: str) -> Check:
    """Return the obstacle as a check. No session is opened on a server that takes no writes."""
    if is_of_a_pooler(error):
        return refusal()
    if isinstance(error, CannotServe):
        cure = "let HOOKWIRE_DATABASE_URL name the primary, or all servers of the cluster, and let it take writes"
        return Check("SC-09", "database role", "refuse", str(error), cure)
    if isinstance(error, TooManyConnections):
        cure = "lower HOOKWIRE_DATABASE_CONNECTIONS_MAX, or raise max_connections of the server"
    return Check("database", "database", "unreachable", str(error), cure)


def server_checks(settings: Settings, server: Row) -> list[Check]:
    """Return the checks of the server's own settings; ``server`` is a row of ``check.server``."""
    role = Check("SC-09", "database role", "ok", f"primary, as {server['role']}")
    return [*_version(server), role, *_semantics(server), *_durable(settings, server), *_timeouts(server),
            *_vacuum(server), lock_table(server)]  # fmt: skip


def _version(server: Row) -> Iterator[Check]:
    too_old = server["version_number"] < _VERSION_MIN * 10_000
    cure = f"hookwire needs PostgreSQL {_VERSION_MIN} or newer" if too_old else ""
    yield Check("version", "database", "refuse" if too_old else "ok", f"PostgreSQL {server['version']}", cure)


def _semantics(server: Row) -> Iterator[Check]:
    """Find settings that change the work of our triggers and functions, and that only a superuser may set back."""
    for name, safe in (("session_replication_role", "origin"), ("plpgsql.variable_conflict", "error")):
        value = server[name.rpartition(".")[2]]
        if value not in (safe, None):
            cure = f"ALTER ROLE ... RESET {name}, or the same for the database or in postgresql.conf"
            yield Check("GB-07", name, "refuse", f"{value}: triggers and functions would work otherwise", cure)


def _durable(settings: Settings, server: Row) -> Iterator[Check]:
    """Check that an answered COMMIT survives the next crash."""
    level = stricter_in_production(settings)
    commit = server["synchronous_commit"]
    # Without a standby, local is the same as on.
    durable = commit in ("on", "remote_apply") or (commit == "local" and not server["synchronous_standby_names"])
    if durable:
        yield Check("SC-06", "synchronous_commit", "ok", commit)
    else:
        cure = "set synchronous_commit = on for this role and database"
        yield Check("SC-06", "synchronous_commit", level, f"{commit}: acknowledged events can be lost", cure)
    for name, safe in (("fsync", "on"), ("full_page_writes", "on"), ("data_sync_retry", "off")):
        value = server[name]
        if value == safe:
            yield Check("SC-07", name, "ok", value)
        else:
            cure = f"set {name} = {safe} in postgresql.conf"
            yield Check("SC-07", name, level, f"{value}: a crash can lose acknowledged events", cure)


def _timeouts(server: Row) -> Iterator[Check]:
    """Check the time-outs of a session, because a pooler may drop our options."""
    missing = [name for name in _TIMEOUTS if server[name] in ("0", "")]
    if missing:
        cure = "connect directly, or let the pooler pass start-up parameters on"
        yield Check("SC-05", "time-outs", "refuse", f"{', '.join(missing)} did not reach the session", cure)
    else:
        yield Check("SC-05", "time-outs", "ok", ", ".join(f"{name} {server[name]}" for name in _TIMEOUTS))


def _vacuum(server: Row) -> Iterator[Check]:
    """Check autovacuum."""
    if server["autovacuum"] == "on":
        yield Check("SC-12", "autovacuum", "ok", "on")
    else:
        yield Check("SC-12", "autovacuum", "warn", "off: the outbox will bloat", "set autovacuum = on")


def _clock(server: Row, our_seconds: float) -> Iterator[Check]:
    """Compare the clocks: signatures carry our time, deadlines the database's."""
    apart = abs(server["at"].timestamp() - our_seconds)
    if apart > 60:
        yield Check("SC-21", "clock", "refuse", f"{apart:.0f} s apart from the database's", "synchronise both by NTP")
    elif apart > 2:
        yield Check("SC-21", "clock", "warn", f"{apart:.1f} s apart from the database's", "synchronise both by NTP")
    else:
        yield Check("SC-21", "clock", "ok", f"{apart:.2f} s apart from the database's")


async def _roles(settings: Settings, connection: Bound) -> list[Check]:
    """Check the roles that call hookwire.publish in their own transactions."""
    weak = [row["role"] for row in await connection.fetch("check.weak_publishers")]
    if not weak:
        return []
    detail = f"off for {', '.join(weak)}: events that they publish by SQL can be lost"
    cure = "ALTER ROLE ... RESET synchronous_commit"
    return [Check("SC-06", "synchronous_commit", stricter_in_production(settings), detail, cure)]


async def _tables(connection: Bound) -> list[Check]:
    """Check tables and sequences."""
    unlogged = [row["name"] for row in await connection.fetch("check.unlogged")]
    cached = [row["name"] for row in await connection.fetch("check.cached_sequences")]
    found = []
    if unlogged:
        cure = "ALTER TABLE hookwire.<name> SET LOGGED"
        found.append(
            Check("SC-08", "tables", "refuse", f"UNLOGGED, so a crash empties them: {', '.join(unlogged)}", cure)
        )
    if cached:
        cure = "ALTER SEQUENCE hookwire.<name> CACHE 1"
        found.append(
            Check("SC-08", "sequences", "refuse", f"cached, so ids lose their order: {', '.join(cached)}", cure)
        )
    return found or [Check("SC-08", "tables", "ok", "logged; sequences without cache")]


async def _care(connection: Bound) -> list[Check]:
    """Check that queue tables are vacuumed, and that nothing keeps their dead rows."""
    found = []
    neglected = [row["name"] for row in await connection.fetch("check.neglected_tables")]
    if neglected:
        cure = "ALTER TABLE hookwire.<name> SET (autovacuum_enabled = on, autovacuum_vacuum_scale_factor = 0)"
        found.append(Check("RP-02", "table care", "warn", f"vacuumed too seldom: {', '.join(neglected)}", cure))
    invalid = await connection.fetch("check.invalid_indexes")
    if invalid:
        names = ", ".join(row["name"] for row in invalid)
        cure = "; ".join(_index_cure(row) for row in invalid)
        found.append(Check("SC-10", "indexes", "warn", f"half built, so unused: {names}", cure))
    found += [_old_snapshot(row) for row in await connection.fetch("check.old_snapshots", _SNAPSHOT_SECONDS_MAX)]
    return found or [Check("RP-02", "table care", "ok", "vacuumed by threshold; no old snapshot")]


def _index_cure(index: Row) -> str:
    """Return the cure for half-built indexes. After a REINDEX the index itself exists, so nothing needs a build."""
    verb = "DROP" if index["is_leftover"] else "REINDEX"
    return f"{verb} INDEX CONCURRENTLY hookwire.{index['name']}"


def _old_snapshot(holder: Row) -> Check:
    """Report an old snapshot: while it lasts every query of a queue takes longer."""
    since = f" for {holder['seconds']:.0f} s" if holder["seconds"] is not None else ""
    detail = f"kept by {holder['holder']}{since}: rows that were deleted since then cannot be removed"
    # Without its slot a consumer loses its position, and would miss later changes.
    advice = "if its consumer is gone for good" if holder["is_slot"] else "end it"
    return Check("RP-04", "old snapshots", "warn", detail, f"{advice}: {holder['ended_by']}")


async def _schema(url: str) -> list[Check]:
    """Check the schema's version."""
    try:
        plan = await pending(url)
    except MigrationRefused as error:
        return [Check("SC-10", "schema", "refuse", str(error))]
    if not plan.is_empty:
        names = [migration.label for migration in plan.to_run]
        if plan.to_record:
            names.insert(0, f"a record of {plan.to_record[0].label} to {plan.to_record[-1].label}")
        cure = "run: hookwire migrate (or start hookwire serve)"
        return [Check("SC-10", "schema", "warn", f"pending: {', '.join(names)}", cure)]
    return [Check("SC-10", "schema", "ok", "all migrations applied, none changed")]
