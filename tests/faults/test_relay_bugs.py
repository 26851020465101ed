"""Seeded bugs of the relay that show without a harness: each breaks its promise, and without it the same scene holds.

Those that need whole processes are in tests/faults/test_seeded_bugs.py.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator
from types import MappingProxyType
from typing import Any

import asyncpg
import pytest
from aiokafka import AIOKafkaProducer

import db.bound
import relay.election.lease
import relay.election.port
from db.statements import STATEMENTS
from relay.harvester import Harvester
from relay.kafka.batches import BatchLayout, waves
from relay.kafka.sink import KafkaOptions, KafkaSink
from relay.outbox import Outbox
from relay.sink import SHARDS, Batch, Receipt, SinkUnavailable, Term
from scripts.servers.kafka import KafkaServer
from tests.relay.election.test_lease import leases_of, process, rows
from tests.relay.harness import INCARNATION, Harness, all_carried, relay_harness, relay_of, running
from tests.relay.kafka.kafka_topic import make_topic, read_committed
from tests.relay.kafka.test_sink import IMPATIENT, TERM, record
from tests.relay.memory import MemoryBroker, MemoryElection, MemorySink
from tests.relay.test_harvester import NUMBERED, PLAIN
from tests.relay.wire import PRODUCE, wire_to
from tests.waiting import until

both = pytest.mark.parametrize("seeded", [True, False], ids=["seeded", "without"])


@pytest.fixture
async def harness(database_url: str) -> AsyncIterator[Harness]:
    async with relay_harness(database_url) as opened:
        yield opened


@both
async def test_a_zombie_that_reads_its_term_again_does_not_lead(
    seeded: bool, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MU-07, F55, RO-04 step 4: it slept between its election and the broker's fence, which it then took."""

    async def believe(_: Outbox, term: Term) -> Term:
        return term

    class Zombie(MemoryElection):
        async def acquire(self):  # type: ignore[no-untyped-def]
            lease = await super().acquire()
            if len(self.terms) == 1:
                await harness.begin_term()
            return lease

    if seeded:
        monkeypatch.setattr(Outbox, "assert_term", believe)
    election = Zombie(harness.begin_term)
    relay_ = relay_of(harness, MemorySink(MemoryBroker(), PLAIN), election=election)
    async with running(relay_):
        await until(lambda: relay_.state == "leading")
        elections = len(election.terms)
    assert elections == (1 if seeded else 2)


@both
async def test_a_wall_clock_that_is_set_makes_no_leader_doubt_its_lease(
    seeded: bool, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RL-17, MU-10, F07, RR-09: by an hour or ten seconds, either way, while it leads."""
    wall = time.time
    if seeded:
        for module in (relay.election.lease, relay.election.port):
            monkeypatch.setattr(module, "boot_seconds", lambda: time.time())
    trusted = []
    async with process(leases_of(harness)) as one:
        await until(lambda: one.groups == [0])
        for shift in (3600.0, -3600.0, 10.0, -10.0):
            monkeypatch.setattr(time, "time", lambda seconds=shift: wall() + seconds)
            trusted.append(one.election.trusted(0))
        assert await rows(harness) == [(0, 1, "one")]
    assert all(trusted) is not seeded


class Slow(MemorySink):
    """Its broker keeps a batch at once, and answers when it may."""

    def __init__(self, broker: MemoryBroker) -> None:
        super().__init__(broker, PLAIN)
        self.answers = asyncio.Event()

    async def send(self, batch: Batch) -> Receipt:
        receipt = await super().send(batch)
        await self.answers.wait()
        return receipt


@both
async def test_a_stop_waits_for_what_is_in_flight(
    seeded: bool, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MU-11, F08: I4 = 0, or else the successor sends it again."""
    broker, stream = MemoryBroker(), Harvester._stream

    async def hasty(self: Any, term: Term) -> None:
        streaming, asked = asyncio.ensure_future(stream(self, term)), asyncio.ensure_future(self._asked.wait())
        await asyncio.wait({streaming, asked}, return_when=asyncio.FIRST_COMPLETED)
        streaming.cancel()
        asked.cancel()
        await asyncio.gather(streaming, asked, return_exceptions=True)

    if seeded:
        monkeypatch.setattr(Harvester, "_stream", hasty)
    ids = await harness.publish("a", "b", "a")
    slow = Slow(broker)
    async with running(relay_of(harness, slow)) as run:
        await until(lambda: broker.log)
        if not seeded:  # else nobody waits for it
            asyncio.get_running_loop().call_later(0.05, slow.answers.set)
    assert run.done()
    async with running(relay_of(harness, MemorySink(broker, PLAIN))):
        await all_carried(harness)
    assert broker.ids() == ids * (2 if seeded else 1)


@both
async def test_what_commits_late_is_not_taken_for_published(
    seeded: bool, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MU-13, F56, F51, RR-06: the marker counts batches; as a last id it would cover what nobody has sent."""
    settle = STATEMENTS["manifest.settle"]
    if seeded:
        by_id = re.sub(
            r"SELECT p.shard, p.id FROM batch b, unnest\(.*?\$4",
            "SELECT o.shard, o.id FROM hookwire.outbox o"
            " WHERE o.id <= (SELECT max(i) FROM batch b, unnest(b.ids) AS i WHERE b.batch_no <= $4)",
            settle,
        )
        assert by_id != settle
        monkeypatch.setattr(db.bound, "STATEMENTS", MappingProxyType({**STATEMENTS, "manifest.settle": by_id}))
    broker = MemoryBroker()
    late = await asyncpg.connect(harness.url)
    transaction = late.transaction()
    await transaction.start()
    await late.execute("SELECT hookwire.publish('orders', 'late'::bytea, key => 'late')")
    [sent] = await harness.publish("early")
    term, outbox, sink = (
        await harness.begin_term(),
        Outbox(harness.database, harness.sink, INCARNATION, payload=True),
        None,
    )
    outbox.begin(range(SHARDS))
    sink = MemorySink(broker, NUMBERED)
    await sink.open(term)
    await sink.send(await outbox.write_manifest(term, await outbox.claim(term, (), 10, 1_000)))
    await transaction.commit()
    await late.close()
    async with running(relay_of(harness, MemorySink(broker, NUMBERED))):
        await all_carried(harness)
    assert broker.ids() == ([sent] if seeded else [sent, sent - 1])


@both
async def test_nothing_is_sent_again_while_an_old_request_may_still_arrive(seeded: bool, kafka: KafkaServer) -> None:
    """RL-21, MU-12, F54, RK-16: `idempotent`; the network keeps a request that had no answer, and then delivers it."""
    topic = f"topic.{secrets.token_hex(4)}"
    await make_topic(kafka.bootstrap, topic, 1)
    options = KafkaOptions(kafka.proxied_bootstrap, secrets.token_hex(4), mode="idempotent", **IMPATIENT)
    sink = KafkaSink(options)
    async with wire_to(kafka.advertised_port, kafka.proxied_port) as wire:
        await sink.open(TERM)
        await sink.send(Batch(TERM, [record(1, topic, payload=b"1")]))
        wire.hold_request = PRODUCE
        with pytest.raises(SinkUnavailable):
            await sink.send(Batch(TERM, [record(2, topic, payload=b"2")]))
        await sink.close()
        if seeded:
            sink._silent_until = 0.0
        else:
            asyncio.get_running_loop().call_later(0.3, wire.release)  # within the silence of request_seconds
        await sink.open(TERM)
        for number in (2, 3):
            await sink.send(Batch(TERM, [record(number, topic, payload=b"%d" % number)]))
        wire.release()

        async def all_there() -> bool:
            return len(await read_committed(kafka.bootstrap, topic)) == 4

        await until(all_there)
        await sink.close()
    values = [(message.value or b"").decode() for message in await read_committed(kafka.bootstrap, topic)]
    assert values == (["1", "2", "3", "2"] if seeded else ["1", "2", "2", "3"])


@both
async def test_a_batch_does_not_overtake_one_that_has_no_answer_yet(
    seeded: bool, kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RK-17, MU-06, F20: I3; two requests of a partition under way, and producers that number nothing."""

    async def reckless(self: KafkaSink, life: Any, _: Batch, layout: BatchLayout) -> Receipt:
        async with AIOKafkaProducer(**self._options.client("reckless"), acks="all") as producer:
            for batches in waves(layout.partitions):
                for batch in batches:
                    batch.builder.close()
                    await (await producer.send_batch(batch.builder, batch.topic, partition=batch.partition))
        return Receipt([record for lane in layout.partitions for batch in lane for record in batch.records])

    topic = f"topic.{secrets.token_hex(4)}"
    await make_topic(kafka.bootstrap, topic, 1)
    sink = KafkaSink(KafkaOptions(kafka.proxied_bootstrap, secrets.token_hex(4), mode="idempotent"))
    async with wire_to(kafka.advertised_port, kafka.proxied_port) as wire:
        await sink.open(TERM)
        await sink.send(Batch(TERM, [record(1, topic, payload=b"1")]))
        if seeded:
            monkeypatch.setattr(KafkaSink, "_produce", reckless)
            assert sink._life is not None
            sink._life.turn = asyncio.Semaphore(2)  # type: ignore[assignment]
        wire.hold_request = PRODUCE
        sends = [asyncio.create_task(sink.send(Batch(TERM, [record(2, topic, payload=b"2")])))]
        await wire.caught.wait()
        sends.append(asyncio.create_task(sink.send(Batch(TERM, [record(3, topic, payload=b"3")]))))
        await asyncio.wait(sends[1:], timeout=5 if seeded else 0.2)
        wire.release()
        await asyncio.gather(*sends)
        await sink.close()
    values = [(message.value or b"").decode() for message in await read_committed(kafka.bootstrap, topic)]
    assert values == (["1", "3", "2"] if seeded else ["1", "2", "3"])
