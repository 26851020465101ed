"""The conformance suite of the sink port (relay/sink.py): what the harvester relies on, for every adapter.

Adding an adapter means adding its module's ADAPTERS to the list below; see ``sinks/harness.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

import pytest

from db.errors import Unavailable
from relay.record import Record
from relay.sink import Batch, Fenced, Receipt, Sink, SinkUnavailable, Term
from tests.contract.sinks import amqp, fanout, kafka, memory
from tests.contract.sinks.harness import FIRST_TERM, SECOND_TERM, Harness, Kept, SinkAdapter, record, seen

ADAPTERS = [*memory.ADAPTERS, *fanout.ADAPTERS, *kafka.ADAPTERS, *amqp.ADAPTERS]
TOPIC, OTHER_TOPIC = "orders", "payments"


def for_adapters(promise: Callable[[SinkAdapter], bool] = lambda _: True) -> pytest.MarkDecorator:
    """Runs a test for the adapters that promise what it checks."""
    return pytest.mark.parametrize("adapter", [pytest.param(a, id=a.name) for a in ADAPTERS if promise(a)])


@pytest.fixture
async def harness(adapter: SinkAdapter, request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    async with adapter.open(request) as opened:
        yield opened


class Sender:
    """Sends to an open sink, numbering the batches where the sink wants it, and tells what became of them."""

    def __init__(self, sink: Sink, term: Term = FIRST_TERM) -> None:
        self.sink = sink
        self.term = term
        self.number = 0

    def send(self, *records: Record) -> asyncio.Task[Outcome]:
        self.number += 1
        batch = Batch(self.term, records, self.number if self.sink.features.manifests else None)
        return asyncio.create_task(self._send(batch))

    async def _send(self, batch: Batch) -> Outcome:
        return Outcome.of(await self.sink.send(batch))


class Outcome(NamedTuple):
    """A receipt, with ids instead of records."""

    acknowledged: Sequence[int]
    refused: Sequence[tuple[int, str]] = ()
    reopen: bool = False

    @classmethod
    def of(cls, receipt: Receipt) -> Outcome:
        refused = tuple((refusal.record.id, refusal.scope) for refusal in receipt.refused)
        return cls(tuple(sorted(r.id for r in receipt.acknowledged)), refused, receipt.reopen)


async def opened(harness: Harness, term: Term = FIRST_TERM) -> Sender:
    sink = harness.sink()
    await sink.open(term)
    return Sender(sink, term)


# --- sending ----------------------------------------------------------------------------------------------------


@for_adapters()
async def test_an_acknowledged_batch_is_kept_with_everything_a_consumer_needs(harness: Harness) -> None:
    """RO-15, WH-C08: an event without data is an empty value, not a null."""
    sender = await opened(harness)
    outcome = await sender.send(
        record(1, TOPIC, "a"), record(2, TOPIC, "b"), record(3, TOPIC, "a", b""), record(4, TOPIC, None)
    )
    kept = sorted(await harness.kept(TOPIC), key=lambda entry: entry.event_id)
    assert (outcome, kept) == (
        Outcome((1, 2, 3, 4)),
        [
            Kept("a", b"payload 1", "evt_abcd2345_1", 1, 1),
            Kept("b", b"payload 2", "evt_abcd2345_2", 2, 1),
            Kept("a", b"", "evt_abcd2345_3", 3, 1),
            Kept(None, b"payload 4", "evt_abcd2345_4", None, 1),
        ],
    )


@for_adapters()
async def test_the_order_of_a_key_is_the_order_of_the_records_over_many_batches(harness: Harness) -> None:
    """RU-02, I3."""
    sender = await opened(harness)
    for first in range(1, 301, 100):
        await sender.send(*(record(number, TOPIC, f"key {number % 7}") for number in range(first, first + 100)))
    in_order = {f"key {key}": [n for n in range(1, 301) if n % 7 == key] for key in range(7)}
    assert seen(await harness.kept(TOPIC)) == in_order


@for_adapters(lambda adapter: adapter.overlaps)
async def test_overlapping_calls_keep_the_order_of_the_calls(harness: Harness) -> None:
    """RK-26."""
    sender = await opened(harness)
    calls = [sender.send(*(record(n, TOPIC) for n in range(first, first + 50))) for first in range(1, 501, 50)]
    outcomes = await asyncio.gather(*calls)
    assert (sum(len(outcome.acknowledged) for outcome in outcomes), seen(await harness.kept(TOPIC))) == (
        500,
        {"k": list(range(1, 501))},
    )


# --- refusals ---------------------------------------------------------------------------------------------------


@for_adapters(lambda adapter: adapter.refuses_large and not adapter.manifests)
async def test_a_record_that_is_refused_holds_back_its_key_alone(harness: Harness) -> None:
    """RU-16, RO-08, F21."""
    sender = await opened(harness)
    outcome = await sender.send(
        record(1, TOPIC, "poisoned"),
        record(2, TOPIC, "poisoned", bytes(harness.refused_bytes)),
        record(3, TOPIC, "healthy"),
        record(4, TOPIC, "poisoned"),
        record(5, TOPIC, None, bytes(harness.refused_bytes)),
        record(6, TOPIC, None),
    )
    assert (outcome._replace(reopen=False), seen(await harness.kept(TOPIC))) == (
        Outcome((1, 3, 6), ((2, "record"), (5, "record"))),
        {"poisoned": [1], "healthy": [3], None: [6]},
    )


@for_adapters(lambda adapter: adapter.has_destinations and not adapter.manifests)
async def test_a_missing_destination_holds_back_its_topic_alone(harness: Harness) -> None:
    """RO-08, F21, F26."""
    sender = await opened(harness)
    outcome = await sender.send(
        harness.homeless(record(1, OTHER_TOPIC, "a")), record(2, TOPIC), harness.homeless(record(3, OTHER_TOPIC, "b"))
    )
    assert (outcome._replace(reopen=False), seen(await harness.kept(TOPIC)), await harness.kept(OTHER_TOPIC)) == (
        Outcome((2,), ((1, "topic"),)),
        {"k": [2]},
        [],
    )


@for_adapters(lambda adapter: adapter.manifests)
async def test_with_manifests_a_batch_with_a_refusal_is_not_committed_at_all(harness: Harness) -> None:
    """RR-06: its number would stand for the refused records too."""
    sender = await opened(harness)
    outcome = await sender.send(
        record(1, TOPIC, "poisoned", bytes(harness.refused_bytes)),
        record(2, TOPIC, "healthy"),
        harness.homeless(record(3, OTHER_TOPIC)),
    )
    assert (outcome, await harness.kept(TOPIC)) == (Outcome((), ((1, "record"), (3, "topic"))), [])


@for_adapters(lambda adapter: adapter.manifests)
async def test_a_batch_is_committed_only_after_its_manifest_is_written(harness: Harness) -> None:
    """RR-06: the manifest is written while the batch is sent."""
    sender = await opened(harness)
    writing: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    sending = asyncio.create_task(sender.sink.send(Batch(FIRST_TERM, [record(1, TOPIC)], 1, writing=writing)))
    early, _ = await asyncio.wait([sending], timeout=0.5)  # longer than a transaction
    writing.set_result(None)
    outcome = Outcome.of(await sending)
    assert (early, outcome, seen(await harness.kept(TOPIC))) == (set(), Outcome((1,)), {"k": [1]})


@for_adapters(lambda adapter: adapter.manifests)
async def test_a_batch_whose_manifest_cannot_be_written_is_not_committed(harness: Harness) -> None:
    """RR-06: or else a restored database would not know the number."""
    sender = await opened(harness)
    writing: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    writing.set_exception(Unavailable("the database does not answer"))
    with pytest.raises(Unavailable):
        await sender.sink.send(Batch(FIRST_TERM, [record(1, TOPIC)], 1, writing=writing))
    committed = await sender.sink.open(FIRST_TERM)
    assert (committed, await harness.kept(TOPIC)) == (0, [])


@for_adapters(lambda adapter: adapter.manifests)
async def test_with_manifests_a_refusal_costs_the_next_batch_nothing(harness: Harness) -> None:
    """RR-06, GW-01: the sink is not reopened, and the number of the refused batch is never committed."""
    sender = await opened(harness)
    await sender.send(record(1, TOPIC))
    refused = await sender.send(harness.homeless(record(2, OTHER_TOPIC)), record(3, TOPIC))
    after_the_setback = await sender.send(record(3, TOPIC))
    committed = await sender.sink.open(FIRST_TERM)
    assert (refused, after_the_setback, committed, seen(await harness.kept(TOPIC))) == (
        Outcome((), ((2, "topic"),)), Outcome((3,)), 3, {"k": [1, 3]},
    )  # fmt: skip


@for_adapters(lambda adapter: adapter.refuses_large and adapter.overlaps)
async def test_a_call_that_began_before_a_setback_does_not_overtake_what_was_left(harness: Harness) -> None:
    """RG-03, RU-16."""
    sender = await opened(harness)
    setback = sender.send(record(1, TOPIC, "k", bytes(harness.refused_bytes)), record(2, TOPIC))
    begun_before = sender.send(record(3, TOPIC))
    outcomes = [await setback, await begun_before]
    assert ([outcome.acknowledged for outcome in outcomes], await harness.kept(TOPIC)) == ([(), ()], [])


# --- terms ------------------------------------------------------------------------------------------------------


@for_adapters(lambda adapter: adapter.fence == "last")
async def test_a_predecessor_is_fenced_once_its_successor_has_opened(harness: Harness) -> None:
    """RL-19, I5, RR-02, RK-25: refused at the broker, whatever the predecessor believes."""
    old = await opened(harness)
    await old.send(record(1, TOPIC))
    new = await opened(harness, SECOND_TERM)
    with pytest.raises(Fenced):
        await old.send(record(2, TOPIC))
    new.number = 1
    await new.send(record(2, TOPIC), record(3, TOPIC))
    assert [(entry.event_id[-1], entry.term) for entry in await harness.kept(TOPIC)] == [("1", 1), ("2", 2), ("3", 2)]


@for_adapters(lambda adapter: adapter.fence == "first")
async def test_a_successor_cannot_open_while_its_predecessor_is_connected(harness: Harness) -> None:
    """I5, RO-13."""
    old = await opened(harness)
    with pytest.raises(SinkUnavailable):
        await opened(harness, SECOND_TERM)
    await old.send(record(1, TOPIC))
    await old.sink.close()
    new = await opened(harness, SECOND_TERM)
    await new.send(record(2, TOPIC))
    assert [(entry.event_id[-1], entry.term) for entry in await harness.kept(TOPIC)] == [("1", 1), ("2", 2)]


@for_adapters(lambda adapter: adapter.manifests)
async def test_open_returns_the_number_of_the_last_committed_batch(harness: Harness) -> None:
    """RK-26, RR-06, RO-07."""
    first = harness.sink()
    at_first = await first.open(FIRST_TERM)
    sender = Sender(first)
    await sender.send(record(1, TOPIC))
    await sender.send(record(2, TOPIC))
    assert (at_first, await first.open(FIRST_TERM), await harness.sink().open(SECOND_TERM)) == (0, 2, 2)


@for_adapters(lambda adapter: not adapter.manifests)
async def test_open_without_manifests_returns_nothing(harness: Harness) -> None:
    assert await harness.sink().open(FIRST_TERM) is None


# --- life -------------------------------------------------------------------------------------------------------


@for_adapters()
async def test_a_sink_may_be_opened_again_with_the_same_term(harness: Harness) -> None:
    sender = await opened(harness)
    await sender.send(record(1, TOPIC))
    await sender.sink.open(FIRST_TERM)
    await sender.send(record(2, TOPIC))
    assert seen(await harness.kept(TOPIC)) == {"k": [1, 2]}


@for_adapters()
async def test_a_sink_that_is_not_open_is_unavailable(harness: Harness) -> None:
    sender = Sender(harness.sink())
    with pytest.raises(SinkUnavailable):
        await sender.send(record(1, TOPIC))


@for_adapters()
async def test_closing_is_quick_and_may_be_repeated(harness: Harness) -> None:
    """RK-27."""
    sender = await opened(harness)
    async with asyncio.timeout(30):
        await sender.sink.close()
        await sender.sink.close()
    with pytest.raises(SinkUnavailable):
        await sender.send(record(1, TOPIC))


@for_adapters(lambda adapter: adapter.connects)
async def test_a_broker_that_does_not_answer_is_unavailable(harness: Harness) -> None:
    """F19."""
    sink = harness.unreachable()
    with pytest.raises(SinkUnavailable):
        await sink.open(FIRST_TERM)
    await sink.close()


@for_adapters()
async def test_after_a_cancelled_call_the_records_can_be_sent_again_in_order(harness: Harness) -> None:
    """RR-01: the first occurrences of a key rise; a repeat is a re-run from where nothing was acknowledged."""
    sender = await opened(harness)
    await sender.send(record(1, TOPIC))
    call = sender.send(*(record(number, TOPIC) for number in range(2, 200)))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    committed = await sender.sink.open(FIRST_TERM)
    if committed != sender.number:
        await sender.send(*(record(number, TOPIC) for number in range(2, 200)))
    numbers = seen(await harness.kept(TOPIC))["k"]
    assert list(dict.fromkeys(numbers)) == list(range(1, 200))
