"""relay/sink_trouble.py: what a log has of a broker, or a database, that is away for an hour."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest
from structlog.testing import CapturingLogger

from db.direct import connect_direct
from db.pool import Database, Row
from relay.election.lease import LeaseOptions, Leases
from relay.record import Record
from relay.sink import Batch, Features, Receipt, SinkUnavailable
from relay.sink_trouble import SinkTrouble
from tests.relay.harness import FaultyDatabase, all_carried, relay_harness, relay_of, running
from tests.relay.memory import MemoryBroker, MemorySink
from tests.waiting import until


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> CapturingLogger:
    found = CapturingLogger()
    monkeypatch.setattr("runtime.trouble._log", found)
    return found


def told(log: CapturingLogger) -> list[tuple[str, str, object]]:
    """Level, event and error of each line."""
    return [(call.method_name, call.args[0], call.kwargs.get("error")) for call in log.calls]


def test_a_receipt_ends_trouble_only_if_it_leaves_nothing_open(log: CapturingLogger) -> None:
    """What was left open may be what there is trouble with."""
    trouble, kept = SinkTrouble(), [Record(1, 1, "", "default", "t", "k", None, None, {}, b"", datetime.now(UTC))]
    trouble.hear(Receipt(kept, reopen=True, trouble=SinkUnavailable("no answer")), 2, sink="kafka")
    for receipt, sent in ((Receipt(kept), 2), (Receipt(()), 2), (Receipt(()), 0), (Receipt(kept), 1)):
        trouble.hear(receipt, sent, sink="kafka")
    assert (told(log), trouble.last_error) == (
        [("warning", "relay_backs_off", "no answer"), ("info", "relay_goes_on", None)], "no answer",
    )  # fmt: skip


class Away(MemorySink):
    """Takes nothing at its first three sends."""

    tries = 0

    async def send(self, batch: Batch) -> Receipt:
        self.tries += 1
        if self.tries <= 3:
            raise SinkUnavailable("no broker")
        return await super().send(batch)


async def test_a_relay_whose_broker_was_away_says_so_once_and_that_it_goes_on(
    database_url: str, log: CapturingLogger
) -> None:
    async with relay_harness(database_url) as harness:
        await harness.publish("a")
        async with running(relay_of(harness, Away(MemoryBroker(), Features(window="batch", batch_records_max=50)))):
            await all_carried(harness)
            await until(lambda: len(log.calls) == 4)
    again = ("debug", "relay_backs_off", "no broker")
    assert told(log) == [
        ("warning", "relay_backs_off", "no broker"), again, again, ("info", "relay_goes_on", None),
    ]  # fmt: skip


class HalfAway(MemorySink):
    """Takes one record at each of its first three sends, as if the others lay on partitions without a leader, and
    answers while the relay reads what else there is.
    """

    def __init__(self, reading: asyncio.Event) -> None:
        super().__init__(MemoryBroker(), Features(window="batch", batch_records_max=50, overlap=2))
        self.tries = 0
        self._reading = reading

    async def send(self, batch: Batch) -> Receipt:
        self.tries += 1
        if self.tries > 3:
            return await super().send(batch)
        self._reading.clear()
        await self._reading.wait()
        return Receipt(batch.records[:1], reopen=True, trouble=SinkUnavailable("no leader"))


class SlowReading(FaultyDatabase):
    """What was read while a batch was on its way comes when that has been dealt with."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.reading = asyncio.Event()
        self.in_flight: Callable[[], object] = dict

    async def fetch(self, name: str, *args: object) -> Sequence[Row]:
        rows = await super().fetch(name, *args)
        if name == "outbox.claim" and self.in_flight():
            self.reading.set()
            await until(lambda: not self.in_flight())
        return rows


async def test_a_relay_one_of_whose_partitions_was_away_says_so_once_and_that_it_goes_on(
    database_url: str, log: CapturingLogger
) -> None:
    """Each time it found nothing else to send it said that it went on, and the next moment that it did not."""
    async with relay_harness(database_url) as harness:
        await harness.publish(*"abcd")
        database = SlowReading(harness.database)
        relay = relay_of(harness, HalfAway(database.reading), database=database)
        database.in_flight = lambda: relay.in_flight
        async with running(relay):
            await all_carried(harness)
            await until(lambda: log.calls and log.calls[-1].method_name == "info")
    again = ("debug", "relay_backs_off", "no leader")
    assert told(log) == [
        ("warning", "relay_backs_off", "no leader"), again, again, ("info", "relay_goes_on", None),
    ]  # fmt: skip


async def test_an_election_whose_database_was_away_says_so_once_and_that_it_is_attended(
    database_url: str, log: CapturingLogger
) -> None:
    async with relay_harness(database_url) as harness:
        database = FaultyDatabase(harness.database)
        database.faults["member.heartbeat"] = 3
        options = LeaseOptions("a", lease_seconds=600.0, poll_seconds=0.01)
        leases = Leases(database, lambda: connect_direct(database.options), [harness.sink], options)
        heartbeat = asyncio.create_task(leases.run())
        await until(lambda: len(log.calls) == 4)
        leases.stop()
        await heartbeat
    away = "member.heartbeat does not reach the database"
    again = ("debug", "election_unattended", away)
    assert told(log) == [
        ("warning", "election_unattended", away), again, again, ("info", "election_attended", None),
    ]  # fmt: skip
