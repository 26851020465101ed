"""The direct path in one process: hubs, each a publisher with its worker, one relay for all, and the checker's word."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from prometheus_client import CollectorRegistry

from app.chaos.arrivals import Arrival
from app.chaos.checker import Promise, Report, check
from app.chaos.history import Attempt, PublishOutcome
from app.chaos.mark import Mark
from app.checks.ledger import LedgerReport, compare_ledger
from app.maintenance.ledger import Ledger
from db.pool import Database, Row
from egress.client import Client
from egress.resolver import ThreadResolver
from event.event import Draft
from hub.direct import DirectPath
from hub.publish import Publisher
from hub.unit import Accepted
from relay.outbox import Outbox
from relay.sink import Term
from tests.hostile.server import Received
from tests.kept_ledger import KEEP_FOR_EVER
from tests.waiting import poll, until
from tests.webhooks.harness import INCARNATION, POLICY, TERM, WAIT_SECONDS_MAX, Harness
from webhooks.fanout import FanOut
from webhooks.metrics import DeliveryMetrics
from webhooks.worker import Worker

_LEDGER_HOUR = datetime(2026, 1, 15, 9, tzinfo=UTC)


@dataclass
class Relay:
    """The relay of the webhooks: claims, fans out, moves its low-water mark. ``is_paused``: it does nothing."""

    harness: Harness
    outbox: Outbox
    workers: list[Worker] = field(default_factory=list)
    is_paused: bool = False
    events: int = 0

    def low_water(self) -> tuple[int, UUID] | None:
        mark = self.outbox.low_water
        return None if mark is None else (mark.id, mark.origin)

    async def carry(self) -> None:
        """Carry what is in the outbox now."""
        term = Term("webhooks", 0, TERM, 1, 0)
        fan_out = FanOut(self.harness.database, self._tell)
        while records := await self.outbox.claim(term, (), 500, 1_000_000):
            self.events += len(await fan_out.send(0, TERM, records))

    async def carried(self) -> None:
        """Wait until the outbox is empty, while :meth:`run` runs."""
        owed = "SELECT EXISTS (SELECT FROM hookwire.outbox WHERE sink = 'webhooks')"

        async def holds() -> object:
            return not await self.harness.sql.fetchval(owed)

        await until(holds, WAIT_SECONDS_MAX)

    async def run(self) -> None:
        while True:
            if not self.is_paused:
                await self.carry()
                await self.outbox.advance_low_water()
            await poll()

    def _tell(self, subscriptions: Sequence[int]) -> None:
        for worker in self.workers:
            worker.mark_due(subscriptions)


@asynccontextmanager
async def relaying(harness: Harness) -> AsyncIterator[Relay]:
    """A relay that leads; :meth:`Relay.carry` or :meth:`Relay.run` carry."""
    await harness.begin_term(TERM)
    await harness.sql.execute("INSERT INTO hookwire.topics (name) VALUES ('t') ON CONFLICT DO NOTHING")
    outbox = Outbox(harness.database, "webhooks", INCARNATION, payload=False, horizon_seconds=0.05)
    outbox.begin(range(64))
    await outbox.recognise()
    yield Relay(harness, outbox)


class Hub:
    """A publisher and its worker: what one process runs. The worker may be killed and another one started."""

    def __init__(self, relay: Relay, database: Database | None = None, **options: Any) -> None:
        self.harness, self._relay, self._options = relay.harness, relay, options
        self._database = database or relay.harness.database
        self.metrics = DeliveryMetrics(CollectorRegistry())
        self.worker: Worker | None = None
        self.publisher = Publisher(
            self._database, lambda _owed: None, direct=DirectPath(self._offer, relay.low_water),
            on_stored=self._remember,
        )  # fmt: skip

    def _remember(self, draft: Draft, stored: Accepted) -> None:
        if self.worker is not None:
            self.worker._claimer._contents.remember_stored(draft, stored)

    def _offer(self) -> Any:
        return self.worker.offers.make() if self.worker is not None else None

    @property
    def direct(self) -> int:
        """How many deliveries its commits have made."""
        return int(self.metrics.direct._value.get())

    async def publish(self, payload: str, key: str | None = "k") -> int:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            (stored,) = await self.publisher.publish([Draft("t", payload.encode(), key)])
        return stored.id

    async def commit_directly(self, payload: str, key: str | None = "k", *, wait: bool = False) -> Sequence[Row]:
        """The publisher's statement alone; ``wait``: for the key's lock."""
        low, origin = self._relay.low_water() or (0, UUID(int=0))
        return await self._database.fetch(
            "direct.publish", "default", [0], ["t"], [key], [None], [None], [payload.encode()], [None], [None], wait,
            None,
            low, origin, self._options.get("timeout_seconds", 15.0), self._options.get("lease_margin_seconds", 5.0), 32,
            32, None,
        )  # fmt: skip

    @asynccontextmanager
    async def working(self) -> AsyncIterator[Worker]:
        """Its worker; dies at the end, in the middle of whatever it does."""
        client = Client(POLICY, ThreadResolver())
        worker = self.harness.worker(client, self._database, metrics=self.metrics, **self._options)
        running = asyncio.ensure_future(worker.run())
        await asyncio.sleep(0)
        self.worker = worker
        self._relay.workers.append(worker)
        try:
            yield worker
        finally:
            self.worker = None
            self._relay.workers.remove(worker)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await client.aclose()

    @asynccontextmanager
    async def publishing(self) -> AsyncIterator[None]:
        """Its publisher; stopped softly at the end."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.publisher.run())
            try:
                yield
            finally:
                self.publisher.stop()


@asynccontextmanager
async def working_hub(relay: Relay, **options: Any) -> AsyncIterator[Hub]:
    """A hub that runs, and is ready to make offers."""
    hub = Hub(relay, **options)
    async with hub.publishing(), hub.working() as worker:
        await until(lambda: worker.offers.make() is not None, WAIT_SECONDS_MAX)
        yield hub


# --- the judge --------------------------------------------------------------------------------------------------


async def judge(
    harness: Harness, arrived: Iterable[Received], promise: Promise = Promise.RECORD, *, wanted: set[int] | None = None
) -> Report:
    """The checker's verdict: every accepted event is to arrive, or those in ``wanted``. Events are numbered in each key
    by their id, which is the order of their commits."""
    rows = await harness.sql.fetch("SELECT id, key, payload FROM hookwire.events WHERE topic = 't' ORDER BY id")
    numbers: defaultdict[str | None, int] = defaultdict(int)
    marks: dict[str, Mark] = {}
    history = []
    for row in rows:
        if wanted is not None and row["id"] not in wanted:
            continue
        numbers[row["key"]] += 1
        event_id = f"evt_{INCARNATION}_{row['id']}"
        marks[event_id] = Mark("run", "t", row["key"], numbers[row["key"]])
        history.append(Attempt(marks[event_id], PublishOutcome.OK, event_id))
    ids = [(request.header("webhook-id") or b"").decode() for request in arrived]
    arrivals = [
        Arrival("webhook", index, marks[event_id], event_id) for index, event_id in enumerate(ids) if event_id in marks
    ]
    return check(history, arrivals, (), {"webhook": promise})


def violations(report: Report) -> dict[str, int]:
    """What the checker counts against the product, and repeats, for which only a fault is a reason."""
    kinds = ("lost", "invented", "duplicate_forbidden", "inverted", "duplicate_adjacent")
    return {kind: count for kind in kinds if (count := report.total(kind))}


async def close_ledger(harness: Harness) -> LedgerReport:
    """Fold all there is, as if it had happened long ago, and compare: what ``hookwire doctor --ledger`` says."""
    await harness.sql.execute(KEEP_FOR_EVER)
    await harness.sql.execute("UPDATE hookwire.events SET accepted_at = $1", _LEDGER_HOUR + timedelta(minutes=7))
    await harness.sql.execute("UPDATE hookwire.ledger_cursor SET since_at = $1", _LEDGER_HOUR - timedelta(hours=1))
    folded = "SELECT c.through_id >= e.last_value FROM hookwire.ledger_cursor c, hookwire.event_id e"
    async with asyncio.timeout(120):
        while not await harness.sql.fetchval(folded):
            await Ledger(harness.database).fold()
            await poll()
    return await compare_ledger(harness.database, INCARNATION)


async def rewrite(harness: Harness, function: str, *changes: tuple[str, str]) -> None:
    """Replace parts of a function of the database, each of which must be there."""
    text = await harness.sql.fetchval(f"SELECT pg_get_functiondef('hookwire.{function}'::regproc)")
    for before, after in changes:
        assert text.count(before) == 1, json.dumps(before)
        text = text.replace(before, after)
    await harness.sql.execute(text)
