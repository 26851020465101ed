"""Sessions: they find the server that takes writes, notice one that is silent, and set what our statements rely on."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from db.address import ServerAddress
from db.direct import connect_direct
from db.errors import CannotServe, OutcomeUnknown, PrimaryChanged, ServerTrouble, Unavailable
from db.pool import Database, PoolOptions, open_database
from db.session import open_session
from scripts.servers.postgres import PostgresServer
from tests.defaults import make_hostile
from tests.faults.packets import drop_what_comes
from tests.faults.proxy import proxied
from tests.pair import Pair
from tests.pooler import pooled
from tests.waiting import until

SILENCE_SECONDS_MAX = 20.0
"""Noticed after 4 s; without options of the socket's own it takes longer than a statement may."""


def url_of(*ports: int, path: str = "postgres") -> str:
    return f"postgresql://postgres@{','.join(f'127.0.0.1:{port}' for port in ports)}/{path}"


@asynccontextmanager
async def opened(options: PoolOptions) -> AsyncIterator[Database]:
    async with aclosing(await open_database(options)) as database:
        yield database


# --- the primary among several servers --------------------------------------------------------------------------


async def test_of_several_servers_the_one_that_takes_writes_is_used(pair: Pair, free_port: int) -> None:
    """HA-01, HA-04: whatever their order, and with one that is down. The next session asks there first."""
    for ports in ((free_port, pair.standby.port, pair.primary.port), (pair.primary.port, pair.standby.port)):
        options = PoolOptions(url_of(*ports))
        session = await open_session(options)
        assert await session.fetchval("SELECT inet_server_port()") == pair.primary.port
        assert options.primary.address == (ServerAddress("127.0.0.1", pair.primary.port), "127.0.0.1")
        await session.close()


async def test_a_standby_is_refused_by_name(pair: Pair) -> None:
    """HA-02, SC-09."""
    with pytest.raises(CannotServe, match="the server is a standby"):
        await open_session(PoolOptions(url_of(pair.standby.port)))


async def test_when_no_server_can_be_used_each_says_why(pair: Pair, free_port: int) -> None:
    with pytest.raises(Unavailable) as refused:
        await open_session(PoolOptions(url_of(free_port, pair.standby.port)))
    assert f"127.0.0.1:{pair.standby.port} (127.0.0.1): the server is a standby" in str(refused.value)
    assert f"127.0.0.1:{free_port} (127.0.0.1): " in str(refused.value)


async def test_all_addresses_of_a_name_are_tried(postgres18: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """HA-04: of the first one no packet comes back."""
    async with silent_address(postgres18.port) as silent:

        async def addresses_of(host: str, port: int, **_: Any) -> list[Any]:
            assert host == "db.test"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in (silent, "127.0.0.1")]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", addresses_of, raising=False)
        session = await open_session(PoolOptions(f"postgresql://postgres@db.test:{postgres18.port}/postgres"))
    assert await session.fetchval("SELECT 1") == 1
    await session.close()


@asynccontextmanager
async def silent_address(port: int) -> AsyncIterator[str]:
    """A loopback address where no connection to this port is ever answered."""
    with socket.create_server(("127.0.0.2", port)) as listening:
        drop_what_comes(listening)
        yield "127.0.0.2"


# --- another server takes over ----------------------------------------------------------------------------------


async def test_when_the_name_leads_to_another_server_sessions_on_the_old_one_are_over(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HA-02, HA-03: the old server lives and takes writes. Nobody uses it again, also where the name leads back."""
    monkeypatch.setattr("db.replication.primary._LOOK_SECONDS", 0.0)
    async with proxied("127.0.0.1", pair.primary.port) as name:
        options = PoolOptions(url_of(name.port), connections_min=1)
        async with opened(options) as database, aclosing(await connect_direct(options)) as holder:
            await database.fetchval("session.identity")
            await asyncio.to_thread(pair.standby.promote)
            name.upstream = ("127.0.0.1", pair.standby.port)
            await until(lambda: timeline(database, 2))
            is_lost = holder.lost.is_set()
            name.upstream = ("127.0.0.1", pair.primary.port)
            with pytest.raises(CannotServe, match="it was the primary before"):
                await until(lambda: timeline(database, 1))
    assert is_lost


async def timeline(database: Database, number: int) -> bool:
    """Whether the server that answers is on this timeline; the one that has just taken over is not asked at once."""
    with suppress(PrimaryChanged):
        row = await database.fetchrow("session.identity")
        return row is not None and row["timeline"] == number
    return False


async def test_a_session_that_became_read_only_is_ended_with_its_siblings(database_url_both: str) -> None:
    """GB-01, HA-02: the pool had lent it again for as long as there was traffic."""
    options = PoolOptions(database_url_both, connections_min=2)
    async with opened(options) as database:
        async with database.lend() as one, database.lend() as other:
            before = {await session.fetchval("SELECT pg_backend_pid()") for session in (one, other)}
            await one.execute("SET default_transaction_read_only = on")
        with suppress(ServerTrouble):
            for _ in before:
                await database.execute("check.writable")
        async with database.lend() as one, database.lend() as other:
            after = {await session.fetchval("SELECT pg_backend_pid()") for session in (one, other)}
    assert before & after == set()


# --- a server that is silent ------------------------------------------------------------------------------------


async def test_a_server_that_vanished_is_noticed_with_and_without_a_statement(
    postgres18: PostgresServer,
) -> None:
    """HA-04: packets are dropped both ways. LISTEN never learned it, and a statement after its time-out."""
    async with proxied("127.0.0.1", postgres18.port) as proxy:
        options = PoolOptions(url_of(proxy.port), statement_seconds=600)
        async with opened(options) as database, aclosing(await connect_direct(options)) as listening:
            await listening.listen("test", lambda _: None)
            await proxy.vanish()
            began = time.monotonic()
            idle = asyncio.create_task(listening.lost.wait())
            asking = asyncio.create_task(database.fetchval("session.identity"))
            _, silent = await asyncio.wait({idle, asking}, timeout=SILENCE_SECONDS_MAX)
            print(f"noticed after {time.monotonic() - began:.1f} s")
            proxy.heal()
            assert silent == set()
            assert isinstance(asking.exception(), OutcomeUnknown)


# --- what a session sets (GB-07) --------------------------------------------------------------------------------

_SETTINGS = "SELECT json_object_agg(name, setting)::text FROM pg_settings WHERE name <> 'application_name'"


async def settings_of(options: PoolOptions) -> dict[str, str]:
    """Return what a session of the pool works with."""
    async with opened(options) as database, database.lend() as session:
        await session.execute("LOAD 'plpgsql'")
        found: dict[str, str] = json.loads(await session.fetchval(_SETTINGS))
        return found


async def test_no_default_of_the_database_counts_in_a_session(database_url_both: str) -> None:
    """GB-07: a role's ``default_transaction_isolation = serializable`` made every tenth publish a 503."""
    usual = await settings_of(PoolOptions(database_url_both))
    await make_hostile(database_url_both)
    hostile = await settings_of(PoolOptions(database_url_both))
    assert {name: value for name, value in hostile.items() if value != usual[name]} == {}


_LEFT = {
    "How fast, not what: planner, memory, input and output, parallel workers, vacuum, statistics.": (
        "Query Tuning", "Resource Usage", "Vacuuming", "vacuum_", "Statistics", "Write-Ahead Log / Settings",
    ),
    "What the server logs, and how its own developers test it.": ("Reporting and Logging", "Developer Options"),
    "Roles, replication and programs' libraries: an administrator's choice.": (
        "Connections and Authentication", "Replication", "Client Connection Defaults / Shared Library Preloading",
        "Client Connection Defaults / Other Defaults", "Lock Management", "extension_destdir",
    ),
    "Where new tables lie, and how: an administrator's choice.": (
        "default_table_access_method", "default_tablespace", "default_toast_compression", "temp_tablespaces",
        "gin_pending_list_limit", "check_function_bodies", "createrole_self_grant", "event_triggers",
    ),
    "Names in statements and functions are qualified; a goharvest table is found by the role's own path.": (
        "search_path",
    ),
    "No statement has XML, text search, large objects, or numbers and dates in a language.": (
        "xmlbinary", "xmloption", "default_text_search_config", "icu_validation_level", "lc_monetary", "lc_numeric",
        "lc_time", "timezone_abbreviations", "lo_compat_privileges", "escape_string_warning", "synchronize_seqscans",
    ),
    "The driver sets it, or reads answers in any language.": ("client_encoding", "lc_messages"),
    "Of one transaction; none has another default than default_transaction_*.": (
        "transaction_deferrable", "transaction_isolation", "transaction_read_only",
    ),
    "Notices are not read.": ("client_min_messages",),
    "No start where it is set: see the checks SC-09 and GB-07.": (
        "default_transaction_read_only", "session_replication_role", "plpgsql.variable_conflict",
    ),
    "Checks of PL/pgSQL that raise no error in our functions.": (
        "plpgsql.check_asserts", "plpgsql.extra_warnings", "plpgsql.print_strict_params",
    ),
}  # fmt: skip


async def test_each_setting_of_a_session_is_decided(database_url_both: str) -> None:
    """GB-07: set by the session, refused at the start, or left with a reason."""
    connection = await asyncpg.connect(database_url_both)
    await connection.execute("LOAD 'plpgsql'")
    rows = await connection.fetch("SELECT name, category FROM pg_settings WHERE context IN ('user', 'superuser')")
    await connection.close()
    left = tuple(one for names in _LEFT.values() for one in names)
    decided = {*PoolOptions("").session_settings(), "synchronous_commit", "TimeZone", *left}
    others = [row for row in rows if row["name"] not in decided]
    undecided = [
        row["name"] for row in others if not (row["category"].startswith(left) or row["name"].startswith(left))
    ]
    assert undecided == []


async def test_behind_a_pooler_sessions_have_the_same_settings(
    database_url: str, postgres18: PostgresServer, servers_folder: Path
) -> None:
    """GB-07: PgBouncer ignores the settings of a connection's start, and refuses those that it does not know."""
    usual = await settings_of(PoolOptions(database_url))
    await make_hostile(database_url)
    with pooled(postgres18, servers_folder, "session") as pooler:
        hostile = await settings_of(PoolOptions(pooler.through(database_url)))
    assert {name: value for name, value in hostile.items() if value != usual[name]} == {}
