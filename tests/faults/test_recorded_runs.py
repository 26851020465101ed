"""A run of the hub's own parts across a failover, written down and taken by the model of the standby fence."""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import pytest

from db.errors import DatabaseError
from db.migrate import migrate
from db.pool import Database, PoolOptions, Row, open_database
from db.replication.standby_fence import Required, StandbyFence, Standbys
from event.event import Draft
from hub.publish import Publisher
from relay.outbox import Outbox
from relay.record import Record
from relay.sink import SHARDS, Batch, Term
from scripts.servers.postgres import embedded_bin_dir
from tests.faults.cluster import NAMES, REQUIRED, Cluster, booted_cluster
from tests.models.explorer import Broken, NotAllowed, replay
from tests.models.standby_fence import FenceRules
from tests.models.standby_fence import StandbyFence as Model
from tests.relay.harness import INCARNATION, raise_term
from tests.waiting import until


class Recorder(Database):
    """A database that writes down what passes, in the model's words.

    ``ends`` has the position behind each record of the model's log: an event, or the note that it was sent.
    """

    def __init__(self, inner: Database) -> None:
        super().__init__(inner._pool, inner.options)
        self.steps: list[str] = []
        self.ends: list[int] = []
        self._flushed = dict.fromkeys(NAMES, 0)
        self._sees = False
        self._numbers: dict[int, int] = {}

    def numbers(self, ids: Iterable[int]) -> tuple[int, ...]:
        """Return the model's numbers of events: 1, 2, ... as they come."""
        return tuple(self._numbers.setdefault(id_, len(self._numbers) + 1) for id_ in ids)

    async def fetch(self, name: str, *args: object) -> Sequence[Row]:
        rows = await super().fetch(name, *args)
        if name == "event.publish_batch":
            number = sum(" is committed" in step for step in self.steps) + 1
            self.steps.append(f"{number} is committed")
            await self.note_record(at_least=1)
            self.steps.append(f"the commit of {number} returns")
        elif name == "outbox.claim" and rows:
            self.steps.append(f"the relay sees {self.numbers(row['id'] for row in rows)}")
            self._sees = True
        return rows

    async def fetchrow(self, name: str, *args: object) -> Row | None:
        row = await super().fetchrow(name, *args)
        if name == "standby_fence.look" and row is not None:
            found = Standbys.of(row)
            if self._sees:
                self.steps.append(f"the relay reads position {sum(end <= found.position for end in self.ends)}")
                self._sees = False
            self._note_flushes(found)
        return row

    async def note_record(self, at_least: int) -> None:
        """Take the end of the log as the end of a record, and wait until so many standbys have flushed it."""
        found = await self._looked()
        self.ends.append(found.position)
        await until(partial(self._is_flushed, at_least))

    async def _is_flushed(self, at_least: int) -> bool:
        self._note_flushes(await self._looked())
        return sum(flushed == len(self.ends) for flushed in self._flushed.values()) >= at_least

    async def _looked(self) -> Standbys:
        row = await super().fetchrow("standby_fence.look")
        assert row is not None, "a row of scalars"
        return Standbys.of(row)

    def _note_flushes(self, found: Standbys) -> None:
        for name, flushed in zip(found.names, found.flushed, strict=True):
            while self._flushed[name] < len(self.ends) and self.ends[self._flushed[name]] <= flushed:
                self._flushed[name] += 1
                self.steps.append(f"{name} flushes {self._flushed[name]}")


async def published(database: Recorder, number: int) -> None:
    """Publish one event, and write down its acknowledgement."""
    publisher = Publisher(database, lambda _: None)
    running = asyncio.create_task(publisher.run())
    await publisher.publish([Draft("t", b"%d" % number, key="k")])
    database.steps.append(f"{number} is acknowledged")
    publisher.stop()
    await running


async def relayed(database: Recorder, term: Term) -> None:
    """Claim all records, note that they are sent, and purge them."""
    outbox = Outbox(database, "kafka", INCARNATION, payload=True)
    outbox.begin(range(SHARDS))
    records: list[Record] = await outbox.claim(term, (), 10, 1 << 20)
    database.steps.append(f"the relay sends {database.numbers(record.id for record in records)}")
    await outbox.purge(Batch(term, records), records)
    await database.note_record(at_least=2)


async def recorded(cluster: Cluster) -> list[str]:
    """Publish one event, relay it, and fail over; return the steps."""
    await migrate(cluster.url)
    async with cluster.asking() as sql:
        await sql.execute("UPDATE hookwire.sinks SET configured = (name = 'kafka')")
    fence = StandbyFence(Required.parse(REQUIRED))
    database = Recorder(await open_database(PoolOptions(cluster.url, fence=fence)))
    try:
        await database.execute("term.ensure", ["kafka"])
        await published(database, 1)
        await relayed(database, await a_term(database))
        await cluster.fail_over("killed")
        database.steps.append(f"{cluster.primary.name} is promoted")
        await until(partial(follows, database))
        database.steps.append("the hub follows")
    finally:
        await database.aclose()
    return database.steps


async def a_term(database: Database) -> Term:
    row = await raise_term(database, "kafka")
    return Term("kafka", 0, row["term"], row["layout"], row["batch_no"])


async def follows(database: Database) -> bool:
    """Return whether the pool has a session on the new primary."""
    try:
        return bool(await database.fetchval("outbox.origin"))
    except DatabaseError:
        return False


@pytest.mark.slow
async def test_a_recorded_run_is_a_run_of_the_model_and_no_mutation_of_it_is(servers_folder: Path) -> None:
    """HA-11"""
    async with booted_cluster(servers_folder, embedded_bin_dir()) as cluster:
        steps = await recorded(cluster)
    print("\n".join(steps))
    assert replay(Model(FenceRules(), "outbox"), steps).sent == (("Kafka", 1),)
    sends = steps.index("the relay sends (1,)")
    mutated = {
        "sent before a standby has it": [*steps[:1], steps[sends], *steps[1:sends], *steps[sends + 1 :]],
        **{
            f"without {step!r}": [*steps[:place], *steps[place + 1 :]]
            for place, step in enumerate(steps[:sends])
            if not step.endswith("acknowledged")
        },
    }
    assert [name for name, run in mutated.items() if is_allowed(run)] == []


def is_allowed(steps: Sequence[str]) -> bool:
    """Return whether the model takes these steps."""
    try:
        replay(Model(FenceRules(), "outbox"), steps)
    except (Broken, NotAllowed):
        return False
    return True
