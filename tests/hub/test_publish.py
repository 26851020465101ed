"""hub/publish.py on a real database: what is answered is durable, and nobody waits for somebody else's key."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import pytest
import structlog

import hub.publish
from db.errors import CannotServe, OutcomeUnknown, ServerTrouble, Unavailable
from db.pool import Database, PoolOptions, open_database
from db.statements import STATEMENTS
from event.event import Draft
from event.key_hash import hash_key
from hub.publish import (
    Accepted,
    IdempotencyConflict,
    IdempotencyInFlight,
    KeyBusy,
    Overloaded,
    Publisher,
    PublishOptions,
    PublishRefused,
)
from hub.stripes import stripes_of
from tests.waiting import lasts, until

WAIT_SECONDS_MAX = 60.0


@dataclass
class Harness:
    """A publisher that runs, and a connection of the test's own."""

    database: Database
    publisher: Publisher
    sql: asyncpg.Connection
    commits: list[None] = field(default_factory=list)

    async def publish(self, *drafts: Draft, fingerprint: bytes | None = None) -> list[Accepted]:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            return await self.publisher.publish(drafts, fingerprint)

    async def outcomes(self, *units: Sequence[Draft], fingerprint: bytes | None = None) -> list[Any]:
        """Publishes units at the same time: the class of what was raised, or the payload's fate per draft."""
        results = await asyncio.gather(
            *(self.publish(*unit, fingerprint=fingerprint) for unit in units), return_exceptions=True
        )
        return [
            type(result)
            if isinstance(result, BaseException)
            else ["replayed" if a.replayed else "stored" for a in result]
            for result in results
        ]

    async def stored(self) -> list[bytes]:
        """The payloads that another connection sees, in id order."""
        return [row["payload"] for row in await self.sql.fetch("SELECT payload FROM hookwire.events ORDER BY id")]

    async def blocked(self, backends: int = 1) -> list[int]:
        """Waits until so many of the publisher's connections wait for a lock; their process ids."""

        async def waiting() -> list[int] | None:
            rows = await self.sql.fetch(
                "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            return [row["pid"] for row in rows] if len(rows) >= backends else None

        found: list[int] = await until(waiting, WAIT_SECONDS_MAX)
        return found


@asynccontextmanager
async def publishing(database_url: str, *, running: bool = True, **options: Any) -> AsyncIterator[Harness]:
    """A publisher on its own pool; stopped softly at the end."""
    database = await open_database(PoolOptions(database_url, connections_max=8, lock_seconds=2.0))
    commits: list[None] = []
    publisher = Publisher(database, lambda _owed: commits.append(None), PublishOptions(**options))
    sql = await asyncpg.connect(database_url)
    try:
        async with asyncio.TaskGroup() as tasks:
            if running:
                tasks.create_task(publisher.run())
            try:
                yield Harness(database, publisher, sql, commits)
            finally:
                publisher.stop()
    finally:
        await sql.close()
        await database.aclose()


@asynccontextmanager
async def foreign_transaction(
    database_url: str, key: str | None, topic: str = "t"
) -> AsyncIterator[asyncpg.Connection]:
    """Somebody's own transaction that has published under a key and has not ended yet; rolled back at the end."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("BEGIN")
        if key is not None:
            await connection.execute("SELECT hookwire.publish($1, 'foreign'::text, key => $2)", topic, key)
        yield connection
    finally:
        await connection.close()


async def begun() -> None:
    """Lets every task that was created go on until it waits for the publisher."""
    for _ in range(5):
        await asyncio.sleep(0)


def draft(payload: str, key: str | None = None, idempotency_key: str | None = None, **more: Any) -> Draft:
    return Draft("t", payload.encode(), key, idempotency_key=idempotency_key, **more)


# --- storing ----------------------------------------------------------------------------------------------------


async def test_an_answer_comes_after_the_commit_and_tells_what_was_stored(database_url: str) -> None:
    """RR-13, I1."""
    async with publishing(database_url) as harness:
        unit = [
            Draft("t", b"\x00\xff", "k", "image/x", {"ce-type": "a"}),
            Draft("t", b"", None),
        ]
        first, second = await harness.publish(*unit)
        rows = await harness.sql.fetch(
            "SELECT id, accepted_at, topic, key, content_type, headers, sinks, payload FROM hookwire.events ORDER BY id"
        )
        owed = await harness.sql.fetch("SELECT id, sink FROM hookwire.outbox ORDER BY id")
        assert [tuple(row) for row in rows] == [
            (first.id, first.accepted_at, "t", "k", "image/x", '{"ce-type": "a"}', ["webhooks"], b"\x00\xff"),
            (second.id, second.accepted_at, "t", None, None, "{}", ["webhooks"], b""),
        ]
        assert [tuple(row) for row in owed] == [(first.id, "webhooks"), (second.id, "webhooks")]
        assert (first.sequence, second.sequence, first.replayed, len(harness.commits)) == (
            first.id,
            second.id,
            False,
            1,
        )


async def test_an_unordered_topic_gives_no_sequence(database_url: str) -> None:
    """RR-13."""
    async with publishing(database_url) as harness:
        await harness.sql.execute("INSERT INTO hookwire.topics (name, ordered) VALUES ('t', false)")
        (accepted,) = await harness.publish(draft("a", "k"))
        assert (accepted.sequence, accepted.key) == (None, "k")


async def test_units_that_wait_together_share_a_commit(database_url: str) -> None:
    """RR-12: forty publishers, one transaction."""
    async with publishing(database_url, running=False, writers=1) as harness:
        units = [asyncio.create_task(harness.publish(draft(f"{n}", f"key {n}"))) for n in range(40)]
        await begun()
        harness.publisher.stop()
        await harness.publisher.run()
        await asyncio.gather(*units)
        transactions = await harness.sql.fetchval("SELECT count(DISTINCT xmin::text) FROM hookwire.events")
        assert (len(await harness.stored()), transactions, len(harness.commits)) == (40, 1, 1)


async def test_a_commit_ends_at_its_bounds(database_url: str) -> None:
    async with publishing(database_url, running=False, writers=1, commit_drafts_max=4, commit_bytes_max=10) as harness:
        units = [[draft("ab")]] * 6 + [[draft("0123456789")], [draft("z")]]
        tasks = [asyncio.create_task(harness.publish(*unit)) for unit in units]
        await begun()
        harness.publisher.stop()
        await harness.publisher.run()
        await asyncio.gather(*tasks)
        commits = await harness.sql.fetch(
            "SELECT count(*) AS n FROM hookwire.events GROUP BY xmin::text ORDER BY min(id)"
        )
        assert [row["n"] for row in commits] == [4, 3, 1]


async def test_two_writers_commit_at_the_same_time(database_url: str) -> None:
    """The second writer goes on while the first one's commit waits for a row that somebody else has claimed."""
    async with publishing(database_url, writers=2) as harness, foreign_transaction(database_url, None) as foreign:
        await claim_idempotency_key(foreign, "taken")
        stuck = asyncio.create_task(harness.publish(draft("stuck", idempotency_key="taken")))
        await harness.blocked()
        await harness.publish(draft("free"))
        await foreign.execute("ROLLBACK")
        await stuck
        assert sorted(await harness.stored()) == [b"free", b"stuck"]


# --- idempotency ------------------------------------------------------------------------------------------------


async def claim_idempotency_key(foreign: asyncpg.Connection, key: str) -> None:
    """What another process does in the middle of its commit."""
    await foreign.execute(
        "INSERT INTO hookwire.idempotency_keys (tenant, topic, key, fingerprint, event_id, accepted_at, ordered)"
        " VALUES ('default', 't', $1, 'f', 99, now(), true)",
        key,
    )


async def store_under(foreign: asyncpg.Connection, key: str) -> None:
    """Publish under an idempotency key, as another process does, in a transaction that stays open."""
    await foreign.fetch(
        STATEMENTS["event.publish_batch"], "default", [1], ["t"], [None], [None], ["{}"], [b"theirs"], [key], [b"f"],
        False, None,
    )  # fmt: skip


async def test_of_concurrent_units_with_one_idempotency_key_one_is_stored_and_the_others_are_replays(
    database_url: str,
) -> None:
    """RR-12, WH-A01."""
    async with publishing(database_url) as harness:
        unit = [draft("same", "k", "order-1"), draft("too", None, "order-1-b")]
        results = await asyncio.gather(*(harness.publish(*unit, fingerprint=b"f") for _ in range(20)))
        ids = {tuple(accepted.id for accepted in result) for result in results}
        fates = sorted(result[0].replayed for result in results)
        assert (len(ids), fates, await harness.stored()) == (1, [False] + [True] * 19, [b"same", b"too"])


async def test_two_processes_store_one_idempotency_key_once(database_url: str) -> None:
    """RR-12: the loser waits for the winner's commit and reads its answer in a second statement."""
    async with publishing(database_url) as one, publishing(database_url) as other:
        pairs = [(one, other)[n % 2].publish(draft("x", None, f"key {n // 2}"), fingerprint=b"f") for n in range(60)]
        results = await asyncio.gather(*pairs)
        fates = [sorted((a.replayed, b.replayed)) for (a,), (b,) in zip(results[::2], results[1::2], strict=True)]
        assert (fates, len(await one.stored())) == ([[False, True]] * 30, 30)


async def test_an_idempotency_key_with_other_contents_is_a_conflict_and_stores_nothing(database_url: str) -> None:
    """WH-A01; the whole unit, also what comes after the draft that bears the key."""
    async with publishing(database_url) as harness:
        await harness.publish(draft("first", None, "K"), draft("second", None, "K/1"), fingerprint=b"one")
        with pytest.raises(IdempotencyConflict):
            await harness.publish(draft("first", None, "K"), fingerprint=b"other")
        with pytest.raises(IdempotencyConflict):
            await harness.publish(
                draft("first", None, "K"),
                draft("second", None, "K/1"),
                draft("third", None, "K/2"),
                fingerprint=b"three",
            )
        assert await harness.stored() == [b"first", b"second"]


async def test_keys_in_open_transactions_hold_up_nobody_else(database_url: str) -> None:
    """FC-09: one of them took a writer, and what came behind it waited for a lock that it alone needed."""
    taken = ["one", "two"]
    async with publishing(database_url, writers=1, key_lock_seconds=60) as harness:
        async with foreign_transaction(database_url, None) as foreign, asyncio.TaskGroup() as tasks:
            for key in taken:
                await store_under(foreign, key)
            stuck = [tasks.create_task(harness.publish(draft(key, None, key), fingerprint=b"f")) for key in taken]
            await begun()
            for number in range(20):
                await harness.publish(draft("free", f"key {number}", f"free {number}"), fingerprint=b"f")
            undecided = [not task.done() for task in stuck]
            await foreign.execute("ROLLBACK")
        payloads = sorted(await harness.stored())
        assert (undecided, payloads) == ([True, True], [b"free"] * 20 + [b"one", b"two"])


async def test_a_key_that_stays_in_an_open_transaction_is_told_to_be_in_flight(database_url: str) -> None:
    """FC-09, FT-21; also where the publisher is stopped while it waits."""
    async with publishing(database_url, key_lock_seconds=0.1) as harness:
        async with foreign_transaction(database_url, None) as foreign:
            await store_under(foreign, "taken")
            late = await harness.outcomes([draft("a", "k", "taken")], [draft("b", "k")], fingerprint=b"f")
        assert (late, await harness.stored()) == ([IdempotencyInFlight, ["stored"]], [b"b"])


async def test_a_stopped_publisher_waits_for_no_other_transaction(database_url: str) -> None:
    """FC-09."""
    async with (
        foreign_transaction(database_url, None) as foreign,
        publishing(database_url, key_lock_seconds=60) as harness,
    ):
        await store_under(foreign, "taken")
        stuck = asyncio.create_task(harness.outcomes([draft("a", None, "taken")]))
        await harness.publish(draft("b"))
        harness.publisher.stop()
        assert await stuck == [IdempotencyInFlight]


async def test_a_conflict_leaves_the_other_units_of_its_commit_alone(database_url: str) -> None:
    async with publishing(database_url) as harness:
        await harness.publish(draft("old", None, "K"), fingerprint=b"one")
        units = [[draft("a")], [draft("b", None, "K"), draft("c", None, "L")], [draft("d")]]
        fates = await harness.outcomes(*units, fingerprint=b"two")
        assert (fates, await harness.stored()) == ([["stored"], IdempotencyConflict, ["stored"]], [b"old", b"a", b"d"])


async def test_without_a_fingerprint_the_key_is_the_identity_and_a_batch_may_repeat_a_part(database_url: str) -> None:
    """WH-C01: source and id of a CloudEvent; also twice in one unit."""
    async with publishing(database_url) as harness:
        await harness.publish(draft("a", None, "A"))
        again = await harness.publish(draft("b", None, "B"), draft("a", None, "A"), draft("b", None, "B"))
        assert ([one.replayed for one in again], again[0].id == again[2].id, await harness.stored()) == (
            [False, True, True],
            True,
            [b"a", b"b"],
        )


# --- refusals ---------------------------------------------------------------------------------------------------


async def test_a_unit_with_bad_data_is_singled_out_and_the_others_are_stored(database_url: str) -> None:
    """RR-12: a certain rollback is halved until the culprit stands alone; it is refused whole."""
    async with publishing(database_url, running=False, writers=1) as harness:
        bad = [draft("good half"), Draft("t", b"bad half", "nul \x00")]
        units = [[draft(f"{n}")] for n in range(13)] + [bad, [draft("last")]]
        fates = asyncio.create_task(harness.outcomes(*units))
        await begun()
        harness.publisher.stop()
        await harness.publisher.run()
        assert await fates == [["stored"]] * 13 + [PublishRefused, ["stored"]]
        assert await harness.stored() == [b"%d" % n for n in range(13)] + [b"last"]


async def test_data_that_never_reaches_the_server_is_refused_like_any_other_bad_data(database_url: str) -> None:
    """A lone surrogate cannot be sent at all; it must not end the publisher."""
    async with publishing(database_url) as harness:
        fates = await harness.outcomes([draft("a")], [draft("b", "lone \ud800")], [draft("c")])
        assert fates == [["stored"], PublishRefused, ["stored"]]


@pytest.mark.parametrize("trouble", ["read-only", "index"])
async def test_what_is_not_the_events_fault_is_unavailable_and_may_be_repeated(trouble: str, database_url: str) -> None:
    """FC-06: a server that is read-only for a while, and a unique index that is not the idempotency key's."""
    async with publishing(database_url) as harness:
        if trouble == "index":
            await harness.sql.execute("CREATE UNIQUE INDEX one_only ON hookwire.outbox ((sink || 'x'), layout)")
            await harness.sql.execute(
                "INSERT INTO hookwire.outbox (id, layout, shard, sink) SELECT 0, 1, 0, 'webhooks'"
            )
        else:
            await read_only(harness, "on")
        outcomes = await harness.outcomes([Draft("a", b"1", idempotency_key="k")], [Draft("a", b"2", "key")])
        if trouble == "index":
            await harness.sql.execute("DROP INDEX hookwire.one_only")
        else:
            await read_only(harness, "off")
        again = await harness.outcomes([Draft("a", b"1", idempotency_key="k")], [Draft("a", b"2", "key")])
        expected = ServerTrouble if trouble == "index" else CannotServe
        assert (outcomes, again) == ([expected] * 2, [["stored"]] * 2)


async def read_only(harness: Harness, value: str) -> None:
    """Make the database's sessions read-only, or writable, from now on."""
    name = await harness.sql.fetchval("SELECT current_database()")
    await harness.sql.execute("SET default_transaction_read_only = off")
    await harness.sql.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = {value}")
    await harness.sql.execute(
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'hookwire%'"
    )


async def test_the_text_of_a_refusal_never_quotes_the_server(database_url: str) -> None:
    """FC-06: only what our own SQL raises is shown as it is."""
    async with publishing(database_url) as harness:
        with pytest.raises(PublishRefused) as refused:
            await harness.publish(Draft("a", b"", headers={"ce-subject": "\x00"}))
        assert str(refused.value) == "the event holds a value that cannot be stored (SQLSTATE 22P05)"


async def test_the_text_of_a_refusal_names_the_rule(database_url: str) -> None:
    async with publishing(database_url) as harness:
        with pytest.raises(PublishRefused, match="invalid topic"):
            await harness.publish(Draft("no spaces allowed", b""))


async def test_more_waiting_units_than_allowed_are_refused(database_url: str) -> None:
    async with publishing(database_url, running=False, waiting_units_max=2) as harness:
        waiting = [asyncio.create_task(harness.publish(draft(f"{n}"))) for n in range(2)]
        await begun()
        with pytest.raises(Overloaded):
            await harness.publish(draft("one too many"))
        harness.publisher.stop()
        await harness.publisher.run()
        await asyncio.gather(*waiting)
        assert await harness.stored() == [b"0", b"1"]


async def test_a_publisher_that_went_away_before_its_commit_is_not_stored(database_url: str) -> None:
    async with publishing(database_url, running=False) as harness:
        gone = asyncio.create_task(harness.publish(draft("gone")))
        stays = asyncio.create_task(harness.publish(draft("stays")))
        await asyncio.sleep(0)
        gone.cancel()
        await begun()
        harness.publisher.stop()
        await harness.publisher.run()
        await stays
        assert await harness.stored() == [b"stays"]


async def test_a_soft_stop_finishes_what_waits_and_takes_no_more(database_url: str) -> None:
    async with publishing(database_url, running=False, commit_drafts_max=10) as harness:
        waiting = [asyncio.create_task(harness.publish(draft(f"{n}"))) for n in range(100)]
        await begun()
        harness.publisher.stop()
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            await harness.publisher.run()
        await asyncio.gather(*waiting)
        with pytest.raises(Overloaded):
            await harness.publish(draft("late"))
        assert len(await harness.stored()) == 100


# --- keys -------------------------------------------------------------------------------------------------------


async def test_a_foreign_transaction_that_holds_a_key_delays_that_key_alone(database_url: str) -> None:
    """RO-02e, RR-03, I6, GU-20: the others flow while the held one waits, however long they need."""
    waiting = publishing(database_url, key_lock_seconds=WAIT_SECONDS_MAX)
    async with waiting as harness, foreign_transaction(database_url, "held") as foreign:
        held = asyncio.create_task(harness.publish(draft("mine", "held")))
        await harness.blocked()
        keys = [key for key in map(str, range(200)) if hash_key("t", key).stripe != hash_key("t", "held").stripe]
        others = await harness.outcomes(*([draft(key, key)] for key in keys))
        assert (set(map(str, others)), held.done()) == ({"['stored']"}, False)
        await foreign.execute("ROLLBACK")
        await held
        assert len(await harness.stored()) == len(keys) + 1


async def test_a_key_that_stays_held_is_refused_and_nothing_of_it_is_stored(database_url: str) -> None:
    """RO-02e, RR-03, I6."""
    async with publishing(database_url, key_lock_seconds=0.2) as harness, foreign_transaction(database_url, "held"):
        with pytest.raises(KeyBusy):
            await harness.publish(draft("mine", "held"))
        assert await harness.stored() == []


async def test_the_log_names_what_holds_a_key(database_url: str) -> None:
    """FS-07: pid, role and application, once for many refusals."""
    with structlog.testing.capture_logs() as lines:
        async with foreign_transaction(database_url, "held") as other:
            await other.execute("SET application_name = 'squatter'")
            async with publishing(database_url, key_lock_seconds=0.2) as harness:
                await harness.outcomes(*([draft(f"mine {number}", "held")] for number in range(3)))
                await until(lambda: asyncio.sleep(0, lines))
            pid = other.get_server_pid()
    ended_by = f"SELECT pg_terminate_backend({pid})"
    assert [("squatter" in one["holder"], one["ended_by"]) for one in lines] == [(True, ended_by)]


async def test_a_held_key_is_stored_when_its_holder_commits_and_its_id_is_the_higher_one(database_url: str) -> None:
    """RO-02a, F51: commit order is id order."""
    async with publishing(database_url, key_lock_seconds=10) as harness:
        async with foreign_transaction(database_url, "held") as foreign:
            held = [asyncio.create_task(harness.publish(draft(f"mine {n}", "held"))) for n in range(3)]
            await harness.blocked()
            await foreign.execute("COMMIT")
            await asyncio.gather(*held)
        stored = await harness.stored()
        assert (stored[0], sorted(stored[1:])) == (b"foreign", [b"mine 0", b"mine 1", b"mine 2"])


async def order_across_topics(sql: asyncpg.Connection, across: bool) -> None:
    """As `hookwire layout change --order-scope` does it."""
    await sql.execute(STATEMENTS["layout.order_by_key" if across else "layout.order_by_topic_key"])


@pytest.mark.parametrize("across_topics", [False, True], ids=["topic_key", "key"])
async def test_a_units_stripes_are_those_that_the_database_locks(database_url: str, across_topics: bool) -> None:
    """RG-10, RO-02: under either order scope, or two writers of ours would refuse each other's units."""
    drafts = [Draft(topic, b"", key) for topic in ("a", "b", "\u00fc") for key in ("", "k", "\u00e9", None)]
    connection = await asyncpg.connect(database_url)
    try:
        await order_across_topics(connection, across_topics)
        rows = await connection.fetch(
            "SELECT hookwire.stripe_of(hookwire.lane_digest(t, k)) AS stripe"
            " FROM unnest($1::text[], $2::text[]) AS d(t, k) WHERE k IS NOT NULL",
            [d.topic for d in drafts],
            [d.key for d in drafts],
        )
    finally:
        await connection.close()
    assert stripes_of(drafts, across_topics=across_topics) == {row["stripe"] for row in rows}
    assert len(rows) == 9


@pytest.mark.parametrize("across_topics", [False, True], ids=["topic_key", "key"])
async def test_a_key_that_is_in_a_commit_keeps_its_lanes_other_units_out_of_the_next(
    database_url: str, across_topics: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RR-03, RG-10: a key's unit of another topic waits too where a key is one lane through all topics."""
    commits: list[list[str]] = []

    async def noted(session: Any, units: Sequence[Any], direct: Any = None, *, wait: bool) -> Any:
        commits.append([draft.topic for unit in units for draft in unit.drafts])
        return await store(session, units, direct, wait=wait)

    store = hub.publish._store
    monkeypatch.setattr(hub.publish, "_store", noted)
    async with publishing(database_url, writers=2) as harness, foreign_transaction(database_url, None) as foreign:
        await order_across_topics(harness.sql, across_topics)
        harness.publisher.order_across_topics(across_topics)
        await foreign.execute("LOCK TABLE hookwire.events IN EXCLUSIVE MODE")
        units = [asyncio.create_task(harness.publish(Draft("a", b"", "k")))]
        await harness.blocked(1)
        units += [
            asyncio.create_task(harness.publish(Draft(topic, b"", key))) for topic, key in (("b", "k"), ("c", "x"))
        ]
        await harness.blocked(2)
        taken = list(commits)
        await foreign.execute("ROLLBACK")
        await asyncio.gather(*units)
    assert taken == [["a"], ["c"] if across_topics else ["b", "c"]]


async def test_many_units_of_a_held_key_wait_together_and_leave_room_for_another_held_key(database_url: str) -> None:
    """RR-03: one transaction per key waits, however many units do; nobody queues behind another key's patience."""
    async with (
        publishing(database_url, key_lock_seconds=40, key_waiters=2) as harness,
        foreign_transaction(database_url, "stuck"),
        foreign_transaction(database_url, "short") as short,
    ):
        stuck = [asyncio.create_task(harness.publish(draft("s", "stuck"))) for _ in range(300)]
        await harness.blocked(1)
        quick = asyncio.create_task(harness.publish(draft("q", "short")))
        await harness.blocked(2)
        await short.execute("COMMIT")
        async with asyncio.timeout(20):
            await quick
        for unit in stuck:
            unit.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
        assert await harness.stored() == [b"foreign", b"q"]


async def test_a_hot_key_is_never_busy_by_our_own_commits(database_url: str) -> None:
    """Two writers of one process do not refuse each other's key."""
    async with publishing(database_url) as harness:
        fates = await harness.outcomes(*([draft(f"{n}", "hot")] for n in range(1200)))
        assert (fates.count(["stored"]), len(await harness.stored())) == (1200, 1200)


async def test_a_hot_key_is_shared_by_two_processes(database_url: str) -> None:
    """RR-03: shared commits try; what is refused waits together in one transaction instead of being turned away."""
    async with (
        publishing(database_url, commit_drafts_max=16) as one,
        publishing(database_url, commit_drafts_max=16) as other,
    ):
        units = [[draft(f"{n}", "hot")] for n in range(400)]
        fates = await asyncio.gather(one.outcomes(*units), other.outcomes(*units))
        assert [fate.count(["stored"]) for fate in fates] == [400, 400]


async def test_sixteen_writers_on_four_keys_commit_in_id_order(database_url: str) -> None:
    """RU-04, F51, I3: two processes, foreign transactions that hold at random; no id after a higher one of its key."""
    dice = random.Random(51)
    async with publishing(database_url) as one, publishing(database_url) as other:

        async def write(writer: int) -> None:
            for n in range(15):
                harness = (one, other)[writer % 2]
                await harness.publish(draft(f"{writer}-{n}", f"key {dice.randrange(4)}"))

        async def write_slowly() -> None:
            connection = await asyncpg.connect(database_url)
            for _ in range(10):
                async with connection.transaction():
                    await connection.execute(
                        "SELECT hookwire.publish('t', 'f'::text, key => $1)", f"key {dice.randrange(4)}"
                    )
                    await lasts(dice.random() * 0.02)
            await connection.close()

        async with asyncio.TaskGroup() as tasks:
            reader = tasks.create_task(watch_inversions(database_url, 16 * 15 + 2 * 10))
            for writer in range(16):
                tasks.create_task(write(writer))
            for _ in range(2):
                tasks.create_task(write_slowly())
        assert reader.result() == []


async def watch_inversions(database_url: str, events: int) -> list[tuple[str, int]]:
    """Reads until there are so many events; (key, id) wherever an id appeared after a higher one of its key."""
    connection = await asyncpg.connect(database_url)
    seen: dict[str, set[int]] = {}
    inversions = []
    try:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while sum(map(len, seen.values())) < events:
                for row in await connection.fetch("SELECT key, array_agg(id) AS ids FROM hookwire.events GROUP BY key"):
                    before = seen.setdefault(row["key"], set())
                    new = set(row["ids"]) - before
                    inversions += [(row["key"], one) for one in new if before and one < max(before)]
                    before |= new
    finally:
        await connection.close()
    return inversions


# --- a database that goes away ----------------------------------------------------------------------------------


async def test_a_connection_cut_in_a_commit_is_an_unknown_for_all_of_it_and_the_publisher_goes_on(
    database_url: str,
) -> None:
    """RR-12: they repeat with their keys; nothing is told to have failed that may have been stored."""
    async with publishing(database_url, running=False, writers=1) as harness:
        async with foreign_transaction(database_url, None) as foreign, asyncio.TaskGroup() as tasks:
            await claim_idempotency_key(foreign, "taken")
            fates = tasks.create_task(harness.outcomes([draft("a", None, "taken")], [draft("b")], [draft("c", "k")]))
            await begun()
            running = tasks.create_task(harness.publisher.run())
            (backend,) = await harness.blocked()
            await harness.sql.fetchval("SELECT pg_terminate_backend($1)", backend)
            assert await fates == [OutcomeUnknown] * 3
            await foreign.execute("ROLLBACK")
            (again,) = await harness.publish(draft("a", None, "taken"))
            harness.publisher.stop()
            await running
        assert (again.replayed, await harness.stored()) == (False, [b"a"])


async def test_a_database_that_cannot_be_reached_is_unavailable(database_url: str) -> None:
    async with publishing(database_url) as harness:
        await harness.database.aclose()
        with pytest.raises(Unavailable):
            await harness.publish(draft("a"))


async def test_a_silent_database_is_an_unknown_for_what_was_sent_and_nothing_else_is_stored(database_url: str) -> None:
    """F13: whoever waits is answered after `answer_seconds`; what had not left by then never will."""
    async with publishing(database_url, writers=1, answer_seconds=0.5) as harness:
        async with foreign_transaction(database_url, None) as foreign, asyncio.TaskGroup() as tasks:
            await claim_idempotency_key(foreign, "taken")
            sent = tasks.create_task(harness.outcomes([draft("a", None, "taken")]))
            await harness.blocked()
            waiting = tasks.create_task(harness.outcomes([draft("b")]))
            assert (await sent, await waiting) == ([OutcomeUnknown], [Unavailable])
            await foreign.execute("ROLLBACK")
        await harness.publish(draft("c"))
        assert await harness.stored() == [b"a", b"c"]
