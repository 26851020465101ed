"""Kafka topics that are read by a pattern of their names: a whole hub on a real Kafka."""

from __future__ import annotations

import re
import secrets

import pytest
import structlog

from app.settings.kafka_source import kafka_route_of
from relay.kafka.source import pattern
from scripts.servers.kafka import KafkaServer
from tests.app.assembly.test_kafka_sources import ROLES, send
from tests.app.conftest import RunHub
from tests.relay.kafka.kafka_topic import make_topic
from tests.waiting import until


async def test_each_topic_that_fits_is_read_also_one_that_appears_later(
    running_hub: RunHub, kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that makes no topic of the hub is passed over and named. ``start`` counts for the topics of the start."""
    monkeypatch.setattr(pattern, "_LOOK_SECONDS", 0.1)
    word = secrets.token_hex(4)
    for name in ("a", "b..c"):
        await make_topic(kafka.bootstrap, f"{word}-{name}", 1)
        await send(kafka, f"{word}-{name}", {"value": b"before"})
    named = {"kafka_source_servers": kafka.bootstrap, "kafka_sources": f"{word}-*?topic={word}.*"}
    with structlog.testing.capture_logs() as logs:
        async with running_hub(ROLES, **named) as hub:

            async def are_read(count: int) -> object:
                return len(await hub.sql("SELECT FROM hookwire.source_offsets")) >= count

            await until(lambda: are_read(1))
            await make_topic(kafka.bootstrap, f"{word}-later", 1)
            await send(kafka, f"{word}-later", {"value": b"first"})
            await until(lambda: are_read(2))
            await send(kafka, f"{word}-a", {"value": b"after"})

            async def events() -> object:
                rows = await hub.sql(
                    "SELECT topic, payload FROM hookwire.events WHERE topic LIKE $1 ORDER BY topic", f"{word}%"
                )
                return rows if len(rows) >= 2 else None

            found = await until(events)
            sources = (await hub.client.get("/sources")).json()["items"]

    passed_over = [one["kafka_topic"] for one in logs if one["event"] == "kafka_source_passed_over"]
    assert (found, passed_over) == ([(f"{word}.a", b"after"), (f"{word}.later", b"first")], [f"{word}-b..c"])
    assert [(one["source"], one["topic"]) for one in sources] == [
        (f"{word}-a", f"{word}.a"), (f"{word}-later", f"{word}.later"),
    ]  # fmt: skip


@pytest.mark.parametrize("source", ["a*b*", "a*?group=g", "a*?topic=b..*"])
def test_a_pattern_that_is_none_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(source))):
        kafka_route_of(source)
