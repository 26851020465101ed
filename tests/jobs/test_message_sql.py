"""Message queues as SQL functions: any language, any transaction (JB-01..JB-19, JB-60, JB-61, JB-63, JB-67)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from tests.waiting import lasts, until

Row = tuple[int, int, bytes]


async def submit(sql: asyncpg.Connection, *payloads: str, queue: str = "q", **more: Any) -> list[int]:
    names = "".join(f", {name} => ${number}" for number, name in enumerate(more, 3))
    call = f"SELECT hookwire.submit($1, $2::text{names})"
    return [await sql.fetchval(call, queue, payload, *more.values()) for payload in payloads]


async def receive(sql: asyncpg.Connection, count: int = 1, queue: str = "q", **more: Any) -> list[Row]:
    names = "".join(f", {name} => ${number}" for number, name in enumerate(more, 3))
    rows = await sql.fetch(
        f"SELECT id, claim, payload FROM hookwire.receive($1, $2{names})", queue, count, *more.values()
    )
    return [tuple(row) for row in rows]


async def accept(sql: asyncpg.Connection, rows: Sequence[Row]) -> int:
    return await sql.fetchval("SELECT hookwire.accept($1, $2)", [row[0] for row in rows], rows[0][1])


async def reject(sql: asyncpg.Connection, rows: Sequence[Row], options: str = "") -> int:
    return await sql.fetchval(f"SELECT hookwire.reject($1, $2{options})", [row[0] for row in rows], rows[0][1])


async def count(sql: asyncpg.Connection, queue: str = "q") -> int:
    return await sql.fetchval("SELECT hookwire.message_count($1)", queue)


def bodies(rows: Sequence[Row]) -> list[str]:
    return [row[2].decode() for row in rows]


async def test_the_walk_through_of_the_article(sql: asyncpg.Connection) -> None:
    """JT-01, JB-03, JB-05, JB-06, JB-10."""
    counts = []
    await submit(sql, "1", "2", "3", "4")
    counts.append(await count(sql))
    await accept(sql, await receive(sql))
    counts.append(await count(sql))
    await reject(sql, await receive(sql, 2))
    counts.append(await count(sql))
    await accept(sql, await receive(sql, 2))
    counts.append(await count(sql))
    last = await receive(sql, 2)
    await accept(sql, last)
    counts.append(await count(sql))

    assert (counts, bodies(last)) == ([4, 3, 3, 1, 0], ["4"])


async def test_a_submission_belongs_to_its_transaction(sql: asyncpg.Connection, other: asyncpg.Connection) -> None:
    """JB-02: rolled back it leaves nothing; open, nobody sees it; and nobody waits for it (RR-04)."""
    transaction = sql.transaction()
    await transaction.start()
    await submit(sql, "rolled back")
    unseen = await receive(other)
    await submit(other, "beside it")
    await transaction.rollback()

    assert (unseen, bodies(await receive(other, 9))) == ([], ["beside it"])


async def test_queuing_is_a_row_insertion(sql: asyncpg.Connection, other: asyncpg.Connection) -> None:
    """JB-02: a plain INSERT, in its transaction, with the rules of the function."""
    transaction = sql.transaction()
    await transaction.start()
    insert = "INSERT INTO hookwire.message_queue (queue, payload) VALUES ('q', 'plain \\n') RETURNING id"
    made = await sql.fetchval(insert)
    unseen = await receive(other)
    await transaction.commit()
    late = "INSERT INTO hookwire.message_queue (queue, payload_bytes, delay_seconds) VALUES ('q', '\\xff', 3600)"
    await sql.execute(late)
    with pytest.raises(asyncpg.InvalidParameterValueError):
        await sql.execute("INSERT INTO hookwire.message_queue (queue, payload) VALUES ('a b', 'x')")
    [(number, _, payload)] = await receive(other, 9)

    assert (unseen, number, payload, await count(sql)) == ([], made, b"plain \\n", 0)


async def test_a_batch_keeps_the_order_of_its_payloads(sql: asyncpg.Connection) -> None:
    """JB-02, JB-03."""
    ids = [row[0] for row in await sql.fetch("SELECT hookwire.submit_batch('q', $1)", [b"c", b"a", b"b"])]
    received = await receive(sql, 9)

    assert [(row[0], row[2]) for row in received] == list(zip(ids, [b"c", b"a", b"b"], strict=True))


async def test_many_receivers_get_every_message_once_and_in_order(connect: Any) -> None:
    """JT-02, JB-03, JB-04: 20,000 messages, 8 receivers; each batch has a claim of its own."""
    sql = await connect()
    await sql.fetch("SELECT hookwire.submit_batch('q', array_fill('x'::bytea, ARRAY[20000]))")
    batches: list[list[Row]] = []

    async def drain(session: asyncpg.Connection) -> None:
        while rows := await receive(session, random.randint(1, 200)):
            batches.append(rows)

    await asyncio.gather(*[drain(await connect()) for _ in range(8)])
    ids = [row[0] for rows in batches for row in rows]
    in_order = all(rows == sorted(rows) for rows in batches)
    claims = [{row[1] for row in rows} for rows in batches]

    assert (len(ids), len(set(ids)), in_order) == (20_000, 20_000, True)
    assert [len(claim) for claim in claims] == [1] * len(batches)
    assert len(set.union(*claims)) == len(batches)


async def test_a_million_claims_do_not_repeat(sql: asyncpg.Connection) -> None:
    """JT-03, JB-04."""
    drawn = await sql.fetchval(
        "SELECT count(DISTINCT n) FROM (SELECT nextval('hookwire.lease_fence') AS n FROM generate_series(1, 1000000)) s"
    )
    assert drawn == 1_000_000


async def test_a_stale_claim_changes_nothing(sql: asyncpg.Connection) -> None:
    """JB-60, JT-07: HW001, also for the part of the batch that is still held."""
    await submit(sql, "1", "2")
    [first, second] = await receive(sql, 2)
    await accept(sql, [first])
    codes = []
    for attempt in (accept, reject):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await attempt(sql, [first, second])
        codes.append(refused.value.sqlstate)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await sql.execute("SELECT hookwire.extend($1, $2)", [second[0]], second[1] + 1)
    codes.append(refused.value.sqlstate)

    assert (codes, await accept(sql, [second])) == (["HW001"] * 3, 1)


async def test_a_rejected_message_keeps_its_place_or_waits_or_is_dead(sql: asyncpg.Connection) -> None:
    """JB-06: at once and first, after a delay, as a dead letter with its reason, and without a counted delivery."""
    await submit(sql, "1", "2", "3")
    await reject(sql, await receive(sql), ", counts => false")
    again = await sql.fetchrow("SELECT id, claim, payload, deliveries FROM hookwire.receive('q')")
    await reject(sql, [tuple(again)[:3]], ", delay_seconds => 3600")
    await reject(sql, await receive(sql), ", dead => true, reason => 'bad'")
    letters = await sql.fetch("SELECT payload, reason, deliveries FROM hookwire.dead_messages")

    assert (again["payload"], again["deliveries"], [tuple(row) for row in letters], bodies(await receive(sql, 9))) == (
        b"1",
        1,
        [(b"2", "bad", 1)],
        ["3"],
    )


async def test_the_reaper_returns_what_was_not_settled_and_buries_what_circles(sql: asyncpg.Connection) -> None:
    """JB-08, JB-61, JB-63, JT-08: the delivery is counted when it is claimed; the fifth is the last."""
    await submit(sql, "poison", "delayed", delay_seconds=0.01)
    found = []
    for _ in range(6):
        await lasts(0.06)
        await sql.fetchrow("SELECT * FROM hookwire.reap_messages(100)")
        found.append(bodies(await receive(sql, lease_seconds=0.05)))
        await sql.execute("DELETE FROM hookwire.messages WHERE payload = 'delayed'")
    [letter] = await sql.fetch("SELECT payload, reason, deliveries FROM hookwire.dead_messages")

    assert (found, tuple(letter)) == (
        [["poison"]] * 5 + [[]],
        (b"poison", "received 5 times and never settled", 5),
    )


async def test_two_reapers_at_once_return_each_message_once(sql: asyncpg.Connection, other: asyncpg.Connection) -> None:
    """JT-09, JB-85, JB-63: what one holds, the other leaves alone, and the totals balance."""
    await sql.fetch("SELECT hookwire.submit_batch('q', array_fill('x'::bytea, ARRAY[100]))")
    await receive(sql, 100, lease_seconds=0.05)
    await lasts(0.06)
    transaction = sql.transaction()
    await transaction.start()
    first = await sql.fetchval("SELECT returned FROM hookwire.reap_messages(60)")
    second = await other.fetchval("SELECT returned FROM hookwire.reap_messages(60)")
    await transaction.rollback()
    third = await other.fetchval("SELECT returned FROM hookwire.reap_messages(100)")

    assert (first, second, third, await count(sql)) == (60, 40, 60, 100)


async def test_an_accepted_message_is_archived_where_its_queue_keeps_history(sql: asyncpg.Connection) -> None:
    """JB-07, JB-05."""
    await sql.execute("INSERT INTO hookwire.queues (name, history) VALUES ('kept', true)")
    for queue in ("kept", "q"):
        await submit(sql, "x", queue=queue, type="t")
        await accept(sql, await receive(sql, queue=queue, receiver="r1"))
    rows = await sql.fetch(
        "SELECT queue, payload, type, receiver, deliveries, created_at < claimed_at AND claimed_at < accepted_at"
        " FROM hookwire.message_archive"
    )
    assert [tuple(row) for row in rows] == [("kept", b"x", "t", "r1", 1, True)]


async def test_settling_belongs_to_the_transaction_of_the_receivers_own_rows(sql: asyncpg.Connection) -> None:
    """JB-67."""
    await submit(sql, "x")
    received = await receive(sql)
    transaction = sql.transaction()
    await transaction.start()
    await accept(sql, received)
    await transaction.rollback()

    assert await accept(sql, received) == 1


_FILTERS = {
    '{"type": "a"}': ["1", "4"],
    '{"key": "k"}': ["2"],
    '{"headers": {"h": "1"}}': ["3"],
    '{"priority_min": 5}': ["4"],
    '{"age_seconds_min": 0}': ["1", "2", "3", "4"],
    '{"age_seconds_min": 60}': [],
    '{"type": "a", "priority_min": 5}': ["4"],
}


async def test_a_filter_chooses_and_leaves_the_others_in_their_order(sql: asyncpg.Connection) -> None:
    """JB-17."""
    found = {}
    for queue, wanted in enumerate(_FILTERS):
        to = {"queue": f"q{queue}"}
        await submit(sql, "1", **to, type="a")
        await submit(sql, "2", **to, key="k")
        await submit(sql, "3", **to, headers='{"h": "1", "i": "2"}')
        await submit(sql, "4", **to, type="a", priority=9)
        found[wanted] = (bodies(await receive(sql, 9, **to, filter=wanted)), bodies(await receive(sql, 9, **to)))

    assert found == {
        wanted: (chosen, [body for body in ["1", "2", "3", "4"] if body not in chosen])
        for wanted, chosen in _FILTERS.items()
    }


async def test_browsing_a_queue_leaves_its_messages_to_receive(sql: asyncpg.Connection) -> None:
    """JB-14."""
    await submit(sql, "1", "2")
    seen = [row["payload"] for row in await sql.fetch("SELECT * FROM hookwire.browse('q', 10)")]

    assert (seen, bodies(await receive(sql, 9))) == ([b"1", b"2"], ["1", "2"])


_REFUSED = {
    "hookwire.submit('no good', 'x')": "22023",
    "hookwire.submit('', 'x')": "22023",
    "hookwire.submit(repeat('a', 201), 'x')": "22023",
    "hookwire.submit('q', NULL::bytea)": "22023",
    "hookwire.submit('q', 'x', priority => 40000)": "22023",
    "hookwire.submit('q', 'x', delay_seconds => -1)": "22023",
    "hookwire.submit('q', 'x', key => '')": "22023",
    "hookwire.submit('q', 'x', type => 'a b')": "22023",
    "hookwire.submit('q', 'x', headers => '[]')": "22023",
    "hookwire.submit('q', 'x', headers => '{\"A\": \"1\"}')": "22023",
    "hookwire.submit('q', 'x', headers => jsonb_build_object('a', repeat('x', 17000)))": "22023",
    "hookwire.submit('q', 'x', content_type => E'a\\nb')": "22023",
    "hookwire.submit('q', repeat('x', 2000000))": "HW003",
    "hookwire.receive('q', 0)": "22023",
    "hookwire.receive('q', 1, 0)": "22023",
    "hookwire.receive('q', filter => '[]')": "22023",
    "hookwire.receive('q', filter => '{\"sql\": 1}')": "22023",
    "hookwire.receive_copies('q', 'nobody')": "42704",
}


async def test_what_is_wrong_is_refused_with_its_code_and_changes_nothing(sql: asyncpg.Connection) -> None:
    """22023 bad argument, 42704 unknown, HW003 too large."""
    codes = {}
    for statement in _REFUSED:
        with pytest.raises(asyncpg.PostgresError) as refused:
            await sql.execute(f"SELECT {statement}")
        codes[statement] = refused.value.sqlstate
    left = await sql.fetchval("SELECT count(*) FROM hookwire.messages")

    assert (codes, left) == (_REFUSED, 0)


async def test_an_unknown_queue_is_refused_where_queues_are_not_made_by_use(sql: asyncpg.Connection) -> None:
    """JB-16, 42704."""
    await sql.execute("UPDATE hookwire.installation SET queues_auto_create = false")
    await sql.execute("INSERT INTO hookwire.queues (name) VALUES ('known')")
    await submit(sql, "x", queue="known")
    with pytest.raises(asyncpg.UndefinedObjectError):
        await submit(sql, "x")


async def test_a_graduated_queue_loses_doubles_and_reorders_nothing(connect: Any) -> None:
    """JB-18, JT-22: producers and a consumer run while the type moves into a table that links to domain rows.

    A receiver passes over messages that a batch moves at that moment, so the order holds between batches.
    """
    sql = await connect()
    await sql.execute("CREATE TABLE orders (id bigint PRIMARY KEY); INSERT INTO orders SELECT generate_series(1, 600)")
    got: list[int] = []
    produced = asyncio.Event()
    moving = asyncio.Lock()

    async def produce(session: asyncpg.Connection) -> None:
        for number in range(1, 601):
            await submit(session, str(number), headers=f'{{"order-id": "{number}"}}')
        produced.set()

    async def consume(session: asyncpg.Connection) -> None:
        while not produced.is_set() or await count(session):
            async with moving:
                rows = await receive(session, 7)
            if rows:
                got.extend(int(row[2]) for row in rows)
                await accept(session, rows)

    async def move(session: asyncpg.Connection) -> int:
        async with moving:
            return await session.fetchval("SELECT hookwire.graduate_batch('q', 50)")

    async def graduate(session: asyncpg.Connection) -> None:
        await until(lambda: session.fetchval("SELECT last_value >= 100 FROM hookwire.message_id"), poll_seconds=0.005)
        table = await session.fetchval("SELECT hookwire.graduate('q')")
        await session.execute(
            f"ALTER TABLE {table} ADD COLUMN order_id bigint"
            " GENERATED ALWAYS AS ((headers->>'order-id')::bigint) STORED REFERENCES orders"
        )
        while await move(session):
            pass

    await asyncio.gather(produce(await connect()), consume(await connect()), graduate(await connect()))
    await submit(sql, "one", headers='{"order-id": "1"}')
    linked = await sql.fetchval("SELECT order_id FROM hookwire.messages_1")
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await submit(sql, "none", headers='{"order-id": "601"}')

    assert (got, linked) == (list(range(1, 601)), 1)


async def test_a_claim_locks_only_what_it_takes(sql: asyncpg.Connection, other: asyncpg.Connection) -> None:
    """JT-12, JS-03: an open claim blocks neither the next receiver nor a submitter nor the reaper."""
    await submit(sql, "1", "2")
    transaction = sql.transaction()
    await transaction.start()
    mine = await receive(sql)
    theirs = await receive(other)
    await submit(other, "3")
    await other.execute("SELECT hookwire.reap_messages(10)")
    await transaction.rollback()

    assert (bodies(mine), bodies(theirs), bodies(await receive(other, 9))) == (["1"], ["2"], ["1", "3"])
