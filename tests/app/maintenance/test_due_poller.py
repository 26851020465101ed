"""The due poller: an idle process asks one question, and what is due is found without a notification (RO-09)."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any
from uuid import UUID

import asyncpg
import pytest

import app.wiring
from app.maintenance.due_poller import DuePoller
from db.bound import Bound
from db.pool import PoolOptions, open_database
from hub.publish import Publisher
from tests.app.conftest import ALL_ROLES, WAIT_SECONDS, Receiver, RunHub
from tests.waiting import until

_LOOKS = 75
_SPANS_MAX = 30
_BY_KEY = """
INSERT INTO hookwire.layouts (number, groups, order_scope, hash_version)
SELECT max(number) + 1, '{}', 'key', 1 FROM hookwire.layouts
"""
_IDLE = {"member.heartbeat", "verdict.report"}  # the renewal of the lease, and the states of the sinks


class Asked:
    """Counts statements by name."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._changed = asyncio.Event()

    def __call__(self, name: str) -> None:
        self.counts[name] += 1
        self._changed.set()

    async def until_looked(self, times: int) -> Counter[str]:
        """What else was asked meanwhile."""
        self.counts.clear()
        async with asyncio.timeout(WAIT_SECONDS):
            while self.counts["due.poll"] < times:
                self._changed.clear()
                await self._changed.wait()
        return Counter({name: count for name, count in self.counts.items() if name != "due.poll"})

    async def until_quiet(self) -> Counter[str]:
        """What else is asked during many looks when all is done: next to nothing, or what it still was in the end."""
        asked: Counter[str] = Counter()
        for _ in range(_SPANS_MAX):
            asked = await self.until_looked(_LOOKS)
            if set(asked) <= _IDLE:
                break
        return asked


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Every statement of every service in this process; the due poller asks a hundred times a second."""
    asked = Asked()

    def noted(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def run(self: Bound, name: str, *args: object) -> Any:
            asked(name)
            return await method(self, name, *args)

        return run

    for method in ("fetch", "fetchrow", "fetchval", "execute"):
        monkeypatch.setattr(Bound, method, noted(getattr(Bound, method)))
    monkeypatch.setattr(app.wiring, "DuePoller", partial(DuePoller, interval_seconds=0.01))
    return asked


async def test_an_idle_service_asks_one_question_and_the_due_poller_finds_what_no_signal_announced(
    running_hub: RunHub, receiver: Receiver, asked: Asked
) -> None:
    """RL-10, RO-09, F60: after an event has gone through, only the due poller and the lease ask; NOTIFY is off."""
    async with running_hub(ALL_ROLES, sql_notify=False) as hub:
        await hub.subscribe("orders", receiver.callback)
        await hub.publish("orders")
        await receiver.wait_for(1)
        idle = await asked.until_quiet()
        await hub.sql("SELECT hookwire.publish('orders', 'x'::text)")
        await receiver.wait_for(2)
    assert (set(idle) <= _IDLE, len(receiver.delivered)) == (True, 2), idle


async def test_a_look_does_not_wait_for_a_change_of_the_layout(database_url: str) -> None:
    """RR-11: who changes it locks the installation's row, for as long as it takes to hash what waits anew."""
    changing = await asyncpg.connect(database_url)
    scopes: list[bool] = []
    async with aclosing(await open_database(PoolOptions(database_url))) as database, asyncio.timeout(WAIT_SECONDS):
        poller = DuePoller(database, {}, lambda *_: None, lambda: None, scopes.append)
        await poller.poll()
        async with changing.transaction():
            await changing.execute("LOCK TABLE hookwire.installation IN ACCESS EXCLUSIVE MODE")
            await changing.execute(_BY_KEY)
            await poller.poll()
        await poller.poll()
    await changing.close()
    assert scopes == [False, False, True]


# --- whose signal -----------------------------------------------------------------------------------------------

# Per column: what makes it due, after the same that is not due yet.
_DUE = {
    "replays": (
        "INSERT INTO hookwire.replays (tenant, source, actor, lower_event_id, last_event_id, upper_event_id, due_at)"
        " VALUES ('default', 'dead_letters', 'me', 0, 0, 9, now() + $1::text::interval)"
    ),
    "deliveries": (
        "INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant)"
        " SELECT 1, 1, now(), now(), 'default' WHERE $1::text = '0'"
    ),
    "intents": (
        "INSERT INTO hookwire.intents"
        " (mode, topic, topic_url, callback, callback_host, identity, signature_method, lease_seconds, due_at)"
        " VALUES ('subscribe', 't', 'http://t/', 'http://c/', 'c', sha256('1'), 'sha256', 9,"
        " now() + $1::text::interval)"
    ),
    "leases": (
        "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state, identity, lease_until)"
        " VALUES ('sub_' || $1::text, 'websub', 't', 'http://c/', 'active', sha256($1::text::bytea),"
        " now() + $1::text::interval)"
    ),
    "foreign_topics": (
        "INSERT INTO hookwire.foreign_topics (topic, url, due_at)"
        " VALUES ('t' || $1::text, 'http://t/', now() + $1::text::interval)"
    ),
    "upstreams": (
        "INSERT INTO hookwire.upstreams (topic, url, token, key_id, sealed, due_at)"
        " VALUES ('t' || $1::text, 'http://t/', $1, 'k', 'x', now() + $1::text::interval)"
    ),
    "rabbithub": (
        "WITH r AS (INSERT INTO hookwire.rabbithub_resources (vhost, kind, name, exchange_type)"
        " SELECT '/', 'x', 'e', 'topic' WHERE $1::text = '0' RETURNING id)"
        " INSERT INTO hookwire.rabbithub_subscriptions (subscription_id, resource_id, hub_topic, lease_seconds)"
        " SELECT s.id, r.id, 't', 60 FROM r, (SELECT min(id) AS id FROM hookwire.subscriptions) AS s"
    ),
}


async def test_each_service_is_notified_once_work_is_due_for_it_and_not_before(database_url: str) -> None:
    database, sql = await open_database(PoolOptions(database_url)), await asyncpg.connect(database_url)
    notified: list[str] = []
    drawn: list[tuple[int, UUID, bool]] = []
    signals = {column: partial(notified.append, column) for column in _DUE}
    poller = DuePoller(database, signals, lambda *seen: drawn.append(seen), lambda: notified.append("silence"))

    async def rung_by_a_look() -> list[str]:
        notified.clear()
        await poller.poll()
        return list(notified)

    found = {"new": await rung_by_a_look()}
    for statement in _DUE.values():
        await sql.execute(statement, "1 hour")
    found["not due"] = await rung_by_a_look()
    for column, statement in _DUE.items():
        await sql.execute(statement, "0")
        found[column] = await rung_by_a_look()
    origin = await sql.fetchval("SELECT hookwire.origin()")
    await sql.close()
    await database.aclose()
    due = list(_DUE)
    assert (found, drawn[0]) == (
        {"new": [], "not due": [], **{column: due[: number + 1] for number, column in enumerate(due)}},
        (0, origin, False),
    )


async def test_a_publisher_is_told_of_another_order_scope(
    running_hub: RunHub, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RG-10, RR-11: nobody notifies when the layout changes."""
    told: list[bool] = []
    monkeypatch.setattr(Publisher, "order_across_topics", lambda _, across: told.append(across))
    async with running_hub(ALL_ROLES) as hub:
        await until(lambda: told)
        await hub.sql("UPDATE hookwire.layouts SET order_scope = 'key'")
        await asked.until_looked(2)
    assert (told[0], told[-1]) == (False, True)
