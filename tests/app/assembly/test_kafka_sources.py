"""From a Kafka topic to a callback: a whole hub on a real Kafka."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from typing import Any

import pytest
import structlog
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewPartitions, RecordsToDelete

from app.checks.kafka_sources import kafka_source_checks
from app.settings.kafka_source import kafka_route_of
from app.settings.settings import Settings
from db.pool import PoolOptions
from relay.kafka.options import KafkaOptions
from scripts.servers.kafka import KafkaServer
from tests.app.conftest import ALL_ROLES, RunHub, RunningHub
from tests.hub.callback import serve_callbacks
from tests.relay.kafka.kafka_topic import kafka_admin, make_topic
from tests.waiting import until

ROLES = (*ALL_ROLES, "source")


async def send(server: KafkaServer, topic: str, *records: dict[str, Any], transactional: str | None = None) -> None:
    async with AIOKafkaProducer(bootstrap_servers=server.bootstrap, transactional_id=transactional) as producer:
        if transactional is None:
            for record in records:
                await producer.send_and_wait(topic, partition=0, **record)
            return
        for record in records:
            await producer.begin_transaction()
            await producer.send(topic, partition=0, **record)
            await (producer.abort_transaction() if record["value"] == b"aborted" else producer.commit_transaction())


async def events(hub: RunningHub, topic: str) -> list[tuple[str | None, bytes]]:
    return await hub.sql("SELECT key, payload FROM hookwire.events WHERE topic = $1 ORDER BY id", topic)


async def stored(hub: RunningHub, topic: str, count: int) -> list[tuple[str | None, bytes]]:
    """The events of a topic, once there are so many."""

    async def holds() -> object:
        found = await events(hub, topic)
        return found if len(found) >= count else None

    found: list[tuple[str | None, bytes]] = await until(holds)
    return found


async def counted(hub: RunningHub, name: str, **labels: str) -> None:
    """Until a metric of the source is above 0."""
    text = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
    wanted = re.compile(rf"^hookwire_kafka_source_{name}\{{{re.escape(text)}\}} [1-9]", re.MULTILINE)

    async def holds() -> object:
        return wanted.search((await hub.client.get("/metrics")).text)

    await until(holds)


def text(headers: Iterable[tuple[str, str]]) -> list[tuple[str, bytes]]:
    return [(name, value.encode()) for name, value in headers]


async def test_a_record_reaches_a_webhook_and_not_its_kafka_topic_again(
    running_hub: RunHub, kafka: KafkaServer
) -> None:
    """Key, headers, timestamp and place of the record are the event's; the sink kafka is no default route of it."""
    source = f"stock-{secrets.token_hex(4)}"
    await make_topic(kafka.bootstrap, source, 1)
    named = {"kafka_bootstrap_servers": kafka.bootstrap, "kafka_sources": f"{source}?topic=stock.level&start=earliest"}
    headers = text([("Colour", "red"), ("content-type", "text/plain"), ("colour", "blue"), ("cookie", "secret")])
    record = {"key": b"shoe", "value": b"7", "headers": headers, "timestamp_ms": 1_767_225_600_000}
    async with running_hub(ROLES, **named) as hub, serve_callbacks() as callbacks:
        await hub.subscribe("stock.#", callbacks.url())
        await send(kafka, source, record)
        ((_, sent, body),) = await callbacks.wait_for_posts(1)
        for reason in ("private", "twice"):
            await counted(hub, "headers_left_out_total", source=source, reason=reason)
        found = await hub.sql("SELECT key, payload, sinks FROM hookwire.events WHERE topic = 'stock.level'")

    names = ("colour", "content-type", "x-kafka-topic", "x-kafka-partition", "x-kafka-offset", "x-kafka-timestamp")
    assert (found, body) == ([("shoe", b"7", ["webhooks"])], b"7")
    assert [sent[name] for name in names] == ["red", "text/plain", source, "0", "0", "2026-01-01T00:00:00Z"]


async def test_control_records_and_aborted_transactions_are_passed_over(
    running_hub: RunHub, kafka: KafkaServer
) -> None:
    """KS-13: the lag ends at 0, although the last record of the partition is a control record."""
    source = f"tx-{secrets.token_hex(4)}"
    await make_topic(kafka.bootstrap, source, 1)
    values = [b"1", b"aborted", b"2", b"aborted"]
    await send(kafka, source, *({"value": value} for value in values), transactional=source)
    named = {"kafka_source_servers": kafka.bootstrap, "kafka_sources": f"{source}?start=earliest"}
    async with running_hub(ROLES, **named) as hub:
        found = await stored(hub, source, 2)

        async def holds() -> object:
            rows = await hub.sql("SELECT next_offset, taken FROM hookwire.source_offsets")
            return rows == [(8, 2)]

        await until(holds)

    assert found == [(None, b"1"), (None, b"2")]


async def test_what_the_hub_published_itself_is_passed_over_and_hops_end_a_circle(
    running_hub: RunHub, kafka: KafkaServer
) -> None:
    """Fences behind the check of the settings."""
    source = f"loop-{secrets.token_hex(4)}"
    await make_topic(kafka.bootstrap, source, 1)
    named = {"kafka_bootstrap_servers": kafka.bootstrap, "kafka_sources": f"{source}?start=earliest"}
    async with running_hub(ROLES, **named) as hub:
        await hub.publish(source, b"own")  # by the default route, which has the sink kafka
        await send(kafka, source, {"value": b"circle", "headers": text([("hookwire-hops", "7")])}, {"value": b"last"})
        found = await stored(hub, source, 2)
        await counted(hub, "records_total", source=source, outcome="returned")
        await counted(hub, "refused_total", source=source, reason="too_many_hops")
        kept = await hub.sql("SELECT value FROM hookwire.source_refusals")

    assert (sorted(found), kept) == ([(None, b"last"), (None, b"own")], [(b"circle",)])


async def test_a_source_may_hold_the_key_of_a_refused_record(running_hub: RunHub, kafka: KafkaServer) -> None:
    """It may also take records of one header alone, and then others are passed over, also refused ones."""
    source = f"hold-{secrets.token_hex(4)}"
    await make_topic(kafka.bootstrap, source, 1)
    sizes = ((b"a", 11, "de"), (b"a", 1, "de"), (b"b", 11, "at"), (b"b", 1, "de"))
    records = ({"key": k, "value": b"x" * n, "headers": text([("Country", c)])} for k, n, c in sizes)
    await send(kafka, source, *records)
    wanted = f"{source}?start=earliest&refused=hold&header=country:de"
    named = {"kafka_source_servers": kafka.bootstrap, "kafka_sources": wanted}
    async with running_hub(("api", "source"), event_bytes_max=10, **named) as hub:
        found = await stored(hub, source, 1)
        kept = await hub.sql("SELECT record_offset, reason FROM hookwire.source_refusals ORDER BY id")
        await counted(hub, "records_total", source=source, outcome="filtered")

    assert (found, kept) == ([("b", b"x")], [(0, "too_large"), (1, "behind")])


async def test_partitions_that_are_added_are_read_from_their_first_record(
    running_hub: RunHub, kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KS-11: a start at the latest record counts for the partitions of the first start alone."""
    source = f"more-{secrets.token_hex(4)}"
    await make_topic(kafka.bootstrap, source, 1)
    await send(kafka, source, {"value": b"before"})
    client = KafkaOptions.client
    monkeypatch.setattr(KafkaOptions, "client", lambda self, role: {**client(self, role), "metadata_max_age_ms": 500})
    named = {"kafka_source_servers": kafka.bootstrap, "kafka_sources": source}
    async with running_hub(ROLES, **named) as hub:

        async def holds() -> object:
            return await hub.sql("SELECT FROM hookwire.source_offsets")

        await until(holds)
        async with kafka_admin(kafka.bootstrap) as admin:
            await admin.create_partitions({source: NewPartitions(2)})
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
            await producer.send_and_wait(source, b"in the new one", partition=1)
        found = await stored(hub, source, 1)

    assert found == [(None, b"in the new one")]


@pytest.mark.parametrize(
    "count", [pytest.param(1, marks=pytest.mark.slow), 5], ids=["the log ends below", "another record stands there"]
)
async def test_a_topic_that_was_made_anew_stops_until_a_person_resets_it(
    running_hub: RunHub, kafka: KafkaServer, count: int
) -> None:
    """KS-12: its offsets are those of other records; nothing is taken or passed over in silence."""
    source = f"anew-{secrets.token_hex(4)}"
    await make_topic(kafka.bootstrap, source, 1)
    named = {"kafka_source_servers": kafka.bootstrap, "kafka_sources": f"{source}?start=earliest"}
    await send(kafka, source, *({"value": b"old"} for _ in range(3)))
    async with running_hub(ROLES, **named) as hub:
        await stored(hub, source, 3)
    async with kafka_admin(kafka.bootstrap) as admin:
        await admin.delete_topics([source])

        async def is_gone() -> object:
            return source not in await admin.list_topics()  # to ask for it by name would make it anew

        await until(is_gone)
    await make_topic(kafka.bootstrap, source, 1)
    await send(kafka, source, *({"value": b"new"} for _ in range(count)))
    async with running_hub(ROLES, **named) as hub:
        found = await hub.until("/sources", lambda answer: answer["items"][0]["partitions"][0]["trouble"])
        before = len(await events(hub, source))
        answer = await hub.client.post(f"/sources/{source}/reset", json={"offset": 0, "dry_run": False})
        after = await stored(hub, source, 3 + count)

    trouble = found["items"][0]["partitions"][0]["trouble"]
    assert (f"hookwire sources reset {source} --partition 0" in trouble, before, answer.status_code) == (True, 3, 200)
    assert [value for _, value in after] == [b"old"] * 3 + [b"new"] * count


async def test_records_that_retention_has_removed_are_a_hole_that_is_logged(
    running_hub: RunHub, kafka: KafkaServer
) -> None:
    """KS-14."""
    source = f"hole-{secrets.token_hex(4)}"
    await make_topic(kafka.bootstrap, source, 1)
    await send(kafka, source, *({"value": b"%d" % number} for number in range(5)))
    named = {"kafka_source_servers": kafka.bootstrap, "kafka_sources": f"{source}?start=earliest"}
    async with running_hub() as hub:
        await hub.sql("INSERT INTO hookwire.sources (name) VALUES ($1)", source)
        await hub.sql("INSERT INTO hookwire.source_offsets (source, partition, next_offset) VALUES ($1, 0, 1)", source)
    async with kafka_admin(kafka.bootstrap) as admin:
        await admin.delete_records({TopicPartition(source, 0): RecordsToDelete(3)})
    with structlog.testing.capture_logs() as logs:
        async with running_hub(ROLES, **named) as hub:
            found = await stored(hub, source, 2)

    holes = [(one["first"], one["next"]) for one in logs if one["event"] == "kafka_source_hole"]
    assert (found, holes) == ([(None, b"3"), (None, b"4")], [(1, 3)])


async def test_records_wait_in_kafka_while_the_fan_out_is_behind(running_hub: RunHub, kafka: KafkaServer) -> None:
    """No relay runs here, so the test itself empties the outbox."""
    source = f"slow-{secrets.token_hex(4)}"
    await make_topic(kafka.bootstrap, source, 1)
    await send(kafka, source, {"value": b"1"})
    named = {"kafka_source_servers": kafka.bootstrap, "kafka_sources": f"{source}?start=earliest"}
    async with running_hub() as hub:
        await hub.publish("other", key="k")
    with structlog.testing.capture_logs() as logs:
        async with running_hub(("api", "source"), kafka_source_backlog_max=1, **named) as hub:
            await hub.until("/sources", lambda answer: answer["items"])
            before = await events(hub, source)
            await hub.sql("DELETE FROM hookwire.outbox")
            after = await stored(hub, source, 1)

    told = [one["event"] for one in logs if one.get("source") == source]
    assert (before, after, told[:2]) == ([], [(None, b"1")], ["kafka_source_slowed", "kafka_source_goes_on"])


@pytest.mark.parametrize(
    ("settings", "statement", "refused"),
    [
        ({}, "", False),
        ({}, "INSERT INTO hookwire.topics (name, sinks) VALUES ('stock', '{webhooks,kafka}')", True),
        ({}, "INSERT INTO hookwire.topics (name, sinks, kafka_topic) VALUES ('t', '{kafka}', 'stock')", True),
        ({}, "INSERT INTO hookwire.topics (name, sinks, kafka_topic) VALUES ('stock', '{kafka}', 'other')", False),
        ({"kafka_topic_prefix": "st"}, "INSERT INTO hookwire.topics (name, sinks) VALUES ('ock', '{kafka}')", True),
        ({"kafka_source_servers": "o:1"}, "INSERT INTO hookwire.topics (name, sinks) VALUES ('t', '{kafka}')", False),
    ],
)
async def test_a_route_into_a_topic_that_is_read_is_refused_at_the_start(
    database_url: str, running_hub: RunHub, settings: dict[str, str], statement: str, refused: bool
) -> None:
    async with running_hub() as hub:
        if statement:
            await hub.sql(statement)
    read = Settings(kafka_bootstrap_servers="here:9092", kafka_sources="stock?topic=t", **settings)  # type: ignore[arg-type]
    found = await kafka_source_checks(read, PoolOptions(database_url))

    assert [check.level == "refuse" for check in found] == [refused]


async def test_settings_that_would_publish_into_a_topic_that_is_read_are_refused(running_hub: RunHub) -> None:
    async with running_hub(kafka_bootstrap_servers="127.0.0.1:1", kafka_sources="stock?topic=t") as hub:
        bodies: list[dict[str, Any]] = [
            {"sinks": ["kafka"], "kafka_topic": "stock"}, {"sinks": ["webhooks"], "kafka_topic": "stock"},
            {"sinks": ["kafka"]},
        ]  # fmt: skip
        answers = [await hub.client.put("/topics/t/settings", json=body) for body in bodies]

    assert [answer.status_code for answer in answers] == [400, 200, 200]


@pytest.mark.parametrize("source", [
    "", "?topic=t", "q?odd=1", "q?start=now", "q?topic=t&topic=u", "a b", "q?topic=a..b", "q?topic=hookwire.x",
    "q" * 250, "hookwire.q", "q?group=", "q?nonsense", "q?refused=keep", "q?header=country",
])  # fmt: skip
def test_a_source_that_is_none_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="bad query field" if "?nonsense" in source else re.escape(repr(source))):
        kafka_route_of(source)
