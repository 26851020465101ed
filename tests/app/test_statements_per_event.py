"""What one event costs in statements on its way through a hub, from the publish to each receiver.

The standby fence is off. The same parts also run on a pool without the fence's code, with the same result.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from typing_extensions import override

from db.pool import Database, PoolOptions, Row, open_database
from db.session import open_session
from db.statements import STATEMENTS
from event.event import Draft
from hub.direct import DirectPath
from hub.publish import Publisher
from relay.outbox import Outbox
from relay.sink import SHARDS, Batch, Term
from tests.app.callback_server import LOOPBACK
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.relay.harness import raise_term
from tests.waiting import WAIT_SECONDS, until
from tests.webhooks.harness import INCARNATION, POLICY, PUBLIC, Harness, delivery_harness
from webhooks.claim import Claimer
from webhooks.contents import Contents
from webhooks.fanout import FanOut
from webhooks.outcome import Outcome
from webhooks.pull import Pull
from webhooks.result import Result
from webhooks.retry import DELIVERED
from webhooks.settlement import write_results
from webhooks.subscriber import Subscribers
from webhooks.worker_options import WorkerOptions

_NAMES = {text: name for name, text in STATEMENTS.items()}


class WithoutFence(Database):
    """A pool as it would be without the code of the standby fence."""

    @override
    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Any]:
        connection = self._pool.take() or await self._pool.acquire()
        try:
            yield connection
        finally:
            await self._pool.release(connection, is_in_order=True)

    @override
    async def fetch_fenced(self, name: str, *args: object, release: object = None) -> Sequence[Row]:
        return await self.fetch(name, *args)

    @override
    async def fence_mark(self) -> None:
        return None

    @override
    async def pass_fence(self, mark: object) -> None:
        return None


_OF_THE_CLIENT = ("set_config('jit'", "typeinfo_tree")
"""What asyncpg itself asks in a session that meets a type for the first time."""


class Asked:
    """What has gone to the server, by the names of the statements, one round trip each."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def hear(self, query: Any) -> None:
        """Note one statement of a session."""
        if not any(words in query.query for words in _OF_THE_CLIENT):
            self.names.append(_NAMES.get(query.query, query.query.rstrip(";")))

    async def taken(self) -> list[str]:
        """Return what was asked since the last call. asyncpg tells of a statement in the step after it."""
        await asyncio.sleep(0)
        names, self.names = self.names, []
        return names


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The statements of all sessions that pools open from now on."""
    found = Asked()

    async def open_heard(options: PoolOptions) -> Any:
        session = await open_session(options)
        session.add_query_logger(found.hear)
        return session

    monkeypatch.setattr("db.pool.open_session", open_heard)
    return found


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    database = await open_database(PoolOptions(url, connections_min=1, connections_max=1))
    try:
        yield database
    finally:
        await database.aclose()


async def published(database: Database, topic: str, direct: DirectPath | None = None) -> None:
    publisher = Publisher(database, lambda _: None, direct=direct)
    running = asyncio.create_task(publisher.run())
    await publisher.publish([Draft(topic, b"1", key="k")])
    publisher.stop()
    await running


async def relayed(database: Database, term: Term) -> None:
    """One batch to Kafka, with its number."""
    outbox = Outbox(database, "kafka", INCARNATION, payload=True)
    outbox.begin(range(SHARDS))
    records = await outbox.claim(term, (), 10, 1 << 20)
    batch = await outbox.write_manifest(term, records)
    await outbox.purge(batch, records)
    assert isinstance(batch, Batch), records


async def fanned_out(database: Database, term: Term) -> None:
    outbox = Outbox(database, "webhooks", INCARNATION, payload=False)
    outbox.begin(range(SHARDS))
    records = await outbox.claim(term, (), 10, 1 << 20)
    assert await FanOut(database, lambda _: None).send(0, term.number, records) == records


async def delivered(database: Database, harness: Harness, subscription: int) -> None:
    subscribers, contents = Subscribers(database, harness.box, POLICY), Contents(database, INCARNATION)
    claimer = Claimer(database, subscribers, contents, WorkerOptions("w", PUBLIC, schedule_seconds=(1,)))
    [claim] = (await claimer.claim({subscription: 10}, 1 << 20)).claims
    outcome = Outcome("delivered", None)
    result = Result(claim.event.id, subscription, claim.fence, 1, datetime.now(UTC), outcome, DELIVERED)
    await write_results(database, [result], "w")


async def pulled(database: Database, subscription: int) -> None:
    pull = Pull(database, Contents(database, INCARNATION), "p")
    [fetched] = await pull.dequeue(subscription, 10, 30.0, 1 << 20)
    assert await pull.ack(subscription, [fetched.receipt]) == {fetched.receipt}


async def term_of(database: Database, sink: str) -> Term:
    await database.execute("term.ensure", [sink])
    row = await raise_term(database, sink)
    return Term(sink, 0, row["term"], row["layout"], row["batch_no"])


STEPS = {
    "published": ["event.publish_batch"],
    "relayed": ["outbox.claim", "manifest.write", "manifest.purge"],
    "fanned out": ["outbox.claim_heads", "delivery.audience", "delivery.fan_out"],
    "delivered": ["delivery.claim", "subscription.for_delivery", "delivery.events", "delivery.settle"],
    "pulled": ["pull.dequeue", "delivery.events", "BEGIN", "pull.held", "delivery.settle", "COMMIT"],
    "published directly": ["direct.publish"],
}
"""The statements of each step, in their order. Only a pull settles in a transaction of its own."""


@pytest.mark.parametrize("kind", [Database, WithoutFence], ids=["fence off", "without its code"])
async def test_without_a_fence_an_event_costs_the_same_statements_as_without_its_code(
    kind: type[Database], database_url_both: str, asked: Asked
) -> None:
    """HA-11: a statement that a change adds to a step is seen here."""
    async with delivery_harness(database_url_both) as harness, opened(database_url_both) as inner:
        await harness.sql.execute("UPDATE hookwire.sinks SET configured = name IN ('kafka', 'webhooks')")
        await inner.execute("outbox.ensure_topics", ["default", "default"], ["t", "u"])
        webhook, puller = await harness.subscribe("https://a.example/"), await harness.subscribe("https://b.example/")
        await harness.change(puller, protocol="pull", callback="")
        at_once = await harness.subscribe("https://c.example/", "u")
        kafka, webhooks = await term_of(inner, "kafka"), await term_of(inner, "webhooks")
        origin, taken = await inner.fetchval("outbox.origin"), []
        offer: Any = SimpleNamespace(timeout_seconds=10.0, lease_margin_seconds=5.0, member_id=None, take=taken.extend)
        direct = DirectPath(lambda: offer, lambda: (1, origin))
        database = kind(inner._pool, inner.options)
        await asked.taken()
        found = {}
        for step, work in {
            "published": published(database, "t"),
            "relayed": relayed(database, kafka),
            "fanned out": fanned_out(database, webhooks),
            "delivered": delivered(database, harness, webhook),
            "pulled": pulled(database, puller),
            "published directly": published(database, "u", direct),
        }.items():
            await work
            found[step] = await asked.taken()
    assert (found, [row["subscription_id"] for row in taken]) == (STEPS, [at_once])


EVENTS = 5
EACH = {"event.publish_batch": 1, "delivery.fan_out": 1, "delivery.settle": 2, "pull.held": 1, "subscription.get": 2}
"""How often a whole hub runs a statement for one event that has a webhook and a pull."""


async def carried(hub: RunningHub, receiver: Receiver, puller: str, number: int) -> None:
    """Publish one event, and wait until the webhook has it, its attempt is stored, and it is pulled."""
    assert (await hub.publish("t", b"%d" % number)).status_code == 202
    await receiver.wait_for(number)
    await until(lambda: counted(hub, "SELECT count(*) FROM hookwire.attempts", 2 * number - 1), WAIT_SECONDS)
    path = f"/subscriptions/{puller}"
    [found] = (await hub.client.post(f"{path}/dequeue", json={"wait_seconds": 20})).json()["items"]
    await hub.client.post(f"{path}/ack", json={"receipts": [found["receipt"]]})
    await until(lambda: counted(hub, "SELECT count(*) FROM hookwire.outbox", 0), WAIT_SECONDS)


async def counted(hub: RunningHub, statement: str, number: int) -> bool:
    return await hub.sql(statement) == [(number,)]


async def test_a_whole_hub_without_a_fence_runs_the_same_statements_for_each_event(
    running_hub: RunHub, receiver: Receiver, asked: Asked
) -> None:
    """HA-11: how often it looks for what is due depends on time, so these statements are not counted."""
    async with running_hub(ALL_ROLES, direct_deliveries=False, **LOOPBACK) as hub:
        await hub.subscribe("t", receiver.callback)
        puller = (await hub.client.post("/subscriptions/pull", json={"topic": "t"})).json()["id"]
        await asked.taken()
        for number in range(1, EVENTS + 1):
            await carried(hub, receiver, puller, number)
        found = Counter(await asked.taken())
    assert {name: found[name] / EVENTS for name in EACH} == EACH
    assert [name for name in found if name.startswith("standby_fence.")] == []
