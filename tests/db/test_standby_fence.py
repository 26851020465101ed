"""The standby fence on a primary with a standby: what leaves, what is held back, and what an answer is worth."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from db.errors import DatabaseError, HeldBack, OutcomeUnknown, Unavailable
from db.migrate import migrate
from db.pool import Database, PoolOptions, Row, open_database
from db.replication.standby_fence import Required, StandbyFence, Standbys
from event.event import Draft
from hub.publish import Publisher
from tests.pair import Pair
from tests.waiting import WAIT_SECONDS, until

BOTH = Required(names=("one", "two"))
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
TOPICS = "SELECT count(*) FROM hookwire.topics"
OTHERS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'hookwire' AND pid <> pg_backend_pid()"


# --- what is required -------------------------------------------------------------------------------------------


def look(*flushed: tuple[str, int], own_name: str = "one", sees_all: bool = True) -> Standbys:
    return Standbys(9, 9, "1", own_name, sees_all, tuple(name for name, _ in flushed), tuple(at for _, at in flushed))


@pytest.mark.parametrize(
    ("required", "found", "reason"),
    [
        ("names:one,two", look(("two", 5)), ""),
        ("names:one,two", look(("two", 4)), "the standby two lacks the latest commits"),
        ("names:one,two", look(("two", 5), ("two", 4)), "the standby two lacks the latest commits"),
        ("names:one,two", look(("three", 5)), "the standby two is not connected"),
        ("names:one,two", look(("one", 5), own_name="two"), ""),
        ("names:one,two,three", look(("two", 5)), "the standby three is not connected"),
        ("names:one,one", look(("two", 5)), "no other server is named"),
        ("any:1", look(("two", 4), ("three", 5)), ""),
        ("any:2", look(("two", 4), ("three", 5)), "1 of 2 standbys have the latest commits"),
        ("any:1", look(("two", 5), sees_all=False), "the role cannot see the standbys: GRANT pg_monitor to it"),
    ],
)
def test_it_says_which_standby_lacks_a_position(required: str, found: Standbys, reason: str) -> None:
    """HA-12: a server is not required of itself, so that the setting outlives a failover."""
    assert Required.parse(required).lacking(found, 5) == reason


@pytest.mark.parametrize(
    "text", ["any", "any:0", "any:-1", "names:", "names:one", "names:one,", "one,two", "ANY 1 (a)"]
)
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="any:1, or names:a,b"):
        Required.parse(text)


class Looks:
    """A server whose looks are these, in their turn."""

    def __init__(self, *looks: Standbys | Exception) -> None:
        self._looks = list(looks)

    async def fetchrow(self, name: str, *args: object) -> Row | None:
        await asyncio.sleep(0)
        found = self._looks.pop(0)
        if isinstance(found, Exception):
            raise found
        return found._asdict()

    async def fetchval(self, name: str, *args: object) -> Any:
        raise AssertionError("nothing has to be flushed")


async def test_a_look_that_fails_gives_no_earlier_one_to_those_who_wait() -> None:
    """HA-11: its position is of before their commits."""
    before = look(("two", 9))
    later = before._replace(position=10, flushed_here=10)
    server = Looks(before, before, Unavailable("no session"), later)
    fence = StandbyFence(Required(count=1), wait_seconds=0)
    mark = await fence.mark(server)
    ended = await asyncio.gather(*(fence.wait(server, mark) for _ in range(3)), return_exceptions=True)
    assert [str(one).partition(": ")[2] for one in ended] == [
        "",
        "no session",
        "0 of 1 standbys have the latest commits",
    ]


async def test_a_missing_standby_is_told_for_a_minute_after_the_last_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """HA-11: an idle process waits no more, and would tell of a standby that is back long ago."""
    server = Looks(look(), look())
    fence = StandbyFence(Required(count=1), wait_seconds=0)
    mark = await fence.mark(server)
    with pytest.raises(HeldBack):
        await fence.wait(server, mark)
    ended_at, told = time.monotonic(), []
    for seconds in (0, 50, 61):
        monkeypatch.setattr(time, "monotonic", lambda later=seconds: ended_at + later)
        told.append(fence.lacks)
    monkeypatch.undo()
    assert told == ["0 of 1 standbys have the latest commits"] * 2 + [""]


# --- without a fence --------------------------------------------------------------------------------------------


class Counted(Database):
    """A database that keeps the names of all statements."""

    def __init__(self, inner: Database) -> None:
        super().__init__(inner._pool, inner.options)
        self.asked: list[str] = []

    async def fetch(self, name: str, *args: object) -> Sequence[Row]:
        self.asked.append(name)
        return await super().fetch(name, *args)

    async def fetchrow(self, name: str, *args: object) -> Row | None:
        self.asked.append(name)
        return await super().fetchrow(name, *args)

    async def fetchval(self, name: str, *args: object) -> Any:
        self.asked.append(name)
        return await super().fetchval(name, *args)


@pytest.mark.parametrize(
    ("fence", "asked"),
    [
        (None, ["event.publish_batch", "outbox.origin"]),
        (
            StandbyFence(Required(count=1), wait_seconds=0),
            ["standby_fence.look", "event.publish_batch", "standby_fence.look", "standby_fence.look"],
        ),
    ],
    ids=["off", "on"],
)
async def test_only_a_fence_costs_statements(database_url: str, fence: StandbyFence | None, asked: list[str]) -> None:
    """HA-11: without it, the same statements as before. While a standby is missing, nothing is fetched."""
    async with opened(database_url, fence) as inner:
        database = Counted(inner)
        publisher = Publisher(database, lambda _owed: None)
        running = asyncio.create_task(publisher.run())
        with_fence = [OutcomeUnknown, HeldBack] if fence else []
        raised = []
        for call in (publisher.publish([Draft("t", b"1")]), database.fetch_fenced("outbox.origin")):
            try:
                await call
            except (OutcomeUnknown, HeldBack) as error:
                raised.append(type(error))
        publisher.stop()
        await running
    assert (database.asked, raised) == (asked, with_fence)


# --- on a primary with a standby --------------------------------------------------------------------------------


@asynccontextmanager
async def opened(url: str, fence: StandbyFence | None) -> AsyncIterator[Database]:
    database = await open_database(PoolOptions(url, fence=fence))
    try:
        yield database
    finally:
        await database.aclose()


@asynccontextmanager
async def plain(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A session that waits for no standby."""
    sql = await asyncpg.connect(url, server_settings={"synchronous_commit": "local"})
    try:
        yield sql
    finally:
        await sql.close()


async def fetched(database: Database) -> str:
    """Return "out" where rows may leave, else why they may not."""
    released: list[Row] = []

    async def release(rows: Sequence[Row]) -> None:
        released.extend(rows)

    try:
        await database.fetch_fenced("session.identity", release=release)
    except HeldBack as held:
        return str(held) if released else "no rows"
    return "out"


async def test_what_a_standby_lacks_is_held_back_until_it_has_it(pair: Pair) -> None:
    """HA-11, HA-12: then also on a quiet server, where nothing flushes the end of the log."""
    async with opened(pair.primary.url, StandbyFence(BOTH, wait_seconds=0.2)) as database:
        await until(lambda: is_out(database), WAIT_SECONDS)
        await asyncio.to_thread(pair.standby.stop)
        without = await fetched(database)
        await asyncio.to_thread(pair.standby.start)
        await until(lambda: is_out(database), WAIT_SECONDS)
    assert without == "held back by the standby fence: the standby two is not connected"


async def is_out(database: Database) -> bool:
    """Return whether rows may leave, also while no server takes writes."""
    try:
        return await fetched(database) == "out"
    except DatabaseError:
        return False


async def test_rows_of_before_a_failover_are_not_handed_out(pair: Pair) -> None:
    """HA-11: their position would be compared with another server's."""
    url = f"postgresql://postgres@127.0.0.1:{pair.primary.port},127.0.0.1:{pair.standby.port}/postgres"
    async with opened(url, StandbyFence(Required(count=1), wait_seconds=WAIT_SECONDS)) as database:
        mark = await database.fence_mark()
        await pair.switch_over()
        await until(lambda: is_out(database), WAIT_SECONDS)
        with pytest.raises(HeldBack, match="another server may have taken over"):
            await database.pass_fence(mark)


async def test_a_crash_ends_a_mark_and_a_lost_session_does_not(pair: Pair) -> None:
    """HA-11: a crash takes back what was visible and not flushed, also where PostgreSQL restarts its own processes."""
    async with opened(pair.primary.url, StandbyFence(BOTH)) as database:
        mark = await database.fence_mark()
        async with plain(pair.primary.url) as sql:
            await sql.execute(OTHERS.replace("SELECT pid", "SELECT pg_terminate_backend(pid)"))
        await until(lambda: is_out(database), WAIT_SECONDS)
        await database.pass_fence(mark)
        async with plain(pair.primary.url) as sql:
            [other, *_] = await sql.fetch(OTHERS)
            os.kill(other["pid"], signal.SIGKILL)

        async def is_ended() -> bool:
            try:
                await database.pass_fence(mark)
            except DatabaseError as error:
                return "another server may have taken over" in str(error)
            return False

        await until(is_ended, WAIT_SECONDS)


async def test_a_commit_whose_wait_for_the_standby_ended_early_is_an_unknown_outcome(pair: Pair) -> None:
    """HA-13: the client's own time limit ends no wait, and a wait that an operator ends is no success."""
    url = pair.primary.url
    await migrate(url)
    fence = StandbyFence(BOTH)
    async with plain(url) as sql, opened(url, fence) as other, opened(url, fence) as patient:
        impatient = Database(other._pool, replace(other.options, statement_seconds=0.0))
        await sql.execute("ALTER SYSTEM SET synchronous_standby_names = 'two'")
        await sql.execute("SELECT pg_reload_conf()")
        await until(lambda: sql.fetchval("SELECT sync_state = 'sync' FROM pg_stat_replication"), WAIT_SECONDS)
        await asyncio.to_thread(pair.standby.stop)
        with pytest.raises(OutcomeUnknown, match="closed in the middle"):
            await impatient.execute("outbox.ensure_topics", ["default"], ["left"])
        left = await sql.fetchval(WAITING), await sql.fetchval(TOPICS)
        await sql.execute(WAITING.replace("count(*)", "pg_cancel_backend(pid)"))
        await until(lambda: sql.fetchval(TOPICS), WAIT_SECONDS)
        writing = asyncio.create_task(patient.execute("outbox.ensure_topics", ["default"], ["cancelled"]))
        await until(lambda: sql.fetchval(WAITING), WAIT_SECONDS)
        await sql.execute(WAITING.replace("count(*)", "pg_cancel_backend(pid)"))
        with pytest.raises(OutcomeUnknown, match="perhaps on this server alone"):
            await writing
        assert (left, await sql.fetchval(TOPICS)) == ((1, 0), 2)
