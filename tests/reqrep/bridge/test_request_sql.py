"""Services as SQL functions: any language, any transaction (ZU-01..ZU-04, ZU-06, ZU-07, ZU-13, ZU-14, ID-01..ID-06)."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import asyncpg
import pytest

from db.statements import STATEMENTS

FRAMES = "application/vnd.hookwire.frames+json"


async def ask(sql: asyncpg.Connection, body: str = "hello", service: str = "echo", **more: Any) -> str:
    names = "".join(f", {name} => ${number}" for number, name in enumerate(more, 3))
    return await sql.fetchval(f"SELECT hookwire.request($1, $2::text{names})", service, body, *more.values())


async def claim(sql: asyncpg.Connection, count: int = 1, service: str = "echo", seconds: float = 30) -> list[Any]:
    return await sql.fetch(
        "SELECT id, claim, attempts, content_type, body FROM hookwire.claim_requests($1, $2, $3)",
        service,
        count,
        seconds,
    )


async def reply(sql: asyncpg.Connection, row: Any, body: str = "done") -> None:
    await sql.fetchval("SELECT hookwire.reply($1, $2, $3::text)", row["id"], row["claim"], body)


async def answer(sql: asyncpg.Connection, request_id: str) -> tuple[Any, ...] | None:
    row = await sql.fetchrow("SELECT state, body FROM hookwire.answer_of($1)", request_id)
    return tuple(row) if row is not None else None


async def reap(sql: asyncpg.Connection) -> dict[str, int]:
    row = await sql.fetchrow("SELECT * FROM hookwire.reap_requests(100)")
    return {name: count for name, count in row.items() if count}


async def let_pass(sql: asyncpg.Connection, seconds: float) -> None:
    """As if so many seconds had gone by."""
    await sql.execute(
        "UPDATE hookwire.requests SET deadline_at = deadline_at - make_interval(secs => $1),"
        " expires_at = expires_at - make_interval(secs => $1)",
        seconds,
    )


async def settings(sql: asyncpg.Connection, service: str = "echo", **values: Any) -> None:
    names, marks = ", ".join(values), ", ".join(f"${number}" for number in range(2, len(values) + 2))
    await sql.execute(f"INSERT INTO hookwire.services (name, {names}) VALUES ($1, {marks})", service, *values.values())


async def test_a_request_is_leased_answered_and_fetched_as_often_as_one_likes(sql: asyncpg.Connection) -> None:
    """ZU-01, ZU-02, TI-03."""
    request_id = await ask(sql)
    states = [await answer(sql, request_id)]
    [row] = await claim(sql)
    states.append(await answer(sql, request_id))
    await reply(sql, row)
    states += [await answer(sql, request_id), await answer(sql, request_id.upper())]

    assert (tuple(row)[2:], states) == (
        (1, "text/plain; charset=utf-8", b"hello"),
        [("waiting", None), ("leased", None), ("answered", b"done"), ("answered", b"done")],
    )


async def test_a_request_whose_transaction_rolls_back_was_never_sent(sql: asyncpg.Connection) -> None:
    async with sql.transaction():
        kept = await ask(sql, "kept")
        part = sql.transaction()
        await part.start()
        lost = await ask(sql, "lost", client="c", number="1")
        await part.rollback()
    found = await claim(sql, 9)
    other = await ask(sql, "other", client="c", number="1")

    assert ([row["id"] for row in found], await answer(sql, lost), other != lost) == ([kept], None, True)


async def test_the_first_reply_wins_and_the_second_is_refused_by_its_fence(sql: asyncpg.Connection) -> None:
    """ZU-04, TI-12: the first worker died after its effect, came back, and found that another had answered. GW-09: who
    repeats its own reply may not change it.
    """
    request_id = await ask(sql)
    [slow] = await claim(sql)
    await let_pass(sql, 31)
    returned = await reap(sql)
    [fast] = await claim(sql)
    await reply(sql, fast, "fast")
    await reply(sql, fast, "fast")
    codes = []
    for row, body in ((slow, "slow"), (fast, "again")):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await reply(sql, row, body)
        codes.append(refused.value.sqlstate)

    assert (returned, fast["attempts"], codes, await answer(sql, request_id)) == (
        {"returned": 1}, 2, ["HW001"] * 2, ("answered", b"fast"),
    )  # fmt: skip


async def test_a_reply_to_a_request_that_is_not_there_is_refused(sql: asyncpg.Connection) -> None:
    """TI-17."""
    ids = [await ask(sql), await ask(sql, expiry_seconds=10.0)]
    closed, expired = await claim(sql, 2, seconds=5)
    await sql.execute("SELECT hookwire.close_request($1)", ids[0])
    await let_pass(sql, 11)
    await reap(sql)
    refused = []
    for row in (closed, expired, {"id": "0" * 32, "claim": 1}, {"id": "x", "claim": 1}):
        with pytest.raises(asyncpg.PostgresError) as error:
            await reply(sql, row)
        refused.append(error.value.sqlstate)

    assert refused == ["HW001"] * 4


async def test_the_same_client_and_number_is_the_same_request(sql: asyncpg.Connection) -> None:
    """ID-01, ID-03, ID-04, ZU-06: also after it was answered; with other contents it is refused."""
    first = await ask(sql, client="c", number="1")
    again = await ask(sql, client="c", number="1")
    [row] = await claim(sql, 9)
    await reply(sql, row)
    after = await ask(sql, client="c", number="1")
    other = await ask(sql, client="c", number="2")
    refused = []
    for changed in ({"body": "other"}, {"service": "another"}):
        with pytest.raises(asyncpg.UniqueViolationError):
            await ask(sql, **changed, client="c", number="1")
        refused.append(True)

    assert ([again, after], other == first, refused, len(await claim(sql, 9))) == ([first] * 2, False, [True] * 2, 1)


async def test_a_duplicate_waits_for_the_first_and_is_the_same_request(
    sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    """ID-04: the second call ends when the first transaction does."""
    transaction = sql.transaction()
    await transaction.start()
    first = await ask(sql, client="c", number="1")
    second = asyncio.ensure_future(ask(other, client="c", number="1"))
    await asyncio.sleep(0)
    await transaction.commit()

    assert (await second, len(await claim(sql, 9))) == (first, 1)


async def test_an_effect_and_its_reply_are_one_transaction(sql: asyncpg.Connection) -> None:
    """ID-06: where the worker's transaction rolls back, there is neither effect nor reply, and the claim holds."""
    await sql.execute("CREATE TABLE effects (request text)")
    request_id = await ask(sql)
    [row] = await claim(sql)
    for works in (False, True):
        transaction = sql.transaction()
        await transaction.start()
        await sql.execute("INSERT INTO effects VALUES ($1)", request_id)
        await reply(sql, row)
        await (transaction.commit() if works else transaction.rollback())

    assert (await sql.fetchval("SELECT count(*) FROM effects"), await answer(sql, request_id)) == (
        1,
        ("answered", b"done"),
    )


async def test_a_request_is_given_up_after_so_many_tries_or_when_its_time_is_over(sql: asyncpg.Connection) -> None:
    """MD-21, ID-07: one of a service that is not idempotent after the first."""
    await settings(sql, "twice", tries_max=2)
    await settings(sql, "once", idempotent=False)
    ids = [await ask(sql, service=name) for name in ("twice", "once")] + [
        await ask(sql, service="late", expiry_seconds=10.0)
    ]
    seen = []
    for _ in range(2):
        for name in ("twice", "once"):
            await claim(sql, service=name)
        await let_pass(sql, 31)
        seen.append(await reap(sql))

    assert (seen, [await answer(sql, each) for each in ids]) == (
        [{"returned": 1, "failed": 1, "expired": 1}, {"failed": 1}],
        [("failed", None), ("failed", None), ("expired", None)],
    )


@pytest.mark.parametrize(("via", "found"), [("http", ("failed", False)), ("zeromq", ("delayed", True))])
async def test_only_a_request_of_http_or_sql_is_given_up_when_its_tries_have_failed(
    sql: asyncpg.Connection, via: str, found: tuple[str, bool]
) -> None:
    """TI-08: one that came by ZeroMQ is tried once a minute, until it is answered or closed."""
    await settings(sql, tries_max=1)
    await ask(sql)
    await sql.execute("UPDATE hookwire.requests SET via = $1", via)
    [row] = await claim(sql)
    state = await sql.fetchval(
        "SELECT hookwire.release_request($1::text::uuid, $2, 0, 'refused')", row["id"], row["claim"]
    )
    due_in_a_minute = await sql.fetchval(
        "SELECT deadline_at BETWEEN now() AND now() + interval '60 seconds' FROM hookwire.requests"
    )

    assert (state, due_in_a_minute) == found


@pytest.mark.parametrize("via", ["http", "sql", "zeromq"])
async def test_no_request_of_a_service_that_is_not_idempotent_goes_to_a_second_worker(
    sql: asyncpg.Connection, via: str
) -> None:
    """ID-07: the word of the operator stands above TI-08."""
    await settings(sql, idempotent=False)
    await ask(sql)
    await sql.execute("UPDATE hookwire.requests SET via = $1", via)
    await claim(sql)
    await let_pass(sql, 31)

    assert await reap(sql) == {"failed": 1}


async def test_a_closed_request_is_unknown_and_leaves_a_line_in_the_archive(sql: asyncpg.Connection) -> None:
    """ZU-03, TI-04, TI-11."""
    request_id = await ask(sql)
    for each in (request_id, request_id, "0" * 32, "../x"):
        await sql.execute("SELECT hookwire.close_request($1)", each)
    kept = await sql.fetchrow("SELECT state, via, body_bytes, reply_bytes, closed_by FROM hookwire.request_archive")

    assert (await answer(sql, request_id), await claim(sql), tuple(kept)) == (
        None, [], ("waiting", "sql", 5, None, await sql.fetchval("SELECT session_user")),
    )  # fmt: skip


async def test_replies_are_forgotten_after_the_retention_of_their_service(sql: asyncpg.Connection) -> None:
    """TI-16."""
    await settings(sql, retention_seconds=7200)
    request_id = await ask(sql)
    [row] = await claim(sql)
    await reply(sql, row)
    await let_pass(sql, 3600)
    early = await reap(sql)
    await let_pass(sql, 3600)

    assert (early, await reap(sql), await answer(sql, request_id)) == ({}, {"forgotten": 1}, None)


async def test_a_reply_is_an_event_in_the_statement_that_settles(sql: asyncpg.Connection) -> None:
    """ZU-09: once for each reply that was stored; nothing where the settling transaction rolls back."""
    request_id = await ask(sql)
    [row] = await claim(sql)
    for works in (False, True, True):
        transaction = sql.transaction()
        await transaction.start()
        await reply(sql, row)
        await (transaction.commit() if works else transaction.rollback())
    events = await sql.fetch("SELECT topic, key, content_type, headers, payload FROM hookwire.events")

    assert [(*tuple(event)[:3], json.loads(event["headers"]), event["payload"]) for event in events] == [
        ("hookwire.service.echo.reply", None, "text/plain; charset=utf-8", {"request-id": request_id}, b"done")
    ]


async def test_several_frames_are_json_to_sql_and_come_back_unchanged(sql: asyncpg.Connection) -> None:
    """ZU-13."""
    frames = [b"", b"\x00\xff" * 60, b"x"]
    document = json.dumps({"frames": [base64.b64encode(frame).decode() for frame in frames]})
    request_id = await ask(sql, document, content_type=FRAMES)
    [row] = await claim(sql)
    stored = await sql.fetchrow("SELECT frame_bytes, body FROM hookwire.requests")
    await sql.execute(
        "SELECT hookwire.reply($1, $2, $3::bytea, $4)", row["id"], row["claim"], row["body"], row["content_type"]
    )
    found = await sql.fetchrow("SELECT content_type, body FROM hookwire.answer_of($1)", request_id)

    assert (row["content_type"], stored["frame_bytes"], stored["body"]) == (FRAMES, [0, 120, 1], b"".join(frames))
    assert (found["content_type"], json.loads(found["body"])) == (FRAMES, json.loads(document))


BAD: list[tuple[str, dict[str, Any]]] = [
    ("22023", {"service": ""}), ("22023", {"service": "a b"}), ("22023", {"service": "a" * 201}),
    ("22023", {"service": "mmi.service"}), ("22023", {"service": "titanic.request"}),
    ("22023", {"service": "hub.publish"}), ("22023", {"client": "c"}), ("22023", {"number": "1"}),
    ("22023", {"client": "c", "number": "x" * 256}), ("22023", {"expiry_seconds": 0.0}),
    ("22023", {"expiry_seconds": float("nan")}), ("22023", {"content_type": "a\nb"}), ("HW003", {"body": "x" * 101}),
    ("22023", {"body": "{}", "content_type": FRAMES}), ("22023", {"body": '{"frames": []}', "content_type": FRAMES}),
    ("22023", {"body": '{"frames": [1]}', "content_type": FRAMES}), ("22023", {"body": "[]", "content_type": FRAMES}),
    ("22023", {"body": '{"frames": ["!"]}', "content_type": FRAMES}), ("HW002", {"service": "off"}),
    ("HW002", {"service": "unstaffed"}),
]  # fmt: skip


async def test_a_bad_request_is_refused_by_name(sql: asyncpg.Connection) -> None:
    """ZU-07, ZU-14: the SQLSTATEs that every function of the schema has."""
    await sql.execute("UPDATE hookwire.installation SET payload_bytes_max = 100")
    await settings(sql, "off", disabled=True)
    await settings(sql, "unstaffed", without_workers="refuse")
    refused = []
    for _, arguments in BAD:
        with pytest.raises(asyncpg.PostgresError) as error:
            await ask(sql, **arguments)
        refused.append((error.value.sqlstate, arguments))

    assert refused == BAD


async def test_an_unknown_service_is_refused_where_services_are_not_made_by_their_use(sql: asyncpg.Connection) -> None:
    await settings(sql, "known", lease_seconds=5)
    await sql.execute("UPDATE hookwire.installation SET services_auto_create = false")
    known = await ask(sql, service="known")
    with pytest.raises(asyncpg.UndefinedObjectError):
        await ask(sql, service="strange")

    assert len(known) == 32


async def test_a_service_refuses_without_a_worker_and_takes_requests_while_one_is_present(
    sql: asyncpg.Connection,
) -> None:
    """ZU-07, MM-04."""
    await settings(sql, without_workers="refuse")
    await claim(sql)
    accepted = await ask(sql)
    await claim(sql)
    await sql.execute("UPDATE hookwire.services SET workers_until = now()")
    busy = await ask(sql)
    await sql.execute("UPDATE hookwire.requests SET state = 'waiting'")
    with pytest.raises(asyncpg.PostgresError, match="no worker"):
        await ask(sql)

    assert len({accepted, busy}) == 2


async def test_no_more_than_so_many_are_leased_at_once(sql: asyncpg.Connection, other: asyncpg.Connection) -> None:
    """TI-19, ZU-04: concurrency of a service."""
    await settings(sql, concurrency_max=3)
    for _ in range(9):
        await ask(sql)
    taken = await asyncio.gather(claim(sql, 2), claim(other, 2))
    [first, *_] = [row for rows in taken for row in rows]
    await reply(sql, first)

    assert (sum(map(len, taken)), len(await claim(sql, 9))) == (3, 1)


async def test_workers_never_get_the_same_request(sql: asyncpg.Connection, other: asyncpg.Connection) -> None:
    """TI-13."""
    ids = [await ask(sql, str(number)) for number in range(20)]
    rounds = [await asyncio.gather(claim(sql, 3), claim(other, 3)) for _ in range(4)]

    assert sorted(row["id"] for both in rounds for rows in both for row in rows) == sorted(ids)


async def test_a_role_with_usage_may_ask_and_fetch_and_not_work(sql: asyncpg.Connection) -> None:
    role = "caller_" + (await sql.fetchval("SELECT substr(md5(random()::text), 1, 8)"))
    await sql.execute(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA hookwire TO {role}; SET ROLE {role}")
    try:
        request_id = await ask(sql)
        seen = await answer(sql, request_id)
        refused = []
        for call in ("claim_requests('echo')", f"reply('{request_id}', 1, 'x'::text)", "reap_requests(1)"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await sql.fetch(f"SELECT hookwire.{call}")
            refused.append(call[:5])
        await sql.execute("SELECT hookwire.close_request($1)", request_id)
    finally:
        await sql.execute(f"RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}")

    assert (seen, refused) == (("waiting", None), ["claim", "reply", "reap_"])


async def test_each_statement_reads_a_few_rows_however_many_requests_there_are(sql: asyncpg.Connection) -> None:
    """RP-03, ZP-34: also with plans of before, when the tables were empty, and without statistics."""
    await sql.execute("ALTER TABLE hookwire.requests SET (autovacuum_enabled = false)")
    for state in ("answered", "waiting"):
        await sql.execute(
            "INSERT INTO hookwire.requests (id, number, service, state, deadline_at, expires_at, created_at, via, body)"
            f" SELECT gen_random_uuid(), nextval('hookwire.request_number'), 'idle', '{state}',"
            f" now() + interval '1 hour', now() + interval '1 hour', now(), 'sql', '' FROM generate_series(1, 5000)"
        )
    await sql.execute(
        "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state, service)"
        " VALUES ('sub_x', 'service', 'x', 'http://x', 'active', 'other')"
    )
    request_id = await ask(sql, client="c", number="1")
    made = ("echo", b"hello", "text/plain; charset=utf-8", None, "c", "1", None)
    read = {}

    async def measure(name: str, *steps: tuple[str, tuple[Any, ...]]) -> None:
        count = "SELECT sum(idx_tup_fetch + seq_tup_read) FROM pg_stat_xact_user_tables WHERE relname = 'requests'"
        async with sql.transaction():
            before = await sql.fetchval(count)
            for statement, arguments in steps:
                await sql.fetch(statement, *arguments)
            read[name] = int(await sql.fetchval(count) - before)

    await measure("over", (STATEMENTS["request.over_among"], ([request_id, "0" * 32],)))
    await measure("due", (STATEMENTS["due.poll"], ()))
    await measure("waiting", (STATEMENTS["request.waiting_among"], (["echo", "none"], [1, 1])))
    await measure("repeated", (STATEMENTS["request.make"], made))
    await measure("lease", (STATEMENTS["request.lease"], ("echo", 1, None, "w", 0.0, None)))
    fence = await sql.fetchval("SELECT claim FROM hookwire.requests WHERE service = 'echo'")
    await measure("reply", (STATEMENTS["request.reply"], (request_id, fence, b"x", None)))
    await measure("get", (STATEMENTS["request.get"], (request_id, None)))
    await measure("list", (STATEMENTS["request.list"], (2**62, None, None, 10)))
    await measure("close", (STATEMENTS["request.close"], (request_id, None, "test")))
    await sql.execute("UPDATE hookwire.subscriptions SET service = 'idle'")
    await measure("callbacks", (STATEMENTS["request.lease_for_callbacks"], ([], 1, 10.0, 5.0, 16)))

    assert {name: rows for name, rows in read.items() if rows > 20} == {}
