"""The window without a broker: who may be under way with whom."""

import asyncio
from collections import Counter
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from relay.amqp.window import Passage, Publish, pass_through_window
from relay.record import Record
from relay.sink import Refusal, SinkUnavailable
from tests.examples import examples


def record(number: int, key: str | None = None, topic: str = "orders") -> Record:
    return Record(
        id=number, shard=0, event_id=f"evt_abcdefgh_{number}", tenant="default", topic=topic, key=key, sequence=number,
        content_type=None, headers={}, payload=b"", accepted_at=datetime(2025, 1, 1, tzinfo=UTC),
    )  # fmt: skip


async def passed(records: list[Record], publish: Publish, records_max: int = 100) -> Passage:
    return await pass_through_window(records, publish, records_max=records_max)


class Broker:
    """Confirms after a few turns of the loop; remembers who was under way together."""

    def __init__(self) -> None:
        self.arrived: list[int] = []
        self.under_way: Counter[str | None] = Counter()
        self.most_of_one_key = self.most = 0

    async def publish(self, record: Record) -> None:
        self.under_way[record.key] += 1
        self.most = max(self.most, self.under_way.total())
        if record.key is not None:
            self.most_of_one_key = max(self.most_of_one_key, self.under_way[record.key])
        self.arrived.append(record.id)
        for _ in range(record.id % 3 + 1):
            await asyncio.sleep(0)
        self.under_way[record.key] -= 1


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.sampled_from([None, "a", "b", "c"]), max_size=40), st.integers(1, 8))
async def test_one_message_per_key_is_under_way_and_never_more_than_the_window(keys: list[str | None], window: int):
    """RQ-08."""
    broker = Broker()
    records = [record(number, key) for number, key in enumerate(keys, 1)]
    passage = await passed(records, broker.publish, records_max=window)
    order = {key: [n for n in broker.arrived if keys[n - 1] == key] for key in ("a", "b", "c")}
    assert passage == Passage(acknowledged=records)
    assert broker.most_of_one_key <= 1
    assert broker.most <= window
    assert all(numbers == sorted(numbers) for numbers in order.values())


async def test_keyless_records_fill_the_window():
    """RU-03."""
    broker = Broker()
    await passed([record(number) for number in range(1, 41)], broker.publish, records_max=8)
    assert broker.most == 8


async def test_a_refused_record_ends_its_key_and_nothing_else():
    refusal = Refusal(record(1, "a"), "record", "too_large", "")

    async def publish(one: Record) -> Refusal | None:
        return refusal if one.id == 1 else None

    records = [record(1, "a"), record(2, "b"), record(3, "a"), record(4)]
    assert await passed(records, publish) == Passage([records[1], records[3]], [refusal])


async def test_a_refused_topic_ends_all_keys_of_that_topic():
    records = [record(1, "a", "gone"), record(2, "a"), record(3, "a", "gone"), record(4, "b", "gone"), record(5, "a")]
    refusal = Refusal(records[0], "topic", "unroutable", "")

    async def publish(one: Record) -> Refusal | None:
        return refusal if one.topic == "gone" else None

    passage = await passed(records, publish, records_max=1)
    assert passage == Passage([records[1], records[4]], [refusal], halted_topics={("default", "gone")})


async def test_a_failure_stops_what_is_not_under_way_and_keeps_what_was_confirmed():
    failure = SinkUnavailable("down")
    sent: list[int] = []

    async def publish(one: Record) -> None:
        sent.append(one.id)
        if one.id == 2:
            raise failure
        await asyncio.sleep(0)

    records = [record(1, "a"), record(2, "b"), record(3, "a"), record(4, "b"), record(5, "c")]
    assert await passed(records, publish, records_max=2) == Passage([records[0]], [], failure)
    assert sent == [1, 2]
