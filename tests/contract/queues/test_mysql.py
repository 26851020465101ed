"""What only a queue in MariaDB or MySQL has: plain SQL, the article's mark, and the faults of such a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiomysql
import pymysql
import pytest

from hookwire.jobs import Message, NotInTransaction, Queue, Refused, Worker
from hookwire.jobs.failure import passes
from hookwire.jobs.messages.mysql.session import Needs, Statement, Steps, run
from hookwire.jobs.messages.mysql.verbs import MysqlQueue, queue_names
from scripts.servers.mariadb import MariaServer
from tests.contract.queues.places import ByAiomysql, ByPymysql, Place, address, done
from tests.waiting import until


@pytest.fixture
async def place(mariadb_url: str) -> AsyncIterator[Place]:
    async with AsyncExitStack() as connections:
        place = ByAiomysql(mariadb_url, connections)
        await place.prepare(deliveries_max=2, archive=True)
        yield place


async def rows(connection: aiomysql.Connection, text: str) -> list[tuple[Any, ...]]:
    async with connection.cursor() as cursor:
        await cursor.execute(text)
        return list(await cursor.fetchall())


async def test_queuing_is_a_row_insertion(place: Place) -> None:
    """GM-03, JB-86, JB-02: the article's INSERT of the payload alone, and one that waits."""
    await place.run(place.sql, "INSERT INTO q (payload) VALUES ('plain')")
    await place.run(
        place.sql, "INSERT INTO q (payload, claim, lease_until) VALUES ('later', 0, UTC_TIMESTAMP() + INTERVAL 1 HOUR)"
    )
    received = await place.receive(9)
    counts = await MysqlQueue("q").counts(place.sql)

    assert [(one.payload, one.content_type, one.headers) for one in received] == [(b"plain", None, {})]
    assert counts == {"available": 0, "claimed": 1, "delayed": 1, "dead": 0, "oldest_at": None}


async def test_the_articles_own_worker_works_beside_ours(place: Place) -> None:
    """JB-86: "Rolling your own message queue in MySQL", its statements for submit, receive, accept and reject."""
    await place.run(place.sql, "INSERT INTO q (payload) VALUES ('1'), ('2'), ('3'), ('4')")
    ours = await place.receive()
    await place.run(place.sql, "UPDATE q SET claim = 11259375 WHERE claim IS NULL ORDER BY id LIMIT 2")  # receive
    theirs = await rows(place.sql, "SELECT id, payload FROM q WHERE claim = 11259375 ORDER BY id")
    await place.run(place.sql, f"DELETE FROM q WHERE id = {theirs[0][0]}")  # accept
    await place.run(place.sql, "UPDATE q SET claim = NULL WHERE claim = 11259375")  # reject
    rest = await place.receive(9)

    assert [one.payload for one in ours] == [b"1"]
    assert [payload for _, payload in theirs] == [b"2", b"3"]
    assert [(one.payload, one.attempts) for one in rest] == [(b"3", 1), (b"4", 1)]


async def test_a_claim_asks_for_a_connection_without_a_transaction(place: Place) -> None:
    """An open transaction would read an old snapshot and keep other receivers waiting."""
    await place.begin(place.sql)
    with pytest.raises(RuntimeError, match=r"receive\(\) commits by itself"):
        await place.receive()
    await place.run(place.sql, "ROLLBACK")
    with pytest.raises(NotInTransaction, match=r"before submit\(\)"):
        await done(place.queue.submit(place.sql, "x"))


async def test_a_driver_without_autocommit_sees_what_was_submitted_meanwhile(place: Place) -> None:
    """A loop that polls on such a connection keeps no snapshot open."""
    polling = ByPymysql(place.url, place.connections)
    connection = await polling.connect()
    found = [place.queue.receive(connection), place.queue.count(connection)]
    await place.submit("x")
    found += [place.queue.count(connection), len(place.queue.receive(connection))]

    assert found == [[], 0, 1, 1]


async def test_the_archive_and_the_dead_letters_are_told_apart(place: Place) -> None:
    """JB-07, JB-08: with times, receiver and reason; a dead letter returns to its place, or is deleted."""
    queue = MysqlQueue("q")
    await place.submit("kept", "bad", "worse")
    [kept, bad, worse] = await place.receive(3, receiver="r1")
    await place.accept([kept])
    await place.reject([bad, worse], dead=True, reason="no use")
    archived = await rows(
        place.sql,
        "SELECT payload, receiver, deliveries, created_at <= claimed_at AND claimed_at <= accepted_at FROM q_archive",
    )
    letters = await queue.dead(place.sql, 9)
    acts = [await queue.redrive(place.sql, [bad.id]), await queue.purge(place.sql, [bad.id, worse.id])]

    assert archived == [(b"kept", "r1", 1, 1)]
    assert [(one.payload, one.reason, one.deliveries) for one in letters] == [
        (b"bad", "no use", 1),
        (b"worse", "no use", 1),
    ]
    assert (acts, [one.payload for one in await place.receive(9)]) == ([1, 1], [b"bad"])


async def test_an_idle_accepter_stops_no_receiver(place: Place) -> None:
    """Its transaction holds a row beyond its lease. Others receive the rest, and return what nobody has locked."""
    other = await place.connect()
    await place.run(other, "SET SESSION innodb_lock_wait_timeout = 1")
    await place.submit("held", "lost", "free")
    [held, lost] = await place.receive(2)
    await place.begin(place.sql)
    await place.accept([held])
    await place.run(other, f"UPDATE q SET lease_until = UTC_TIMESTAMP(6) WHERE id = {lost.id}")
    returned = await done(MysqlQueue("q").reap(other, 9))
    # The lease of the locked row ends without a change of the row: the server's clock goes on.
    await place.run(other, "SET SESSION timestamp = UNIX_TIMESTAMP() + 3600")
    received = await done(place.queue.receive(other, 9, lease_seconds=9000))
    received += await done(place.queue.receive(other, 9))
    returned += await done(MysqlQueue("q").reap(other, 9))
    await place.run(place.sql, "COMMIT")

    assert ([one.payload for one in received], returned) == ([b"lost", b"free"], 1)


def test_an_interrupt_leaves_no_open_transaction(mariadb_url: str) -> None:
    """A program may go on with its connection after Ctrl+C, or after its time is up."""
    at = urlsplit(mariadb_url)
    with closing(pymysql.connect(**address(mariadb_url), database=at.path[1:], autocommit=True)) as connection:

        def interrupted() -> Steps[None]:
            yield Statement("SELECT 1")
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(connection, interrupted(), Needs.OWN, "accept")

        assert not connection.server_status & 1


async def test_a_name_may_have_the_words_of_the_statements(place: Place) -> None:
    """The archive of a queue is made and used under the queue's own name."""
    queue = Queue("message_archive.message_table")
    await done(queue.create(place.sql, archive=True))
    await place.begin(place.sql)
    await done(queue.submit(place.sql, "x"))
    await place.run(place.sql, "COMMIT")
    await done(queue.accept(place.sql, await done(queue.receive(place.sql))))

    assert await rows(place.sql, "SELECT payload FROM `message_archive.message_table_archive`") == [(b"x",)]


async def test_ids_that_begin_anew_are_archived_again(place: Place) -> None:
    """TRUNCATE begins the numbers at 1; the archive keeps the messages of before."""
    for payload in ("before", "after"):
        await place.submit(payload)
        await place.accept(await place.receive())
        await place.run(place.sql, "TRUNCATE TABLE q")

    assert await rows(place.sql, "SELECT id, payload FROM q_archive ORDER BY accepted_at") == [
        (1, b"before"),
        (1, b"after"),
    ]


async def test_what_no_statement_can_carry_is_refused_before_it_is_sent(place: Place) -> None:
    """The server would end the connection; so the transaction stays open and commits the rest."""
    [[most]] = await rows(place.sql, "SELECT @@max_allowed_packet")
    await place.begin(place.sql)
    await done(place.queue.submit(place.sql, "small"))
    with pytest.raises(ValueError, match="max_allowed_packet of the server is"):
        await done(place.queue.submit(place.sql, b"x" * (most // 2)))
    with pytest.raises(ValueError, match="max_allowed_packet of the server is"):
        await done(place.queue.submit_many(place.sql, [b""] * (most // 100)))
    await place.run(place.sql, "COMMIT")

    assert await place.count() == 1


async def test_wrong_values_are_refused(place: Place) -> None:
    """A name is no SQL; a filter names a column."""
    refused = []
    for act in (
        lambda: Queue("q`; DROP TABLE q; --").count(place.sql),
        lambda: Queue("x" * 57).count(place.sql),
        lambda: place.queue.receive(place.sql, filter={"type` = 1 OR `type": "x"}),
        lambda: place.queue.receive(place.sql, 0),
        lambda: place.queue.receive(place.sql, lease_seconds=float("nan")),
        lambda: place.queue.submit(place.sql, "x", priority=1),
        lambda: Queue("r").create(place.sql, deliveries_max=0),
    ):
        with pytest.raises(ValueError, match=r"invalid queue|names columns|is 1 to|is 0 to|no priority") as error:
            await done(act())
        refused.append(str(error.value)[:13])

    assert (len(refused), await queue_names(place.sql)) == (7, ["q"])


async def test_a_deadlock_undoes_a_settlement_which_may_be_tried_again(place: Place) -> None:
    """The other session has changed more, so the server ends ours."""
    other = await place.connect()
    await place.submit(*["x"] * 30)
    held = await place.receive(2)
    await place.begin(other)
    await place.run(other, f"UPDATE q SET type = 'changed' WHERE id >= {held[1].id}")
    accepting = asyncio.create_task(done(place.queue.accept(place.sql, held)))

    async def is_waiting() -> bool:
        return bool(await rows(other, "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"))

    await until(is_waiting, poll_seconds=0.2)  # the server renews this table only where nobody has just read it
    await place.run(other, f"UPDATE q SET type = 'changed' WHERE id = {held[0].id}")
    with pytest.raises(pymysql.err.OperationalError) as error:
        await accepting
    await place.run(other, "ROLLBACK")

    assert (error.value.args[0], passes(error.value)) == (1213, True)
    assert await place.accept(held) == [one.id for one in held]


async def test_a_worker_outlives_a_restart_and_a_read_only_server(servers_folder: Path) -> None:
    """Every message is accepted: what was held through the outages too; a refused one is dead."""
    server = MariaServer("queueing", servers_folder / "queueing-mariadb")
    await asyncio.to_thread(server.start)
    try:
        with closing(pymysql.connect(**address(server.url), autocommit=True)) as admin, admin.cursor() as cursor:
            for text in ("CREATE DATABASE w", "CREATE USER u IDENTIFIED BY 'p'", "GRANT ALL ON w.* TO u"):
                cursor.execute(text)
        named = {**address(server.url), "user": "u", "password": "p", "db": "w"}
        pool = await aiomysql.create_pool(minsize=1, maxsize=3, **named)
        queue, seen, gate = Queue("mail"), set[str](), asyncio.Event()

        async def submit(*payloads: str) -> None:
            connection = await aiomysql.connect(**named)
            await queue.submit_many(connection, payloads)
            await connection.commit()
            connection.close()

        async def handle(message: Message) -> None:
            seen.add(message.payload.decode())
            if message.payload == b"refused":
                raise Refused("no use", dead=True)
            if message.payload.startswith(b"held"):
                await gate.wait()

        async with pool.acquire() as connection:
            await queue.create(connection)
        worker = Worker(pool, "mail", handle, batch=10)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(worker.run())
            await submit("refused", "held by a restart")
            await until(lambda: len(seen) == 2)
            await asyncio.to_thread(server.restart)
            gate.set()
            await until(lambda: worker.accepted == 1)
            gate.clear()
            await submit("held by a standby")
            await until(lambda: len(seen) == 3)
            with closing(pymysql.connect(**address(server.url))) as admin, admin.cursor() as cursor:
                cursor.execute("SET GLOBAL read_only = 1")
                gate.set()
                with pytest.raises(pymysql.err.OperationalError, match="read-only"):
                    await submit("not now")
                cursor.execute("SET GLOBAL read_only = 0")
            await submit("last")
            await until(lambda: worker.accepted == 3)
            worker.stop()
            await running
        async with pool.acquire() as connection:
            letters = [(one.payload, one.reason) for one in await MysqlQueue("mail").dead(connection, 9)]
            left = await queue.count(connection)
        pool.close()
        await pool.wait_closed()
    finally:
        await asyncio.to_thread(server.discard)

    assert (left, letters) == (0, [(b"refused", "no use")])
    assert seen == {"refused", "held by a restart", "held by a standby", "last"}
