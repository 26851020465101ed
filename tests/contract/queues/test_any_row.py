"""Whatever a plain INSERT can write is read, received and settled: no row stops a worker or a command."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import aiomysql
import asyncpg
import pymysql
import pytest
from typer.testing import CliRunner

from app.cli.main import application
from hookwire.jobs import Message, Refused, Worker
from hookwire.jobs.messages.mysql.verbs import MysqlQueue
from tests.contract.queues.places import ByAiomysql, ByPymysql, Place, address, done, opened
from tests.waiting import until

_REFUSED = (1366, 3140, 3144)
"""What MySQL says to a text that is none, and to JSON that it cannot hold."""
_NEVER = datetime.min.replace(tzinfo=UTC)
_MOMENTS = ["'0000-00-00'", "'2026-00-00'", "'2026-02-00'", "'2026-02-31'", "'0000-01-01'"]
_ROWS = {
    **{f"created at {moment}": f"(payload, created_at) VALUES ('1', {moment})" for moment in _MOMENTS},
    "the last moment": "(payload, created_at) VALUES ('1', '9999-12-31 23:59:59.999999')",
    "a lease at no moment": "(payload, lease_until) VALUES ('1', '0000-00-00')",
    "the most deliveries": "(payload, deliveries) VALUES ('1', 2147483647)",
    "the fewest deliveries": "(payload, deliveries) VALUES ('1', -2147483648)",
    "an id below 0": "(id, payload) VALUES (-5, '1')",
    "headers without names": "(payload, headers) VALUES ('1', '[5]')",
    "a number too long for Python": """(payload, headers) VALUES ('1', CONCAT('{"a": ', REPEAT('1', 5000), '}'))""",
    "half of a surrogate pair in a type": "(payload, type) VALUES ('1', UNHEX('EDA080'))",
    "half of one in headers": """(payload, headers) VALUES ('1', CONCAT('{"a": "', UNHEX('EDA080'), '"}'))""",
    "an empty payload": "(payload) VALUES ('')",
    "the last id": "(id, payload) VALUES (9223372036854775807, '1')",
}


@pytest.fixture(params=[ByAiomysql, ByPymysql])
async def place(request: pytest.FixtureRequest, mariadb_url: str) -> AsyncIterator[Place]:
    async with AsyncExitStack() as connections:
        place: Place = request.param(mariadb_url, connections)
        await place.prepare(archive=True)
        yield place


async def insert(place: Place, row: str) -> bool:
    """Insert as a program does that lets the server take any date. Return whether the server takes the row: MySQL has
    types of its own for JSON and texts.
    """
    program = ByAiomysql(place.url, place.connections)
    connection = await program.connect()
    await program.run(connection, "SET sql_mode = 'ALLOW_INVALID_DATES,STRICT_TRANS_TABLES'")
    try:
        await program.run(connection, f"INSERT INTO q {row}")
    except pymysql.err.MySQLError as error:
        if error.args[0] not in _REFUSED:
            raise
        return False
    return True


@pytest.mark.parametrize("row", _ROWS.values(), ids=_ROWS)
async def test_any_row_is_browsed_received_and_accepted(place: Place, row: str) -> None:
    """JB-86: in the server's strictest mode too, into the archive."""
    if not await insert(place, row):
        pytest.skip("this server refuses it")
    await place.run(place.sql, "SET sql_mode = 'TRADITIONAL'")
    browsed = await done(place.queue.browse(place.sql, 9))
    counts = await done(MysqlQueue("q").counts(place.sql))
    await place.run(place.sql, "COMMIT")
    received = await place.receive(9)
    accepted = await place.accept(received)

    assert [one.id for one in browsed] == [one.id for one in received] == accepted
    assert (len(accepted), counts["available"], counts["oldest_at"]) == (1, 1, browsed[0].created_at)


async def test_any_row_is_buried_and_redriven(place: Place) -> None:
    """JB-86."""
    queue = MysqlQueue("q")
    count = sum([await insert(place, row) for row in _ROWS.values()])
    await place.run(place.sql, "SET sql_mode = 'TRADITIONAL'")
    received = await place.receive(99)
    await place.reject(received, dead=True, reason="no use")
    letters = await done(queue.dead(place.sql, 99))
    redriven = await done(queue.redrive(place.sql, [one.id for one in letters]))

    assert ({one.reason for one in letters}, len(letters), redriven) == ({"no use"}, count, count)


async def test_what_python_cannot_hold_is_read_as_something_else(place: Place) -> None:
    """JB-86: the earliest moment, no headers, and a mark in the place of a character."""
    await insert(place, _ROWS["created at '0000-00-00'"])
    await insert(place, _ROWS["headers without names"])
    are_kept = await insert(place, _ROWS["half of a surrogate pair in a type"])
    [never, nameless, *halved] = await place.receive(9)

    assert (never.created_at, nameless.headers) == (_NEVER, {})
    assert [one.type for one in halved] == ["\ufffd\ufffd\ufffd"] * are_kept


async def test_a_worker_goes_on_beside_such_rows(mariadb_url: str) -> None:
    """JB-86: one row of 0000-00-00 ended every worker of the queue, for ever."""
    async with AsyncExitStack() as connections:
        place = ByAiomysql(mariadb_url, connections)
        await place.prepare(archive=True)
        count = sum([await insert(place, row) for row in _ROWS.values()])
        named = {**address(mariadb_url), "db": urlsplit(mariadb_url).path[1:]}
        pool = await aiomysql.create_pool(minsize=1, maxsize=3, **named)

        async def handle(message: Message) -> None:
            if message.payload == b"":
                raise Refused("no use", dead=True)

        worker = Worker(pool, "q", handle)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(worker.run())
            await until(lambda: running.done() or worker.accepted == count - 1)
            worker.stop()
        letters = [one.reason for one in await done(MysqlQueue("q").dead(place.sql, 9))]
        pool.close()
        await pool.wait_closed()

    assert letters == ["no use"]


def test_the_commands_print_such_rows(mariadb_url: str) -> None:
    """JB-86: the list, the counts, the messages and the dead letters; and a program works on them."""

    async def prepared() -> int:
        async with AsyncExitStack() as connections:
            place = ByAiomysql(mariadb_url, connections)
            await place.prepare()
            return sum([await insert(place, row) for row in _ROWS.values()])

    count = asyncio.run(prepared())
    acts = [
        "queues list --json", "queues show q --json", "queues peek q --limit 50 --json",
        f"work --queue q --count {count}", "queues dead q --json", "queues redrive q --id msg_-5 --json",
    ]  # fmt: skip
    runner, found = CliRunner(), list[Any]()
    for act in acts:
        words = [*act.split(), "--database", mariadb_url]
        words += ["--", "sh", "-c", "exit 100"] if act.startswith("work") else []
        finished = runner.invoke(application(words[0]), words)
        assert finished.exit_code == 0, finished.output
        found.append(json.loads(finished.stdout) if "--json" in words else None)

    assert [len(found[number]["messages"]) for number in (2, 4)] == [count] * 2
    assert (found[1]["oldest_at"], found[5]) == (found[2]["messages"][0]["created_at"], {"done": 1})


async def test_the_view_of_postgresql_refuses_what_its_receivers_cannot_read(database_url: str) -> None:
    """JB-86: the other door of a plain INSERT; it takes no times, and bytes of any kind."""
    refused = ("headers) VALUES ('q', '[5]')", """headers) VALUES ('q', '{"a": 1e5000}')""",
               "delay_seconds) VALUES ('q', 'NaN')", "delay_seconds) VALUES ('q', 'infinity')")  # fmt: skip
    async with opened("postgresql", database_url) as place:
        await place.prepare()
        for row in refused:
            with pytest.raises(asyncpg.DataError):
                await place.run(place.sql, f"INSERT INTO hookwire.message_queue (queue, {row}")
        await place.run(
            place.sql, "INSERT INTO hookwire.message_queue (queue, payload_bytes) VALUES ('q', '\\xeda080')"
        )
        browsed, received = await place.queue.browse(place.sql, 9), await place.receive(9)

    assert [one.payload for one in (*browsed, *received)] == [b"\xed\xa0\x80"] * 2
