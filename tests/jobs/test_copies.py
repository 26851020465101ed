"""Copies: every named consumer reads every message, whatever order transactions commit in (JB-13..JB-15, JT-10)."""

from __future__ import annotations

import itertools
from typing import Any

import asyncpg
import pytest


async def submit(sql: asyncpg.Connection, payload: str) -> int:
    return await sql.fetchval("SELECT hookwire.submit('q', $1::text)", payload)


async def register(sql: asyncpg.Connection, name: str, since: str = "infinity") -> bool:
    return await sql.fetchval(f"SELECT hookwire.register_consumer('q', $1, '{since}')", name)


async def read(sql: asyncpg.Connection, name: str, count: int = 100, **more: Any) -> list[tuple[int, int, str]]:
    names = "".join(f", {name} => ${number}" for number, name in enumerate(more, 3))
    rows = await sql.fetch(f"SELECT * FROM hookwire.receive_copies('q', $1, $2{names})", name, count, *more.values())
    return [(row["id"], row["claim"], row["payload"].decode()) for row in rows]


async def done(sql: asyncpg.Connection, name: str, row: tuple[int, int, str]) -> bool:
    return await sql.fetchval("SELECT hookwire.accept_copies('q', $1, $2, ARRAY[$3::bigint])", name, row[1], row[0])


def bodies(rows: list[tuple[int, int, str]]) -> list[str]:
    return [row[2] for row in rows]


async def test_each_consumer_reads_every_message_beside_the_competing_receivers(sql: asyncpg.Connection) -> None:
    """JB-13, JB-14: what a move consumer accepts is not hidden from a durable copy consumer."""
    await submit(sql, "before")
    await register(sql, "a")
    await register(sql, "b")
    await submit(sql, "1")
    await submit(sql, "2")
    moved = await sql.fetch("SELECT id, claim, payload FROM hookwire.receive('q', 9)")
    await sql.execute("SELECT hookwire.accept($1, $2)", [row["id"] for row in moved], moved[0]["claim"])
    first, second = await read(sql, "a"), await read(sql, "b")
    settled = [await done(sql, "a", first[0]), await done(sql, "a", first[0])]
    rest = await read(sql, "a")

    assert [row["payload"] for row in moved] == [b"before", b"1", b"2"]
    assert (bodies(first), bodies(second), settled, bodies(rest)) == (["1", "2"], ["1", "2"], [True, False], ["2"])


async def test_one_reader_at_a_time_and_a_stale_one_moves_nothing(sql: asyncpg.Connection) -> None:
    """JB-60, GU-20: the lease is the whole batch's."""
    await register(sql, "a")
    await submit(sql, "1")
    first = await read(sql, "a")
    meanwhile = await read(sql, "a")
    await sql.execute("UPDATE hookwire.consumers SET lease_until = clock_timestamp()")
    second = await read(sql, "a")
    stale = await done(sql, "a", first[0])
    let_go = await sql.fetchval("SELECT hookwire.release_copies('q', 'a', $1)", second[0][1])

    assert (bodies(first), meanwhile, bodies(second), stale, let_go, bodies(await read(sql, "a"))) == (
        ["1"],
        [],
        ["1"],
        False,
        True,
        ["1"],
    )


async def test_a_consumer_may_begin_with_what_the_log_still_has(sql: asyncpg.Connection) -> None:
    """JB-14: earliest, or from a moment on."""
    await register(sql, "first")
    await submit(sql, "1")
    await sql.execute("UPDATE hookwire.message_log SET created_at = '2020-01-01'")
    await submit(sql, "2")
    await register(sql, "all", "-infinity")
    await register(sql, "late", "2021-01-01")
    again = await register(sql, "late")

    assert (bodies(await read(sql, "all")), bodies(await read(sql, "late")), again) == (["1", "2"], ["2"], False)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
async def test_nobody_misses_a_message_in_any_order_of_commits(connect: Any, order: tuple[int, ...]) -> None:
    """JT-10, JB-15: the reader reads after each commit. A cursor over ids alone would miss those that commit late."""
    reader, *writers = [await connect() for _ in range(4)]
    await register(reader, "a")
    transactions = [writer.transaction() for writer in writers]
    for number, (writer, transaction) in enumerate(zip(writers, transactions, strict=True)):
        await transaction.start()
        await submit(writer, str(number))
    found: list[str] = []
    for number in order:
        await transactions[number].commit()
        if rows := await read(reader, "a"):
            found += bodies(rows)
            await done(reader, "a", rows[-1])

    assert sorted(found) == ["0", "1", "2"]


async def test_registering_waits_for_open_submissions_and_misses_nothing_after_it(
    sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    """JB-14: even from a transaction that began long before."""
    old = other.transaction()
    await old.start()
    await other.execute("SELECT pg_current_xact_id()")
    await submit(sql, "before")
    await register(sql, "a")
    await submit(other, "late")
    await submit(sql, "new")
    held_back = await read(sql, "a")
    await old.commit()
    found = await read(sql, "a")
    open_one = other.transaction()
    await open_one.start()
    await submit(other, "open")
    await sql.execute("SET lock_timeout = '50ms'")
    with pytest.raises(asyncpg.LockNotAvailableError):
        await register(sql, "b")
    await open_one.rollback()

    assert (held_back, sorted(bodies(found))) == ([], ["late", "new"])


async def test_a_filter_goes_past_what_it_leaves(sql: asyncpg.Connection) -> None:
    """JB-17 in copy mode."""
    await register(sql, "a")
    for number in range(4):
        await sql.execute(
            "SELECT hookwire.submit('q', $1::text, type => $2)", str(number), "odd" if number % 2 else "even"
        )
    found = []
    for _ in range(4):
        if rows := await read(sql, "a", 1, filter='{"type": "odd"}'):
            found += bodies(rows)
            await done(sql, "a", rows[-1])
    with pytest.raises(asyncpg.InvalidParameterValueError):
        await read(sql, "a", 1, filter='{"age_seconds_min": 1}')

    assert found == ["1", "3"]


async def test_consumers_go_on_after_a_dump_was_restored_on_another_server(
    sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    """JB-15: that server counts its transactions from the start, below all that is stored."""
    for name in ("slow", "fast"):
        await register(sql, name)
    await other.execute("BEGIN")
    await submit(other, "late commit, low id")
    for payload in ("read by both", "read by fast"):
        await submit(sql, payload)
    await other.execute("COMMIT")
    await done(sql, "slow", (await read(sql, "slow", 1))[0])
    for _ in range(2):
        await done(sql, "fast", (await read(sql, "fast", 1))[0])
    before = [bodies(await read(sql, name)) for name in ("slow", "fast")]
    await sql.execute(_FROM_ANOTHER_SERVER)
    adopted = [await sql.fetchval("SELECT hookwire.adopt_transaction_ids()") for _ in range(2)]
    await submit(sql, "new")
    after = [bodies(await read(sql, name)) for name in ("slow", "fast")]

    assert (adopted, after) == ([True, False], [[*one, "new"] for one in before])


_FROM_ANOTHER_SERVER = """
UPDATE hookwire.message_log SET xid = (xid::text::bigint + 1000000000)::text::xid8;
UPDATE hookwire.consumers SET xid = (xid::text::bigint + 1000000000)::text::xid8, claim = NULL, lease_until = NULL;
UPDATE hookwire.ledger_cursor SET mark_id = 1, mark_at = now(), mark_xid = '9000000000';
"""
