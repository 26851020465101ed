"""The harvester on a real PostgreSQL, with sink and election in memory: nothing lost, order per key, every fault.

Times out by condition, never sleeps for a while. Both kinds of sink are tried, with and without manifests.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from db.errors import ServerTrouble
from db.pool import Database
from relay.election.port import LeadershipLost
from relay.holds.hold import Holds
from relay.metrics import RelayMetrics
from relay.outbox import Outbox
from relay.sink import SHARDS, Batch, Features, Receipt, SinkUnavailable
from relay.sink_relay import SinkRelay
from tests.relay.harness import (
    DEADLINE_SECONDS,
    INCARNATION,
    FaultyDatabase,
    Harness,
    all_carried,
    publish,
    relay_harness,
    relay_of,
    running,
)
from tests.relay.memory import MemoryBroker, MemoryElection, MemorySink
from tests.waiting import lasts, until

PLAIN = Features(window="batch", batch_records_max=50, overlap=2)
NUMBERED = Features(window="batch", batch_records_max=50, overlap=2, manifests=True)
both_kinds = pytest.mark.parametrize("features", [PLAIN, NUMBERED], ids=["plain", "manifests"])


@pytest.fixture
async def harness(database_url: str) -> AsyncIterator[Harness]:
    async with relay_harness(database_url) as opened:
        yield opened


def memory_relay(
    harness: Harness,
    broker: MemoryBroker,
    features: Features = PLAIN,
    *,
    database: Database | None = None,
    election: MemoryElection | None = None,
    metrics: RelayMetrics | None = None,
) -> SinkRelay:
    return relay_of(harness, MemorySink(broker, features), database=database, election=election, metrics=metrics)


def outbox_of(harness: Harness) -> Outbox:
    outbox = Outbox(harness.database, harness.sink, INCARNATION, payload=True)
    outbox.begin(range(SHARDS))
    return outbox


# --- carrying ---------------------------------------------------------------------------------------------------


@both_kinds
async def test_everything_published_at_once_by_many_arrives_once_and_in_commit_order(
    harness: Harness, features: Features
) -> None:
    """RG-02, I1, I3, I4: 8 writers on 5 keys; the truth is a number drawn under the key's lock (faults.md, I3)."""
    broker, order = MemoryBroker(), defaultdict(list)

    async def write(writer: int) -> None:
        connection = await asyncpg.connect(harness.url)
        for number in range(40):
            key = f"key {(writer + number) % 5}"
            async with connection.transaction():
                [event] = await publish(connection, [key])
                order[key].append(event)
        await connection.close()

    async with running(memory_relay(harness, broker, features)):
        await asyncio.gather(*(write(writer) for writer in range(8)))
        await all_carried(harness)
    assert {key: broker.ids(key) for key in order} == dict(order)
    assert len(broker.log) == 320


@both_kinds
async def test_only_what_was_acknowledged_is_purged(harness: Harness, features: Features) -> None:
    """RG-01."""
    broker = MemoryBroker()
    broker.valve.clear()
    ids = await harness.publish("a", "b")
    async with running(memory_relay(harness, broker, features)) as run:
        await until(lambda: broker.epochs)
        await asyncio.wait([run], timeout=0.1)  # long enough for any purge that must not happen
        unanswered = await harness.owed()
        broker.valve.set()
        await all_carried(harness)
    assert (unanswered, broker.ids(), await harness.owed(), await harness.manifests()) == (ids, ids, [], [])


async def test_a_backlog_is_carried_in_batches_of_the_size_that_the_sink_wants(harness: Harness) -> None:
    """RU-02."""
    broker = MemoryBroker()
    ids = await harness.publish(*(f"key {number % 20}" for number in range(230)))
    async with running(memory_relay(harness, broker, NUMBERED)):
        await all_carried(harness)
    assert (broker.ids(), broker.committed) == (ids, {(1, 0): 5})


async def test_a_broker_that_hangs_is_given_no_more_than_the_batches_in_flight(harness: Harness) -> None:
    """RL-16, RU-03: back-pressure: two batches of 50; the rest waits in the table, not in memory."""
    registry, broker = CollectorRegistry(), MemoryBroker()
    broker.valve.clear()
    ids = await harness.publish(*(f"key {number % 20}" for number in range(230)))

    def in_flight() -> float | None:
        return registry.get_sample_value("hookwire_relay_in_flight", {"sink": "kafka", "group": "0"})

    async with running(memory_relay(harness, broker, metrics=RelayMetrics(registry))) as run:
        await until(lambda: in_flight() == 100)
        await asyncio.wait([run], timeout=0.1)  # long enough for a third claim that must not happen
        while_it_hung = in_flight()
        broker.valve.set()
        await all_carried(harness)
    assert (while_it_hung, broker.ids()) == (100, ids)


async def test_a_stop_finishes_what_is_in_flight_and_frees_the_seat(harness: Harness) -> None:
    """RG-07, RL-14, F08: orderly hand-over without duplicates."""
    broker, election = MemoryBroker(), MemoryElection(harness.begin_term)
    broker.valve.clear()
    relay = memory_relay(harness, broker, NUMBERED, election=election)
    ids = await harness.publish("a", "b")
    async with running(relay) as run:
        await until(harness.manifests)
        relay.stop()
        await asyncio.wait([run], timeout=0.05)
        waited = not run.done()
        broker.valve.set()
    assert (waited, relay.state, election.free.is_set()) == (True, "stopped", True)
    assert (broker.ids(), await harness.owed(), await harness.manifests()) == (ids, [], [])


class _FailingWhenCancelled(MemorySink):
    """Fails at the very moment at which the whole relay is cancelled."""

    run: asyncio.Task[None]

    async def send(self, batch: Batch) -> Receipt:
        self.run.cancel()
        raise SinkUnavailable("the broker has gone, too")


async def test_a_cancellation_is_not_lost_when_a_batch_fails_at_the_same_moment(harness: Harness) -> None:
    """A leader that only took the failure would lead on, its term over."""
    sink = _FailingWhenCancelled(MemoryBroker(), PLAIN)
    async with running(relay_of(harness, sink)) as sink.run:
        await harness.publish("a")
        await asyncio.wait([sink.run], timeout=DEADLINE_SECONDS)
        assert sink.run.cancelled()


async def test_a_standby_can_be_stopped(harness: Harness) -> None:
    election = MemoryElection(harness.begin_term)
    election.free.clear()
    relay = memory_relay(harness, MemoryBroker(), election=election)
    async with running(relay):
        await until(lambda: relay.state == "standby")
    assert (relay.state, election.terms) == ("stopped", [])


# --- the sink fails ---------------------------------------------------------------------------------------------


@both_kinds
async def test_a_broker_that_is_down_is_waited_for(harness: Harness, features: Features) -> None:
    """F19: no attempt is counted against any record."""
    broker = MemoryBroker()
    broker.down = True
    ids = await harness.publish("a", "b")
    relay = memory_relay(harness, broker, features)
    async with running(relay):
        await until(lambda: relay.state == "backing off")
        broker.down = False
        await until(lambda: broker.log)
        broker.down = True
        ids += await harness.publish("a")
        await until(lambda: relay.state == "backing off")
        holds = await harness.holds()
        broker.down = False
        await all_carried(harness)
    assert (broker.ids(), holds) == (ids, [])


async def test_a_lost_answer_repeats_one_contiguous_run_and_loses_nothing(harness: Harness) -> None:
    """RR-01, F20: without manifests."""
    broker = MemoryBroker()
    broker.answers_lost = 1
    ids = await harness.publish(*"aabbab")
    async with running(memory_relay(harness, broker)):
        await all_carried(harness)
    assert broker.ids() == [*ids, *ids]


async def test_a_lost_answer_repeats_nothing_where_batches_are_numbered(harness: Harness) -> None:
    """RR-06, F56: the marker tells that the batch was committed."""
    broker = MemoryBroker()
    broker.answers_lost = 1
    ids = await harness.publish(*"aabbab")
    async with running(memory_relay(harness, broker, NUMBERED)):
        await all_carried(harness)
    assert (broker.ids(), await harness.manifests()) == (ids, [])


async def test_what_a_dead_leader_committed_is_settled_without_being_sent_again(harness: Harness) -> None:
    """RR-06, F03: killed after the commit and before the purge."""
    broker = MemoryBroker()
    ids = await harness.publish("a", "b", "a")
    term, outbox, sink = await harness.begin_term(), outbox_of(harness), MemorySink(broker, NUMBERED)
    await sink.open(term)
    await sink.send(await outbox.write_manifest(term, await outbox.claim(term, (), 10, 1_000)))
    async with running(memory_relay(harness, broker, NUMBERED)):
        await all_carried(harness)
    assert (broker.ids(), await harness.manifests()) == (ids, [])


async def test_a_marker_that_this_database_never_wrote_stops_the_relay_with_a_reason(harness: Harness) -> None:
    """RU-17, RP-10, F59, RR-06."""
    broker = MemoryBroker()
    broker.committed[1, 0] = 7
    await harness.publish("a")
    relay = memory_relay(harness, broker, NUMBERED)
    async with running(relay):
        await until(lambda: relay.state == "refused")
    assert ("restored or cloned" in relay.last_error, broker.log) == (True, [])


async def test_what_is_stuck_and_what_nobody_knows_is_counted(harness: Harness) -> None:
    """RO-11: in flight while the broker hangs; unsettled when its answer is lost; purges that fail."""
    registry, broker, database = CollectorRegistry(), MemoryBroker(), FaultyDatabase(harness.database)
    broker.answers_lost, database.faults = 1, {"outbox.purge": 2}
    broker.valve.clear()
    await harness.publish(*"aab")

    def told(name: str) -> float | None:
        return registry.get_sample_value(f"hookwire_relay_{name}", {"sink": "kafka", "group": "0"})

    async with running(memory_relay(harness, broker, database=database, metrics=RelayMetrics(registry))):
        await until(lambda: told("in_flight") == 3)
        stuck = (told("acknowledged_total"), told("last_acknowledged_timestamp_seconds"))
        broker.valve.set()
        await all_carried(harness)
    assert (stuck, told("in_flight")) == ((None, None), 0)
    assert (told("unsettled_total"), told("purge_failures_total"), told("acknowledged_total")) == (3, 2, 3)
    assert abs(time.time() - (told("last_acknowledged_timestamp_seconds") or 0)) < 60


class _SlowlyPurging(FaultyDatabase):
    """Knows which manifests stand, and takes its time to remove one."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.standing: set[int] = set()

    async def fetchval(self, name: str, *args: object) -> object:
        if name == "manifest.purge":
            await lasts(0.02)
        found = await super().fetchval(name, *args)
        if name == "manifest.purge":
            self.standing.discard(args[4])  # type: ignore[arg-type]
        elif name == "manifest.write":
            self.standing.add(found)
            self.standing -= set(args[9])  # type: ignore[call-overload]
        return found


class _Witness(MemorySink):
    """Looks, at each commit, for manifests with a lower number that were never committed."""

    def __init__(self, broker: MemoryBroker, database: _SlowlyPurging) -> None:
        super().__init__(broker, NUMBERED)
        self._database = database
        self._committed: set[int] = set()
        self.lying: set[int] = set()

    def _keep(self, batch: Batch) -> Receipt:
        receipt = super()._keep(batch)
        if receipt.acknowledged and batch.number is not None:
            open_ = self._database.standing - self._committed
            self.lying |= {number for number in open_ if number < batch.number}
            self._committed.add(batch.number)
        return receipt


async def test_no_number_is_committed_while_the_manifest_of_a_refused_batch_stands(harness: Harness) -> None:
    """RR-06, GW-01: the sink is not reopened after a refusal, so the harvester waits until the manifests are gone. A
    crash would otherwise count the records of the refused batch, and of the one behind it, as published.
    """
    broker, database = MemoryBroker(), _SlowlyPurging(harness.database)
    broker.record_bytes_max = 10
    sink = _Witness(broker, database)
    sick = [f"sick {number}" for number in range(40)]
    async with running(relay_of(harness, sink, database=database)):
        for key in sick:
            await harness.publish(key, payload=bytes(20))
            await harness.publish(*["well"] * 60)
        await until(lambda: len(broker.ids("well")) == 60 * len(sick))
        await until(holds_so_many(harness, len(sick)))
    assert (sink.lying, sum(broker.epochs.values()), len(set(broker.ids("well")))) == (set(), 1, 60 * len(sick))


class _PoisonAtEachClaim(FaultyDatabase):
    """Publishes a record that will be refused, before each claim."""

    def __init__(self, harness: Harness) -> None:
        super().__init__(harness.database)
        self._harness = harness
        self.claims = 0

    async def fetch(self, name: str, *args: object):  # type: ignore[no-untyped-def]
        if name == "outbox.claim":
            self.claims += 1
            connection = await asyncpg.connect(self._harness.url)
            await publish(connection, [f"sick {self.claims}"], payload=bytes(20))
            await connection.close()
        return await super().fetch(name, *args)


@both_kinds
async def test_a_stream_of_refused_records_keeps_nothing_from_being_sent(harness: Harness, features: Features) -> None:
    """GW-01: each claim has another refused record, and a numbered batch is committed whole or not at all."""
    broker, database = MemoryBroker(), _PoisonAtEachClaim(harness)
    broker.record_bytes_max = 10
    well = await harness.publish(*["well"] * 20)
    async with running(memory_relay(harness, broker, features, database=database)):
        await until(lambda: database.claims >= 10)
        arrived = broker.ids("well")
    assert arrived == well


# --- the database fails -----------------------------------------------------------------------------------------


@both_kinds
async def test_what_was_acknowledged_but_not_purged_is_not_sent_again(harness: Harness, features: Features) -> None:
    """RO-03."""
    broker, database = MemoryBroker(), FaultyDatabase(harness.database)
    database.faults = {"outbox.purge": 3, "manifest.purge": 3, "manifest.settle": 1}
    ids = await harness.publish("a", "b", "a")
    async with running(memory_relay(harness, broker, features, database=database)):
        await all_carried(harness)
    assert broker.ids() == ids


async def test_a_database_that_is_away_for_a_while_costs_no_record(harness: Harness) -> None:
    """F11, F12."""
    broker, database = MemoryBroker(), FaultyDatabase(harness.database)
    database.faults = {"outbox.claim": 2, "manifest.write": 2, "term.current": 2, "hold.open": 1, "outbox.low_water": 1}
    ids = await harness.publish("a", "b", "a")
    async with running(memory_relay(harness, broker, NUMBERED, database=database)):
        await all_carried(harness)
    assert broker.ids() == ids


# --- terms ------------------------------------------------------------------------------------------------------


async def test_a_fenced_leader_stands_for_election_again(harness: Harness) -> None:
    """RK-25: never a crash."""
    broker, election = MemoryBroker(), MemoryElection(harness.begin_term)
    async with running(memory_relay(harness, broker, election=election)):
        await until(lambda: broker.epochs)
        broker.epochs[1, 0] += 1
        ids = await harness.publish("a")
        await all_carried(harness)
    assert (broker.ids(), [term.number for term in election.terms]) == (ids, [1, 2])


async def test_a_deposed_leader_stops_at_once_and_stands_again(harness: Harness) -> None:
    """RG-07."""
    broker, election = MemoryBroker(), MemoryElection(harness.begin_term)
    broker.valve.clear()
    ids = await harness.publish("a")
    async with running(memory_relay(harness, broker, election=election)):
        await until(lambda: broker.epochs)
        election.lose_leadership()
        await until(lambda: len(election.terms) == 2)
        broker.valve.set()
        await all_carried(harness)
    assert [(kept.term, kept.record.id) for kept in broker.log] == [(2, ids[0])]


async def test_a_leader_whose_term_has_moved_steps_down_after_it_fenced_its_successor(harness: Harness) -> None:
    """RO-04 step 4, F55: the broker grants its fence to whoever asks last, also to a zombie."""
    broker = MemoryBroker()

    class Zombie(MemoryElection):
        """Believes in a term that is over: it slept between its election and opening the sink."""

        async def acquire(self):  # type: ignore[no-untyped-def]
            lease = await super().acquire()
            if len(self.terms) == 1:
                await harness.begin_term()
            return lease

    election = Zombie(harness.begin_term)
    ids = await harness.publish("a")
    async with running(memory_relay(harness, broker, election=election)):
        await all_carried(harness)
    assert [(kept.term, kept.record.id) for kept in broker.log] == [(3, ids[0])]


async def test_two_relays_that_take_turns_lose_and_reorder_nothing(harness: Harness) -> None:
    """RT-08, I1, I3, F52."""
    broker, election = MemoryBroker(), MemoryElection(harness.begin_term)
    relays = [memory_relay(harness, broker, NUMBERED, election=election) for _ in range(2)]
    ids = []
    async with running(relays[0]), running(relays[1]):
        for turn in range(6):
            ids += await harness.publish(*(f"key {number % 3}" for number in range(120)))
            await until(lambda: len(broker.log) > 60 * (turn + 1))  # noqa: B023 - called at once
            election.lose_leadership()
        await all_carried(harness)
    assert broker.ids() == ids


# --- holds ------------------------------------------------------------------------------------------------------


@both_kinds
async def test_a_poison_record_holds_its_key_while_others_go_on_and_drains_in_order(
    harness: Harness, features: Features
) -> None:
    """RO-08, F21, I7."""
    broker = MemoryBroker()
    broker.record_bytes_max = 10
    [poison] = await harness.publish("sick", payload=bytes(20))
    sick = [poison, *await harness.publish("sick", "sick")]
    async with running(memory_relay(harness, broker, features)):
        well = await harness.publish("well", "well")
        await until(lambda: broker.ids("well") == well)
        sick += await harness.publish("sick")
        await until(holds_so_many(harness, 4))
        held = await harness.holds(), broker.ids("sick")
        broker.record_bytes_max = None
        await harness.probe_now()
        await all_carried(harness)
        sick += await harness.publish("sick")
        await all_carried(harness)
    assert (held, broker.ids("sick"), broker.ids("well")) == (([("orders", "sick")], []), sick, well)
    assert (await harness.holds(), await harness.manifests()) == ([], [])


def holds_so_many(harness: Harness, number: int):  # type: ignore[no-untyped-def]
    """A condition: so many records wait behind holds."""

    async def condition() -> bool:
        return len(await harness.held()) == number

    return condition


@both_kinds
async def test_poison_on_a_hot_key_keeps_nobody_elses_records(harness: Harness, features: Features) -> None:
    """RL-08, F57, I7: nine records in ten are the hot key's, and its first is refused."""
    broker = MemoryBroker()
    broker.record_bytes_max = 10
    await harness.publish("hot", payload=bytes(20))
    hot, cold = [], []
    for number in range(50):
        hot += await harness.publish(*["hot"] * 9)
        cold += await harness.publish(f"cold {number % 5}")
    async with running(memory_relay(harness, broker, features)):
        await until(lambda: len(broker.log) >= len(cold))
        taken = broker.ids()
        broker.record_bytes_max = None
        await harness.probe_now()
        await all_carried(harness)
    assert (taken, broker.ids("hot")[1:]) == (cold, hot)


@both_kinds
async def test_a_missing_topic_is_held_while_others_go_on_and_drains_in_order(
    harness: Harness, features: Features
) -> None:
    """RO-08, F26, I7."""
    broker = MemoryBroker()
    broker.missing.add("absent")
    absent = await harness.publish("a", "b", "a", None, topic="absent")
    async with running(memory_relay(harness, broker, features)):
        present = await harness.publish("a", "b")
        await until(lambda: broker.ids(topic="orders") == present)
        absent += await harness.publish("a", topic="absent")
        await until(holds_so_many(harness, 5))
        await harness.probe_now()
        broker.missing.clear()
        await harness.probe_now()
        await all_carried(harness)
    assert (broker.ids(topic="absent"), await harness.holds()) == (absent, [])


@both_kinds
async def test_a_refused_probe_postpones_the_hold(harness: Harness, features: Features) -> None:
    broker = MemoryBroker()
    broker.missing.add("absent")
    await harness.publish("a", topic="absent")

    async def tried_twice() -> bool:
        return await harness.connection.fetchval("SELECT bool_and(attempts = 2) FROM hookwire.holds")

    async with running(memory_relay(harness, broker, features)):
        await until(harness.holds)
        await harness.probe_now()
        await until(tried_twice)
        due_in = await harness.connection.fetchval("SELECT probe_at - clock_timestamp() FROM hookwire.holds")
    assert (2.0 < due_in.total_seconds() <= 4.0, broker.log) == (True, [])


@both_kinds
async def test_poison_among_the_records_of_a_held_topic_holds_its_own_key_alone(
    harness: Harness, features: Features
) -> None:
    """RO-08: also what waits of its key beyond the batch in which it is found (more than 50 lie between)."""
    broker = MemoryBroker()
    broker.missing.add("absent")
    broker.record_bytes_max = 10
    await harness.publish("first", topic="absent")
    sick = await harness.publish("sick", topic="absent", payload=bytes(20))
    well = await harness.publish(*["well"] * 70, topic="absent")
    sick += await harness.publish("sick", topic="absent")
    async with running(memory_relay(harness, broker, features)):
        await until(holds_so_many(harness, 73))
        broker.missing.clear()
        await harness.probe_now()
        await until(lambda: broker.ids("well") == well)

        async def lifted() -> bool:
            return await harness.holds() == [("absent", "sick")]

        await until(lifted)
        held = len(await harness.held()), broker.ids("sick")
        broker.record_bytes_max = None

        async def probed() -> bool:
            await harness.probe_now()
            return not await harness.held()

        await until(probed)
    assert (held, broker.ids("sick")) == ((2, []), sick)


async def test_the_hold_of_a_key_outlasts_the_hold_of_its_topic(harness: Harness) -> None:
    """What is older waits behind the key; were later records to wait behind the topic, they could pass it."""
    broker = MemoryBroker()
    broker.record_bytes_max = 10
    sick = await harness.publish("sick", payload=bytes(20))
    async with running(memory_relay(harness, broker)):
        await until(harness.holds)
        broker.missing.add("orders")
        others = await harness.publish("well")
        await until(holds_so_many(harness, 2))
        sick += await harness.publish("sick")
        await until(holds_so_many(harness, 3))
        held = await harness.held()
        broker.missing.clear()
        await harness.connection.execute("UPDATE hookwire.holds SET probe_at = now() WHERE key = ''")
        await until(lambda: broker.ids() == others)
        broker.record_bytes_max = None
        await harness.probe_now()
        await all_carried(harness)
    assert ([key for _, key, _ in held], broker.ids("sick")) == (["sick", "", "sick"], sick)


async def test_holds_are_probed_although_there_is_always_something_to_carry(harness: Harness) -> None:
    """I7: a steady stream must not starve what waits."""
    broker, enough = MemoryBroker(), asyncio.Event()
    broker.missing.add("absent")
    absent = await harness.publish("a", topic="absent")

    async def stream() -> None:
        connection = await asyncpg.connect(harness.url)
        while not enough.is_set():
            await publish(connection, [f"key {number}" for number in range(60)])
        await connection.close()

    async with running(memory_relay(harness, broker)), asyncio.TaskGroup() as tasks:
        await until(harness.holds)
        tasks.create_task(stream())
        broker.missing.clear()
        await harness.probe_now()
        await until(lambda: broker.ids(topic="absent"))
        enough.set()
    assert broker.ids(topic="absent") == absent


async def test_what_was_claimed_before_a_setback_does_not_pass_what_was_refused(harness: Harness) -> None:
    """RG-03, RO-08: the next batch of the key is in flight already when the poison is found."""
    broker = MemoryBroker()
    broker.record_bytes_max = 10
    broker.valve.clear()
    sick = await harness.publish("sick", payload=bytes(20))
    sick += await harness.publish(*["sick"] * 120)
    async with running(memory_relay(harness, broker, PLAIN)) as run:
        await until(lambda: broker.epochs)
        await asyncio.wait([run], timeout=0.1)  # both slots fill
        broker.valve.set()
        await until(holds_so_many(harness, 121))
        passed = broker.ids("sick")
        broker.record_bytes_max = None
        await harness.probe_now()
        await all_carried(harness)
    assert (passed, broker.ids("sick")) == ([], sick)


async def test_a_batch_that_is_claimed_as_its_predecessor_is_refused_goes_back_unsent(harness: Harness) -> None:
    """The narrowest moment: the refusal comes after the second claim and before the second batch reaches the sink."""
    broker = MemoryBroker()
    broker.record_bytes_max = 10
    broker.valve.clear()

    class Database(FaultyDatabase):
        async def fetch(self, name: str, *args: object):  # type: ignore[no-untyped-def]
            rows = await super().fetch(name, *args)
            if name == "outbox.claim" and rows and args[3]:
                broker.valve.set()
            return rows

    sick = await harness.publish("sick", payload=bytes(20))
    sick += await harness.publish(*["sick"] * 60)
    async with running(memory_relay(harness, broker, database=Database(harness.database))):
        await until(holds_so_many(harness, 61))
    assert broker.log == []


async def test_a_deposed_leader_places_no_hold(harness: Harness) -> None:
    """RR-08."""
    holds = Holds(harness.database, harness.sink, INCARNATION)
    await harness.publish("a")
    term = await harness.begin_term()
    [record] = await outbox_of(harness).claim(term, (), 1, 1_000)
    broker = MemoryBroker()
    broker.missing.add("orders")
    refusal = broker.judge(record)
    assert refusal is not None
    await harness.begin_term()
    with pytest.raises(LeadershipLost):
        await holds.place(term, [refusal])
    assert (await harness.holds(), await harness.owed()) == ([], [record.id])


class _WatchingSink(MemorySink):
    """Notes, at each send, which of a key's records are acknowledged but not yet purged or are in the batch."""

    def __init__(self, broker: MemoryBroker, harness: Harness) -> None:
        super().__init__(broker, Features(window="record", batch_records_max=50))
        self._harness = harness
        self.most_of_a_key = 0

    async def send(self, batch: Batch) -> Receipt:
        connection = await asyncpg.connect(self._harness.url)
        rows = await connection.fetch("SELECT id FROM hookwire.outbox WHERE sink = $1", self.name)
        owed = {row["id"] for row in rows}
        await connection.close()
        at_risk = [kept.record.key for kept in self._broker.log if kept.record.id in owed]
        at_risk += [record.key for record in batch.records if record.key is not None]
        self.most_of_a_key = max([self.most_of_a_key, *Counter(at_risk).values()])
        return await super().send(batch)


async def test_rr01_a_record_window_never_has_two_records_of_a_key_that_a_crash_could_repeat(harness: Harness) -> None:
    """RG-02."""
    ids = await harness.publish(*"aabbaabb", None, None)
    broker = MemoryBroker()
    sink = _WatchingSink(broker, harness)
    async with running(relay_of(harness, sink)):
        await all_carried(harness)
    keyed = {key: [i for i, k in zip(ids, "aabbaabb", strict=False) if k == key] for key in "ab"}
    assert (sink.most_of_a_key, broker.ids("a"), broker.ids("b")) == (1, keyed["a"], keyed["b"])


async def test_only_a_broker_that_is_away_makes_the_pauses_grow(harness: Harness) -> None:
    """GB-01: after a failover of ten seconds the relay would have paused for five more."""
    harvester = relay_of(harness, MemorySink(MemoryBroker(), NUMBERED))._harvester_of(0)
    pauses = [
        [harvester._seconds_after(error) for _ in range(3)]
        for error in (ServerTrouble("25006", "read-only"), SinkUnavailable("away"))
    ]
    assert pauses == [[0.5, 0.5, 0.5], [0.02, 0.04, 0.05]]
