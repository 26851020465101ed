"""An outbox in MariaDB: what its locks, its lost connections and its crashes may not do."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiomysql
import pymysql
import pytest

from app.assembly.outbox_database import OutboxUnavailable
from app.cli.goharvest.relay import Compat, open_compat
from app.settings.settings import Settings
from app.settings.tls import outbox_tls
from db.errors import Busy, OutcomeUnknown, Refused, Unavailable
from db.mariadb.database import MariaDatabase, MariaOptions, for_outbox, maria_options, open_maria
from relay.election.lease import LeaseOptions
from relay.election.port import LeadershipLost, Lease
from relay.goharvest.maria_election import MariaElection
from relay.goharvest.maria_installation import ensure_tables
from relay.goharvest.maria_table import MariaTable
from relay.goharvest.outbox_table import TableRefused
from relay.sink import Refusal
from scripts.servers.kafka import KafkaServer
from scripts.servers.mariadb import MariaServer
from scripts.servers.secured import Identity, SecuredMaria
from tests.hostile.authority import Authority
from tests.relay.goharvest.harness import CREATE_MARIA_TABLE, MARIA_TABLE, MariaHarness, connected, on_mariadb
from tests.relay.kafka.kafka_topic import read_committed
from tests.waiting import lasts, until


@pytest.fixture
async def harness(mariadb_url: str) -> AsyncIterator[MariaHarness]:
    async with on_mariadb(mariadb_url) as harness:
        yield harness


@pytest.fixture(params=["compat", "fast"])
async def any_harness(request: pytest.FixtureRequest, mariadb_url: str) -> AsyncIterator[MariaHarness]:
    async with on_mariadb(mariadb_url, fast=request.param == "fast") as harness:
        yield harness


# --- names and addresses --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "quoted"),
    [
        ("outbox", "`outbox`"),
        ("Shop.Outbox", "`Shop`.`Outbox`"),
        ("`out``box`", "`out``box`"),
        (MARIA_TABLE, "`Out box`"),
    ],
)
def test_a_tables_name_is_read_as_mariadb_reads_it(table: str, quoted: str) -> None:
    """RL-24."""
    assert for_outbox(table)[0] == quoted


@pytest.mark.parametrize("table", ["", "a b", "a.b.c", "1a", "outbox; DROP TABLE x", "a`b", "``", '"outbox"'])
def test_anything_else_is_no_tables_name(table: str) -> None:
    with pytest.raises(ValueError, match="not a table's name"):
        for_outbox(table)


def test_a_url_names_a_server_a_user_and_a_database() -> None:
    options = maria_options("mysql://u%40s:p%2Fw@db.example/shop")
    assert options == MariaOptions("db.example", 3306, "u@s", "p/w", "shop")
    assert "p/w" not in repr(options)


@pytest.mark.parametrize("url", ["mysql://u:p@h/", "postgresql://u:p@h/d", "mysql:///d", "mysql://u:p@h/d?tls=1"])
def test_any_other_url_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="must be mysql://") as refused:
        maria_options(url)
    assert "u:p" not in str(refused.value)


# --- who is not let in, what is not fit -------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"password": "wrong"}, {"database": "none"}, {"port": 1}], ids=str)
async def test_a_server_that_lets_nobody_in_is_unavailable(mariadb_url: str, change: dict[str, object]) -> None:
    with pytest.raises(Unavailable):
        await open_maria(replace(maria_options(mariadb_url), **change))  # type: ignore[arg-type]


async def test_a_server_without_tls_is_not_used_where_tls_is_demanded(mariadb_url: str) -> None:
    """The driver would go on in plain text."""
    with pytest.raises(Unavailable, match="no TLS"):
        await open_maria(maria_options(mariadb_url, ssl.create_default_context()))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (None, "cannot be relayed"),
        ("CREATE TABLE t (id bigint PRIMARY KEY)", "Unknown column"),
        (
            "CREATE TABLE t (id bigint PRIMARY KEY, kafka_topic text, kafka_key varchar(9), kafka_value text,"
            " kafka_header_keys json, kafka_header_values json, leader_id char(36)) ENGINE = MyISAM",
            "has to be InnoDB",
        ),
        (
            "CREATE TABLE t (id bigint PRIMARY KEY, kafka_topic text, kafka_key varbinary(9), kafka_value text,"
            " kafka_header_keys json, kafka_header_values json, leader_id char(36))",
            "keeps kafka_key as bytes",
        ),
        (
            "CREATE TABLE t (id bigint PRIMARY KEY, kafka_topic text, kafka_key varchar(2000), kafka_value text,"
            " kafka_header_keys json, kafka_header_values json, leader_id char(36)) CHARACTER SET utf8mb4",
            "could not be parked; make kafka_key a varchar",
        ),
    ],
    ids=["no table", "other columns", "no transactions", "a key of bytes", "a key too long to park"],
)
async def test_a_table_that_is_not_fit_is_refused(harness: MariaHarness, make: str | None, says: str) -> None:
    if make is not None:
        await harness.change(make)
    with pytest.raises(TableRefused, match=says):
        await ensure_tables(harness.database, "t")


async def test_the_installation_keeps_its_name(harness: MariaHarness) -> None:
    """Kafka's transactional id is made of it: a restart has to fence the process before it."""
    assert await ensure_tables(harness.database, MARIA_TABLE) == await ensure_tables(harness.database, MARIA_TABLE)


async def test_a_role_that_may_not_create_tables_finds_them(harness: MariaHarness) -> None:
    schema = maria_options(harness.url).database
    await harness.change(f"CREATE USER {schema} IDENTIFIED BY 'p'")
    await harness.change(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.* TO {schema}")
    database = MariaDatabase(replace(maria_options(harness.url), user=schema, password="p"))
    try:
        assert await ensure_tables(database, MARIA_TABLE) == await ensure_tables(harness.database, MARIA_TABLE)
    finally:
        await database.aclose()
        await harness.change(f"DROP USER {schema}")


# --- marks and terms --------------------------------------------------------------------------------------------------


async def test_keys_are_told_apart_by_their_bytes(any_harness: MariaHarness) -> None:
    """Neither case nor accents nor a trailing space make two keys one, whatever the table's collation."""
    keys = ["key", "KEY", "key ", "kéy", "ключ", "🔑"]
    await any_harness.change("ALTER TABLE _outbox_ MODIFY kafka_key varchar(100) COLLATE utf8mb4_general_ci NOT NULL")
    await any_harness.write(*[("t", key, "v") for key in keys])
    term, table = await any_harness.begin_term(), any_harness.table()
    records = await table.mark(term, 10)
    parked = [record for record in records if record.key != "KEY"]
    await table.reset([record.id for record in records])
    await table.park(term, [Refusal(record, "record", "too_large", "…") for record in parked])
    free = await table.mark(term, 10)
    assert ([r.key for r in records], [r.key for r in free]) == (keys, ["KEY"])
    await table.unpark([record.key or "" for record in parked])
    assert await any_harness.parked() == []


async def test_a_relay_whose_term_is_over_marks_purges_and_parks_nothing(any_harness: MariaHarness) -> None:
    """RR-08, RL-05: also what Kafka has confirmed stays, for who rules now."""
    ids = await any_harness.write(("t", "a", "1"), ("t", "b", "2"))
    table, old = any_harness.table(), await any_harness.begin_term()
    records = await table.mark(old, 1)
    await any_harness.begin_term()
    with pytest.raises(LeadershipLost, match="is over"):
        await table.purge([records[0].id])
    with pytest.raises(LeadershipLost, match="is over"):
        await table.park(old, [Refusal(records[0], "record", "too_large", "")])
    found = (await table.mark(old, 10), (await table.mark_due(old)).records, await any_harness.rows())
    assert (found, await any_harness.parked()) == (([], [], ids), [])


@pytest.mark.parametrize("what", ["mark", "purge", "park"])
async def test_a_statement_that_names_a_term_waits_while_it_is_raised(any_harness: MariaHarness, what: str) -> None:
    """RL-06, RR-16, RR-08: the statement locks the term's row, so it sees the term as it is, not as it was."""
    await any_harness.write(("t", "a", "1"), ("t", "b", "2"))
    term, table = await any_harness.begin_term(), any_harness.table()
    (record,) = await table.mark(term, 1)
    deciding = {
        "mark": lambda: any_harness.table().mark(term, 10),
        "purge": lambda: table.purge([record.id]),
        "park": lambda: table.park(term, [Refusal(record, "record", "too_large", "")]),
    }
    async with any_harness.writing() as other:
        async with other.cursor() as cursor:
            await cursor.execute("UPDATE hookwire_terms SET term = term + 1")
        waiting = asyncio.ensure_future(deciding[what]())
        if not (what == "mark" and not any_harness.marks_rows):  # there it decides nothing: the purge will
            await until(lambda: _is_waiting(any_harness))
    outcome = (await asyncio.gather(waiting, return_exceptions=True))[0]
    if what == "mark" and any_harness.marks_rows:
        assert (outcome, [m for m in await any_harness.marks() if m not in {None, table.leader_id}]) == ([], [])
    elif what != "mark":
        assert isinstance(outcome, LeadershipLost)


async def _is_waiting(harness: MariaHarness) -> bool:
    """Whether a statement waits for a lock."""
    await lasts(0.12)  # the server looks anew only if nobody has asked for a tenth of a second
    rows = await harness.select("SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'")
    return bool(rows)


async def test_a_committed_row_that_somebody_locks_is_waited_for_and_not_overtaken(harness: MariaHarness) -> None:
    """RT-09, RG-05: passed over (SKIP LOCKED), a later row of its key would be sent first."""
    low, high = await harness.write(("t", "k", "1"), ("t", "k", "2"))
    term, table = await harness.begin_term(), harness.table()
    async with harness.writing() as other:
        async with other.cursor() as cursor:
            await cursor.execute(f"SELECT id FROM {MARIA_TABLE} WHERE id = {low} FOR UPDATE")
        marking = asyncio.ensure_future(table.mark(term, 10))
        await until(lambda: _is_waiting(harness))
    assert [record.id for record in await marking] == [low, high]


async def test_a_lock_that_is_held_too_long_is_busy_and_changes_nothing(harness: MariaHarness) -> None:
    """RR-16."""
    await harness.write(("t", "k", "1"))
    term = await harness.begin_term()
    impatient = MariaDatabase(replace(maria_options(harness.url), lock_seconds=1))
    try:
        async with harness.writing() as other:
            async with other.cursor() as cursor:
                await cursor.execute(f"SELECT id FROM {MARIA_TABLE} FOR UPDATE")
            with pytest.raises(Busy):
                await MariaTable(impatient, MARIA_TABLE).mark(term, 10)
    finally:
        await impatient.aclose()
    assert await harness.marks() == [None]


async def test_headers_that_are_no_arrays_park_their_record_alone(any_harness: MariaHarness) -> None:
    """RL-23."""
    bad, good = await any_harness.write(("t", "bad", "v"), ("t", "good", "v"))
    await any_harness.change(f"UPDATE _outbox_ SET kafka_header_keys = '{{\"a\": 1}}' WHERE id = {bad}")
    async with any_harness.relay():
        await until(lambda: any_harness.broker.ids() == [good])
        await until(any_harness.parked)
    assert await any_harness.parked() == [("bad", bad, "t", "headers_unequal", 1)]


@pytest.mark.parametrize(
    ("names", "values"),
    [(r'["\\ud800"]', '["1"]'), ('["a"]', r'["\\ud800"]'), ("[null]", '["1"]'), ("[" * 20_000, "[]")],
    ids=["half a name", "half a value", "null", "deep"],
)
async def test_headers_that_are_no_text_park_their_record_alone(harness: MariaHarness, names: str, values: str) -> None:
    """RL-23: a column without MariaDB's check on JSON takes all of these; half of a pair of surrogates has no bytes."""
    bad, good = await harness.write(("t", "bad", "v"), ("t", "good", "v"))
    await harness.change(
        "ALTER TABLE _outbox_ MODIFY kafka_header_keys longtext NOT NULL, MODIFY kafka_header_values longtext NOT NULL"
    )
    await harness.change(
        f"UPDATE _outbox_ SET kafka_header_keys = '{names}', kafka_header_values = '{values}' WHERE id = {bad}"
    )
    async with harness.relay():
        await until(lambda: harness.broker.ids() == [good])
        await until(harness.parked)
    assert await harness.parked() == [("bad", bad, "t", "headers_unequal", 1)]


async def test_headers_that_are_other_json_are_sent_as_it_is_written(harness: MariaHarness) -> None:
    await harness.write(("t", "k", "v"))
    await harness.change(
        """UPDATE _outbox_ SET kafka_header_keys = '[7, "b", "c"]', kafka_header_values = '[1.5, true, {"d": 1}]'"""
    )
    term, table = await harness.begin_term(), harness.table()
    (record,) = await table.mark(term, 10)
    assert record.kafka_headers == (("7", b"1.5"), ("b", b"true"), ("c", b'{"d": 1}'))


async def test_whatever_a_table_takes_can_be_parked(harness: MariaHarness) -> None:
    """RL-07: the longest key and the longest topic stop nobody else."""
    await harness.change(
        "ALTER TABLE _outbox_ MODIFY kafka_key varchar(512) NOT NULL, MODIFY kafka_topic varchar(1000) NOT NULL"
    )
    await ensure_tables(harness.database, MARIA_TABLE)
    key, topic = "🔑" * 512, "t" * 1000
    await harness.write((topic, key, "v"))
    term, table = await harness.begin_term(), harness.table()
    (record,) = await table.mark(term, 10)
    await table.park(term, [Refusal(record, "record", "invalid_topic", "")])
    await table.reset([record.id])
    assert (await harness.parked(), await table.mark(term, 10)) == (
        [(key, record.id, "t" * 249, "invalid_topic", 1)],
        [],
    )


# --- connections that go ----------------------------------------------------------------------------------------------


async def test_a_statement_whose_connection_is_cut_has_no_known_outcome(harness: MariaHarness) -> None:
    """Which is not Unavailable: it may have taken effect (RG-06)."""
    await harness.write(("t", "k", "1"))
    term, table = await harness.begin_term(), harness.table()
    async with harness.writing() as other:
        async with other.cursor() as cursor:
            await cursor.execute(f"SELECT id FROM {MARIA_TABLE} FOR UPDATE")
        marking = asyncio.ensure_future(table.mark(term, 10))
        await until(lambda: _is_waiting(harness))
        ((thread,),) = await harness.select(
            "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
        )
        await harness.change(f"KILL CONNECTION {thread}")
        with pytest.raises(OutcomeUnknown):
            await marking
    assert len(await table.mark(term, 10)) == 1


async def test_a_relay_goes_on_after_all_of_its_connections_were_cut(any_harness: MariaHarness) -> None:
    mine = maria_options(any_harness.url).database
    ids = await any_harness.write(("t", "k", "1"))
    async with any_harness.relay():
        await any_harness.emptied()
        threads = await any_harness.select(
            f"SELECT id FROM information_schema.processlist WHERE db = '{mine}' AND id <> CONNECTION_ID()"
        )
        for (thread,) in threads:
            with suppress(aiomysql.OperationalError):  # one that has ended by itself
                await any_harness.change(f"KILL CONNECTION {thread}")
        ids += await any_harness.write(("t", "k", "2"))
        await any_harness.emptied()
    assert any_harness.broker.ids() == ids


async def test_a_cancellation_that_the_driver_drops_while_it_connects_ends_the_statement(
    mariadb_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RO-04: or a relay that lost the leadership at that moment goes on."""
    connect, begun = aiomysql.connect, asyncio.Event()

    async def dropping(**options: Any) -> Any:
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return await connect(**options)

    monkeypatch.setattr(aiomysql, "connect", dropping)
    database = MariaDatabase(maria_options(mariadb_url))
    asked = asyncio.create_task(database.fetch("installation.version"))
    await begun.wait()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await database.aclose()


async def test_a_statement_that_is_refused_says_so(harness: MariaHarness) -> None:
    with pytest.raises(Refused, match="1146"):
        await harness.database.with_statements({"x": "SELECT * FROM nothing"}).fetch("x")


async def test_a_crash_of_the_server_loses_and_reorders_nothing(servers_folder: Path) -> None:
    """SIGKILL in the midst, a restart on the same data: all that was committed arrives, each key in order."""
    server = MariaServer("crashing", servers_folder / "crashing-mariadb")
    await asyncio.to_thread(server.start)
    try:
        async with AsyncExitStack() as stack:
            harness = await stack.enter_async_context(on_mariadb(f"{server.url}/mysql"))
            ids = await harness.write(*[("t", f"k{n % 3}", str(n)) for n in range(60)])
            async with harness.relay(batch_records_max=5):
                await until(lambda: len(harness.broker.log) >= 10)
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
                harness.sql.close()
                harness.sql = await connected(harness.url)
                stack.callback(harness.sql.close)
                await harness.emptied()
            for n in range(3):
                of_key = harness.broker.ids(f"k{n}")
                assert list(dict.fromkeys(of_key)) == ids[n::3]
    finally:
        await asyncio.to_thread(server.discard)


# --- the lease --------------------------------------------------------------------------------------------------------


async def _reigned_until(election: MariaElection, lease: Lease, over: asyncio.Future[Lease]) -> None:
    async with election.hold(lease):
        await asyncio.wait([over])


async def test_a_leader_that_is_cut_off_stops_before_another_begins(harness: MariaHarness) -> None:
    """RR-16, RR-09: its lease ends by its own clock, counted from before the last renewal left."""
    options = LeaseOptions("test", lease_seconds=1, poll_seconds=0.05)
    first, second = (MariaElection(harness.database, harness.name, options) for _ in range(2))
    rounds = [asyncio.ensure_future(first.run())]
    try:
        async with asyncio.timeout(60):
            lease = await first.acquire()
            rounds.append(asyncio.ensure_future(second.run()))
            first._database = MariaDatabase(replace(maria_options(harness.url), port=1))
            follower = asyncio.ensure_future(second.acquire())
            with pytest.raises(LeadershipLost, match="has run out"):
                await _reigned_until(first, lease, follower)
            theirs = await follower
            async with second.hold(theirs):
                assert (first.trusted(0), theirs.term.number) == (False, lease.term.number + 1)
    finally:
        first.stop()
        second.stop()
        await asyncio.gather(*rounds)


# --- TLS --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Vault:
    """A server that nobody enters without TLS, and what an operator is given for it. The account ``proven`` needs a
    certificate of its authority beside its password."""

    url: str
    ca: Path
    client: Path
    foreign_ca: Path

    def settings(self, folder: Path, kafka: str, **more: Any) -> Settings:
        values = {"outbox_url": self.url, "outbox_tls": True, "outbox_tls_ca": self.ca, **more}
        return Settings(data_dir=folder, kafka_bootstrap_servers=kafka, **values)

    def proven(self) -> str:
        return self.url.replace("hookwire:secret", "proven:p")


@pytest.fixture(scope="module")
def vault(servers_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    ours, foreign = (Authority(tmp_path_factory.mktemp(name)) for name in ("ours", "foreign"))
    identity = Identity(Path(ours.ca_file), ours.chain(), ours.chain("relay"))
    server = SecuredMaria("secured-mariadb", servers_folder / "secured-mariadb", identity)
    server.start()
    try:
        made = Vault(f"{server.url}/shop", identity.ca, identity.client, Path(foreign.ca_file))
        tls = ssl.create_default_context(cafile=made.ca)
        with closing(
            pymysql.connect(host="127.0.0.1", port=server.port, user="hookwire", password="secret", ssl=tls)
        ) as sql:
            for statement in (
                "CREATE DATABASE shop",
                "CREATE USER proven IDENTIFIED BY 'p' REQUIRE X509",
                "GRANT ALL ON shop.* TO proven",
            ):
                sql.cursor().execute(statement)
        yield made
    finally:
        server.discard()


@pytest.mark.parametrize("fast", [False, True], ids=["compat", "fast"])
async def test_an_outbox_is_relayed_over_tls(vault: Vault, tmp_path: Path, kafka: KafkaServer, fast: bool) -> None:
    """SC-20: the server's certificate is verified, ours is shown where the account demands one; every row arrives."""
    topic = f"sealed.{secrets.token_hex(4)}"
    settings = vault.settings(
        tmp_path, kafka.bootstrap, outbox_url=vault.proven(), outbox_tls_certificate=vault.client,
        outbox_mode="fast" if fast else "compat",
    )  # fmt: skip
    tls = outbox_tls(settings).context()
    database = await open_maria(maria_options(vault.proven(), tls))
    try:
        async with database._connection() as connection, connection.cursor() as cursor:
            await cursor.execute(CREATE_MARIA_TABLE)
            await cursor.execute("SHOW STATUS LIKE 'Ssl_version'")
            (version,) = {row["Value"] for row in await cursor.fetchall()}
            async with open_compat(settings, Compat(MARIA_TABLE)) as relay, relay:
                for number in range(3):
                    await cursor.execute(
                        f"INSERT INTO {MARIA_TABLE} (kafka_topic, kafka_key, kafka_value, kafka_header_keys,"
                        " kafka_header_values) VALUES (%s, 'k', %s, '[]', '[]')",
                        (topic, str(number)),
                    )

                async def arrived() -> bool:
                    return len(await read_committed(kafka.bootstrap, topic)) == 3

                await until(arrived)
        messages = await read_committed(kafka.bootstrap, topic)
    finally:
        await database.aclose()
    assert (version[:4], [message.value for message in messages]) == ("TLSv", [b"0", b"1", b"2"])


def ways_not_into_mariadb() -> Iterator[Any]:
    tls = "HOOKWIRE_OUTBOX_TLS"
    yield pytest.param(lambda v: {"outbox_tls_ca": v.foreign_ca}, f"{tls}_CA names", id="wrong authority")
    yield pytest.param(lambda v: {"outbox_tls_ca": None}, f"{tls}_CA names", id="system's authorities")
    yield pytest.param(lambda v: {"outbox_url": v.url.replace("127.0.0.1", "localhost")}, "mismatch", id="another name")
    yield pytest.param(lambda v: {"outbox_tls": False, "outbox_tls_ca": None}, "Access denied", id="without TLS")
    yield pytest.param(lambda v: {"outbox_url": v.proven()}, "Access denied", id="no certificate of ours")


@pytest.mark.parametrize(("way", "says"), list(ways_not_into_mariadb()))
async def test_a_refused_connection_to_the_outbox_names_the_reason(
    vault: Vault, tmp_path: Path, way: Any, says: str
) -> None:
    settings = vault.settings(tmp_path, "127.0.0.1:1", **way(vault))
    with pytest.raises(OutboxUnavailable, match=says):
        async with open_compat(settings, Compat()):
            pass


async def test_after_a_server_took_no_write_no_older_connection_is_used(mariadb_url: str) -> None:
    """HA-02: error 1290 of a server that became a replica; each connection would have to meet it."""
    database = await open_maria(maria_options(mariadb_url))
    async with database._connection() as one, database._connection() as other:
        pass
    with pytest.raises(Unavailable):
        async with database._connection():
            raise Unavailable("the server is running with the --read-only option")
    closed = [one.closed, other.closed]
    await database.aclose()
    assert closed == [True, True]
