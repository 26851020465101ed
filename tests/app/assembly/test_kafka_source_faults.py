"""What is wrong with one endpoint, or one Kafka topic, holds up no other one."""

from __future__ import annotations

import re
import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
import structlog
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import RecordsToDelete
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.record.util import calc_crc32c

from scripts.servers.kafka import KafkaServer
from tests.app.assembly.test_kafka_sources import ROLES, events, send, stored
from tests.app.conftest import RunHub, RunningHub
from tests.hub.callback import answers, hang, serve_callbacks
from tests.relay.kafka.kafka_topic import READ, allow, deny, kafka_admin, make_topic
from tests.waiting import until

_CRC, _CRC_ENDS = 17, 21  # of a batch of records; the checksum is that of all that follows
_SURROGATE = (
    rb'{"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "partitionkey": "\ud800", "data": "\u0000"}'
)


async def test_a_bad_and_a_slow_endpoint_hold_up_neither_the_partition_nor_a_good_one(
    running_hub: RunHub, kafka: KafkaServer
) -> None:
    """KS-01, KS-02, KS-03, KS-04, KS-05: the good one gets each record once, in order per key; the offset goes on."""
    source = f"good-{secrets.token_hex(4)}"
    await make_topic(kafka.bootstrap, source, 1)
    named = {"kafka_source_servers": kafka.bootstrap, "kafka_sources": f"{source}?start=earliest"}
    async with running_hub(ROLES, **named) as hub, serve_callbacks() as callbacks:
        callbacks.script |= {"/bad": answers(500), "/slow": hang}
        for path in ("/bad", "/slow", "/good"):
            await hub.subscribe(source, callbacks.url(path), ordered=True)
        await send(kafka, source, *({"key": b"k%d" % (n % 3), "value": b"%d" % n} for n in range(30)))

        async def are_taken() -> object:
            return await hub.sql("SELECT FROM hookwire.source_offsets WHERE next_offset = 30")

        async def have_arrived() -> object:
            return sum(path == "/good" for path, *_ in callbacks.posted) >= 30

        await until(are_taken)
        await until(have_arrived)
        bad = await hub.sql("SELECT DISTINCT outcome FROM hookwire.attempts WHERE status = 500")

    lanes: dict[int, list[int]] = defaultdict(list)
    for path, _, body in callbacks.posted:
        if path == "/good":
            lanes[int(body) % 3].append(int(body))
    assert lanes == {lane: list(range(lane, 30, 3)) for lane in range(3)}
    assert len(bad) == 1


async def test_a_subscriber_that_was_away_gets_its_records_after_a_restart_and_the_other_none_twice(
    running_hub: RunHub, kafka: KafkaServer
) -> None:
    """KS-07: by the default retries; no offset is shared between them. The test makes the waiting retries due."""
    source = f"away-{secrets.token_hex(4)}"
    await make_topic(kafka.bootstrap, source, 1)
    named = {"kafka_source_servers": kafka.bootstrap, "kafka_sources": f"{source}?start=earliest"}
    async with serve_callbacks() as callbacks:
        callbacks.script["/away"] = answers(503)
        async with running_hub(ROLES, **named) as hub:
            for path in ("/away", "/good"):
                await hub.subscribe(source, callbacks.url(path))
            await send(kafka, source, *({"value": b"%d" % n} for n in range(2)))

            async def are_tried() -> object:
                rows = await hub.sql("SELECT count(*) FILTER (WHERE status = 503), count(*) FROM hookwire.attempts")
                return rows == [(2, 4)]

            await until(are_tried)
        del callbacks.script["/away"]
        callbacks.posted.clear()
        async with running_hub(ROLES, **named) as hub:
            await hub.sql("UPDATE hookwire.deliveries SET due_at = now()")

            async def are_delivered() -> object:
                return await hub.sql("SELECT count(*) FROM hookwire.deliveries") == [(0,)]

            await until(are_delivered)

    assert sorted((path, body) for path, _, body in callbacks.posted) == [("/away", b"%d" % n) for n in range(2)]


def told(logs: Sequence[Mapping[str, Any]], event: str) -> list[Mapping[str, Any]]:
    return [one for one in logs if one["event"] == event]


@pytest.mark.slow
async def test_a_topic_that_may_not_be_read_any_more_waits_by_name_and_others_go_on(
    running_hub: RunHub, strict_kafka: KafkaServer
) -> None:
    """KS-15: once it may be read again, it goes on where it was. Until then no line says so."""
    closed, other = (f"{name}-{secrets.token_hex(4)}" for name in ("closed", "other"))
    for name in (closed, other):
        await make_topic(strict_kafka.bootstrap, name, 1)
        await send(strict_kafka, name, {"value": b"1"})
    wanted = ",".join(f"{name}?start=earliest" for name in (closed, other))
    named = {"kafka_source_servers": strict_kafka.bootstrap, "kafka_sources": wanted}
    with structlog.testing.capture_logs() as logs:
        async with running_hub(ROLES, **named) as hub:
            await stored(hub, closed, 1)
            await deny(strict_kafka.bootstrap, closed, READ)
            await until(lambda: len(told(logs, "kafka_source_waits")) >= 3)
            wrong = told(logs, "kafka_source_goes_on")
            for name in (closed, other):
                await send(strict_kafka, name, {"value": b"2"})
            others = await stored(hub, other, 2)
            await allow(strict_kafka.bootstrap, closed, READ)
            found = await stored(hub, closed, 2)

    waits = {one["source"] for one in told(logs, "kafka_source_waits")}
    assert (waits, others, found) == ({closed}, [(None, b"1"), (None, b"2")], [(None, b"1"), (None, b"2")])
    assert wrong == []


async def test_a_process_without_a_partition_takes_over_however_long_it_has_waited(
    running_hub: RunHub, kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KS-01: the client left the group after five idle minutes, for ever. Idle time runs 400 times as fast here."""
    idle, seen = SubscriptionState.fetcher_idle_time, [0.0]

    def in_a_hurry(self: SubscriptionState) -> float:
        seen.append(400 * idle.fget(self))
        return seen[-1]

    monkeypatch.setattr(SubscriptionState, "fetcher_idle_time", property(in_a_hurry))
    source = f"spare-{secrets.token_hex(4)}"
    await make_topic(kafka.bootstrap, source, 1)
    named = {"kafka_source_servers": kafka.bootstrap, "kafka_sources": f"{source}?start=earliest"}
    async with AsyncExitStack() as spare:
        async with running_hub(ROLES, **named) as first:
            await send(kafka, source, {"value": b"1"})
            await stored(first, source, 1)
            hub = await spare.enter_async_context(running_hub(ROLES, **named))
            await until(lambda: max(seen) > 600 or len(seen) > 12)  # or the second has taken the partition already
        await send(kafka, source, {"value": b"2"})
        found = await stored(hub, source, 2)

    assert found == [(None, b"1"), (None, b"2")]


async def send_raw_name(server: KafkaServer, topic: str, partition: int) -> None:
    """Append a record whose header has a name that is not UTF-8, as clients in C can."""
    async with AIOKafkaProducer(bootstrap_servers=server.bootstrap) as producer:
        batch = producer.create_batch()
        batch.append(key=b"k", value=b"raw", timestamp=None, headers=[("~~~~", b"1")])
        data = batch._build()
        data[:] = data.replace(b"~~~~", b"\xff\xfe\xff\xfe")
        data[_CRC:_CRC_ENDS] = calc_crc32c(bytes(data[_CRC_ENDS:])).to_bytes(4, "big")
        await (await producer.send_batch(batch, topic, partition=partition))


HOSTILE: tuple[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]], ...] = (
    (b"k", b"many", [(f"h{n}", b"") for n in range(10_000)]),
    (b"k", b"twice", [("a", b"1"), ("A", b"2"), ("a", None), ("content-type", b"\xff\n"), ("", b"x"), ("\0", b"\0")]),
    (b"k", b"binary", [("ce_id", b"1"), ("ce_source", b"\xff"), ("ce_specversion", b"9"), ("ce_type", b"")]),
    (b"k", b"{", [("content-type", b"application/cloudevents+json")]),
    (None, _SURROGATE, [("content-type", b"application/cloudevents+json")]),
    (b"k", None, []),
    (None, b"", [("content-type", b"application/cloudevents-batch+json")]),
    (b"", b"last", [("hookwire-hops", b"-1"), ("ce_partitionkey", b"\xed\xa0\x80")]),
)


async def test_hostile_records_are_events_or_kept_and_one_that_no_client_reads_holds_its_partition_alone(
    running_hub: RunHub, kafka: KafkaServer
) -> None:
    """KS-23, KS-24: the reason names the command that goes on behind it."""
    source = f"hostile-{secrets.token_hex(4)}"
    await make_topic(kafka.bootstrap, source, 2)
    await send_raw_name(kafka, source, 0)
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        await producer.send_and_wait(source, b"behind it", partition=0)
        for key, value, headers in HOSTILE:
            await producer.send_and_wait(source, value, key, partition=1, headers=headers)
    named = {"kafka_source_servers": kafka.bootstrap, "kafka_sources": f"{source}?start=earliest&refused=hold"}
    async with running_hub(ROLES, **named) as hub:
        await until_taken(hub, 1, len(HOSTILE))
        answer = await hub.until("/sources", lambda found: found["items"][0]["partitions"][0]["trouble"])
        trouble = answer["items"][0]["partitions"][0]["trouble"]
        command = re.search(r"--partition 0 --yes --offset (\d+)`", trouble)
        assert command is not None, trouble
        offset = {"partition": 0, "offset": int(command[1]), "dry_run": False}
        await hub.client.post(f"/sources/{source}/reset", json=offset)
        await until_taken(hub, 0, 2)
        found = {value for _, value in await events(hub, source)}
        kept = await hub.sql("SELECT record_offset, reason FROM hookwire.source_refusals ORDER BY id")

    assert (found, kept) == (
        {b"many", b"twice", b"binary", b"last", b"behind it"},
        [(3, "cloudevent"), (4, "cloudevent"), (5, "behind"), (6, "cloudevent")],
    )


async def until_taken(hub: RunningHub, partition: int, offset: int) -> None:
    async def holds() -> object:
        return await hub.sql(
            "SELECT FROM hookwire.source_offsets WHERE partition = $1 AND next_offset = $2", partition, offset
        )

    await until(holds)


async def test_what_expires_while_a_source_is_paused_is_a_named_hole_though_processes_come_and_go(
    running_hub: RunHub, kafka: KafkaServer
) -> None:
    """KS-25: the others are taken once, by whichever process has the partition."""
    source = f"paused-{secrets.token_hex(4)}"
    await make_topic(kafka.bootstrap, source, 2)
    named = {"kafka_source_servers": kafka.bootstrap, "kafka_sources": f"{source}?start=earliest&group={source}"}
    with structlog.testing.capture_logs() as logs:
        async with running_hub(ROLES, **named) as hub, kafka_admin(kafka.bootstrap) as admin:

            async def is_empty() -> object:
                [answer] = await admin.describe_consumer_groups([source])
                return answer.groups[0][2] == "Empty"

            await send(kafka, source, {"value": b"0"})
            await stored(hub, source, 1)
            async with running_hub(("api", "source"), **named):
                await hub.client.post(f"/sources/{source}/pause")
                await until(is_empty)
                await send(kafka, source, *({"value": b"%d" % number} for number in range(1, 6)))
                await admin.delete_records({TopicPartition(source, 0): RecordsToDelete(4)})
            async with running_hub(("api", "source"), **named):
                await hub.client.post(f"/sources/{source}/resume")
                await send(kafka, source, {"value": b"6"})
                found = await stored(hub, source, 4)

    holes = [(one["first"], one["next"]) for one in logs if one["event"] == "kafka_source_hole"]
    assert ([value for _, value in found], holes) == ([b"0", b"4", b"5", b"6"], [(1, 4)])
