"""The pool: every wait has a bound (RP-06), every foreign exception becomes one of ours, a lost connection heals.

The statements of these tests are their own, put beside the product's for the length of a test.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import asyncpg
import pytest

from db.bound import translated
from db.errors import Busy, DatabaseError, OutcomeUnknown, Refused, ServerTrouble, Unavailable
from db.pool import Database, PoolOptions, open_database
from db.statements import STATEMENTS
from tests.waiting import lasts, poll, until

_OWN = {
    "test.setting": "SELECT current_setting($1)",
    "test.one": "SELECT 1",
    "test.commits": "SELECT setting || ' by ' || source FROM pg_settings WHERE name = 'synchronous_commit'",
    "test.add": "SELECT $1::integer + 1",
    "test.sleep": "SELECT pg_sleep(60)",
    # The server's own limit taken away, so that only the client's is left.
    "test.sleep_unbounded": "SET statement_timeout = 0; SELECT pg_sleep(60)",
    "test.create": "CREATE TABLE IF NOT EXISTS notes (id integer PRIMARY KEY, text text)",
    "test.insert": "INSERT INTO notes VALUES ($1, 'a')",
    "test.count": "SELECT count(*) FROM notes",
    "test.lock": "SELECT pg_advisory_xact_lock($1)",
    "test.prepared_at": "SELECT prepare_time FROM pg_prepared_statements WHERE statement = $1",
    "test.backend": "SELECT pg_backend_pid()",
    "test.read_only": "SET default_transaction_read_only = on",
    "test.say": "SELECT pg_temp.say($1, $2, $3)",
    "test.can_say": """
        CREATE FUNCTION pg_temp.say(code text, message text, broken text) RETURNS void LANGUAGE plpgsql AS
        $$BEGIN RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, CONSTRAINT = broken; END$$""",
    "test.xact": "SELECT pg_current_xact_id()::text::bigint",
}
_TERMINATE = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'pool-test'"


@pytest.fixture(autouse=True)
def own_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("db.bound.STATEMENTS", MappingProxyType({**STATEMENTS, **_OWN}))


@asynccontextmanager
async def opened(url: str, **options: float) -> AsyncIterator[Database]:
    settings = replace(PoolOptions(url, application_name="pool-test", connections_min=1, connections_max=2), **options)
    database = await open_database(settings)
    try:
        yield database
    finally:
        await database.aclose()


async def terminate_ours(url: str, *, when: str = "true") -> None:
    """Ends the pool's backends, as an administrator or a crash would, once `when` holds for one of them."""
    connection = await asyncpg.connect(url)
    try:
        await until(lambda: connection.fetchval(f"{_TERMINATE} AND {when}"), 30)
    finally:
        await connection.close()


async def ours(url: str, number: int, when: str = "true") -> None:
    """Waits until so many of the pool's backends are there for which `when` holds."""
    count = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pool-test' AND {when}"
    connection = await asyncpg.connect(url)
    try:

        async def holds() -> object:
            return await connection.fetchval(count) == number

        await until(holds, 30)
    finally:
        await connection.close()


# --- bounds (RP-06) ---------------------------------------------------------------------------------------------


async def test_every_session_starts_with_every_time_out(database_url_both: str) -> None:
    """RL-20, RP-06."""
    wanted = {
        "application_name": "pool-test",
        "statement_timeout": "30s",
        "lock_timeout": "5s",
        "idle_in_transaction_session_timeout": "30s",
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "3",
        "tcp_keepalives_count": "3",
        "TimeZone": "UTC",
        "jit": "off",
        "plan_cache_mode": "force_generic_plan",
    }
    async with opened(database_url_both) as database:
        assert {name: await database.fetchval("test.setting", name) for name in wanted} == wanted


async def test_a_filtered_list_is_planned_for_its_values_and_nothing_after_it(database_url: str) -> None:
    async with opened(database_url) as database:
        rows = await database.fetch_filtered("test.setting", "plan_cache_mode")
        after = await database.fetchval("test.setting", "plan_cache_mode")
        assert ([*rows[0].values()], after) == (["force_custom_plan"], "force_generic_plan")


async def test_a_statement_that_runs_too_long_ends_in_the_server(database_url: str) -> None:
    async with opened(database_url, statement_seconds=3.0) as database:
        with pytest.raises(Busy, match="statement timeout"):
            await database.fetch("test.sleep")


async def test_a_statement_without_an_answer_ends_in_the_client_with_an_unknown_outcome(database_url: str) -> None:
    """RP-06."""
    async with opened(database_url, statement_seconds=3.0) as database:
        with pytest.raises(OutcomeUnknown):
            await database.execute("test.sleep_unbounded")


async def test_a_wait_for_a_free_connection_ends(database_url: str) -> None:
    async with opened(database_url, acquire_seconds=0.2, connections_max=1) as database, database.transaction():
        with pytest.raises(Unavailable):
            await database.fetchval("test.one")


async def test_a_wait_for_a_lock_ends_and_says_busy(database_url: str) -> None:
    """F18."""
    async with opened(database_url, lock_seconds=0.2) as database, database.transaction() as holder:
        await holder.fetchval("test.lock", 7)
        with pytest.raises(Busy, match="lock timeout"):
            async with database.transaction() as waiter:
                await waiter.fetchval("test.lock", 7)


async def test_a_forgotten_transaction_is_ended_by_the_server(database_url: str) -> None:
    """RP-04. The pool replaces the ended connection at once, so what is waited for is the end of this one."""
    async with opened(database_url, idle_in_transaction_seconds=0.2) as database:
        await database.execute("test.create")

        async def forget() -> None:
            async with database.transaction() as session:
                await session.execute("test.insert", 1)
                await ours(database_url, 0, f"pid = {await session.fetchval('test.backend')}")

        with pytest.raises(DatabaseError):
            await forget()
        assert await database.fetchval("test.count") == 0


async def test_no_server_is_unavailable(free_port: int) -> None:
    with pytest.raises(Unavailable):
        async with opened(f"postgresql://nobody@127.0.0.1:{free_port}/nothing"):
            pass


async def test_a_plan_is_not_kept_for_long(database_url: str) -> None:
    """RP-03: of 10^5 rows, one made when there were none claims in 900 ms instead of 3 ms."""
    async with opened(database_url, connections_max=1, plan_seconds=1) as database, asyncio.timeout(30):
        await database.fetchval("test.one")
        first = await database.fetchval("test.prepared_at", _OWN["test.one"])
        while await database.fetchval("test.prepared_at", _OWN["test.one"]) == first:
            await poll()
            await database.fetchval("test.one")


# --- what a failure means ---------------------------------------------------------------------------------------


async def test_a_backend_that_ends_during_a_statement_leaves_its_outcome_unknown(database_url: str) -> None:
    async with opened(database_url) as database:
        asking = asyncio.ensure_future(database.fetch("test.sleep"))
        await terminate_ours(database_url, when="query LIKE '%pg_sleep%' AND state = 'active'")
        with pytest.raises(OutcomeUnknown):
            await asking


async def test_a_backend_that_ends_before_commit_fails_the_transaction(database_url: str) -> None:
    """Unavailable when the pool knows already that the connection is gone: then COMMIT was never sent."""
    async with opened(database_url) as database:

        async def create_and_lose() -> None:
            async with database.transaction() as session:
                await session.execute("test.create")
                await terminate_ours(database_url)

        with pytest.raises((OutcomeUnknown, Unavailable)):
            await create_and_lose()


async def test_after_its_connections_were_ended_the_pool_works_on(database_url: str) -> None:
    async with opened(database_url, connections_min=2) as database:
        await terminate_ours(database_url)
        async with asyncio.timeout(30):
            while True:
                try:
                    assert await database.fetchval("test.one") == 1
                    break
                except DatabaseError:
                    continue


_SAID = [
    ("53100", 'could not extend file "base/5/2619": No space left on device', "", ServerTrouble),
    ("53200", "out of memory", "", ServerTrouble),
    ("53400", "temporary file size exceeds temp_file_limit", "", ServerTrouble),
    ("25006", "cannot execute INSERT in a read-only transaction", "", ServerTrouble),
    ("58030", 'could not write block 7 of "base/5/2619": Input/output error', "", ServerTrouble),
    ("26000", 'prepared statement "__asyncpg_stmt_1__" does not exist', "", ServerTrouble),
    ("42P01", 'relation "hookwire.events" does not exist', "", ServerTrouble),
    ("XX001", "invalid page in block 7 of relation base/5/2619", "", ServerTrouble),
    ("23505", "duplicate key value violates unique constraint", "events_pkey", ServerTrouble),
    ("23503", "violates foreign key constraint", "subscription_secrets_subscription_id_fkey", ServerTrouble),
    ("23514", 'no partition of relation "events" found for row', "", ServerTrouble),
    ("23514", "violates check constraint", "topics_retention_days_check", Refused),
    ("23502", "null value violates not-null constraint", "", Refused),
    ("22021", "invalid byte sequence", "", Refused),
    ("23505", "hookwire.publish: an idempotency key was used before with other contents", "", Refused),
    ("42704", "hookwire.publish: unknown topic 'a'", "", Refused),
]


@pytest.mark.parametrize(
    ("sqlstate", "message", "constraint", "kind"),
    _SAID,
    ids=[f"{s[0]} {s[3].__name__} {n}" for n, s in enumerate(_SAID)],
)
async def test_only_data_is_refused_and_everything_else_is_the_servers_trouble(
    sqlstate: str, message: str, constraint: str, kind: type[DatabaseError], database_url: str
) -> None:
    """FC-06: a publisher drops what is its own fault and repeats what is not. The SQLSTATE is kept either way."""
    async with opened(database_url, connections_max=1) as database:
        await database.execute("test.can_say")
        with pytest.raises(DatabaseError) as raised:
            await database.fetch("test.say", sqlstate, message, constraint)
        assert (type(raised.value), getattr(raised.value, "sqlstate", "")) == (kind, sqlstate)


@pytest.mark.parametrize(
    ("is_read_only", "kind"), [(False, ServerTrouble), (True, ServerTrouble)], ids=["index", "read-only"]
)
async def test_what_the_server_itself_answers_is_told_apart_too(
    is_read_only: bool, kind: type[DatabaseError], database_url_both: str
) -> None:
    """FC-06: an index's 23505 and a read-only session's 25006, as both servers say them."""
    async with opened(database_url_both, connections_max=1) as database:
        await database.execute("test.create")
        await database.execute("test.insert", 1)
        if is_read_only:
            await database.execute("test.read_only")
        with pytest.raises(kind) as trouble:
            await database.execute("test.insert", 1)
        assert getattr(trouble.value, "sqlstate", None) == ("25006" if is_read_only else "23505")


@pytest.mark.parametrize(("sent", "kind"), [(True, OutcomeUnknown), (False, Unavailable)], ids=["sent", "not sent"])
def test_an_answer_that_ends_the_session_leaves_open_what_was_sent(sent: bool, kind: type[DatabaseError]) -> None:
    """FC-06: a PANIC in COMMIT has the SQLSTATE of a full disk, and the commit may be durable all the same."""
    answer = {"S": "PANIC", "V": "PANIC", "C": "53100", "M": "could not write to file pg_wal/xlogtemp.7"}
    with pytest.raises(DatabaseError) as ended, translated(sent=sent):
        raise asyncpg.PostgresError.new(answer)
    assert type(ended.value) is kind


async def test_a_session_that_the_server_ends_between_two_statements_is_unavailable(database_url: str) -> None:
    """FC-06: asyncpg then says that the connection was released, which is no mistake of ours."""
    async with opened(database_url) as database:
        with suppress(Unavailable):
            async with database.transaction() as session:
                await terminate_ours(database_url, when=f"pid = {await session.fetchval('test.backend')}")
                await ours(database_url, 0, "state = 'idle in transaction'")
                with pytest.raises(Unavailable):
                    await session.fetchval("test.one")


async def test_an_argument_of_a_wrong_type_is_refused_whatever_its_text_says(database_url: str) -> None:
    async with opened(database_url) as database:
        with pytest.raises(Refused, match="invalid input"):
            await database.fetchval("test.add", "connection is closed")


async def test_a_deadlock_is_reported_as_busy(database_url: str) -> None:
    """F18: the server ends one of two transactions that wait for each other."""
    async with opened(database_url, lock_seconds=10) as database:

        async def lock_both(first: int, second: int, met: asyncio.Barrier) -> str:
            try:
                async with database.transaction() as session:
                    await session.fetchval("test.lock", first)
                    await met.wait()
                    await session.fetchval("test.lock", second)
            except Busy:
                return "busy"
            return "done"

        met = asyncio.Barrier(2)
        assert sorted(await asyncio.gather(lock_both(1, 2, met), lock_both(2, 1, met))) == ["busy", "done"]


@pytest.mark.parametrize("arguments", [(), (1, 2)], ids=["too few", "too many"])
async def test_wrong_arguments_are_a_bug_and_pass_through(database_url: str, arguments: tuple[object, ...]) -> None:
    async with opened(database_url) as database:
        with pytest.raises(asyncpg.InterfaceError):
            await database.fetchval("test.add", *arguments)


# --- transactions -----------------------------------------------------------------------------------------------


async def test_a_transaction_that_ends_by_an_exception_leaves_nothing(database_url: str) -> None:
    async with opened(database_url) as database:
        await database.execute("test.create")

        async def insert_and_fail() -> None:
            async with database.transaction() as session:
                await session.execute("test.insert", 1)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await insert_and_fail()
        assert await database.fetchval("test.count") == 0


async def test_a_transaction_that_was_left_open_by_hand_is_rolled_back(database_url: str) -> None:
    """A worker of the SDK runs statements of its own; the next user would write into its transaction."""
    async with opened(database_url, connections_max=1) as database:
        async with database.lend() as connection:
            await connection.execute("BEGIN")
        first, second = await database.fetchval("test.xact"), await database.fetchval("test.xact")
        assert first != second, "each statement is a transaction of its own again"


async def test_a_cancelled_statement_gives_its_connection_back_clean(database_url: str) -> None:
    async with opened(database_url, connections_max=1) as database:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), database.transaction() as session:
                await session.fetch("test.sleep")
        first, second = await database.fetchval("test.xact"), await database.fetchval("test.xact")
        assert first != second, "each statement is a transaction of its own again"


async def test_a_cancelled_transaction_stays_cancelled_when_its_connection_is_gone(database_url: str) -> None:
    async with opened(database_url) as database:
        inside = asyncio.Event()

        async def wait_inside() -> None:
            async with database.transaction() as session:
                await session.fetchval("test.one")
                inside.set()
                await asyncio.Event().wait()

        waiting = asyncio.ensure_future(wait_inside())
        await inside.wait()
        await terminate_ours(database_url)
        await lasts(0.1)  # the client learns of it; there is no signal to wait for
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_a_cancellation_is_not_lost_when_the_connection_cannot_be_given_back(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(database_url, connections_max=1) as database:
        release, inside = asyncpg.Pool.release, asyncio.Event()

        async def release_and_fail(pool: asyncpg.Pool, connection: asyncpg.Connection) -> None:
            await release(pool, connection)
            raise asyncpg.ConnectionDoesNotExistError("the server has gone")

        async def wait_inside() -> None:
            async with database.transaction():
                inside.set()
                await asyncio.Event().wait()

        with monkeypatch.context() as patched:
            patched.setattr(asyncpg.Pool, "release", release_and_fail)
            waiting = asyncio.ensure_future(wait_inside())
            await inside.wait()
            waiting.cancel()
            await asyncio.wait([waiting])
        assert (waiting.cancelled(), await database.fetchval("test.one")) == (True, 1)


def surprised_by_its_timer(connection: Any) -> None:
    """The timer of idle connections runs already."""
    connection._holder._setup_inactive_callback()


def surprised_by_its_holder(connection: Any) -> None:
    """The pool has taken the connection for free."""
    connection._holder._in_use.set_result(None)
    connection._holder._in_use = None


@pytest.mark.parametrize("surprise", [surprised_by_its_timer, surprised_by_its_holder])
async def test_a_connection_that_cannot_be_given_back_is_dropped_and_the_pool_works_on(
    surprise: Callable[[Any], None], database_url: str
) -> None:
    """FC-05: asyncpg's InternalClientError from the pool's release ended the process."""
    async with opened(database_url) as database:
        found = []
        async with database.transaction() as transaction:
            found.append(await transaction.fetchval("test.one"))
            surprise(transaction._connection)  # type: ignore[attr-defined]
        found += [await database.fetchval("test.one") for _ in range(4)]
    assert found == [1] * 5


async def test_a_client_that_a_dying_connection_has_surprised_leaves_the_outcome_unknown(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FC-05: so do the statements; asyncpg's own words for it name no connection."""
    async with opened(database_url) as database:

        async def surprised(*_arguments: object, **_options: object) -> None:
            raise asyncpg.InternalClientError("_on_result: waiter is done")

        with monkeypatch.context() as patched:
            patched.setattr(asyncpg.Connection, "fetchval", surprised)
            with pytest.raises(OutcomeUnknown, match="lost this connection"):
                await database.fetchval("test.one")
        assert await database.fetchval("test.one") == 1


async def test_closing_ends_within_its_bound_though_a_statement_runs(database_url: str) -> None:
    database = await open_database(PoolOptions(database_url, application_name="pool-test"))
    asking = asyncio.ensure_future(database.fetch("test.sleep"))
    await ours(database_url, 1, "wait_event = 'PgSleep'")
    async with asyncio.timeout(20):
        await database.aclose()
    with pytest.raises(DatabaseError):
        await asking


@pytest.mark.parametrize(
    ("given", "own"), [("off", "on"), ("on", "on"), ("remote_apply", "remote_apply"), ("local", "local")]
)
async def test_a_session_has_its_own_word_on_durability(database_url: str, given: str, own: str) -> None:
    """FC-11: what is set for the server while the service runs does not reach a session that has its own value."""
    connection = await asyncpg.connect(database_url)
    await connection.execute(f"ALTER DATABASE {database_url.rpartition('/')[2]} SET synchronous_commit = {given}")
    await connection.close()
    async with opened(database_url) as database:
        assert await database.fetchval("test.commits") == f"{own} by session"
