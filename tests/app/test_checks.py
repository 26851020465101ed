"""Checks: each unsafe state is found, by its number, with its level and a cure (SC-05..SC-23)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import asyncpg
import pytest

from app.checks import ChecksRefused, early_checks, startup_checks
from app.checks.brokers import broker_checks
from app.checks.check import Check
from app.checks.database import database_checks, server_checks
from app.checks.keys import key_checks
from app.checks.process import descriptor_check, guard_check
from app.checks.settings import settings_checks
from app.settings.settings import Settings
from db.pool import PoolOptions, open_database
from hub.keys import Keys, NewKey
from scripts.servers.postgres import PostgresServer
from tests.app.standby import stand_by
from tests.pooler import pooled
from tests.waiting import until

SOUND: dict[str, Any] = {
    "version_number": 180006,
    "version": "18.6",
    "role": "hookwire",
    "at": datetime(2026, 1, 1, tzinfo=UTC),
    "session_replication_role": "origin",
    "variable_conflict": None,
    "synchronous_commit": "on",
    "synchronous_standby_names": "",
    "fsync": "on",
    "full_page_writes": "on",
    "data_sync_retry": "off",
    "autovacuum": "on",
    "statement_timeout": "30s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "30s",
    "is_made": True,
    "lock_slots": 6_400,
}


def found(checks: list[Check]) -> list[tuple[str, str]]:
    """Number and level of whatever is not well."""
    return [(check.id, check.level) for check in checks if check.level not in ("ok", "note")]


@pytest.fixture(params=["development", "production"])
def profile(request: pytest.FixtureRequest) -> str:
    return request.param


def settings_of(tmp_path: Path, **values: Any) -> Settings:
    return Settings(**{"data_dir": tmp_path, "hub_access": "keys", **values})


# --- settings ---------------------------------------------------------------------------------------------------


def test_the_defaults_have_no_findings(tmp_path: Path) -> None:
    assert found(settings_checks(settings_of(tmp_path), {})) == []


@pytest.mark.parametrize(
    ("values", "environment", "expected"),
    [
        ({"listen": "0.0.0.0:80"}, {}, [("SC-17", "refuse")]),
        ({"listen": "[::]:80"}, {}, [("SC-17", "refuse")]),
        ({"listen": "hub:80"}, {}, [("SC-17", "refuse")]),
        ({"listen": "localhost:80"}, {}, []),
        ({"listen": "0.0.0.0:80", "profile": "production"}, {}, [("SC-17", "warn")]),
        ({"listen": "0.0.0.0:80", "profile": "production", "trusted_proxies": "10.0.0.7"}, {}, []),
        ({"trusted_proxies": "10.0.0.7,proxy"}, {}, [("SC-16", "refuse")]),
        ({"trusted_proxies": "0.0.0.0/0"}, {}, [("SC-16", "warn")]),
        ({"trusted_proxies": "::/0", "profile": "production"}, {}, [("SC-16", "refuse")]),
        ({}, {"FORWARDED_ALLOW_IPS": "*"}, [("SC-16", "warn")]),
        ({"profile": "production"}, {"FORWARDED_ALLOW_IPS": "*"}, [("SC-16", "refuse")]),
        ({"egress_allow_metadata": True}, {}, [("SC-19", "warn")]),
        ({"egress_allow_metadata": True, "profile": "production"}, {}, [("SC-19", "refuse")]),
        ({"egress_allow_cidrs": "169.254.0.0/16"}, {}, [("SC-19", "warn")]),
        ({"egress_allow_cidrs": "10.0.0.1/8"}, {}, [("SC-19", "refuse")]),
        ({"egress_allow_cidrs": "10.0.0.0/8", "profile": "production"}, {}, []),
        ({"failpoints": "x:kill"}, {}, [("SC-19", "warn")]),
        ({"profile": "production", "hub_access": "open"}, {}, []),
        ({"profile": "production", "access": "proxy"}, {}, []),
    ],
    ids=str,
)
def test_unsafe_settings_are_found(
    tmp_path: Path, values: dict[str, Any], environment: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    """SC-16, SC-17, SC-19; strict in production, forgiving in development."""
    assert found(settings_checks(settings_of(tmp_path, **values), environment)) == expected


def test_a_public_hub_has_to_be_meant(tmp_path: Path) -> None:
    """FS-18: by default anybody reads the latest content of each topic."""
    assert found(settings_checks(Settings(data_dir=tmp_path, profile="production"), {})) == [("FS-18", "warn")]


@pytest.mark.parametrize(
    ("url", "notes"),
    [
        ("postgresql://db/x", 1),
        ("postgresql://db/x?sslmode=disable", 1),
        ("postgresql://db/x?sslmode=verify-full", 0),
        ("postgresql://127.0.0.1/x", 0),
        ("postgresql:///x?host=/run/postgresql", 0),
    ],
)
def test_a_database_that_is_spoken_to_in_clear_text_is_noted(tmp_path: Path, url: str, notes: int) -> None:
    """FS-19: asyncpg's default falls back to clear text."""
    checks = settings_checks(settings_of(tmp_path, database_url=url), {})

    assert [check.id for check in checks if check.subject == "database transport"] == ["FS-19"] * notes


@pytest.mark.parametrize(
    ("mode", "expected"), [(0o600, []), (0o640, [("SC-18", "refuse")]), (0o604, [("SC-18", "refuse")])]
)
def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path, mode: int, expected: list[tuple[str, str]]) -> None:
    """SC-18."""
    (tmp_path / "secret.keys").touch()
    (tmp_path / "secret.keys").chmod(mode)

    assert found(settings_checks(settings_of(tmp_path), {})) == expected


def test_keys_of_one_machine_are_a_warning_where_machines_share_a_database(tmp_path: Path) -> None:
    (tmp_path / "secret.keys").touch(0o600)
    values = {"profile": "production", "database_url": "postgresql://db/x"}

    assert found(settings_checks(settings_of(tmp_path, **values), {})) == [("SC-18", "warn")]


# --- server -----------------------------------------------------------------------------------------------------


def test_a_sound_server_has_no_findings(tmp_path: Path) -> None:
    assert found(server_checks(settings_of(tmp_path), SOUND)) == []


@pytest.mark.parametrize(
    ("changes", "number", "in_development"),
    [
        ({"version_number": 140012}, "version", "refuse"),
        ({"session_replication_role": "replica"}, "GB-07", "refuse"),
        ({"variable_conflict": "use_column"}, "GB-07", "refuse"),
        ({"synchronous_commit": "off"}, "SC-06", "warn"),
        ({"synchronous_commit": "remote_write"}, "SC-06", "warn"),
        ({"synchronous_commit": "local", "synchronous_standby_names": "s1"}, "SC-06", "warn"),
        ({"fsync": "off"}, "SC-07", "warn"),
        ({"full_page_writes": "off"}, "SC-07", "warn"),
        ({"data_sync_retry": "on"}, "SC-07", "warn"),
        ({"statement_timeout": "0"}, "SC-05", "refuse"),
        ({"lock_timeout": "0"}, "SC-05", "refuse"),
        ({"idle_in_transaction_session_timeout": "0"}, "SC-05", "refuse"),
    ],
    ids=str,
)
def test_a_server_that_could_lose_what_was_acknowledged_is_refused(
    tmp_path: Path, profile: str, changes: dict[str, Any], number: str, in_development: str
) -> None:
    """RP-07, F16, SC-05, SC-06, SC-07, SC-09."""
    level = in_development if profile == "development" else "refuse"

    assert found(server_checks(settings_of(tmp_path, profile=profile), {**SOUND, **changes})) == [(number, level)]


def test_without_a_standby_local_is_as_good_as_on(tmp_path: Path) -> None:
    assert found(server_checks(settings_of(tmp_path), {**SOUND, "synchronous_commit": "local"})) == []


def test_a_lock_table_that_a_commit_can_fill_is_a_warning(tmp_path: Path) -> None:
    """FC-09: each idempotency key takes an advisory lock."""
    assert found(server_checks(settings_of(tmp_path), {**SOUND, "lock_slots": 6_000})) == [("FC-09", "warn")]


def test_autovacuum_that_is_off_is_a_warning(tmp_path: Path) -> None:
    """SC-12."""
    assert found(server_checks(settings_of(tmp_path), {**SOUND, "autovacuum": "off"})) == [("SC-12", "warn")]


# --- database ---------------------------------------------------------------------------------------------------


async def test_a_migrated_database_has_no_findings(database_url_both: str, tmp_path: Path) -> None:
    assert found(await database_checks(settings_of(tmp_path), PoolOptions(database_url_both))) == []


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        ("ALTER DATABASE {database} SET synchronous_commit = off", [("SC-06", "refuse"), ("SC-06", "refuse")]),
        ("ALTER DATABASE {database} SET default_transaction_read_only = on", [("SC-09", "refuse")]),
        ("ALTER DATABASE {database} SET session_replication_role = replica", [("GB-07", "refuse")]),
        ("ALTER TABLE hookwire.outbox SET UNLOGGED", [("SC-08", "refuse")]),
        ("ALTER SEQUENCE hookwire.event_id CACHE 10", [("SC-08", "refuse")]),
        ("UPDATE hookwire.migrations SET checksum = 'other' WHERE version = 2", [("SC-10", "refuse")]),
        ("INSERT INTO hookwire.migrations (version, name, checksum) VALUES (999, 'later', '')", [("SC-10", "refuse")]),
        (
            "DELETE FROM hookwire.migrations WHERE version = (SELECT max(version) FROM hookwire.migrations)",
            [("SC-10", "warn")],
        ),
        ("ALTER TABLE hookwire.outbox RESET (autovacuum_vacuum_scale_factor)", [("RP-02", "warn")]),
        ("ALTER TABLE hookwire.deliveries SET (autovacuum_enabled = false)", [("RP-02", "warn")]),
        ("SELECT setval('hookwire.event_id', 40000000)", [("RR-05", "refuse")]),
        ("DROP TABLE hookwire.events_00000000", [("RR-05", "refuse")]),
        (
            "INSERT INTO hookwire.ledger_entries (sink, outcome, ids) VALUES ('kafka', 'sent', ARRAY[7])",
            [("GB-05", "refuse")],
        ),
        (
            "INSERT INTO hookwire.id_watermarks (day, last_id) "
            "VALUES (current_date - 2, 1), (current_date - 3, -30000000)",
            [("RR-05", "warn")],
        ),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_a_database_that_was_tampered_with_is_found(
    database_url: str, tmp_path: Path, harm: str, expected: list[tuple[str, str]]
) -> None:
    """RL-09, RT-07, RO-10, SC-06, SC-08, SC-09, SC-10, RR-05, RP-02, GB-05, GB-07, HA-02."""
    connection = await asyncpg.connect(database_url)
    await connection.execute(harm.format(database=database_url.rpartition("/")[2]))
    await connection.close()

    checks = await database_checks(settings_of(tmp_path, profile="production"), PoolOptions(database_url))

    assert found(checks) == expected


@asynccontextmanager
async def reading_transaction(url: str) -> AsyncIterator[str]:
    reader = await asyncpg.connect(url, server_settings={"application_name": "a report"})
    await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM hookwire.topics")
    yield f"process {reader.get_server_pid()} (a report)"
    await reader.close()


@asynccontextmanager
async def writing_transaction(url: str) -> AsyncIterator[str]:
    """Between its statements it holds no snapshot, but its id keeps the snapshots of all others old."""
    writer = await asyncpg.connect(url, server_settings={"application_name": ""})
    await writer.execute("BEGIN")
    await writer.execute("SELECT hookwire.publish('a', ''::bytea)")
    yield f"process {writer.get_server_pid()}"
    await writer.close()


@asynccontextmanager
async def prepared_transaction(url: str) -> AsyncIterator[str]:
    """Of a coordinator that never came back. RR-15: with the switch off, it may have published."""
    name = f"O'Hara of {url.rpartition('/')[2]}"
    quoted = name.replace("'", "''")
    writer = await asyncpg.connect(url)
    await writer.execute("UPDATE hookwire.installation SET sql_notify = false")
    await writer.execute(f"BEGIN; SELECT hookwire.publish('a', ''::bytea); PREPARE TRANSACTION '{quoted}'")
    await writer.close()
    yield f"prepared transaction {name}"


@asynccontextmanager
async def replication_slot(url: str, keeps: Literal["xmin", "catalog_xmin"] = "xmin") -> AsyncIterator[str]:
    """Of a standby that told what its readers see, and is gone."""
    name = f"standby_{url.rpartition('_')[2]}"
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SELECT pg_create_physical_replication_slot($1)", name)
        await stand_by(connection, url, name, keeps)
        yield f"replication slot {name}"
    finally:
        left = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1"
        await connection.execute(left, name)
        await connection.close()


@pytest.mark.parametrize("hold", [reading_transaction, writing_transaction, prepared_transaction, replication_slot])
async def test_who_keeps_dead_rows_is_named_with_the_statement_that_ends_it(
    database_url_both: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hold: Callable[[str], Any]
) -> None:
    """F17, RP-04, RU-12, RR-15: it does keep them, and what the cure says lets them go."""
    monkeypatch.setattr("app.checks.database._SNAPSHOT_SECONDS_MAX", 0.0)
    options = PoolOptions(database_url_both)
    operator = await asyncpg.connect(database_url_both)
    await operator.execute("CREATE TABLE public.old (); INSERT INTO public.old DEFAULT VALUES")
    async with hold(database_url_both) as holder:
        await operator.execute("DELETE FROM public.old")
        kept = await dead_rows(operator)
        checks = [check for check in await database_checks(settings_of(tmp_path), options) if check.is_finding]
        advice, _, statement = checks[0].cure.partition(": ")
        await operator.execute(statement)

        await until(lambda: dead_rows_are_gone(operator))
        after = await database_checks(settings_of(tmp_path), options)
    await operator.close()

    assert (kept, found(checks), found(after)) == (1, [("RP-04", "warn")], [])
    assert checks[0].detail.startswith(f"kept by {holder}")
    assert advice == ("if its consumer is gone for good" if hold is replication_slot else "end it")


async def test_a_slot_that_keeps_rows_of_the_catalogs_alone_is_no_finding(database_url: str, tmp_path: Path) -> None:
    """RU-12: every consumer of logical decoding has one, and it keeps none of our rows."""
    options = PoolOptions(database_url)
    async with replication_slot(database_url, "catalog_xmin"):
        checks = await database_checks(settings_of(tmp_path), options)

    assert found(checks) == []


async def test_many_of_one_kind_hide_none_of_another(
    database_url_both: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RP-04: of each kind the five oldest."""
    monkeypatch.setattr("app.checks.database._SNAPSHOT_SECONDS_MAX", 0.0)
    names = [f"{number} of {database_url_both.rpartition('/')[2]}" for number in range(6)]
    writer = await asyncpg.connect(database_url_both)
    try:
        for name in names:
            await writer.execute(f"BEGIN; SELECT txid_current(); PREPARE TRANSACTION '{name}'")
        async with reading_transaction(database_url_both) as reader:
            checks = await database_checks(settings_of(tmp_path), PoolOptions(database_url_both))
    finally:
        for gid in await writer.fetch("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"):
            await writer.execute(f"ROLLBACK PREPARED '{gid['gid']}'")
        await writer.close()

    kept = [check.detail.removeprefix("kept by ").partition(" for ")[0] for check in checks if check.is_finding]
    assert kept == [*(f"prepared transaction {name}" for name in names[:5]), reader]


async def test_an_index_that_was_half_built_is_named_with_the_statement_that_builds_it(
    database_url_both: str, tmp_path: Path
) -> None:
    """SC-10: ahead of an upgrade, and cut off, as a REINDEX of it was; IF NOT EXISTS would take it for the whole."""
    options = PoolOptions(database_url_both)
    connection = await asyncpg.connect(database_url_both)
    await connection.execute("INSERT INTO hookwire.topics (name) VALUES ('a'), ('b')")
    for statement in (
        "CREATE UNIQUE INDEX CONCURRENTLY half ON hookwire.topics (tenant)",
        "REINDEX INDEX CONCURRENTLY hookwire.half",
    ):
        with pytest.raises(asyncpg.UniqueViolationError):
            await connection.execute(statement)
    checks = [check for check in await database_checks(settings_of(tmp_path), options) if check.is_finding]
    await connection.execute("UPDATE hookwire.topics SET tenant = name")
    for statement in checks[0].cure.split("; "):
        await connection.execute(statement)
    after = await database_checks(settings_of(tmp_path), options)
    await connection.close()

    assert (found(checks), found(after)) == ([("SC-10", "warn")], [])
    assert checks[0].detail.endswith(": half, half_ccnew")
    assert checks[0].cure == "REINDEX INDEX CONCURRENTLY hookwire.half; DROP INDEX CONCURRENTLY hookwire.half_ccnew"


WAITING_BUILD = """
    SELECT count(*) > 0 FROM pg_stat_progress_create_index p JOIN pg_index i ON i.indrelid = p.relid
    WHERE p.datname = current_database() AND p.phase LIKE 'waiting%' AND NOT i.indisvalid
"""


@pytest.mark.parametrize(
    "statement",
    ["CREATE INDEX CONCURRENTLY young ON hookwire.topics (tenant)", "REINDEX TABLE CONCURRENTLY hookwire.topics"],
)
async def test_an_index_that_is_being_built_is_not_half_built(
    database_url_both: str, tmp_path: Path, statement: str
) -> None:
    """SC-10: it waits for a transaction that writes to its table."""
    writer, builder, looker = [await asyncpg.connect(database_url_both) for _ in range(3)]
    await writer.execute("BEGIN; LOCK TABLE hookwire.topics IN ROW EXCLUSIVE MODE")
    building = asyncio.create_task(builder.execute(statement))
    await until(lambda: looker.fetchval(WAITING_BUILD))  # the writer's transaction would see what it saw first
    checks = await database_checks(settings_of(tmp_path), PoolOptions(database_url_both))
    await writer.execute("COMMIT")
    await building
    for connection in (writer, builder, looker):
        await connection.close()

    assert found(checks) == []


async def dead_rows(connection: asyncpg.Connection) -> int:
    """How many VACUUM has to leave in ``public.old``."""
    said: list[str] = []
    connection.add_log_listener(told := lambda _, message: said.append(str(message)))
    await connection.execute("VACUUM (VERBOSE) public.old")
    await asyncio.sleep(0)  # what the server says is handed on by the loop
    connection.remove_log_listener(told)
    match = re.search(r"(\d+) are dead but not yet removable", "".join(said))
    assert match is not None, said
    return int(match[1])


async def dead_rows_are_gone(connection: asyncpg.Connection) -> bool:
    return await dead_rows(connection) == 0


@pytest.mark.parametrize("privilege", ["", "GRANT USAGE ON SCHEMA hookwire TO {role}"], ids=["none", "usage"])
async def test_who_holds_our_locks_by_hand_is_named(database_url: str, tmp_path: Path, privilege: str) -> None:
    """FS-07: a role without any privilege stops publishing with a key, verifications and migrations."""
    role = f"squatter_{database_url.rpartition('_')[2]}"
    connection = await asyncpg.connect(database_url)
    await connection.execute(f"CREATE ROLE {role} LOGIN; {privilege.format(role=role)}")
    squatter = await asyncpg.connect(database_url, user=role, server_settings={"application_name": "psql"})
    await squatter.execute("SELECT pg_advisory_lock(1215262571, n) FROM generate_series(0, 1023) AS n")
    checks = await database_checks(settings_of(tmp_path), PoolOptions(database_url))
    pid = await squatter.fetchval("SELECT pg_backend_pid()")
    await squatter.close()
    await connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
    await connection.close()

    assert [(check.id, check.detail, check.cure.partition(";")[0]) for check in checks if check.is_finding] == [
        (
            "locks",
            f"process {pid} (role {role}, psql) holds 1024 of our locks",
            f"end it by pg_terminate_backend({pid})",
        )
    ]


async def test_a_publishers_open_transaction_is_no_finding(database_url: str, tmp_path: Path) -> None:
    """FS-07: its key's lock is what it came for."""
    role = f"shop_{database_url.rpartition('_')[2]}"
    connection = await asyncpg.connect(database_url)
    await connection.execute(f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA hookwire TO {role}")
    shop = await asyncpg.connect(database_url, user=role)
    await shop.execute("BEGIN; SELECT hookwire.publish('t', 'x', key => 'k')")
    checks = await database_checks(settings_of(tmp_path), PoolOptions(database_url))
    await shop.close()
    await connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
    await connection.close()

    assert found(checks) == []


async def test_a_role_that_publishes_without_waiting_for_the_disk_is_named(database_url: str, tmp_path: Path) -> None:
    """F16, SC-06: whoever calls hookwire.publish as it loses events."""
    name = f"shop_{database_url.rpartition('_')[2]}"
    connection = await asyncpg.connect(database_url)
    await connection.execute(f"CREATE ROLE {name}; ALTER ROLE {name} SET synchronous_commit = off")
    checks = await database_checks(settings_of(tmp_path), PoolOptions(database_url))
    await connection.execute(f"DROP ROLE {name}")
    await connection.close()

    assert found(checks) == [("SC-06", "warn")]
    assert name in next(check.detail for check in checks if check.is_finding)


async def test_a_database_that_does_not_answer_is_unreachable_and_its_password_is_not_told(
    free_port: int, tmp_path: Path
) -> None:
    options = PoolOptions(f"postgresql://hookwire:canary@127.0.0.1:{free_port}/x")

    checks = await database_checks(settings_of(tmp_path), options)

    assert found(checks) == [("database", "unreachable")]
    assert "canary" not in checks[0].sentence()


# --- start ------------------------------------------------------------------------------------------------------


async def test_the_service_does_not_start_where_acknowledged_events_could_be_lost(
    database_url: str, tmp_path: Path
) -> None:
    """RP-08, F16: every reason on a line of its own, with its cure."""
    connection = await asyncpg.connect(database_url)
    await connection.execute("ALTER TABLE hookwire.outbox SET UNLOGGED; ALTER SEQUENCE hookwire.event_id CACHE 10")
    await connection.close()

    with pytest.raises(ChecksRefused) as refused:
        await startup_checks(settings_of(tmp_path), PoolOptions(database_url), 8080)

    lines = str(refused.value).splitlines()
    assert [line.split(":")[0].strip() for line in lines] == ["refusing to start", "tables", "sequences"]
    assert all("ALTER" in line for line in lines[1:])


async def test_a_configured_server_is_judged_before_anything_is_written_to_it(
    database_url: str, tmp_path: Path
) -> None:
    """What only migrations can make right is left to them."""
    connection = await asyncpg.connect(database_url)
    await connection.execute("DROP SCHEMA hookwire CASCADE")
    await early_checks(settings_of(tmp_path, database_url=database_url))
    await connection.execute(f"ALTER DATABASE {database_url.rpartition('/')[2]} SET synchronous_commit = off")
    await connection.close()

    with pytest.raises(ChecksRefused, match="synchronous_commit: off"):
        await early_checks(settings_of(tmp_path, database_url=database_url, profile="production"))


async def test_warnings_are_logged_and_do_not_stop_the_start(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")

    checks = await startup_checks(settings_of(tmp_path), PoolOptions(database_url), 8080)

    assert found(checks) == [("SC-16", "warn")]


# --- process and brokers ----------------------------------------------------------------------------------------


async def test_the_start_checks_that_the_guard_refuses_what_it_must(tmp_path: Path, profile: str) -> None:
    """SC-14."""
    assert (await guard_check(settings_of(tmp_path, profile=profile), 8080)).level == "ok"


async def test_a_guard_that_lets_metadata_pass_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SC-14: the seam itself is what is tested."""
    monkeypatch.setattr("egress.guard.METADATA", frozenset())
    monkeypatch.setattr("egress.guard.DENIED_IPV4", ())

    assert (await guard_check(settings_of(tmp_path), 8080)).level == "refuse"


def test_too_few_descriptors_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SC-22."""
    monkeypatch.setattr("app.checks.process.resource.getrlimit", lambda _: (256, 4096))

    assert found([descriptor_check(settings_of(tmp_path))]) == [("SC-22", "warn")]


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[str]:
    """A server that reads a little and answers this; ``host:port``."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(8)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


async def test_brokers_that_are_not_configured_are_noted(tmp_path: Path) -> None:
    assert [check.level for check in await broker_checks(settings_of(tmp_path))] == ["note", "note"]


def wrong_answers() -> Iterator[Any]:
    kafka, amqp = "kafka_bootstrap_servers", "amqp_url"
    yield kafka, "{}", b"HTTP/1.1 400 Bad Request\r\n"
    yield kafka, "{}", b""
    yield amqp, "amqp://u:p@{}/vhost", b"AMQP\x00\x00\x09\x01"
    yield amqp, "amqp://u:p@{}/vhost", b"HTTP/1.1 400 Bad Request\r\n"
    yield amqp, "amqp://u:p@{}/vhost", b""
    yield amqp, "amqps://u:p@{}/vhost", b"\x01"


@pytest.mark.parametrize(("setting", "value", "answer"), list(wrong_answers()))
async def test_whatever_answers_wrongly_is_no_broker(tmp_path: Path, setting: str, value: str, answer: bytes) -> None:
    async with answering(answer) as address:
        checks = await broker_checks(settings_of(tmp_path, **{setting: value.format(address)}))

    assert [check.is_finding for check in checks].count(True) == 1


@pytest.mark.parametrize(
    "values", [{"kafka_bootstrap_servers": "127.0.0.1:1"}, {"amqp_url": "amqp://127.0.0.1:1/"}], ids=str
)
async def test_a_broker_that_is_not_there_is_unreachable(tmp_path: Path, values: dict[str, str]) -> None:
    checks = await broker_checks(settings_of(tmp_path, **values))

    assert sorted(check.level for check in checks) == ["note", "unreachable"]


async def test_kafka_and_rabbitmq_pass_the_start_checks(kafka: Any, rabbitmq: Any, tmp_path: Path) -> None:
    """The first server of Kafka's list that answers will do."""
    values = {"kafka_bootstrap_servers": f"127.0.0.1:1,{kafka.address}", "amqp_url": rabbitmq.url}
    checks = await broker_checks(settings_of(tmp_path, **values))

    assert [check.level for check in checks] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("settings", "level"),
    [({"profile": "production"}, "refuse"), ({"profile": "production", "access": "proxy"}, "ok"), ({}, "ok")],
)
async def test_production_needs_a_key_or_a_proxy(
    tmp_path: Path, database_url: str, settings: dict[str, str], level: str
) -> None:
    """SC-18."""
    [check] = await key_checks(settings_of(tmp_path, **settings), PoolOptions(database_url))

    assert check.level == level


async def test_one_key_is_enough_for_production(tmp_path: Path, database_url: str) -> None:
    database = await open_database(PoolOptions(database_url, connections_min=1))
    await Keys(database).create(NewKey("ops", ["admin"]))
    await database.aclose()

    [check] = await key_checks(settings_of(tmp_path, profile="production"), PoolOptions(database_url))
    assert check.level == "ok"


def test_authorities_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    """OB-07."""
    broken = tmp_path / "ca.pem"
    broken.write_text("no certificate")

    levels = [
        found(settings_checks(settings_of(tmp_path, egress_tls_ca=path), {}))
        for path in (broken, tmp_path / "none.pem")
    ]
    assert levels == [[("OB-07", "refuse")]] * 2


# --- poolers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "expected"), [("transaction", [("SC-25", "refuse")]), ("session", [])])
async def test_a_pooler_that_gives_each_transaction_another_session_is_refused_at_the_start(
    mode: Literal["transaction", "session"], expected: list[tuple[str, str]], postgres18: PostgresServer,
    servers_folder: Path, database_url: str, tmp_path: Path,
) -> None:  # fmt: skip
    """SC-25, FC-10: it passed where the role or the database has its time-outs, and then nothing was delivered."""
    connection = await asyncpg.connect(database_url)
    name = database_url.rpartition("/")[2]
    for setting in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
        await connection.execute(f"ALTER DATABASE {name} SET {setting} = '30s'")
    await connection.close()
    with pooled(postgres18, servers_folder, mode) as pooler:
        url = pooler.through(database_url)
        checks = await database_checks(settings_of(tmp_path), PoolOptions(url))
        refused = ""
        try:
            await early_checks(settings_of(tmp_path, database_url=url))
        except ChecksRefused as error:
            refused = str(error)
    assert found(checks) == expected
    assert ("HOOKWIRE_DATABASE_URL" in refused) == (mode == "transaction")
