"""A request is handed to a worker that waits in the caller's process, leased to it in the statement that makes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import pytest

from db.errors import Refused
from db.pool import Database, PoolOptions, open_database
from db.statements import STATEMENTS
from reqrep.bridge.plain_reply import PlainReply
from reqrep.bridge.request_notices import RequestNotices
from reqrep.bridge.requests import RequestDraft, Requests
from reqrep.bridge.waiting import ServiceWaiting
from reqrep.bridge.waiting_worker import WaitingWorker

FRAMES = "application/vnd.hookwire.frames+json"
REPLY_TOPIC = "hookwire.service.echo.reply"
SETTINGS = "INSERT INTO hookwire.services (name, {0}) VALUES ('echo', {1}) ON CONFLICT (name) DO UPDATE SET {0} = {1}"


@dataclass
class Bridge:
    """The parts of one process, and what it told of."""

    database: Database
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.waiting = ServiceWaiting(self.database)
        self.requests = Requests(
            self.database, self.waiting, lambda service: self.told.append(f"{service} waits"), HeardNotices(self),
            lambda: self.told.append("relay"),
        )  # fmt: skip

    async def worker(self, name: str = "w", lease_seconds: float = 50.0) -> tuple[WaitingWorker, asyncio.Task[bool]]:
        """A worker that waits."""
        worker = WaitingWorker("echo", name, lease_seconds)
        task = asyncio.create_task(self.waiting.for_request(worker, 60))
        await asyncio.sleep(0)
        return worker, task

    async def caller(self, request_id: str) -> asyncio.Task[PlainReply | bool]:
        """A caller that waits."""
        task = asyncio.create_task(self.waiting.for_reply(request_id, 60))
        await asyncio.sleep(0)
        return task


class HeardNotices(RequestNotices):
    """RequestNotices that a test sees before they are sent."""

    def __init__(self, bridge: Bridge) -> None:
        super().__init__(bridge.database, rest_seconds=0)
        self._told = bridge.told

    def waiting(self, service: str) -> None:
        super().waiting(service)
        self._told.append(f"others: {service}")

    def over(self, request_id: str) -> None:
        super().over(request_id)
        self._told.append("others: over")


@pytest.fixture
async def bridge(database_url_both: str) -> AsyncIterator[Bridge]:
    async with aclosing(await open_database(PoolOptions(database_url_both))) as database:
        yield Bridge(database)


async def row_of(sql: asyncpg.Connection, request_id: str) -> tuple[Any, ...]:
    return tuple(
        await sql.fetchrow(
            "SELECT state, worker, attempts, claim IS NOT NULL, deadline_at = expires_at"
            " FROM hookwire.requests WHERE id = $1::text::uuid",
            request_id,
        )
    )


WAITS = ("waiting", None, 0, False, True)


async def test_the_worker_that_has_waited_longest_gets_the_request_leased(
    bridge: Bridge, sql: asyncpg.Connection
) -> None:
    (first, task), (second, other) = await bridge.worker("first"), await bridge.worker("second")

    request_id, repeated = await bridge.requests.make("echo", RequestDraft(b"hello", "text/plain"))
    assert await task
    [held] = first.take()

    assert (held.receipt.request_id, held.body, held.content_type, held.attempts) == (
        request_id, b"hello", "text/plain", 1,
    )  # fmt: skip
    assert held.leased_until - held.created_at == await sql.fetchval("SELECT interval '50 s'")
    assert await row_of(sql, request_id) == ("leased", "first", 1, True, False)
    assert (repeated, first.take(), second.take(), other.done(), bridge.told) == (False, [], [], False, [])
    other.cancel()


UNFIT = {
    "a limit of concurrency": ("concurrency_max", "5"), "not idempotent": ("idempotent", "false"),
    "one try": ("tries_max", "1"),
}  # fmt: skip


@pytest.mark.parametrize("why", ["a request waits", *UNFIT, "a long lease", "frames", "a number", "a large body"])
async def test_a_worker_is_only_woken_where_the_request_cannot_be_handed_over(
    bridge: Bridge, sql: asyncpg.Connection, why: str
) -> None:
    """It claims then. Nothing overtakes a request that waits. A lease whose answer was lost may end in vain."""
    draft, lease_seconds = RequestDraft(b"hello"), 50.0
    if why == "a request waits":
        await sql.execute("SELECT hookwire.request('echo', 'older')")
    elif why in UNFIT:
        await sql.execute(SETTINGS.format(*UNFIT[why]))
    elif why == "a long lease":
        lease_seconds = 61.0
    elif why == "frames":
        draft = RequestDraft(b'{"frames": ["YQ=="]}', FRAMES)
    elif why == "a number":
        draft = RequestDraft(b"hello", client="c", number="1")
    else:
        draft = RequestDraft(b"x" * 65_537)
    worker, task = await bridge.worker(lease_seconds=lease_seconds)

    request_id, _ = await bridge.requests.make("echo", draft)
    assert await task
    found = (worker.take(), await row_of(sql, request_id), bridge.told)

    assert found == ([], WAITS, ["echo waits", "others: echo"])


async def test_a_worker_waits_on_when_its_request_is_refused(bridge: Bridge, sql: asyncpg.Connection) -> None:
    await sql.execute(SETTINGS.format("disabled", "true"))
    worker, task = await bridge.worker()

    with pytest.raises(Refused):
        await bridge.requests.make("echo", RequestDraft(b"hello"))
    await sql.execute(SETTINGS.format("disabled", "false"))
    await asyncio.sleep(0)
    waits_on = not task.done()
    await bridge.requests.make("echo", RequestDraft(b"again"))

    assert (waits_on, await task, [held.body for held in worker.take()]) == (True, True, [b"again"])


async def test_a_request_whose_worker_left_meanwhile_waits_for_the_next_one(
    bridge: Bridge, sql: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The try does not count, and whoever else waits is told."""
    _, task = await bridge.worker()
    fetchrow = bridge.database.fetchrow

    async def leaves_at_commit(name: str, *arguments: object) -> Any:
        row = await fetchrow(name, *arguments)
        task.cancel()
        await asyncio.wait({task})
        return row

    monkeypatch.setattr(bridge.database, "fetchrow", leaves_at_commit)
    request_id, _ = await bridge.requests.make("echo", RequestDraft(b"hello"))

    assert await row_of(sql, request_id) == WAITS
    assert bridge.told == ["echo waits", "others: echo"]


async def test_a_stop_ends_the_wait_of_a_reserved_worker(bridge: Bridge) -> None:
    worker, task = await bridge.worker()
    assert bridge.waiting.reserve("echo") is worker

    bridge.waiting.stop()
    bridge.waiting.put_back(worker)

    assert not await task


async def test_a_caller_of_this_process_gets_the_reply_itself(bridge: Bridge, sql: asyncpg.Connection) -> None:
    """Others are told only where no caller waits here."""
    worker, task = await bridge.worker()
    request_id, _ = await bridge.requests.make("echo", RequestDraft(b"hello"))
    await task
    caller = await bridge.caller(request_id)
    [held] = worker.take()

    outcomes = [await bridge.requests.reply(held.receipt, b"done", "text/html")]
    told = [one for one in bridge.told if one != "relay"]
    outcomes.append(await bridge.requests.reply(held.receipt, b"done", "text/html"))

    assert (outcomes, await caller, told) == (["stored", "stored"], PlainReply(b"done", "text/html"), [])
    assert [one for one in bridge.told if one != "relay"] == ["others: over"]
    row = await sql.fetchrow("SELECT state, reply, reply_content_type, last_error FROM hookwire.requests")
    assert tuple(row) == ("answered", b"done", "text/html", None)


@pytest.mark.parametrize("protocol", [None, "webhook", "pattern", "pull"])
async def test_an_event_of_a_reply_is_owed_where_a_subscription_wants_it(
    sql: asyncpg.Connection, protocol: str | None
) -> None:
    """Without one it is settled at once: stored, in the ledger, without a row for the relay."""
    await sql.execute("UPDATE hookwire.sinks SET configured = true WHERE name = 'webhooks'")
    await sql.execute("INSERT INTO hookwire.topics (tenant, name) VALUES ('default', $1)", REPLY_TOPIC)
    await sql.execute(SETTINGS.format("disabled", "false"))
    if protocol is not None:
        await sql.execute(
            "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, topic_regex, callback, state)"
            " VALUES ('sub_x', $1, $2, $3, 'http://x', 'active')",
            "webhook" if protocol == "pattern" else protocol,
            "hookwire.service.*" if protocol == "pattern" else REPLY_TOPIC,
            r"^hookwire\.service\..*$" if protocol == "pattern" else None,
        )
    made = await sql.fetchrow(STATEMENTS["request.make_for"], "echo", b"x", None, None, None, None, None, "w", None)

    answered = await sql.fetchrow(STATEMENTS["request.reply"], made["id"], made["claim"], b"done", None)
    events = await sql.fetch("SELECT topic, headers ->> 'request-id' AS id, payload, sinks FROM hookwire.events")
    owed = await sql.fetchval("SELECT count(*) FROM hookwire.outbox")
    sent = await sql.fetchval(
        "SELECT count(*) FROM hookwire.ledger_entries WHERE sink = 'webhooks' AND outcome = 'sent'"
    )

    assert [tuple(event) for event in events] == [(REPLY_TOPIC, made["id"], b"done", ["webhooks"])]
    assert tuple(answered) == ("stored", protocol is not None, True)
    assert (owed, sent) == ((0, 1) if protocol is None else (1, 0))


async def test_the_event_of_a_reply_takes_few_statements(sql: asyncpg.Connection) -> None:
    """Each function and each statement costs more to begin and end than its work for one event."""
    await sql.execute("UPDATE hookwire.sinks SET configured = true WHERE name = 'webhooks'")
    await sql.execute("INSERT INTO hookwire.topics (tenant, name) VALUES ('default', $1)", REPLY_TOPIC)
    await sql.execute(SETTINGS.format("disabled", "false"))
    made = await sql.fetchrow(STATEMENTS["request.make_for"], "echo", b"x", None, None, None, None, None, "w", None)

    async with sql.transaction():
        await sql.execute("SET LOCAL track_functions = 'pl'")
        await sql.fetchrow(STATEMENTS["request.reply"], made["id"], made["claim"], b"done", None)
        called = await sql.fetch("SELECT funcname FROM pg_stat_xact_user_functions WHERE schemaname = 'hookwire'")

    assert {row["funcname"] for row in called} == {"answer_request", "publish_batch"}


# --- notices ------------------------------------------------------------------------------------------------------


async def heard(sql: asyncpg.Connection, notices: RequestNotices) -> list[str]:
    """Send the notices that have gathered; return what another process gets."""
    texts: list[str] = []
    ended = asyncio.Event()

    def hear(*notification: Any) -> None:
        ended.set() if notification[-1] == "end" else texts.append(notification[-1])

    await sql.add_listener("hookwire_services", hear)
    await notices.once()
    await sql.execute("NOTIFY hookwire_services, 'end'")
    async with asyncio.timeout(60):
        await ended.wait()
    await sql.remove_listener("hookwire_services", hear)
    return texts


async def test_other_processes_hear_what_has_changed(bridge: Bridge, sql: asyncpg.Connection) -> None:
    """Whatever `HOOKWIRE_SQL_NOTIFY` says: that is for transactions of others."""
    await sql.execute("UPDATE hookwire.installation SET sql_notify = false")
    notices = RequestNotices(bridge.database, rest_seconds=0)
    notices.waiting("echo")
    notices.over("0" * 32)
    notices.waiting("echo")

    assert await heard(sql, notices) == ["waiting 2 echo\nover " + "0" * 32]


@pytest.mark.parametrize(("services", "texts"), [(299, 10), (301, 1)])
async def test_many_changes_share_a_text_and_very_many_are_one_without_names(
    bridge: Bridge, sql: asyncpg.Connection, services: int, texts: int
) -> None:
    """A text of NOTIFY has less than 8,000 bytes, and a name of a service at most 200."""
    notices = RequestNotices(bridge.database, rest_seconds=0)
    names = [f"{number:03}" + "e" * 197 for number in range(services)]
    for name in names:
        notices.waiting(name)

    found = await heard(sql, notices)

    lines = [line for text in found for line in text.splitlines()]
    assert (len(found), lines) == (texts, [f"waiting 1 {name}" for name in names] if services <= 300 else [])


async def test_a_notice_wakes_whom_it_names_without_a_query(bridge: Bridge) -> None:
    """Nothing runs the queries here. What is no notice wakes nobody."""
    (_, first), (_, second) = await bridge.worker("first"), await bridge.worker("second")
    mine, other = await bridge.caller("0" * 32), await bridge.caller("1" * 32)

    for notice in ("waiting 9 else", "waiting x echo", "over ", "nonsense", "\n", f"waiting 1 echo\nover {'0' * 32}"):
        bridge.waiting.told(notice)
    async with asyncio.timeout(60):
        found = (await first, await mine)
    await asyncio.sleep(0)

    assert (found, second.done(), other.done()) == ((True, True), False, False)
    second.cancel()
    other.cancel()


async def test_a_request_that_came_after_the_claim_of_a_worker_began_is_not_waited_for(bridge: Bridge) -> None:
    """The claim did not see it, and nobody waited when it came. The next wait is an ordinary one."""
    bridge.waiting.available("echo")
    worker = WaitingWorker("echo", "w", None, bridge.waiting.unmet("echo"))
    before = asyncio.create_task(bridge.waiting.for_request(worker, 60))
    await asyncio.sleep(0)
    waited = not before.done()
    bridge.waiting.available("echo")
    await before

    bridge.waiting.told("waiting 1 echo")
    at_once = await bridge.waiting.for_request(worker, 60)
    again = asyncio.create_task(bridge.waiting.for_request(worker, 60))
    await asyncio.sleep(0)

    assert (waited, at_once, again.done()) == (True, True, False)
    again.cancel()
